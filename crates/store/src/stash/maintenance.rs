//! When a process keeps the store within its bounds: once, as soon as its writer has been quiet for a while, or when it
//! ends, if that takes little time. And how much the writer may write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::disk::home::Home;
use crate::disk::ops as disk;
use crate::format::record::Key;
use crate::format::sizes::HEAD_BYTES;
use crate::part::open::Part;
use crate::part::open::Shared;
use crate::segment::append::Item;
use crate::settings::Settings;
use crate::upkeep::outcome::Outcome;
use crate::upkeep::run;
use crate::upkeep::work::Work;

/// The program is done with what it does at its start.
const QUIET_FOR: Duration = Duration::from_secs(5);
/// So many segments slow down whoever opens a part: that is not put off.
const TOO_MANY: usize = 64;
/// Between two looks at what is free on the file system, ...
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// ... unless so much was written meanwhile.
const LOOK_AFTER: u64 = 16 << 20;

/// Keeps the bounds.
pub(crate) struct Keeper {
    home: Arc<Home>,
    /// It has done its work.
    done: AtomicBool,
}

impl Keeper {
    /// For an application.
    pub(crate) fn new(home: Arc<Home>) -> Keeper {
        Keeper { home, done: AtomicBool::new(false) }
    }

    /// Whether it has nothing more to do in this run.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether it is time, the writer having had nothing to do for so long.
    pub(crate) fn is_due(&self, quiet_for: Duration, portable: &Weak<Part>) -> bool {
        let crowded = || portable.upgrade().is_some_and(|part| part.view().segments().len() >= TOO_MANY);
        !self.done.load(Ordering::Relaxed) && (quiet_for >= QUIET_FOR || crowded())
    }

    /// Keeps the store within its bounds, unless it is closed meanwhile. Says whether there is something to report.
    pub(crate) fn tend(&self, shared: &Arc<Shared>) -> bool {
        let interrupted = || shared.is_closing();
        let reports = self.work(shared, false, &interrupted);
        // Otherwise the end will do, or another run.
        self.done.store(!interrupted(), Ordering::Relaxed);
        reports
    }

    /// The same at the end, where it is due, until it takes too long.
    pub(crate) fn tend_in_haste(&self, shared: &Arc<Shared>, interrupted: &dyn Fn() -> bool) -> bool {
        !self.done.swap(true, Ordering::Relaxed) && self.work(shared, true, interrupted)
    }

    fn work(&self, shared: &Arc<Shared>, hasty: bool, interrupted: &dyn Fn() -> bool) -> bool {
        let nothing = |_: &[u8], _: &mut dyn FnMut(&Key)| {};
        let modules_of = shared.modules_of.get().copied().unwrap_or(nothing);
        let Ok(home) = self.home.open() else { return false };
        let work = Work { application: Some(self.home.application()), hasty, interrupted, modules_of };
        let outcome = run::tend(&home.root, &work);
        if outcome == Outcome::default() {
            return false;
        }
        shared.tallies.tended(outcome);
        let parts = shared.live_parts();
        parts.iter().for_each(|part| part.look_after_merging(interrupted));
        true
    }
}

/// What the writer may write.
pub(crate) struct Space {
    home: Arc<Home>,
    /// What may be written before somebody looks again, in bytes; and when that was.
    room: u64,
    looked: Option<Instant>,
    /// What stays free, in bytes.
    floor: Option<u64>,
}

impl Space {
    /// On the file system of an application's stash.
    pub(crate) fn new(home: Arc<Home>) -> Space {
        Space { home, room: 0, looked: None, floor: None }
    }

    /// How many of these the file system has room for, beside what must stay free.
    pub(crate) fn fitting(&mut self, items: &[Item]) -> usize {
        let takes = |(_, payload): &Item| (payload.0.len() + HEAD_BYTES) as u64;
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
        // A file system that does not say is written until it is full.
        let most = bytes.max(LOOK_AFTER);
        // Where it cannot be opened nothing is written anyway.
        let Ok(home) = self.home.open() else { return self.room = most };
        self.room = disk::fstatvfs(&*home.root).map_or(most, |space| {
            let size = space.f_blocks.saturating_mul(space.f_frsize);
            let settings = || Settings::read_in(&home.root).limits(size).free_space_floor;
            let floor = *self.floor.get_or_insert_with(settings);
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            free.saturating_sub(floor).min(most)
        });
    }
}
