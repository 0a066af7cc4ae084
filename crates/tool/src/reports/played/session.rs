//! One session.

use serde::Serialize;

use vkstash_model::counters::Count;
use vkstash_store::reports::model::{DeviceReport, RunReport};
use vkstash_store::reports::waiting::{LONG_NS, Lengths, Waiting};

use crate::reports::names;
use crate::reports::tally::Tally;

/// A driver of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Driver {
    /// VkPhysicalDeviceProperties::deviceName.
    pub(crate) device: String,
    /// VkPhysicalDeviceProperties::vendorID.
    pub(crate) vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    pub(crate) device_id: u32,
    /// VkDriverId; 0 if the driver does not tell it.
    pub(crate) driver_id: u32,
    /// VkPhysicalDeviceProperties::driverVersion.
    pub(crate) driver_version: u32,
    /// The driver and its version in words.
    pub(crate) name: String,
}

impl Driver {
    fn of(report: &DeviceReport) -> Driver {
        Driver {
            device: report.name.clone(),
            vendor_id: report.vendor_id,
            device_id: report.device_id,
            driver_id: report.driver_id,
            driver_version: report.driver_version,
            name: names::driver(report.driver_id, report.driver_version),
        }
    }

    /// Whether both are versions of one driver, on the same device.
    pub(super) fn is_of_the_driver_of(&self, other: &Driver) -> bool {
        let of = |driver: &Driver| (driver.vendor_id, driver.device_id, driver.driver_id);
        of(self) == of(other)
    }
}

/// How many frames were at least so long, and shorter than the next bound (docs/format.md has the bounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FrameLength {
    /// The least length, in nanoseconds.
    pub(crate) from_ns: u64,
    /// Number of frames.
    pub(crate) frames: u64,
}

/// What a program did from its start to its end, or what several processes of it did.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Session {
    /// When it began, in Unix milliseconds.
    pub(crate) started_unix_ms: u64,
    /// The last change of its report, in Unix milliseconds.
    pub(crate) last_use_unix_ms: u64,
    /// It has ended in order. If neither this nor `goes_on` is true it was killed, and its last seconds may be missing.
    pub(crate) is_over: bool,
    /// Its process is alive.
    pub(crate) goes_on: bool,
    /// The drivers that it used.
    pub(crate) drivers: Vec<Driver>,
    /// Pipelines that were not compiled when the program asked for them.
    pub(crate) ready: u64,
    /// Those, and the pipelines that were not ready.
    pub(crate) pipelines: u64,
    /// Shader objects that were made from binaries of the stash.
    pub(crate) ready_shader_objects: u64,
    /// Those, and the shader objects that the driver made from their code.
    pub(crate) shader_objects: u64,
    /// Pipelines that the driver got unchanged.
    pub(crate) bypassed: u64,
    /// Nanoseconds in compiles of the driver: the counter of that name.
    pub(crate) compile_ns: u64,
    /// At most so many nanoseconds of waiting were saved: the counter of that name.
    pub(crate) saved_ns: u64,
    /// Number of calls that create pipelines or shader objects, on all threads.
    pub(crate) calls: u64,
    /// The time that these calls took.
    pub(crate) calls_ns: u64,
    /// Number of calls of 20 ms or more.
    pub(crate) long_calls: u64,
    /// The longest call.
    pub(crate) longest_call_ns: u64,
    /// Number of frames: what lies between two presentations (vkQueuePresentKHR) on a device. 0: the program presents
    /// nothing, and the other fields about frames are 0, but for `other_threads_ns`.
    pub(crate) frames: u64,
    /// The sum of the frames' lengths.
    pub(crate) played_ns: u64,
    /// Numbers of frames by their lengths.
    pub(crate) frame_lengths: Vec<FrameLength>,
    /// Number of frames of 20 ms or more in which the presenting thread created pipelines or shader objects for half of
    /// the time, or more. Frames that are long for other reasons do not count.
    pub(crate) stutters: u64,
    /// The longest of these frames.
    pub(crate) longest_stutter_ns: u64,
    /// The most time that the presenting thread spent creating pipelines in one frame.
    pub(crate) longest_wait_ns: u64,
    /// The time that presenting threads spent creating pipelines, in frames and before the first one.
    pub(crate) waited_ns: u64,
    /// The time that other threads spent creating pipelines.
    pub(crate) other_threads_ns: u64,
}

impl Session {
    /// The session in which the processes of these reports have run.
    pub(crate) fn of<'a>(reports: impl IntoIterator<Item = &'a RunReport>) -> Session {
        let (mut tally, mut waiting) = (Tally::default(), Waiting::default());
        let mut session = Session { is_over: true, ..Session::default() };
        let mut started = None;
        for report in reports {
            started = started.into_iter().chain([report.started_unix_ms]).min();
            session.last_use_unix_ms = session.last_use_unix_ms.max(report.updated_unix_ms);
            session.is_over &= report.is_over;
            session.goes_on |= report.goes_on;
            for device in &report.devices {
                tally.add(device);
                waiting.add(&device.waiting);
                let driver = Driver::of(device);
                if !session.drivers.contains(&driver) && !device.counters.is_empty() {
                    session.drivers.push(driver);
                }
            }
        }
        session.started_unix_ms = started.unwrap_or_default();
        session.count(&tally);
        session.wait(waiting);
        session
    }

    fn count(&mut self, tally: &Tally) {
        self.ready = tally.ready();
        self.pipelines = tally.pipelines();
        self.ready_shader_objects = tally.get(Count::ShadersServed);
        self.shader_objects = self.ready_shader_objects.saturating_add(tally.get(Count::ShadersCompiled));
        self.bypassed = tally.get(Count::Bypassed);
        self.compile_ns = tally.get(Count::CompileNanos);
        self.saved_ns = tally.get(Count::SavedNanos);
    }

    fn wait(&mut self, waiting: Waiting) {
        let Waiting { calls, calls_ns, long_calls, longest_call_ns, frames } = waiting;
        (self.calls, self.calls_ns) = (calls, calls_ns);
        (self.long_calls, self.longest_call_ns) = (long_calls, longest_call_ns);
        (self.frames, self.played_ns) = (frames.count, frames.ns);
        let length = |(from_ns, frames): (u64, u64)| FrameLength { from_ns, frames };
        self.frame_lengths = frames.lengths.counts().map(length).collect();
        (self.stutters, self.longest_stutter_ns) = (frames.stutters, frames.longest_stutter_ns);
        (self.longest_wait_ns, self.waited_ns) = (frames.longest_wait_ns, frames.waited_ns);
        self.other_threads_ns = calls_ns.saturating_sub(frames.waited_ns);
    }

    /// The drivers and their versions, in words.
    pub(crate) fn driver_names(&self) -> String {
        let names: Vec<_> = self.drivers.iter().map(|driver| driver.name.as_str()).collect();
        names.join(", ")
    }

    /// Whether the program presents anything: then its frames count, and otherwise its calls.
    pub(crate) fn presents(&self) -> bool {
        self.frames > 0
    }

    /// Stutters, or calls of 20 ms or more.
    pub(crate) fn long(&self) -> u64 {
        if self.presents() { self.stutters } else { self.long_calls }
    }

    /// The longest stutter; without one the longest wait in a frame, or the longest call.
    pub(crate) fn longest_ns(&self) -> u64 {
        match (self.presents(), self.stutters) {
            (false, _) => self.longest_call_ns,
            (true, 0) => self.longest_wait_ns,
            (true, _) => self.longest_stutter_ns,
        }
    }

    /// What the program has waited for pipelines: on presenting threads, if there are any, and otherwise on all.
    pub(crate) fn waiting_ns(&self) -> u64 {
        if self.presents() { self.waited_ns } else { self.calls_ns }
    }

    /// The length that so many percent of the frames do not reach. None: some of them are longer than is told apart.
    pub(crate) fn shorter_ns(&self, percent: u64) -> Option<u64> {
        let wanted = self.frames.saturating_mul(percent).div_ceil(100);
        let mut sum = 0_u64;
        let place = self.frame_lengths.iter().position(|length| {
            sum = sum.saturating_add(length.frames);
            sum >= wanted
        })?;
        Lengths::end(self.frame_lengths.get(place)?.from_ns)
    }

    /// Whether all that it waited, and would have waited without the stash, is less than a stutter.
    pub(crate) fn is_small(&self) -> bool {
        self.calls_ns.saturating_add(self.saved_ns) < LONG_NS
    }

    /// Whether it created anything, or presented.
    pub(crate) fn has_anything(&self) -> bool {
        let things = [self.pipelines, self.shader_objects, self.bypassed, self.frames];
        things.iter().any(|&count| count > 0)
    }
}
