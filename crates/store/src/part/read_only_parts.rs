//! Parts that are only read, opened in pieces after misses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::part::queue::{Destination, Shared};
use crate::part::read_only::ReadOnlyPart;
use crate::part::tallies::Tallies;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::sync::Mutex;
use vkstash_host::timer::Timer;

/// The shortest time between two attempts to open the rest, in milliseconds.
const AGAIN_AFTER_MS: u64 = 100;
/// The number of attempts to open the rest. A program with a slow disk waits in each of them, so the number is limited.
const ATTEMPTS: u32 = 8;
/// The time for opening all read-only parts of a stash, as a multiple of the time that a program waits for its own
/// parts. A part that takes longer than the limit for one part counts with that limit, so that time is left for the
/// others.
const TIMES_OPENING: u32 = 4;
/// The number of attempts to read a part. A part that is not read as a whole by then is not used, because the unread
/// rest may have the record that quarantines one of its artifacts.
const TRIES: u32 = 2;

/// Nothing is opened before [`ReadOnlyParts::open_more`].
#[derive(Default)]
pub(crate) struct ReadOnlyParts {
    /// Locked while parts are opened. No thread waits for it.
    opening: Mutex<Opening>,
    /// The parts that are open. New ones come last, so that each keeps its number.
    parts: ArcSwap<Vec<Arc<ReadOnlyPart>>>,
    /// Nothing is left to be opened.
    is_complete: AtomicBool,
    /// There was no time for one of them.
    gave_up: AtomicBool,
    /// No attempt to open the rest before this time ([`Shared::now_ms`]).
    next: AtomicU64,
    /// [`Shared::rewrites`] when they were opened.
    rewrites: AtomicU64,
}

/// The parts that are not open yet, and the state of opening them.
#[derive(Default)]
struct Opening {
    attempts: u32,
    listed: bool,
    /// In the order in which they are looked into.
    rest: Vec<Candidate>,
}

/// A part that may be opened.
pub(crate) struct Candidate {
    /// The number by which the lister finds the part.
    number: usize,
    /// None: its folder is not found yet.
    part: Option<Arc<ReadOnlyPart>>,
    tries: u32,
}

impl Candidate {
    /// A part whose folder [`Lister::open`] finds.
    pub(crate) fn numbered(number: usize) -> Candidate {
        Candidate { number, part: None, tries: 0 }
    }

    /// A part whose folder is open.
    pub(crate) fn found(part: ReadOnlyPart) -> Candidate {
        Candidate { number: 0, part: Some(Arc::new(part)), tries: 0 }
    }
}

/// The outcome of an attempt to open a part.
enum Opened {
    Whole(Arc<ReadOnlyPart>),
    /// There is no such part.
    Nothing,
    /// There was no time to read all of the part.
    Rest,
}

/// Finds the parts that may be opened.
pub(crate) trait Lister {
    /// The parts; the first one is looked into first. None: there was no time to find all of them. A caller that is not
    /// `patient` does without those for which there is no time.
    fn list(
        &self,
        tallies: &Tallies,
        patient: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Vec<Candidate>>;

    /// The part of a [`Candidate::numbered`]. `Ok(None)`: there is none. The error is given where there is no time.
    fn open(
        &self,
        number: usize,
        tallies: &Tallies,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<ReadOnlyPart>, OpenError>;

    /// The part of this number is not opened in this run any more, for lack of time.
    fn given_up(&self, number: usize, tallies: &Tallies);

    /// Whether a part that has just been opened is worth keeping.
    fn wants(&self, part: &ReadOnlyPart) -> bool;

    /// The most parts that are looked into.
    const MOST: usize;
}

impl ReadOnlyParts {
    /// The parts that are open.
    pub(crate) fn open(&self) -> Guard<Arc<Vec<Arc<ReadOnlyPart>>>> {
        self.parts.load()
    }

    /// Opens parts for as long as a thread of the program may wait after a miss.
    pub(crate) fn open_more<D: Destination, L: Lister>(&self, shared: &Arc<Shared<D>>, lister: &L) {
        let rewrites = shared.rewrites();
        if self.rewrites.load(Ordering::Relaxed) != rewrites {
            self.begin_again(rewrites);
        }
        if !self.is_complete.load(Ordering::Acquire) {
            self.open_in_time(shared, lister);
        }
    }

    /// Whether nothing is left to be opened, for want of time too.
    pub(crate) fn are_done(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Whether all of them were opened, so that a miss proves something.
    pub(crate) fn are_all_open(&self) -> bool {
        self.are_done() && !self.gave_up.load(Ordering::Relaxed)
    }

    /// Segments were rewritten: what is open may be gone from the disk.
    #[cold]
    fn begin_again(&self, rewrites: u64) {
        // A thread that opens parts now may open old ones: the next look-up begins again.
        let Some(mut opening) = self.opening.try_lock() else { return };
        *opening = Opening::default();
        self.parts.store(Arc::default());
        self.next.store(0, Ordering::Relaxed);
        self.is_complete.store(false, Ordering::Release);
        self.gave_up.store(false, Ordering::Relaxed);
        self.rewrites.store(rewrites, Ordering::Relaxed);
    }

    #[cold]
    fn open_in_time<D: Destination, L: Lister>(&self, shared: &Arc<Shared<D>>, lister: &L) {
        let is_due = shared.now_ms() >= self.next.load(Ordering::Relaxed) && !shared.is_inert();
        let Some(mut opening) = is_due.then(|| self.opening.try_lock()).flatten() else { return };
        opening.attempts += 1;
        let has_time = self.open_each(shared, &mut opening, lister);
        if !has_time || opening.attempts >= ATTEMPTS {
            // With their descriptors.
            self.gave_up.fetch_or(!opening.listed, Ordering::Relaxed);
            for candidate in std::mem::take(&mut opening.rest) {
                self.give_up(&candidate, shared, lister);
            }
            opening.listed = true;
        }
        let is_complete = opening.listed && opening.rest.is_empty();
        self.is_complete.store(is_complete, Ordering::Release);
        self.next.store(shared.now_ms() + AGAIN_AFTER_MS, Ordering::Relaxed);
    }

    /// Opens parts, each within a time of its own, however long the others take. False: the time for all parts together
    /// is over.
    fn open_each<D: Destination, L: Lister>(
        &self,
        shared: &Arc<Shared<D>>,
        opening: &mut Opening,
        lister: &L,
    ) -> bool {
        let budget = shared.waits.opening.saturating_mul(TIMES_OPENING);
        let (tallies, mut has_time) = (&shared.tallies, true);
        let mut in_time = |work: &mut dyn FnMut(Duration, &dyn Fn() -> bool)| {
            let limit = shared.left_for_opening().max(shared.waits.refresh);
            let (timer, began) = (Timer::of(limit), Instant::now());
            work(limit, &|| timer.is_over());
            let spent = began.elapsed();
            // The program does not wait for the writer.
            if !shared.writer.is_me() {
                shared.spent_on_opening(spent);
            }
            has_time = shared.spent_on_read_only(spent.min(limit)) < budget;
            has_time
        };
        if !opening.listed {
            let patient = opening.attempts < TRIES;
            let goes_on = in_time(&mut |_, interrupted| {
                if let Some(found) = lister.list(tallies, patient, interrupted) {
                    opening.rest = found;
                    opening.listed = true;
                }
            });
            if !goes_on {
                return false;
            }
        }
        let mut open = (*self.parts.load_full()).clone();
        let before = open.len();
        let mut goes_on = true;
        opening.rest.retain_mut(|candidate| {
            if !goes_on || open.len() >= L::MOST {
                // Candidates beyond the limit are dropped, unopened.
                return !goes_on;
            }
            let mut opened = Opened::Nothing;
            goes_on = in_time(&mut |limit, interrupted| {
                opened = candidate.open(lister, tallies, limit / 2, interrupted);
            });
            match opened {
                Opened::Whole(part) => open.extend(Some(part).filter(|part| lister.wants(part))),
                Opened::Nothing => {}
                Opened::Rest if candidate.tries < TRIES => return true,
                Opened::Rest => self.give_up(candidate, shared, lister),
            }
            false
        });
        if open.len() > before {
            let several = open.len() > 1;
            let slow = open.iter().filter(|part| several || part.segments() > 1);
            shared.merge_later(slow.cloned());
            self.parts.store(Arc::new(open));
        }
        goes_on
    }
}

impl ReadOnlyParts {
    fn give_up<D: Destination, L: Lister>(&self, candidate: &Candidate, shared: &Shared<D>, lister: &L) {
        self.gave_up.store(true, Ordering::Relaxed);
        lister.given_up(candidate.number, &shared.tallies);
    }
}

impl Candidate {
    fn open<L: Lister>(
        &mut self,
        lister: &L,
        tallies: &Tallies,
        file: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Opened {
        self.tries += 1;
        if self.part.is_none() {
            match lister.open(self.number, tallies, interrupted) {
                Ok(Some(part)) => self.part = Some(Arc::new(part)),
                Ok(None) => return Opened::Nothing,
                Err(_) => return Opened::Rest,
            }
        }
        let whole = self.part.as_ref().filter(|part| part.open_until(Some(file), interrupted, tallies));
        whole.map_or(Opened::Rest, |part| Opened::Whole(part.clone()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;
    use crate::format::file::PartIdentity;
    use crate::part::queue::WaitLimits;
    use crate::segment::append::{Payload, RecordId};
    use vkstash_host::disk::folder::Folder;

    struct Nowhere;

    impl Destination for Nowhere {
        fn unwritten(&self, _: RecordId, _: &Arc<Payload>) {}
    }

    /// Empty parts. Looking for the first ones takes longer than a program waits.
    struct Slow {
        folder: tempfile::TempDir,
        parts: usize,
        slow: usize,
        given_up: Mutex<Vec<usize>>,
    }

    impl Lister for Slow {
        const MOST: usize = 16;

        fn list(&self, _: &Tallies, _: bool, _: &dyn Fn() -> bool) -> Option<Vec<Candidate>> {
            Some((0..self.parts).map(Candidate::numbered).collect())
        }

        fn open(
            &self,
            number: usize,
            _: &Tallies,
            interrupted: &dyn Fn() -> bool,
        ) -> Result<Option<ReadOnlyPart>, OpenError> {
            let path = self.folder.path();
            if number < self.slow {
                while !interrupted() {
                    std::thread::sleep(Duration::from_millis(40));
                }
                return Err(OpenError::PutOff { path: path.to_owned() });
            }
            let part = ReadOnlyPart::new(Folder::root(path, false).unwrap(), PartIdentity::Portable);
            Ok(Some(part))
        }

        fn given_up(&self, number: usize, _: &Tallies) {
            self.given_up.lock().push(number);
        }

        fn wants(&self, _: &ReadOnlyPart) -> bool {
            true
        }
    }

    #[test]
    fn a_slow_part_does_not_keep_the_others_from_being_opened() {
        let folder = tempfile::tempdir().unwrap();
        let slow = Slow { folder, parts: 3, slow: 1, given_up: Mutex::default() };
        let (parts, shared) = (ReadOnlyParts::default(), Shared::<Nowhere>::new(WaitLimits::PROGRAM));
        parts.open_more(&shared, &slow);
        assert_eq!((parts.open().len(), parts.are_all_open()), (2, false));
        while slow.given_up.lock().is_empty() {
            std::thread::sleep(Duration::from_millis(20));
            parts.open_more(&shared, &slow);
        }
        assert_eq!((parts.open().len(), parts.are_all_open()), (2, false));
        assert_eq!(slow.given_up.into_inner(), [0]);
    }

    #[test]
    fn a_program_waits_for_few_slow_parts() {
        let folder = tempfile::tempdir().unwrap();
        let slow = Slow { folder, parts: 16, slow: 16, given_up: Mutex::default() };
        let (parts, shared) = (ReadOnlyParts::default(), Shared::<Nowhere>::new(WaitLimits::PROGRAM));
        parts.open_more(&shared, &slow);
        // The time of all together is over.
        assert_eq!((parts.open().len(), slow.given_up.into_inner().len()), (0, 16));
    }
}
