//! Parts that are only read, opened in pieces after misses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};

use crate::base::timer::Timer;
use crate::part::queue::{Destination, Shared};
use crate::part::read_only::ReadOnlyPart;

/// The shortest time between two attempts to open the rest, in milliseconds.
const AGAIN_AFTER_MS: u64 = 100;

/// Nothing is opened before [`ReadOnlyParts::open_more`].
#[derive(Default)]
pub(crate) struct ReadOnlyParts {
    /// Locked while parts are opened. No thread waits for it.
    opening: Mutex<Opening>,
    /// Those that are open. New ones come last, so that each keeps its number.
    parts: ArcSwap<Vec<Arc<ReadOnlyPart>>>,
    /// Nothing is left to be opened.
    is_complete: AtomicBool,
    /// No attempt to open the rest before this time ([`Shared::now_ms`]).
    next: AtomicU64,
}

/// What is still to be opened.
#[derive(Default)]
struct Opening {
    listed: bool,
    /// The last one comes first.
    rest: Vec<Arc<ReadOnlyPart>>,
}

/// Which parts there are.
pub(crate) trait Lister {
    /// The parts, unopened; the first one is looked into last. None: there was no time to find all of them.
    fn list(&self, interrupted: &dyn Fn() -> bool) -> Option<Vec<ReadOnlyPart>>;

    /// Whether a part that is open is looked into.
    fn wants(&self, part: &ReadOnlyPart) -> bool;

    /// The most parts that are looked into.
    const MOST: usize;
}

impl ReadOnlyParts {
    /// Those that are open.
    pub(crate) fn open(&self) -> Guard<Arc<Vec<Arc<ReadOnlyPart>>>> {
        self.parts.load()
    }

    /// Opens parts for as long as a thread of the program may wait after a miss.
    pub(crate) fn open_more<D: Destination, L: Lister>(&self, shared: &Shared<D>, lister: &L) {
        if !self.is_complete.load(Ordering::Acquire) {
            self.open_in_time(shared, lister);
        }
    }

    #[cold]
    fn open_in_time<D: Destination, L: Lister>(&self, shared: &Shared<D>, lister: &L) {
        let is_due = shared.now_ms() >= self.next.load(Ordering::Relaxed) && !shared.is_inert();
        let Some(mut opening) = is_due.then(|| self.opening.try_lock().ok()).flatten() else { return };
        let limit = shared.left_for_opening().max(shared.waits.refresh);
        let timer = Timer::of(limit);
        let began = Instant::now();
        let damaged = |places| shared.tallies.damaged(places);
        let is_complete = self.open_until(&mut opening, lister, &|| timer.is_over(), &damaged);
        shared.spent_on_opening(began.elapsed());
        self.is_complete.store(is_complete, Ordering::Release);
        self.next.store(shared.now_ms() + AGAIN_AFTER_MS, Ordering::Relaxed);
    }

    /// False: something is left.
    fn open_until<L: Lister>(
        &self,
        opening: &mut Opening,
        lister: &L,
        interrupted: &dyn Fn() -> bool,
        damaged: &dyn Fn(u64),
    ) -> bool {
        if !opening.listed {
            let Some(found) = lister.list(interrupted) else { return false };
            opening.rest = found.into_iter().map(Arc::new).collect();
            opening.listed = true;
        }
        let mut open = (*self.parts.load_full()).clone();
        let mut is_complete = true;
        while let Some(part) = opening.rest.last().filter(|_| is_complete && open.len() < L::MOST) {
            is_complete = part.open_until(interrupted, damaged);
            if is_complete && !lister.wants(part) {
                opening.rest.pop();
            } else if is_complete {
                open.extend(opening.rest.pop());
            }
        }
        self.parts.store(Arc::new(open));
        is_complete
    }
}
