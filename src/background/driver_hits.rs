//! Recorder of driver hits: it records artifacts of pipelines that the driver had in its own caches
//! (state/ahead/driver_hits.rs).
//!
//! A worker does so, one after the other, while the program creates no pipelines. docs/process.md says when.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::gate::{self, Manners};
use super::pauses;
use super::pool::{self, Cancelled, Task};
use super::recreate::{self, NotRecorded};
use super::replay::{self, NotMade, Replay, StoredCall};
use super::work::{self, Context, Work};
use crate::config::OfProcess;
use crate::faults;
use crate::live::call::Call;
use crate::serve::create_info::CreateInfo;
use crate::serve::request::Request;
use crate::state::ahead::background_work::BackgroundWork;
use crate::state::ahead::driver_hits::DriverHit;
use crate::state::devices::device::Device;
use vkstash_host::once::OnceLock;
use vkstash_model::counters::Count;
use vkstash_model::failed::Event;
use vkstash_model::live::Activity;
use vkstash_recipe::rebuild::RebuildError;
use vkstash_store::part::admission::Admission;

/// The time without a creation call of the program after which recording begins. The program comes first: its driver
/// may run one call at a time, and a call cannot be interrupted.
const QUIET: Duration = Duration::from_millis(50);
/// The longest interval between two looks for such a time: in a program that always creates pipelines the interval
/// doubles up to this.
const LOOKS_LAST: Duration = Duration::from_secs(1);
/// The least time that the program's calls for the waiting pipelines have taken together, before a thread is started to
/// record them: starting one takes about as much processor time.
const LEAST: Duration = Duration::from_millis(2);
/// The number of pipelines in a row that the driver does not have beside an empty cache, after which the recorder stops
/// for this run.
const IN_VAIN: u32 = 8;

/// Recorder of one device's driver hits. Its tasks run on workers.
struct Recorder {
    context: Context,
    /// Whether a task waits for a quiet time, or records.
    is_at_work: AtomicBool,
    /// The pipelines in a row that the driver did not have beside an empty cache.
    in_vain: AtomicU32,
}

/// Begins to record the driver hits of a device that was just created. No thread is started before enough of them wait
/// ([`LEAST`]). On drivers that compile although the call forbids it nothing is recorded.
pub fn start(device: &Arc<Device>) {
    let is_wanted = device.policy.artifacts && device.decided.cache_control;
    let is_possible =
        pool::is_allowed() && !device.decided.calls_back && device.table.destroy_pipeline.is_some();
    // `vkstash prewarm`, which makes artifacts ahead of a program, has each call recorded at once.
    if !is_wanted || !is_possible || device.instance.config.application.is_some() {
        return;
    }
    // A user that has set the number of workers wants them, however little there is to do.
    let workers_are_set = OfProcess::get().background.workers.is_some();
    let least = if workers_are_set { Duration::ZERO } else { faults::time_limit(LEAST) };
    let recorder = OnceLock::new();
    device.work.listeners.add(Arc::new(Waiting { device: Arc::downgrade(device), least, recorder }));
    device.work.driver_hits.record();
}

/// The recorder of a device, which is made when there is enough to record.
struct Waiting {
    device: Weak<Device>,
    least: Duration,
    recorder: OnceLock<Arc<Recorder>>,
}

impl BackgroundWork for Waiting {
    fn driver_had(&self, took: Duration) {
        if took >= self.least || gate::has_workers() {
            if let Some(device) = self.device.upgrade() {
                self.recorder.get_or_init(|| Recorder::new(&device)).begin();
            }
        }
    }
}

impl Work for Recorder {
    fn context(&self) -> &Context {
        &self.context
    }

    fn failed(&self, device: &Device) {
        // No worker takes the waiting pipelines any more: from now on the program's calls record what they can.
        device.work.driver_hits.close();
    }
}

impl Recorder {
    fn new(device: &Arc<Device>) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder {
            context: Context::new(device, true),
            is_at_work: AtomicBool::new(false),
            in_vain: AtomicU32::new(0),
        });
        work::enter(&recorder, device);
        recorder
    }

    /// Queues a task that records the waiting pipelines, unless there is one.
    fn begin(self: &Arc<Recorder>) {
        if !self.is_at_work.swap(true, Ordering::AcqRel) {
            let first = Record { recorder: self.clone(), calls: None, wait: QUIET };
            pool::queue_after(self.context.owner, QUIET, Box::new(first));
        }
    }

    /// Records the next pipeline, if the program has begun no creation call since it had begun this number of them.
    fn next(&self, device: &Device, calls: Option<u32>) -> Next {
        let now = gate::begun_calls();
        if now.is_none() || now != calls || pauses::pause().is_some() {
            return Next::Later(now);
        }
        let Some(stored) = device.stored().filter(|_| device.work.driver_hits.are_recorded()) else {
            return Next::Nothing;
        };
        // The guard file is waited for here, so that no worker waits for the disk behind the gate.
        if !stored.device.is_guarded() {
            return Next::Later(now);
        }
        let Some(hit) = device.work.driver_hits.take() else { return Next::Nothing };
        // The record is read before the gate: behind it vkDestroyDevice would wait for this worker, and so
        // for the disk.
        let stored_call = match StoredCall::read(stored, &self.context.own, &hit.key, |_| Ok(())) {
            Ok(stored_call) => stored_call,
            Err(reason) => {
                self.note(device, &hit, reason);
                return Next::AtOnce;
            }
        };
        let Some(in_driver) = gate::enter_driver_of(device, Manners::AfterCalls) else {
            device.work.driver_hits.put_back(hit);
            return Next::Later(None);
        };
        // The program may have begun a call while this thread waited at the gate.
        if gate::begun_calls() != calls {
            device.work.driver_hits.put_back(hit);
            return Next::Later(None);
        }
        // Marked behind the gate, as for what is parked, but by its own key: the program asks for it in every run, so
        // what kills here is found out, however much workers do besides.
        let mark = match stored.device.admit(&hit.key) {
            Admission::Granted(mark) => mark,
            Admission::NotYet => {
                device.work.driver_hits.put_back(hit);
                return Next::Later(now);
            }
            Admission::Quarantined => {
                tracing::debug!("what the driver had was not recorded: it is in quarantine");
                device.count(Count::RecordingFailed);
                return Next::AtOnce;
            }
        };
        // SAFETY: this thread is behind the gate, and vkDestroyDevice waits for that (`leave`), so the device is alive;
        // the driver calls nothing of the program's (`enter_driver_of`).
        let made = unsafe {
            let _live = Call::begin_on_worker(Instant::now(), Activity::Record, &hit.key);
            let recording = Recording { took: hit.took, calls };
            replay::with_request(device, &self.context.own, &hit.key, &stored_call, None, recording)
        };
        drop(mark);
        drop(in_driver);
        match made {
            Ok(()) => {
                self.in_vain.store(0, Ordering::Relaxed);
                device.count(Count::RecordedByWorkers);
            }
            Err(NotMade::ComesLater) => {
                device.work.driver_hits.put_back(hit);
                return Next::Later(None);
            }
            Err(reason) => self.note(device, &hit, reason),
        }
        Next::AtOnce
    }

    /// Counts a pipeline that was not recorded, and remembers the reason for later runs where it is a lasting one.
    fn note(&self, device: &Device, hit: &DriverHit, reason: NotMade) {
        tracing::debug!("what the driver had was not recorded: {reason}");
        let Some(stored) = device.stored() else { return };
        match reason {
            NotMade::NotRecorded(NotRecorded::Refused) => {
                device.count(Count::RefusedToWorkers);
                if self.in_vain.fetch_add(1, Ordering::Relaxed) + 1 >= IN_VAIN {
                    device.work.driver_hits.close();
                }
            }
            NotMade::NotRecorded(NotRecorded::Dropped) => return device.count(Count::Dropped),
            _ => device.count(Count::RecordingFailed),
        }
        if reason.ends_it() {
            return device.work.driver_hits.close();
        }
        let event = if is_for_good(reason) { Event::NeverRecorded } else { Event::NotRecorded };
        stored.note_failed(&hit.key, event);
    }

    /// The recorder stops: no pipeline waits, or no more are recorded.
    fn rest(self: &Arc<Recorder>, device: &Device) {
        self.is_at_work.store(false, Ordering::Release);
        // Another pipeline may have been noted before the flag was cleared.
        if device.work.driver_hits.are_recorded() && !device.work.driver_hits.is_empty() && !gate::must_end()
        {
            self.begin();
        }
    }
}

/// Whether another run would not record the pipeline either.
fn is_for_good(reason: NotMade) -> bool {
    matches!(
        reason,
        NotMade::Different
            | NotMade::NothingToCompile
            | NotMade::Rebuild(RebuildError::Derivative | RebuildError::Missing(..))
    )
}

/// What comes after a task.
enum Next {
    /// Another look after a while: the program creates pipelines, and has begun so many calls.
    Later(Option<u32>),
    /// The next pipeline that waits, at once.
    AtOnce,
    /// No task: no pipeline waits, or the task must end.
    Nothing,
}

/// The call that records.
struct Recording {
    took: Duration,
    /// How many creation calls the program had begun before.
    calls: Option<u32>,
}

impl Replay for Recording {
    type Output = ();

    unsafe fn run<I: CreateInfo>(self, request: &Request<'_, I>) -> Result<(), NotMade> {
        // This call takes long: vkDestroyDevice would wait for it, and so might a call that the program has begun while
        // modules and layouts were made.
        if gate::must_end() || gate::begun_calls() != self.calls {
            return Err(NotMade::ComesLater);
        }
        // SAFETY: the request's create info is valid, this thread may call the driver, and nobody else has
        // had the pipeline.
        unsafe {
            let (pipeline, _) = recreate::make_again(request, self.took)?;
            recreate::destroy(&request.call, pipeline);
        }
        Ok(())
    }
}

/// Records what waits once the program has created nothing for a while, until it creates something again.
struct Record {
    recorder: Arc<Recorder>,
    /// How many creation calls the program had begun at the last look.
    calls: Option<u32>,
    /// The time between that look and this one.
    wait: Duration,
}

impl Task for Record {
    fn name(&self) -> &'static str {
        "record"
    }

    fn run(self: Box<Self>) {
        let Record { recorder, calls, mut wait } = *self;
        let Some(device) = recorder.context.device.upgrade() else { return };
        let owner = recorder.context.owner;
        // In one task: another one would have the pool start another thread for it.
        let next = loop {
            match recorder.next(&device, calls) {
                Next::AtOnce => wait = QUIET / 2,
                next => break next,
            }
        };
        match next {
            Next::Later(calls) => {
                let wait = (2 * wait).min(LOOKS_LAST);
                pool::queue_after(owner, wait, Box::new(Record { recorder, calls, wait }));
            }
            Next::AtOnce | Next::Nothing => recorder.rest(&device),
        }
    }

    fn cancel(self: Box<Self>, why: Cancelled) {
        if let Some(device) = self.recorder.context.device.upgrade().filter(|_| why == Cancelled::Disabled) {
            // From now on the program's calls record what they can.
            device.work.driver_hits.close();
        }
    }
}
