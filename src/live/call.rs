//! Calls in flight: which pipeline a thread is busy with, since when, and what is being done for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::Instant;

use ash::vk;

use super::page::Page;
use vkstash_model::live::{self, Activity, CALL, CALLS, MOST_CALLS};
use vkstash_model::record::Key;

/// Places that a thread looks at. Where all of them are taken its call is not shown.
const LOOKS: usize = 8;

/// A call, which is shown until this is dropped.
pub struct Call(Option<Place>);

struct Place {
    page: &'static Page,
    /// Where its numbers begin.
    at: usize,
}

/// What a thread remembers.
#[derive(Clone, Copy)]
struct Own {
    /// The process, as forks are numbered: a forked child's thread has another number.
    process: u32,
    thread: u32,
    /// The place of its last call.
    place: usize,
}

// No destructor: it can be used until the thread has ended.
thread_local!(static OWN: Cell<Own> = const { Cell::new(Own { process: 0, thread: 0, place: 0 }) });

impl Own {
    fn of_thread(process: u32) -> Own {
        let own = OWN.get();
        if own.process == process { own } else { Own::new(process) }
    }

    #[cold]
    fn new(process: u32) -> Own {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        // SAFETY: the system call has no arguments and cannot fail.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        // Threads begin apart from each other.
        let place = THREADS.fetch_add(LOOKS, Ordering::Relaxed);
        let place = (place + place / MOST_CALLS) % MOST_CALLS;
        Own { process, thread, place }
    }
}

impl Call {
    /// A thread of the program begins a call.
    #[inline]
    pub fn begin(at: Instant, activity: Activity, stages: vk::ShaderStageFlags) -> Call {
        Call(super::page().and_then(|page| Place::take(page, at, activity, stages, None)))
    }

    /// A worker begins one.
    pub fn begin_on_worker(at: Instant, activity: Activity, key: &Key) -> Call {
        let take = |page| Place::take(page, at, activity, vk::ShaderStageFlags::empty(), Some(key));
        Call(super::page().and_then(take))
    }

    /// The key is known.
    #[inline]
    pub fn knows(&self, key: &Key) {
        self.put(live::call::KEY, live::key_number(key));
    }

    /// This is being done from now on.
    #[inline]
    pub fn goes_on(&self, activity: Activity) {
        self.put(live::call::ACTIVITY, activity as u64);
    }

    #[inline]
    fn put(&self, field: usize, value: u64) {
        if let Some(Place { page, at }) = self.0.as_ref().filter(|place| place.page.is_own()) {
            page.number(at + field).store(value, Ordering::Relaxed);
        }
    }
}

impl Place {
    /// Takes a place near that of the thread's last call. `key`: of a worker's call.
    fn take(
        page: &'static Page,
        began: Instant,
        activity: Activity,
        stages: vk::ShaderStageFlags,
        key: Option<&Key>,
    ) -> Option<Place> {
        let own = Own::of_thread(page.process);
        let places = (own.place..own.place + LOOKS).map(|place| place % MOST_CALLS);
        let (place, sequence) = places.filter_map(|place| claim(page, place)).next()?;
        OWN.set(Own { place, ..own });
        let at = CALLS + place * CALL;
        let put = |field: usize, value: u64| page.number(at + field).store(value, Ordering::Relaxed);
        put(live::call::THREAD, own.thread.into());
        put(live::call::STARTED, page.monotonic(began));
        put(live::call::WORKER, key.is_some().into());
        put(live::call::KEY, key.map_or(0, live::key_number));
        put(live::call::STAGES, stages.as_raw().into());
        put(live::call::ACTIVITY, activity as u64);
        // A reader that sees this sees what was written before.
        page.number(at).store(sequence + live::call::IN_FLIGHT, Ordering::Release);
        Some(Place { page, at })
    }
}

/// Takes a place for a new call, whose numbers are not read until it is in flight.
#[inline]
fn claim(page: &Page, place: usize) -> Option<(usize, u64)> {
    let sequence = page.number(CALLS + place * CALL + live::call::SEQUENCE);
    let free = sequence.load(Ordering::Relaxed);
    if free % live::call::NEXT != live::call::FREE {
        return None;
    }
    let written = free + live::call::WRITING;
    sequence.compare_exchange(free, written, Ordering::Acquire, Ordering::Relaxed).ok()?;
    // What is written next is not seen before it.
    fence(Ordering::Release);
    Some((place, free))
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.page.is_own() {
            let sequence = self.page.number(self.at + live::call::SEQUENCE);
            // Only this thread changes it while the call is in flight.
            let free = sequence.load(Ordering::Relaxed) - live::call::IN_FLIGHT + live::call::NEXT;
            sequence.store(free, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use vkstash_model::counters::Count;
    use vkstash_model::live::{Live, LiveCall};

    use super::*;

    fn page() -> &'static Page {
        Box::leak(Box::new(Page::make("calls", None).unwrap()))
    }

    fn calls(page: &Page) -> Vec<LiveCall> {
        let [before, between, after] = [(); 3].map(|()| page.read());
        Live::of(&before, &between, &after).unwrap().calls
    }

    fn latest_key(page: &Page) -> Option<u64> {
        let bytes = page.read();
        Live::of(&bytes, &bytes, &bytes).unwrap().latest_key
    }

    fn begin(page: &'static Page, activity: Activity, stages: u32, key: Option<&Key>) -> Call {
        let stages = vk::ShaderStageFlags::from_raw(stages);
        Call(Place::take(page, Instant::now(), activity, stages, key))
    }

    #[test]
    fn the_latest_key_is_the_programs_and_outlasts_its_call() {
        let page = page();
        let plain = |at: Instant| Call(Place::take(page, at, Activity::Capture, Default::default(), None));
        let began = Instant::now();
        let [early, late] = [began, began + Duration::from_millis(1)].map(plain);
        assert_eq!(latest_key(page), None);
        early.knows(&[1; 32]);
        assert_eq!(latest_key(page), Some(0x0101_0101_0101_0101));
        late.knows(&[2; 32]);
        let worker = begin(page, Activity::Ahead, 0, Some(&[3; 32]));
        assert_eq!(latest_key(page), Some(0x0202_0202_0202_0202));
        drop([early, late, worker]);
        assert_eq!(latest_key(page), Some(0x0202_0202_0202_0202));
    }

    #[test]
    fn a_call_is_shown_while_it_lasts() {
        let page = page();
        let call = begin(page, Activity::Capture, 0x11, None);
        let [shown] = calls(page)[..] else { panic!() };
        assert_eq!((shown.key, shown.activity, shown.is_worker), (None, Some(Activity::Capture), false));
        assert_eq!(shown.stages, vk::ShaderStageFlags::VERTEX | vk::ShaderStageFlags::FRAGMENT);
        call.knows(&[0xab; 32]);
        call.goes_on(Activity::Compile);
        let inner = begin(page, Activity::Ahead, 0, Some(&[7; 32]));
        let shown = calls(page);
        assert_eq!((shown.len(), shown[0].activity), (2, Some(Activity::Compile)), "the longest comes first");
        assert_eq!((shown[0].digits().unwrap().as_str(), shown[1].is_worker), ("abababababababab", true));
        drop((call, inner));
        assert!(calls(page).is_empty());
    }

    #[test]
    fn more_calls_than_there_are_places_are_not_shown_and_nobody_waits() {
        let page = page();
        let many: Vec<_> = (0..2 * MOST_CALLS).map(|_| begin(page, Activity::Own, 0, None)).collect();
        let shown = calls(page).len();
        assert!((LOOKS..=MOST_CALLS).contains(&shown), "{shown}");
        drop(many);
        assert!(calls(page).is_empty());
    }

    #[test]
    fn numbers_of_two_calls_are_never_mixed() {
        let (page, ends) = (page(), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 1..=4_u8 {
                let ends = &ends;
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        let activity = Activity::of(number.into()).unwrap();
                        drop(begin(page, activity, number.into(), Some(&[number; 32])));
                    }
                });
            }
            for _ in 0..2_000 {
                for call in calls(page) {
                    let number = call.activity.unwrap() as u64;
                    assert_eq!(call.stages.as_raw(), number as u32, "{call:?}");
                    assert_eq!(call.key, Some(live::key_number(&[number as u8; 32])), "{call:?}");
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(calls(page).is_empty());
    }

    /// What the page costs a call: all that a pipeline of the program's has written there.
    #[test]
    #[ignore = "prints times"]
    fn what_a_call_costs() {
        const CALLS: u32 = 1_000_000;
        crate::live::open(|| ("costs".to_owned(), None::<&str>));
        let (key, stages) = ([7; 32], vk::ShaderStageFlags::COMPUTE);
        let rounds = (0..9).map(|_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                let call = Call::begin(began, Activity::Capture, stages);
                call.knows(&key);
                for activity in [Activity::Parked, Activity::Driver, Activity::Stash, Activity::Compile] {
                    call.goes_on(activity);
                }
                crate::live::count(Count::Compiled, 1);
                crate::live::count(Count::CompileNanos, 1_000);
            }
            began.elapsed().as_nanos() as f64 / f64::from(CALLS)
        });
        let mut rounds: Vec<f64> = rounds.collect();
        rounds.sort_by(f64::total_cmp);
        println!("{:.1} ns, {:.1} to {:.1}", rounds[4], rounds[0], rounds[8]);
        assert!(calls(super::super::page().unwrap()).is_empty());
    }
}
