//! When a process enforces the limits and merges segments: once in a run, as soon as the writer has been idle for a
//! while, or at shutdown if that takes little time. And how much the writer may write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::format::sizes::RECORD_HEADER_BYTES;
use crate::home::Home;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::run;
use crate::maintenance::work::Work;
use crate::part::open::Part;
use crate::part::open::Shared;
use crate::segment::append::Item;
use crate::settings;
use vkstash_host::disk::ops as disk;
use vkstash_model::record::Key;

/// After so long without records the program has finished its start.
const QUIET_FOR: Duration = Duration::from_secs(5);
/// This many segments delay the opening of a part, so merging them is not put off.
const TOO_MANY: usize = 64;
/// Time between two looks at the free space, ...
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// ... unless this many bytes were written meanwhile.
const LOOK_AFTER: u64 = 16 << 20;

/// Enforces the limits, once.
pub(crate) struct Schedule {
    home: Arc<Home>,
    /// Maintenance is done, or left to another process.
    done: AtomicBool,
}

impl Schedule {
    /// For the stash of an application.
    pub(crate) fn new(home: Arc<Home>) -> Schedule {
        Schedule { home, done: AtomicBool::new(false) }
    }

    /// Whether maintenance is done in this run.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether maintenance is due, after the writer was idle for this long.
    pub(crate) fn is_due(&self, quiet_for: Duration, portable: &Weak<Part>) -> bool {
        let too_many = || portable.upgrade().is_some_and(|part| part.view().segments().len() >= TOO_MANY);
        !self.done.load(Ordering::Relaxed) && (quiet_for >= QUIET_FOR || too_many())
    }

    /// Does maintenance until the stash closes. True: there is something to report.
    pub(crate) fn maintain(&self, shared: &Arc<Shared>) -> bool {
        let interrupted = || shared.is_closing();
        let reports = self.work(shared, false, &interrupted);
        // If it was interrupted, it goes on at shutdown or in another run.
        self.done.store(!interrupted(), Ordering::Relaxed);
        reports
    }

    /// Does maintenance at shutdown, unless it is done, until `interrupted` says true.
    pub(crate) fn run_at_shutdown(&self, shared: &Arc<Shared>, interrupted: &dyn Fn() -> bool) -> bool {
        !self.done.swap(true, Ordering::Relaxed) && self.work(shared, true, interrupted)
    }

    fn work(&self, shared: &Arc<Shared>, at_shutdown: bool, interrupted: &dyn Fn() -> bool) -> bool {
        let nothing = |_: &[u8], _: &mut dyn FnMut(&Key)| {};
        let modules_of = shared.modules_of.get().copied().unwrap_or(nothing);
        let Ok(home) = self.home.open() else { return false };
        let application = Some(self.home.application());
        let work = Work { application, at_shutdown, interrupted, progress: &|_, _| {}, modules_of };
        let outcome = run::maintain(&home.root, &work);
        if outcome == Outcome::default() {
            return false;
        }
        shared.tallies.set_maintained(outcome);
        let parts = shared.live_parts();
        parts.iter().for_each(|part| part.refresh_after_merging(interrupted));
        true
    }
}

/// How much the writer may write.
pub(crate) struct Space {
    home: Arc<Home>,
    /// Bytes that may be written before the next look at the free space, and when the last one was.
    room: u64,
    looked: Option<Instant>,
    /// Bytes that stay free.
    floor: Option<u64>,
}

impl Space {
    /// For the file system of an application's stash.
    pub(crate) fn new(home: Arc<Home>) -> Space {
        Space { home, room: 0, looked: None, floor: None }
    }

    /// How many of these records fit, beside the space that must stay free.
    pub(crate) fn fitting(&mut self, items: &[Item]) -> usize {
        let takes = |(_, payload): &Item| (payload.0.len() + RECORD_HEADER_BYTES) as u64;
        let bytes = items.iter().map(takes).sum();
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) || self.room < bytes {
            self.look(bytes);
        }
        let mut left = self.room;
        let fits = |item: &&Item| {
            let rest = left.checked_sub(takes(item));
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let count = items.iter().take_while(fits).count();
        self.room = left;
        count
    }

    fn look(&mut self, bytes: u64) {
        self.looked = Some(Instant::now());
        // A file system that does not tell its free space is written until it is full.
        let most = bytes.max(LOOK_AFTER);
        // Nothing can be written then.
        let Ok(home) = self.home.open() else { return self.room = most };
        self.room = disk::fstatvfs(&*home.root).map_or(most, |space| {
            let size = space.f_blocks.saturating_mul(space.f_frsize);
            let of_settings = || settings::read_in(&home.root).all().limits(size).free_space_floor;
            let floor = *self.floor.get_or_insert_with(of_settings);
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            free.saturating_sub(floor).min(most)
        });
    }
}
