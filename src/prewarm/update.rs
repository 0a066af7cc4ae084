//! After a driver update: has the tool compile what programs used, while this one runs (docs/prewarm.md).

use std::collections::VecDeque;
use std::sync::Arc;

use super::tool::{self, Errand, NotStarted, When};
use crate::background::processors;
use crate::state::background_work::BackgroundWork;
use crate::state::device::Device;
use vkstash_store::base::sync::{Mutex, MutexGuard};
use vkstash_store::base::thread::{self, Stack};
use vkstash_store::forks::PerProcess;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::Kind;
use vkstash_store::stash::inspect::{PartInfo, parts_of};

/// A part with at least this share (in tenths) of another driver version's artifacts is as good as complete: the rest
/// is what the program does not use any more, or what could not be made.
const NEARLY_ALL: u64 = 9;

/// Devices that a process looks at. No program has more.
const MOST: usize = 16;

/// From so many processors on the tool is started unless the user forbids it. On fewer, what it compiles delays what
/// the program compiles at that time.
const ENOUGH_PROCESSORS: usize = 4;

/// What this process has looked at: each application and device once, by one thread at a time.
#[derive(Default)]
struct Looks {
    known: Vec<(String, DeviceHeader)>,
    waiting: VecDeque<Errand>,
    /// Whether a thread runs that takes the waiting errands.
    is_running: bool,
    /// The tool runs beside this process, or was asked to: it sees to all devices of the application.
    is_over: bool,
}

static LOOKS: PerProcess<Mutex<Looks>> = PerProcess::empty();

fn looks() -> MutexGuard<'static, Looks> {
    LOOKS.get().lock()
}

/// Looks, on a thread of its own, whether the stash has pipelines of another version of this device's driver, and
/// starts the tool if it has.
pub fn consider(device: &Device) {
    let config = &device.instance().config;
    let is_wanted = config.update.unwrap_or_else(|| processors::usable() >= ENOUGH_PROCESSORS);
    if !is_wanted || !tool::is_possible(config) {
        return;
    }
    let Some(errand) = Errand::of(device, config.update.is_some(), tool::environment()) else { return };
    let mut looks = looks();
    let is_known = looks.known.iter().any(|(known, of)| *known == errand.folder && *of == errand.header);
    if is_known || looks.is_over || looks.known.len() >= MOST {
        return;
    }
    looks.known.push((errand.folder.clone(), errand.header.clone()));
    looks.waiting.push_back(errand);
    device.background.add(Arc::new(Update));
}

struct Update;

impl BackgroundWork for Update {
    fn first_command(&self) {
        start();
    }
}

/// Starts the thread if there is something to take. Without a thread nothing is done. It calls no driver, and the
/// library stays in memory: no thread waits for it.
fn start() {
    let mut looks = looks();
    if !looks.is_running && !looks.waiting.is_empty() {
        looks.is_running = thread::spawn("vkstash-update", Stack::Own, run).is_some();
    }
}

/// The thread: takes what waits, until nothing does.
fn run() {
    loop {
        let mut looks = looks();
        let Some(errand) = looks.waiting.pop_front().filter(|_| !looks.is_over) else {
            looks.is_running = false;
            return;
        };
        drop(looks);
        let is_over = look(errand);
        self::looks().is_over |= is_over;
    }
}

/// True: nothing more is to be looked at in this process.
fn look(errand: Errand) -> bool {
    if !parts_of(&errand.root, &errand.folder).is_ok_and(|parts| is_behind(&parts, &errand.header)) {
        tracing::debug!("no other version of the driver has made more pipelines");
        return false;
    }
    match errand.start(When::During) {
        Ok(()) => {
            tracing::info!("the driver was updated: its pipelines are compiled again in the background")
        }
        Err(reason @ NotStarted::Untrusted { .. }) => tracing::warn!("vkstash is not started: {reason}"),
        Err(reason) => {
            tracing::info!("the driver was updated, and nothing is compiled beside this process: {reason}");
        }
    }
    true
}

/// Whether another version of the driver has made more pipelines for this device than this one. Whatever the devices
/// enabled: programs enable what a driver offers, so after an update theirs is another one, and what was made for the
/// device as it was recorded is of use to it.
fn is_behind(parts: &[PartInfo], header: &DeviceHeader) -> bool {
    let artifacts = |part: &PartInfo| -> u64 {
        let of = |kind: Kind| part.records.get(kind.name()).copied().unwrap_or(0);
        of(Kind::Artifact) + of(Kind::Same)
    };
    // Of two versions of a driver the UUIDs differ, too, and of two builds they alone may.
    let device = |of: &DeviceHeader| (of.vendor_id, of.device_id, of.driver_id, of.pointer_width, of.schema);
    let version = |of: &DeviceHeader| (of.driver_version, of.pipeline_cache_uuid);
    let most = |is_current: bool| {
        let is_of_device = |other: &&DeviceHeader| device(other) == device(header);
        let of_version = |part: &&PartInfo| {
            let header_of_part = part.device.as_ref().filter(is_of_device);
            header_of_part.is_some_and(|other| (version(other) == version(header)) == is_current)
        };
        parts.iter().filter(of_version).map(artifacts).max().unwrap_or(0)
    };
    most(true) * 10 < most(false) * NEARLY_ALL
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn header(version: u32, features: u8) -> DeviceHeader {
        DeviceHeader {
            vendor_id: 1,
            device_id: 2,
            pipeline_cache_uuid: [version as u8; 16],
            driver_id: 3,
            driver_version: version,
            pointer_width: 8,
            schema: 2,
            features_digest: [features; 32],
        }
    }

    fn part(header: DeviceHeader, artifacts: u64, same: u64) -> PartInfo {
        let records = BTreeMap::from([("artifact".to_owned(), artifacts), ("same".to_owned(), same)]);
        PartInfo {
            name: String::new(),
            device: Some(header),
            segments: 1,
            sealed: 1,
            bytes: 0,
            records,
            payload_bytes: BTreeMap::new(),
            damaged: 0,
            refused: Vec::new(),
        }
    }

    #[test]
    fn only_another_version_of_the_same_driver_with_more_pipelines_counts() {
        let now = header(2, 0);
        assert!(!is_behind(&[], &now));
        assert!(!is_behind(&[part(header(2, 0), 100, 0)], &now));
        assert!(is_behind(&[part(header(1, 0), 100, 0)], &now));
        assert!(is_behind(&[part(header(1, 0), 60, 40), part(header(2, 0), 89, 0)], &now));
        assert!(!is_behind(&[part(header(1, 0), 60, 40), part(header(2, 0), 50, 41)], &now));
        assert!(is_behind(&[part(header(1, 1), 100, 0)], &now), "a driver that offers more");
        assert!(!is_behind(&[part(header(1, 1), 100, 0), part(header(2, 1), 95, 0)], &now));
        let other_device = DeviceHeader { device_id: 9, ..header(1, 0) };
        assert!(!is_behind(&[part(other_device, 100, 0)], &now));
    }
}
