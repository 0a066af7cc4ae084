//! Limit on questions of workers to the driver: whether it still has a pipeline that it had in its own caches in an
//! earlier run.
//!
//! A question says FAIL_ON_COMPILE_REQUIRED, so it should take no longer than finding the pipeline, and cost little
//! where the driver's caches were lost. Where a driver answers otherwise, no more is asked on this device.
//!
//! What a question costs is the processor time of its thread. On an H200 two workers were in the driver for 15 ms at
//! the same time, in each run of a program, without computing: that says nothing of the other questions.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use rustix::time::{ClockId, clock_gettime};

use crate::faults;
use vkstash_host::thread;

/// What all questions may compute together: so long, and so long for each. A driver may initialise something in the
/// first ones: on an H200 one of the first nine computed for 10 ms, or three of them for 2.
const FREE: Duration = Duration::from_millis(40);
const EACH: Duration = Duration::from_millis(1);
/// After so many questions in vain, one after the other, the driver is asked for one key in so many.
const IN_VAIN: u32 = 8;
const ONE_IN: u32 = 64;
/// A question that takes so long is in vain whatever its answer is: the driver waits for something, or computes.
const LONG_WAIT: Duration = Duration::from_millis(10);

/// What the questions on one device have brought.
#[derive(Default)]
pub struct Questions {
    /// Questions in vain since the last one that brought a pipeline.
    in_vain: AtomicU32,
    /// Keys that came up while the last [`IN_VAIN`] questions were in vain; never reset.
    left_out: AtomicU32,
    asked: AtomicU32,
    /// Nanoseconds of processor time that the questions have taken.
    ran: AtomicU64,
    is_over: AtomicBool,
}

/// Measures a question.
pub struct Watch {
    since: Instant,
    ran: Duration,
    waited: Option<Duration>,
}

/// What a question took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Took {
    /// Processor time that the question took.
    ran: Duration,
    /// Time from the question's begin to its end, less the wait for a processor, which says nothing of the driver.
    elapsed: Duration,
}

/// How long the calling thread has had a processor.
fn ran() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long this thread has waited for a processor since it started.
fn waited() -> Option<Duration> {
    thread::times().map(|times| times.waited)
}

impl Watch {
    /// A question is put.
    pub fn begin() -> Watch {
        Watch { waited: waited(), ran: ran(), since: Instant::now() }
    }

    fn took(&self) -> Took {
        let elapsed = self.since.elapsed();
        let ran = ran().saturating_sub(self.ran);
        if elapsed < faults::time_limit(LONG_WAIT) {
            return Took { ran, elapsed };
        }
        let waited = self.waited.zip(waited()).map(|(before, now)| now.saturating_sub(before));
        Took { ran, elapsed: elapsed.saturating_sub(waited.unwrap_or_default()) }
    }
}

impl Questions {
    /// Whether the driver may be asked one more question.
    pub fn may_ask(&self) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let has_no_answers = self.in_vain.load(Ordering::Relaxed) >= IN_VAIN;
        !has_no_answers || self.left_out.fetch_add(1, Ordering::Relaxed) % ONE_IN == ONE_IN - 1
    }

    /// A question was answered.
    pub fn note(&self, watch: &Watch, answer: vk::Result) {
        self.note_took(watch.took(), answer);
    }

    fn note_took(&self, took: Took, answer: vk::Result) {
        match answer {
            _ if took.elapsed >= faults::time_limit(LONG_WAIT) => {
                _ = self.in_vain.fetch_add(1, Ordering::Relaxed)
            }
            vk::Result::SUCCESS => self.in_vain.store(0, Ordering::Relaxed),
            vk::Result::PIPELINE_COMPILE_REQUIRED => _ = self.in_vain.fetch_add(1, Ordering::Relaxed),
            // An error that came at once says nothing of what the driver has.
            _ => {}
        }
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let took = took.ran.as_nanos().min(u128::from(u64::MAX / 2)) as u64;
        let ran = Duration::from_nanos(self.ran.fetch_add(took, Ordering::Relaxed).saturating_add(took));
        if ran > faults::time_limit(FREE) + EACH * asked && !self.is_over.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "this driver computes for {ran:?} to say of {asked} pipelines whether it has them: workers ask no more"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Took = computed(Duration::from_micros(60));
    const HAD: vk::Result = vk::Result::SUCCESS;
    const REQUIRED: vk::Result = vk::Result::PIPELINE_COMPILE_REQUIRED;

    const fn computed(time: Duration) -> Took {
        Took { ran: time, elapsed: time }
    }

    #[test]
    fn a_driver_that_has_nothing_any_more_is_asked_for_one_in_64() {
        let questions = Questions::default();
        let ask = |was_there: bool| {
            let may = questions.may_ask();
            if may {
                questions.note_took(SHORT, if was_there { HAD } else { REQUIRED });
            }
            may
        };
        assert!((0..7).all(|_| ask(false)) && ask(true), "seven are no reason");
        assert!((0..8).all(|_| ask(false)));
        let asked: Vec<usize> = (0..200).filter(|_| ask(false)).collect();
        assert_eq!(asked, [63, 127, 191]);
        assert_eq!(
            (0..64).filter(|_| ask(true)).count(),
            9,
            "the first answer ends it: 56 later than the last one"
        );
        assert!((0..20).all(|_| ask(true)));
        (0..20).for_each(|_| questions.note_took(SHORT, vk::Result::ERROR_UNKNOWN));
        assert!(questions.may_ask(), "an error");
    }

    #[test]
    fn a_driver_that_computes_for_long_is_asked_no_more() {
        let ask = |questions: &Questions, count: u64, took: Duration| {
            (0..count).take_while(|_| questions.may_ask()).for_each(|_| {
                questions.note_took(Took { ran: took, ..SHORT }, HAD);
            });
            questions.may_ask()
        };
        let millis = Duration::from_millis;
        let first = Questions::default();
        assert!(ask(&first, 1, millis(41)) && !ask(&first, 1, millis(3)), "one, and one more");
        let all = Questions::default();
        assert!(ask(&all, 1, millis(30)) && ask(&all, 500, EACH), "after what the first one took");
        assert!(!ask(&all, 20, millis(2)), "ten too many");
    }

    #[test]
    fn a_driver_that_waits_is_asked_as_rarely_as_one_that_has_nothing() {
        let questions = Questions::default();
        let waits = Took { elapsed: LONG_WAIT, ..SHORT };
        let ask = |took: Took| {
            let may = questions.may_ask();
            if may {
                questions.note_took(took, HAD);
            }
            may
        };
        assert!((0..7).all(|_| ask(waits)) && ask(SHORT), "seven may have waited for the program");
        assert!((0..8).all(|_| ask(waits)));
        assert_eq!((0..200).filter(|_| ask(waits)).count(), 3);
    }

    #[test]
    fn a_wait_is_no_processor_time() {
        let watch = Watch::begin();
        std::thread::sleep(Duration::from_millis(20));
        let took = watch.took();
        assert!(took.elapsed > took.ran, "{took:?}");
        let watch = Watch::begin();
        while watch.took().ran < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
    }
}
