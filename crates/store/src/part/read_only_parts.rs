//! Parts that are only read, opened in pieces after misses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::base::timer::Timer;
use crate::part::queue::{Destination, Shared};
use crate::part::read_only::ReadOnlyPart;
use crate::part::tallies::Tallies;

/// The shortest time between two attempts to open the rest, in milliseconds.
const AGAIN_AFTER_MS: u64 = 100;
/// After so many attempts the rest stays unopened: a program waits for a slow disk this often, and not for ever.
const ATTEMPTS: u32 = 8;
/// All read-only parts of a stash together take so many times as long as a program waits for its own parts.
const TIMES_OPENING: u32 = 2;
/// A part that was not read as a whole in so many attempts is not used: what says that an artifact is quarantined may
/// be in the rest.
const TRIES: u32 = 2;

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
    /// [`Shared::rewrites`] when they were opened.
    rewrites: AtomicU64,
}

/// What is still to be opened.
#[derive(Default)]
struct Opening {
    attempts: u32,
    /// Attempts to read the first one of the rest.
    tries: u32,
    listed: bool,
    /// The last one comes first.
    rest: Vec<Arc<ReadOnlyPart>>,
}

/// Which parts there are.
pub(crate) trait Lister {
    /// The parts, unopened; the first one is looked into last. None: there was no time to find all of them.
    fn list(&self, interrupted: &dyn Fn() -> bool) -> Option<Vec<ReadOnlyPart>>;

    /// Whether a part that has just been opened is worth keeping.
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
        let rewrites = shared.rewrites();
        if self.rewrites.load(Ordering::Relaxed) != rewrites {
            self.begin_again(rewrites);
        }
        if !self.is_complete.load(Ordering::Acquire) {
            self.open_in_time(shared, lister);
        }
    }

    /// Segments were rewritten: what is open may be gone from the disk.
    #[cold]
    fn begin_again(&self, rewrites: u64) {
        // A thread that opens parts now may open old ones: the next look-up begins again.
        let Ok(mut opening) = self.opening.try_lock() else { return };
        *opening = Opening::default();
        self.parts.store(Arc::default());
        self.next.store(0, Ordering::Relaxed);
        self.is_complete.store(false, Ordering::Release);
        self.rewrites.store(rewrites, Ordering::Relaxed);
    }

    #[cold]
    fn open_in_time<D: Destination, L: Lister>(&self, shared: &Shared<D>, lister: &L) {
        let is_due = shared.now_ms() >= self.next.load(Ordering::Relaxed) && !shared.is_inert();
        let Some(mut opening) = is_due.then(|| self.opening.try_lock().ok()).flatten() else { return };
        let limit = shared.left_for_opening().max(shared.waits.refresh);
        let timer = Timer::of(limit);
        let began = Instant::now();
        opening.attempts += 1;
        let budget = shared.waits.opening.saturating_mul(TIMES_OPENING);
        let mut is_complete =
            self.open_until(&mut opening, lister, limit, &|| timer.is_over(), &shared.tallies);
        // The program does not wait for the writer.
        if !shared.writer.is_me() {
            shared.spent_on_opening(began.elapsed());
        }
        is_complete |= opening.attempts >= ATTEMPTS || shared.spent_on_read_only(began.elapsed()) >= budget;
        if is_complete {
            // With their descriptors.
            opening.rest = Vec::new();
        }
        self.is_complete.store(is_complete, Ordering::Release);
        self.next.store(shared.now_ms() + AGAIN_AFTER_MS, Ordering::Relaxed);
    }

    /// False: something is left.
    fn open_until<L: Lister>(
        &self,
        opening: &mut Opening,
        lister: &L,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
        tallies: &Tallies,
    ) -> bool {
        if !opening.listed {
            let Some(found) = lister.list(interrupted) else { return false };
            opening.rest = found.into_iter().map(Arc::new).collect();
            opening.listed = true;
        }
        let mut open = (*self.parts.load_full()).clone();
        let mut is_complete = true;
        while let Some(part) = opening.rest.last().filter(|_| is_complete && open.len() < L::MOST) {
            is_complete = part.open_until(Some(limit / 2), interrupted, tallies);
            opening.tries += 1;
            if !is_complete && opening.tries < TRIES {
                break;
            }
            let part = opening.rest.pop();
            opening.tries = 0;
            open.extend(part.filter(|part| is_complete && lister.wants(part)));
        }
        self.parts.store(Arc::new(open));
        is_complete
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;
    use crate::disk::folder::Folder;
    use crate::format::file::PartIdentity;

    /// Two empty parts.
    struct Two(tempfile::TempDir);

    impl Lister for Two {
        const MOST: usize = 8;

        fn list(&self, _: &dyn Fn() -> bool) -> Option<Vec<ReadOnlyPart>> {
            let part =
                || ReadOnlyPart::new(Folder::root(self.0.path(), false).unwrap(), PartIdentity::Portable);
            Some(vec![part(), part()])
        }

        fn wants(&self, _: &ReadOnlyPart) -> bool {
            true
        }
    }

    #[test]
    fn a_part_that_is_never_read_as_a_whole_is_not_used_and_the_next_one_is() {
        let (parts, two, tallies) =
            (ReadOnlyParts::default(), Two(tempfile::tempdir().unwrap()), Tallies::default());
        let mut opening = Opening::default();
        let mut open = |is_over: bool| {
            let complete = parts.open_until(&mut opening, &two, Duration::ZERO, &|| is_over, &tallies);
            (complete, parts.open().len())
        };
        assert_eq!([open(true), open(true), open(false)], [(false, 0), (false, 0), (true, 1)]);
    }
}
