//! Parked pipelines, the state: pipelines that background work (background/park.rs) has finished before the program
//! asks for them, until a call takes them (serve/parked.rs).
//!
//! Each is handed over once: whoever takes its entry out of the map owns it. A look-up takes no lock that threads
//! share; the lock of an entry is for the worker that is making it and the one thread that waits for that.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use rustc_hash::FxBuildHasher;

use super::background_work::Listeners;
use super::plan::{Plan, PlanState};
use crate::state::objects::described::{ImmutableSamplers, LiveSampler};
use crate::state::process::held;
use crate::state::process::stored::KeptIn;
use crate::stats::Counters;
use vkstash_host::held::HeldInDriver;
use vkstash_host::once::OnceLock;
use vkstash_host::sync::{Condvar, Mutex, MutexGuard};
use vkstash_model::counters::Count;
use vkstash_model::record::Key;

/// The most pipelines that wait in one device, finished or in the making.
pub const MOST: usize = if cfg!(target_pointer_width = "32") { 256 } else { 1024 };
/// The most bytes of artifacts that they were made of: what a driver keeps of a pipeline in memory is a few times that.
pub const MOST_BYTES: u64 = if cfg!(target_pointer_width = "32") { 2 << 20 } else { 12 << 20 };

/// What a compiled one counts as. A driver keeps about five times the bytes of an artifact in memory, and lavapipe,
/// which gives no artifacts, keeps 300 KiB of each pipeline.
const COMPILED_BYTES: u64 = 64 << 10;
/// What one counts as of which there is no artifact: they are rarely larger.
pub const UNKNOWN_BYTES: u64 = 12 << 10;

/// A finished pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The handle; made without an allocator.
    pub pipeline: vk::Pipeline,
    /// Time that the driver needed to compile it, once.
    pub cost: Duration,
    /// What the pipeline was made of.
    pub origin: MadeOf,
    /// The cache of the layer's that it was made with, for a call with a cache; or NULL.
    pub made_with: vk::PipelineCache,
}

/// What a finished pipeline was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeOf {
    /// An artifact of so many bytes.
    Artifact {
        /// The artifact's length in bytes.
        bytes: u64,
        /// The part of the stash that had the artifact.
        source: KeptIn,
    },
    /// What the driver had in its own caches.
    Found {
        /// The bytes of the artifact that the stash has of it. Without one, only a call without a cache may get it.
        kept: Option<u64>,
    },
    /// The pipeline was compiled in the background.
    Compile,
}

impl MadeOf {
    /// The bytes that count against [`MOST_BYTES`].
    fn bytes(self) -> u64 {
        match self {
            MadeOf::Artifact { bytes, .. } => bytes,
            MadeOf::Found { kept } => kept.unwrap_or(UNKNOWN_BYTES),
            MadeOf::Compile => COMPILED_BYTES,
        }
    }
}

/// The pipelines that wait.
#[derive(Default)]
pub struct Parked {
    /// The map is made for the first pipeline (`objects.rs` says why).
    waiting: OnceLock<papaya::HashMap<Key, Arc<Entry>, FxBuildHasher>>,
    /// Entries of the map, for a look-up that costs a load while there are none.
    count: AtomicUsize,
    bytes: AtomicU64,
    /// What is made, once that is known, and once everything that was put off is read.
    plan: OnceLock<Plan>,
    whole_plan: OnceLock<Plan>,
    /// Whether workers will make pipelines: an [`Outlook`].
    outlook: AtomicU8,
    /// What was asked for while a plan, or a whole one, is expected.
    asked: Mutex<Vec<Key>>,
    /// The worker that looked last waits until a processor is free.
    gives_way: AtomicBool,
    /// The plan is newer than those who make more of it know.
    replanned: AtomicBool,
    /// Makes more of the plan.
    background: Arc<Listeners>,
    /// A worker makes more of the plan while there is room.
    refilling: AtomicBool,
    /// No pipeline is parked any more.
    closed: AtomicBool,
}

/// Whether workers will make pipelines on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Outlook {
    /// No pipeline is made ahead. A new device begins with this.
    NoWork = 0,
    /// A plan may follow, or a whole one.
    PlanExpected = 1,
    /// The plan that there is stays the last one.
    Settled = 2,
}

impl From<u8> for Outlook {
    fn from(stored: u8) -> Outlook {
        match stored {
            1 => Outlook::PlanExpected,
            2 => Outlook::Settled,
            _ => Outlook::NoWork,
        }
    }
}

/// The calls that may get a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Any call: what a cache of the program's is owed is kept.
    AnyCall,
    /// Calls without a cache.
    CallsWithoutCache,
}

/// Which requests may get a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The calls.
    pub whom: For,
    /// The immutable samplers of the layout that the pipeline was made with. Only requests with a layout of the same
    /// objects may get the pipeline (contract 3.9).
    pub samplers: Option<Arc<[LiveSampler]>>,
}

/// What a request asks for, beside the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The call has a cache.
    pub has_cache: bool,
    /// The immutable samplers of its layout, where any are lent on the device.
    pub samplers: Option<ImmutableSamplers>,
}

#[derive(Debug)]
struct Entry {
    terms: Terms,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
enum Progress {
    /// A worker makes it, since then; usually that takes so long.
    Making { since: Instant, usual: Duration },
    /// The pipeline waits for a request.
    Finished(Finished),
    /// The worker could not make it, it was taken, or the program has stopped waiting for it.
    Over,
}

impl Parked {
    /// Nothing waits. `background` makes what the plan has.
    pub fn new(background: Arc<Listeners>) -> Parked {
        Parked { background, ..Parked::default() }
    }

    /// Whether requests have to be looked up before the driver is asked: something waits, or is made next.
    pub fn is_in_use(&self) -> bool {
        !self.is_empty() || self.plan().is_some_and(Plan::has_more)
    }

    fn outlook(&self) -> Outlook {
        self.outlook.load(Ordering::Relaxed).into()
    }

    fn set_outlook(&self, outlook: Outlook) {
        self.outlook.store(outlook as u8, Ordering::Relaxed);
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether there is room for one more pipeline.
    pub fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < MOST
            && self.bytes.load(Ordering::Relaxed) < MOST_BYTES
            && !self.closed.load(Ordering::Relaxed)
    }

    /// The bytes that the waiting pipelines take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of waiting pipelines, finished or in the making.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// What is made from now on, less what was asked for on this device. `is_whole`: nothing of the stash was put off.
    /// It changes nothing once the plan is the last one.
    pub fn follow(&self, plan: Plan, is_whole: bool, counters: &Counters) {
        let mut asked = self.asked.lock();
        if self.outlook() == Outlook::Settled {
            return;
        }
        let is_first = self.plan().is_none();
        for key in asked.iter() {
            let met = plan.note_request(key);
            if is_first {
                counters.count(self.why_unready(met, !is_whole));
            }
        }
        let place = if is_whole { &self.whole_plan } else { &self.plan };
        // A device has one plan of each kind, so this is set once.
        let _ = place.set(plan);
        if is_whole {
            self.set_outlook(Outlook::Settled);
            *asked = Vec::new();
        }
        self.replanned.store(true, Ordering::SeqCst);
    }

    /// Background work will look for a plan.
    pub fn expect_plan(&self) {
        self.set_outlook(Outlook::PlanExpected);
    }

    /// Notes that the plan that there is stays the last one.
    pub fn expect_no_plan(&self, counters: &Counters) {
        let mut asked = self.asked.lock();
        self.set_outlook(Outlook::Settled);
        if self.plan().is_none() {
            counters.add(Count::NotPlanned, asked.len() as u64);
        }
        *asked = Vec::new();
    }

    /// Nothing is made ahead on this device, or nothing more.
    pub fn expect_no_work(&self) {
        let mut asked = self.asked.lock();
        self.set_outlook(Outlook::NoWork);
        *asked = Vec::new();
    }

    /// Notes a request for the plan that is expected. True: it is counted once there is one.
    #[cold]
    fn note_for_later(&self, key: &Key) -> bool {
        let mut asked = self.asked.lock();
        // The plan may have come meanwhile.
        let is_expected = self.outlook() == Outlook::PlanExpected;
        if is_expected && asked.len() < Plan::MOST && asked.try_reserve(1).is_ok() {
            asked.push(*key);
            return self.plan().is_none();
        }
        false
    }

    /// Whether the worker that looked last waits until a processor is free.
    pub fn give_way(&self, gives_way: bool) {
        // A write would take the cache line from the threads of the program, and the flag rarely changes.
        if self.gives_way.load(Ordering::Relaxed) != gives_way {
            self.gives_way.store(gives_way, Ordering::Relaxed);
        }
    }

    /// What counts a request for which nothing was ready, by the reason.
    fn why_unready(&self, met: PlanState, is_expected: bool) -> Count {
        match met {
            PlanState::Unknown if !is_expected => Count::NotPlanned,
            PlanState::OfOthers => Count::NotPlanned,
            PlanState::Unknown | PlanState::NotMade if self.gives_way.load(Ordering::Relaxed) => {
                Count::NoProcessorFree
            }
            PlanState::Unknown | PlanState::NotMade => Count::AskedFirst,
            PlanState::PassedOver => Count::NotKept,
            PlanState::Never => Count::NeverAhead,
            PlanState::Released => Count::ReleasedBefore,
            PlanState::Repeated => Count::AskedAgain,
        }
    }

    /// Whether there is another plan than when this was asked last.
    pub fn was_replanned(&self) -> bool {
        self.replanned.swap(false, Ordering::SeqCst)
    }

    /// The plan, once there is one.
    pub fn plan(&self) -> Option<&Plan> {
        self.whole_plan.get().or_else(|| self.plan.get())
    }

    /// No worker makes more of the plan: there is no room, or nothing more to make. From now on requests start it
    /// again.
    pub fn pause(&self) {
        self.refilling.store(false, Ordering::Release);
    }

    /// Begins to make more of the plan. True for the one caller that has to queue the task for it.
    pub fn resume(&self) -> bool {
        !self.refilling.swap(true, Ordering::AcqRel)
    }

    /// Whether so much may be made now that it is worth waking a worker.
    pub fn is_due(&self) -> bool {
        let has_half = self.count() <= MOST / 2 && self.bytes() <= MOST_BYTES / 2;
        has_half && !self.closed.load(Ordering::Relaxed) && self.plan().is_some_and(Plan::is_due)
    }

    /// The program asks for this pipeline while nothing waits. What counts the reason that nothing is ready, where some
    /// are made ahead and the reason is known.
    pub fn note_request(&self, key: &Key) -> Option<Count> {
        let met = self.meet(key);
        met.map(|met| self.why_unready(met, self.outlook() == Outlook::PlanExpected))
    }

    /// The same for a pipeline that nothing can be ready for, because the program passes an allocator.
    pub fn note_request_with_allocator(&self) -> Option<Count> {
        (self.outlook() != Outlook::NoWork).then_some(Count::OwnAllocator)
    }

    /// A request. Wakes a worker once in many requests, and only if the program goes on with the plan: for one that
    /// asks for the same few pipelines again, workers would make and destroy the rest for ever. None: there may be a
    /// plan later, which meets the request then, or no work at all.
    fn meet(&self, key: &Key) -> Option<PlanState> {
        let outlook = self.outlook();
        if outlook == Outlook::PlanExpected && self.note_for_later(key) {
            return None;
        }
        let Some(plan) = self.plan() else {
            return (outlook == Outlook::Settled).then_some(PlanState::OfOthers);
        };
        let met = plan.note_request(key);
        if met.is_new() && !self.refilling.load(Ordering::Relaxed) && self.is_due() && self.resume() {
            self.background.tell(|work| work.has_room());
        }
        Some(met)
    }

    /// A worker begins to make this pipeline, which usually takes so long. None: it waits already, there is no room, or
    /// nothing is added any more.
    pub fn begin(&self, key: &Key, terms: Terms, usual: Duration) -> Option<Making<'_>> {
        if !self.has_room() {
            return None;
        }
        let progress = Mutex::new(Progress::Making { since: Instant::now(), usual });
        let entry = Arc::new(Entry { terms, progress, changed: Condvar::new() });
        let waiting = self.waiting.get_or_init(Default::default).pin();
        if waiting.try_insert(*key, entry.clone()).is_err() {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Making { parked: self, key: *key, entry, _held: held::PARKED_PIPELINE.hold() })
    }

    /// Takes the pipeline out, and waits for it if a worker is making it and that is likely to end sooner than making
    /// it again. Otherwise what counts the reason that there is none for such a call.
    pub fn take(&self, key: &Key, wanted: &Wanted) -> Result<Finished, Option<Count>> {
        let met = self.meet(key);
        let why = |met| self.why_unready(met, self.outlook() == Outlook::PlanExpected);
        if self.is_empty() {
            return Err(met.map(why));
        }
        match self.remove(key, wanted) {
            Removed::This(entry) => self.wait(&entry).ok_or_else(|| met.map(|_| why(PlanState::NotMade))),
            Removed::Nothing => Err(met.map(why)),
            Removed::ForOthers(unfit) => Err(met.map(|_| unfit)),
        }
    }

    /// Waits for what a worker makes.
    fn wait(&self, entry: &Entry) -> Option<Finished> {
        let mut progress = entry.lock();
        while let Progress::Making { since, usual } = *progress {
            // What a worker has begun is finished after the rest of the time. If it is late, it may have been
            // interrupted.
            let rest = usual.saturating_sub(since.elapsed());
            if rest.is_zero() {
                break;
            }
            progress = entry.changed.wait_timeout(progress, rest);
        }
        let taken = self.end(&mut progress);
        if taken.is_none() {
            tracing::trace!("a pipeline in the making was not waited for");
        }
        taken
    }

    /// Nothing more is made on this device.
    pub fn stop(&self) {
        self.end_plan(Plan::stop);
    }

    /// Ends the plan that there is in this way, and lets no other one follow.
    fn end_plan(&self, end: fn(&Plan)) {
        let mut asked = self.asked.lock();
        self.set_outlook(Outlook::Settled);
        *asked = Vec::new();
        self.plan().into_iter().for_each(end);
    }

    /// Memory is scarce: takes out everything that is finished, and nothing more is made. The caller destroys it.
    pub fn give_up(&self) -> Vec<Finished> {
        self.end_plan(Plan::give_up);
        let is_finished = |entry: &Entry| matches!(&*entry.lock(), Progress::Finished(_));
        let take = |(key, entry): (Key, Arc<Entry>)| {
            let taken = self.end(&mut entry.lock());
            self.remove_this(&key, &entry);
            taken
        };
        self.those(is_finished).into_iter().filter_map(take).collect()
    }

    /// Takes everything that is finished, and adds nothing any more. The caller destroys it.
    pub fn close(&self) -> Vec<Finished> {
        self.closed.store(true, Ordering::Relaxed);
        // The entries stay in the map: in an exit handler this thread has no local storage, which removing needs.
        self.those(|_| true).into_iter().filter_map(|(_, entry)| self.end(&mut entry.lock())).collect()
    }

    fn those(&self, which: impl Fn(&Entry) -> bool) -> Vec<(Key, Arc<Entry>)> {
        let Some(waiting) = self.waiting.get() else { return Vec::new() };
        let guard = waiting.owned_guard();
        let waiting = waiting.iter(&guard).filter(|(_, entry)| which(entry));
        waiting.map(|(key, entry)| (*key, entry.clone())).collect()
    }

    /// Takes an entry out of the map: only one thread gets it.
    fn remove(&self, key: &Key, wanted: &Wanted) -> Removed {
        let Some(waiting) = self.waiting.get().map(papaya::HashMap::pin) else { return Removed::Nothing };
        match waiting.remove_if(key, |_, entry| entry.terms.unfit(wanted).is_none()) {
            Ok(Some((_, entry))) => {
                self.count.fetch_sub(1, Ordering::Relaxed);
                Removed::This(entry.clone())
            }
            Ok(None) => Removed::Nothing,
            Err((_, entry)) => entry.terms.unfit(wanted).map_or(Removed::Nothing, Removed::ForOthers),
        }
    }

    /// Takes this entry out of the map: another thread may have done that, and another worker may have put in one of
    /// its own.
    fn remove_this(&self, key: &Key, entry: &Arc<Entry>) {
        let Some(waiting) = self.waiting.get().map(papaya::HashMap::pin) else { return };
        if matches!(waiting.remove_if(key, |_, there| Arc::ptr_eq(there, entry)), Ok(Some(_))) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends an entry: the thread that gets the pipeline here owns it.
    fn end(&self, progress: &mut Progress) -> Option<Finished> {
        match std::mem::replace(progress, Progress::Over) {
            Progress::Finished(finished) => {
                self.bytes.fetch_sub(finished.origin.bytes(), Ordering::Relaxed);
                Some(finished)
            }
            Progress::Making { .. } | Progress::Over => None,
        }
    }
}

/// What a request has taken out of the map.
enum Removed {
    /// The entry, which is the request's now.
    This(Arc<Entry>),
    /// There is none.
    Nothing,
    /// The entry stays, because it is not for this request. What counts that.
    ForOthers(Count),
}

impl Terms {
    /// Why a request must not have the pipeline, as what counts it.
    fn unfit(&self, wanted: &Wanted) -> Option<Count> {
        if wanted.has_cache && self.whom == For::CallsWithoutCache {
            // What the cache is owed.
            return Some(Count::NotKept);
        }
        let objects = wanted.samplers.as_ref().and_then(|samplers| samplers.objects.as_ref());
        (self.samplers.is_some() && self.samplers.as_ref() != objects).then_some(Count::OtherSamplers)
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

/// A pipeline that a worker makes. Dropped, it could not be made.
pub struct Making<'a> {
    parked: &'a Parked,
    key: Key,
    entry: Arc<Entry>,
    _held: HeldInDriver,
}

impl Making<'_> {
    /// The pipeline is finished. It is returned if the program no longer waits for it; the caller destroys it then.
    #[must_use = "what nobody waits for is destroyed"]
    pub fn finish(self, finished: Finished) -> Option<Finished> {
        let mut progress = self.entry.lock();
        if matches!(*progress, Progress::Over) {
            return Some(finished);
        }
        self.parked.bytes.fetch_add(finished.origin.bytes(), Ordering::Relaxed);
        *progress = Progress::Finished(finished);
        self.entry.changed.notify_all();
        None
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut progress = self.entry.lock();
        if matches!(*progress, Progress::Making { .. }) {
            *progress = Progress::Over;
            self.entry.changed.notify_all();
            drop(progress);
            self.parked.remove_this(&self.key, &self.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::thread;

    use ash::vk::Handle;

    use super::super::background_work::BackgroundWork;
    use super::*;
    use crate::watched;

    const USUAL: Duration = Duration::from_secs(100);

    /// For tests that count nothing.
    static NOBODY: LazyLock<Counters> = LazyLock::new(Counters::default);

    fn finished(number: u64) -> Finished {
        let pipeline = vk::Pipeline::from_raw(number);
        let origin = MadeOf::Artifact { bytes: 10, source: KeptIn::Own };
        Finished { pipeline, cost: Duration::ZERO, origin, made_with: vk::PipelineCache::null() }
    }

    fn wanted(has_cache: bool) -> Wanted {
        Wanted { has_cache, samplers: None }
    }

    fn terms(whom: For) -> Terms {
        Terms { whom, samplers: None }
    }

    fn begin<'a>(parked: &'a Parked, key: &Key, usual: Duration) -> Option<Making<'a>> {
        parked.begin(key, terms(For::AnyCall), usual)
    }

    fn park(parked: &Parked, key: u8) -> Option<Finished> {
        begin(parked, &[key; 32], USUAL).unwrap().finish(finished(key.into()))
    }

    #[test]
    fn a_program_for_which_nothing_is_made_pays_for_no_map() {
        let listeners = Arc::default();
        let before = watched::held();
        let parked = Parked::new(listeners);
        assert!(parked.take(&[1; 32], &wanted(false)).ok().is_none() && parked.give_up().is_empty());
        assert!(parked.close().is_empty());
        assert_eq!(watched::held(), before);
    }

    #[test]
    fn a_pipeline_is_handed_over_once() {
        let parked = Parked::default();
        assert!(parked.is_empty() && parked.take(&[1; 32], &wanted(false)).ok().is_none());
        assert_eq!(park(&parked, 1), None);
        assert!(begin(&parked, &[1; 32], USUAL).is_none(), "it waits already");
        assert_eq!((parked.count(), parked.bytes()), (1, 10));
        let all: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| parked.take(&[1; 32], &wanted(false)).ok())).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().map(|one| one.pipeline.as_raw()).collect::<Vec<_>>(), [1]);
        assert_eq!((parked.count(), parked.bytes()), (0, 0));
    }

    #[test]
    fn a_request_waits_for_what_is_being_made() {
        let parked = Parked::default();
        thread::scope(|scope| {
            let making = begin(&parked, &[1; 32], USUAL).unwrap();
            let waits = scope.spawn(|| parked.take(&[1; 32], &wanted(false)).ok());
            while !parked.is_empty() {
                thread::yield_now();
            }
            assert_eq!(making.finish(finished(7)), None);
            assert_eq!(waits.join().unwrap().map(|one| one.pipeline.as_raw()), Some(7));
        });
        assert_eq!((parked.count(), parked.bytes()), (0, 0));
    }

    #[test]
    fn a_request_does_not_wait_for_what_fails_or_is_late() {
        let parked = Parked::default();
        thread::scope(|scope| {
            let making = begin(&parked, &[1; 32], USUAL).unwrap();
            let waits = scope.spawn(|| parked.take(&[1; 32], &wanted(false)).ok());
            while !parked.is_empty() {
                thread::yield_now();
            }
            drop(making);
            assert_eq!(waits.join().unwrap(), None);
        });
        let late = begin(&parked, &[2; 32], Duration::ZERO).unwrap();
        assert_eq!(parked.take(&[2; 32], &wanted(false)).ok(), None);
        // Meanwhile another worker makes it again, and keeps its entry.
        let again = begin(&parked, &[2; 32], USUAL).unwrap();
        let back = late.finish(finished(2));
        assert_eq!(back.map(|one| one.pipeline.as_raw()), Some(2), "nobody waits for it any more");
        assert_eq!(again.finish(finished(3)), None);
        assert_eq!(parked.take(&[2; 32], &wanted(false)).ok().map(|one| one.pipeline.as_raw()), Some(3));
        assert!(parked.is_empty());
    }

    #[test]
    fn there_is_room_for_so_many_and_what_is_given_up_or_left_over_comes_back() {
        let parked = Parked::default();
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        for number in 0..MOST {
            assert_eq!(begin(&parked, &key(number), USUAL).unwrap().finish(finished(number as u64)), None);
        }
        assert!(begin(&parked, &key(MOST), USUAL).is_none());
        let taken = parked.take(&key(0), &wanted(false)).ok().unwrap();
        let making = begin(&parked, &key(1000), USUAL);
        assert!(making.is_none(), "it waits already");
        let making = begin(&parked, &key(0), USUAL).unwrap();
        assert_eq!(parked.give_up().len(), MOST - 1, "but for the one in the making");
        assert_eq!(making.finish(taken), None);
        let making = begin(&parked, &key(1), USUAL).unwrap();
        assert_eq!(parked.close().len(), 1);
        assert_eq!(making.finish(finished(1)).map(|one| one.pipeline.as_raw()), Some(1));
        assert!(begin(&parked, &key(2), USUAL).is_none(), "closed");
        assert!(parked.take(&key(0), &wanted(false)).is_err(), "taken");
        assert_eq!(parked.bytes(), 0);
    }

    /// What a program leaves out must not end the work for one that goes on.
    #[test]
    fn what_was_asked_for_before_there_was_a_whole_plan_is_left_out() {
        let parked = Parked::default();
        let next = |parked: &Parked| {
            let plan = parked.plan().unwrap();
            std::iter::from_fn(|| plan.next()).map(|key| key[0]).collect::<Vec<_>>()
        };
        let plan = |count: u8| Plan::new((0..count).map(|key| [key; 32]).collect(), count.into(), &[]);
        parked.expect_plan();
        parked.note_request(&[2; 32]);
        parked.follow(plan(4), false, &NOBODY);
        // The first plan has no key 6.
        [3, 6].iter().for_each(|&key| _ = parked.note_request(&[key; 32]));
        assert_eq!(next(&parked), [0, 1]);
        parked.follow(plan(8), true, &NOBODY);
        assert_eq!(next(&parked), [7, 0, 1, 4, 5], "and the work goes on behind it");
        parked.note_request(&[0; 32]);
        assert!(parked.asked.lock().is_empty(), "nothing more is expected");
        for end in [Parked::stop, |parked: &Parked| _ = parked.give_up()] {
            let parked = Parked::default();
            parked.expect_plan();
            parked.follow(plan(4), false, &NOBODY);
            end(&parked);
            parked.follow(plan(8), true, &NOBODY);
            assert_eq!(next(&parked), [0; 0], "a later plan does not begin again what was ended");
        }
        let never = Parked::default();
        never.note_request(&[0; 32]);
        assert!(never.asked.lock().is_empty());
        never.expect_plan();
        never.note_request(&[0; 32]);
        never.expect_no_plan(&NOBODY);
        assert!(never.asked.lock().is_empty());
    }

    #[test]
    fn why_nothing_was_ready_is_counted_once_a_request() {
        let reasons = |parked: &Parked, requests: &[u8]| {
            let counters = Counters::default();
            let unready =
                requests.iter().filter_map(|key| parked.take(&[*key; 32], &wanted(false)).err().flatten());
            unready.for_each(|why| counters.count(why));
            counters.values().into_iter().collect::<Vec<_>>()
        };
        let is = |name: &str, count: u64| (name.to_owned(), count);
        let parked = Parked::default();
        assert_eq!(reasons(&parked, &[1]), [], "nothing is made ahead");
        parked.expect_plan();
        assert_eq!(reasons(&parked, &[1, 77]), [], "it is not known yet");
        let counters = Counters::default();
        parked.follow(Plan::new((0..10).map(|key| [key; 32]).collect(), 9, &[]), true, &counters);
        assert_eq!(counters.values(), [is("asked_first", 1), is("not_planned", 1)].into());
        assert_eq!(
            reasons(&parked, &[1, 2, 9, 78]),
            [is("asked_again", 1), is("asked_first", 1), is("not_planned", 2)]
        );
        parked.give_way(true);
        assert_eq!(reasons(&parked, &[3]), [is("no_processor_free", 1)]);
        parked.give_way(false);
        let next = || parked.plan().and_then(Plan::next).unwrap()[0];
        assert_eq!((next(), next(), next(), next(), next()), (0, 4, 5, 6, 7));
        assert_eq!(park(&parked, 4), None);
        assert_eq!(park(&parked, 5), None);
        parked.plan().unwrap().pass_over(&[7; 32]);
        assert_eq!(reasons(&parked, &[4, 7]), [is("not_kept", 1)], "one was ready");
        let late = begin(&parked, &[6; 32], Duration::ZERO).unwrap();
        assert_eq!(reasons(&parked, &[6]), [is("asked_first", 1)]);
        drop(late);
        assert_eq!(parked.give_up().len(), 1);
        assert_eq!(reasons(&parked, &[5]), [is("released_before", 1)]);
        assert_eq!(parked.note_request_with_allocator(), Some(Count::OwnAllocator));

        let first_run = Parked::default();
        first_run.expect_plan();
        assert_eq!(reasons(&first_run, &[1]), []);
        let counters = Counters::default();
        first_run.expect_no_plan(&counters);
        assert_eq!(counters.get(Count::NotPlanned), 1);
        assert_eq!(reasons(&first_run, &[2]), [is("not_planned", 1)]);
    }

    #[test]
    fn compiled_ones_take_room_too() {
        let parked = Parked::default();
        let mut made = 0;
        while let Some(making) = begin(&parked, &[made; 32], USUAL) {
            let compiled = Finished { origin: MadeOf::Compile, ..finished(made.into()) };
            assert_eq!(making.finish(compiled), None);
            made += 1;
        }
        assert_eq!(u64::from(made), MOST_BYTES / COMPILED_BYTES);
        assert!(parked.take(&[0; 32], &wanted(false)).ok().is_some() && parked.has_room());
    }

    #[test]
    fn what_the_driver_had_takes_the_room_of_its_artifact() {
        let parked = Parked::default();
        let park = |key: u8, kept: Option<u64>| {
            let found = Finished { origin: MadeOf::Found { kept }, ..finished(key.into()) };
            let making = begin(&parked, &[key; 32], USUAL).unwrap();
            assert_eq!(making.finish(found), None);
        };
        park(1, None);
        assert_eq!(parked.bytes(), UNKNOWN_BYTES);
        park(2, Some(MOST_BYTES - UNKNOWN_BYTES - 1));
        assert!(parked.has_room());
        park(3, Some(1));
        assert!(!parked.has_room());
        assert!(parked.take(&[2; 32], &wanted(false)).ok().is_some() && parked.has_room());
    }

    /// Counts how often it is told that there is room.
    #[derive(Default)]
    struct Refills(AtomicUsize);

    impl BackgroundWork for Refills {
        fn has_room(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn refilled() -> (Parked, Arc<Refills>) {
        let (listeners, refills) = (Arc::new(Listeners::default()), Arc::new(Refills::default()));
        listeners.add(refills.clone());
        (Parked::new(listeners), refills)
    }

    #[test]
    fn workers_make_more_once_there_is_half_the_room_and_the_program_goes_on() {
        let (parked, refills) = refilled();
        parked.follow(Plan::new((0..10).map(|number| [number; 32]).collect(), 10, &[]), false, &NOBODY);
        let refills = |key: u8| {
            parked.note_request(&[key; 32]);
            refills.0.load(Ordering::Relaxed)
        };
        assert_eq!((refills(0), refills(1)), (1, 1), "somebody sees to it");
        parked.pause();
        assert_eq!((refills(0), refills(1), refills(77)), (1, 1, 1), "nothing new");
        // Few that are large take all of the room.
        let large =
            Finished { origin: MadeOf::Artifact { bytes: MOST_BYTES, source: KeptIn::Own }, ..finished(5) };
        assert_eq!(begin(&parked, &[5; 32], USUAL).unwrap().finish(large), None);
        assert_eq!(refills(2), 1);
        assert!(parked.take(&[5; 32], &wanted(false)).ok().is_some());
        assert_eq!(refills(3), 2);
    }

    /// A request for which nothing is looked up is noted all the same (`serve/parked.rs`).
    #[test]
    fn a_program_that_asks_for_more_than_its_last_run_has_more_made() {
        let (parked, refills) = refilled();
        parked.follow(Plan::new((0..100).map(|number| [number; 32]).collect(), 1, &[]), false, &NOBODY);
        let plan = parked.plan().unwrap();
        assert_eq!((plan.next(), plan.next()), (Some(&[0; 32]), None));
        assert!(!parked.is_in_use());
        parked.note_request(&[0; 32]);
        assert_eq!(refills.0.load(Ordering::Relaxed), 0);
        parked.note_request(&[1; 32]);
        assert!(parked.is_in_use());
        assert_eq!(refills.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_plan_of_everything_replaces_one_that_was_made_before() {
        let parked = Parked::default();
        parked.follow(Plan::new(vec![[1; 32]], 1, &[]), false, &NOBODY);
        assert!(parked.was_replanned() && !parked.was_replanned());
        assert_eq!(parked.plan().and_then(Plan::next), Some(&[1; 32]));
        assert!(!parked.is_in_use() || parked.plan().is_some_and(Plan::has_more));
        parked.follow(Plan::new(vec![[2; 32], [1; 32]], 2, &[]), true, &NOBODY);
        assert!(parked.was_replanned() && parked.is_in_use());
        assert_eq!(parked.plan().and_then(Plan::next), Some(&[2; 32]));
    }
}
