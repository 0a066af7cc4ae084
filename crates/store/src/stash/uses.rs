//! The uses that an application's runs have noted, for the order in which a program will ask again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bounds::{LastUse, Runs};
use crate::format::table;
use crate::part::open::Part;
use crate::reports::runs::RunName;
use vkstash_host::keyed::Keyed;
use vkstash_host::sync::Mutex;
use vkstash_host::util::unix_ms;
use vkstash_model::record::{FORGOTTEN, Key, Kind, RunDevices, UseRecord};

/// The last use of a key that a run has noted. Uses compare by their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Noted {
    /// The time, in Unix milliseconds. It is not in the future, and no later than the run that followed.
    pub unix_ms: u64,
    /// The number of the run. Numbers rise from run to run whatever the clock says.
    pub run: u64,
    /// The place among the first uses of that run, from 0.
    pub sequence: u32,
    /// The devices of that run that have used the key.
    pub devices: RunDevices,
    /// The key.
    pub key: Key,
}

/// The keys that one device of the program has used in this run.
pub struct DeviceUses {
    device: RunDevices,
    /// The keys whose first use is noted, as [`table::hash`].
    noted: papaya::HashSet<u64, Keyed>,
    /// How often the order was forgotten before these were noted.
    forgotten: AtomicU32,
}

impl DeviceUses {
    /// For the device of this number, which has used nothing yet.
    pub fn of(device: u32) -> DeviceUses {
        let noted = papaya::HashSet::builder()
            .hasher(Keyed::default())
            .resize_mode(papaya::ResizeMode::Blocking)
            .build();
        DeviceUses { device: RunDevices::only(device), noted, forgotten: AtomicU32::new(0) }
    }

    /// The device, as the uses of earlier runs name it.
    pub fn device(&self) -> RunDevices {
        self.device
    }

    /// Notes a use of the key. True: it is the first one, or the first one since the order was forgotten for the last
    /// time.
    pub(crate) fn note(&self, key: &Key, forgotten: u32) -> bool {
        let noted = self.noted.pin();
        if self.forgotten.load(Ordering::Relaxed) != forgotten {
            // What another thread notes between the two calls is noted twice, and written once.
            noted.clear();
            self.forgotten.store(forgotten, Ordering::Relaxed);
        }
        let hash = table::hash(0, key);
        // Read before writing, so that the cache line stays shared between cores once the use is noted.
        !noted.contains(&hash) && noted.insert(hash)
    }

    /// Undoes [`DeviceUses::note`].
    pub(crate) fn unnote(&self, key: &Key) {
        self.noted.pin().remove(&table::hash(0, key));
    }
}

/// One run of an application in this process, however often it opens the stash. Clones are the same run.
#[derive(Clone)]
pub struct Run {
    /// The name of its report.
    pub name: RunName,
    uses: Arc<Mutex<Uses>>,
}

#[derive(Default)]
struct Uses {
    /// The number of the run, from its first use on; 0 before.
    run: u64,
    /// How many first uses there were.
    count: u32,
    /// The uses that were written since the order was forgotten.
    written: HashMap<Key, UseRecord, Keyed>,
    /// The uses that several devices of the previous run had in common. Later devices of this run may ask for the same
    /// keys, but on the disk the uses of this run replace those of the previous one: segments may be merged while the
    /// stash is at rest.
    shared_before: HashMap<Key, UseRecord, Keyed>,
}

impl Run {
    /// A run of this process that begins now.
    pub fn of_this_process() -> Run {
        Run::named(RunName::of_this_process())
    }

    pub(crate) fn named(name: RunName) -> Run {
        Run { name, uses: Arc::default() }
    }

    /// The number of the run; 0: it has used nothing yet.
    pub(crate) fn number(&self) -> u64 {
        self.uses.lock().run
    }

    /// The record of a use, unless it is written. `next_number`: for a run that begins.
    pub(crate) fn note(
        &self,
        key: &Key,
        device: RunDevices,
        next_number: impl FnOnce() -> u64,
    ) -> Option<UseRecord> {
        let mut uses = self.uses.lock();
        if uses.run == 0 {
            uses.run = next_number().max(1);
        }
        if *key == FORGOTTEN {
            uses.written.clear();
            uses.shared_before.clear();
        }
        match uses.written.get(key) {
            Some(written) if written.devices.has(device) => None,
            Some(written) => Some(UseRecord { devices: written.devices.and(device), ..*written }),
            None => {
                let sequence = uses.count;
                uses.count = sequence.saturating_add(1);
                Some(UseRecord { unix_ms: unix_ms(), sequence, devices: device, run: uses.run })
            }
        }
    }

    /// Adds the uses of earlier runs that uses of this run have replaced, as far as they are known, and keeps those
    /// that later devices may need.
    fn add_replaced(
        &self,
        portable: &Part,
        noted: &mut Vec<(Key, UseRecord)>,
        interrupted: &dyn Fn() -> bool,
    ) {
        // The disk is read without the lock.
        let (run, kept) = {
            let uses = self.uses.lock();
            (uses.run, uses.shared_before.clone())
        };
        let is_own = |(key, used): &&(Key, UseRecord)| used.run == run && *key != FORGOTTEN;
        let own: Vec<Key> = noted.iter().filter(is_own).map(|(key, _)| *key).collect();
        for key in own {
            if interrupted() {
                return;
            }
            let replaced = kept.get(&key).copied().or_else(|| before(portable, &key, run));
            noted.extend(replaced.map(|used| (key, used)));
        }
        let last = noted.iter().map(|(_, used)| used.run).filter(|other| *other != run).max();
        let is_shared = |(_, used): &&(Key, UseRecord)| Some(used.run) == last && used.devices.are_several();
        self.uses.lock().shared_before.extend(noted.iter().filter(is_shared).copied());
    }

    /// The record of this use is on its way to the disk.
    pub(crate) fn set_written(&self, key: &Key, record: UseRecord) {
        if *key != FORGOTTEN {
            self.uses.lock().written.insert(*key, record);
        }
    }
}

/// The uses in a portable part since the order was forgotten, in no order. A key that this run has used is there twice
/// if an earlier run's use of it, which this one's has replaced, is still on the disk. None: interrupted.
pub(crate) fn of(portable: &Part, run: &Run, interrupted: &dyn Fn() -> bool) -> Option<Vec<Noted>> {
    let mut uses = Vec::new();
    portable.for_each_in_segments(Kind::Use, interrupted, &mut |key, payload| {
        uses.extend(UseRecord::decode(payload).map(|used| (*key, used)));
    });
    run.add_replaced(portable, &mut uses, interrupted);
    if interrupted() {
        return None;
    }
    let last = |used: &UseRecord| LastUse { unix_ms: used.unix_ms, run: used.run, order: used.sequence };
    let runs = Runs::of(uses.iter().map(|(_, used)| last(used)), unix_ms());
    let place = |used: &UseRecord| (runs.past(last(used)), used.run, used.unix_ms);
    let mark = uses.iter().find(|(key, _)| *key == FORGOTTEN).map(|(_, mark)| place(mark));
    let counts = |(key, used): &&(Key, UseRecord)| *key != FORGOTTEN && Some(place(used)) >= mark;
    let noted = |(key, used): &(Key, UseRecord)| Noted {
        unix_ms: runs.past(last(used)),
        run: used.run,
        sequence: used.sequence,
        devices: used.devices,
        key: *key,
    };
    Some(uses.iter().filter(counts).map(noted).collect())
}

/// The use of this key in the last run before this one that has used it.
fn before(portable: &Part, key: &Key, own: u64) -> Option<UseRecord> {
    let mut last: Option<UseRecord> = None;
    portable.for_each_in_tables(Kind::Use, key, &mut |payload| {
        let Some(used) = UseRecord::decode(payload).filter(|used| used.run != own) else { return };
        last = match last {
            Some(known) if known.run > used.run => Some(known),
            // A run writes it anew for each further device.
            Some(known) if known.run == used.run => {
                Some(UseRecord { devices: known.devices.and(used.devices), ..known })
            }
            _ => Some(used),
        };
    });
    last
}
