//! Whether workers may ask the driver for pipelines that it had in its own caches in an earlier run.
//!
//! A question says FAIL_ON_COMPILE_REQUIRED, so it should take no longer than finding the pipeline, and cost little
//! where the driver's caches were lost. Where a driver answers otherwise, no more is asked on this device.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ash::vk;

use crate::faults;
use vkstash_store::base::thread;

/// One question that takes so long ends it: vkDestroyDevice waits for it.
const TOO_LONG: Duration = Duration::from_millis(10);
/// So many that take this long do.
const LONG: Duration = Duration::from_millis(2);
const MOST_LONG: u32 = 3;
/// After so many in vain, one after the other, one key in so many is asked for.
const IN_VAIN: u32 = 8;
const ONE_IN: u32 = 64;

/// What the questions on one device have brought.
#[derive(Default)]
pub struct Questions {
    /// In vain, since the last that was not.
    in_vain: AtomicU32,
    /// Keys that came up since there were too many of those.
    left_out: AtomicU32,
    long: AtomicU32,
    is_over: AtomicBool,
}

/// What a question takes.
pub struct Watch {
    since: Instant,
    waited: Option<Duration>,
}

/// How long the calling thread has waited for a processor, which says nothing of the driver.
fn waited() -> Option<Duration> {
    thread::times().map(|times| times.waited)
}

impl Watch {
    /// A question is put.
    pub fn begin() -> Watch {
        Watch { waited: waited(), since: Instant::now() }
    }

    fn took(&self) -> Duration {
        let elapsed = self.since.elapsed();
        if elapsed < faults::time_limit(LONG) {
            return elapsed;
        }
        let waited = self.waited.zip(waited()).map(|(before, now)| now.saturating_sub(before));
        elapsed.saturating_sub(waited.unwrap_or_default())
    }
}

impl Questions {
    /// Whether one more may be put.
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

    fn note_took(&self, took: Duration, answer: vk::Result) {
        match answer {
            vk::Result::SUCCESS => self.in_vain.store(0, Ordering::Relaxed),
            vk::Result::PIPELINE_COMPILE_REQUIRED => _ = self.in_vain.fetch_add(1, Ordering::Relaxed),
            // An error says nothing of what the driver has.
            _ => {}
        }
        let [long, too_long] = [LONG, TOO_LONG].map(faults::time_limit);
        let is_too_long = took >= too_long;
        if is_too_long || took >= long && self.long.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_LONG {
            tracing::info!(
                "this driver answers slowly whether it has a pipeline ({took:?}): workers ask no more"
            );
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(60);
    const HAD: vk::Result = vk::Result::SUCCESS;
    const REQUIRED: vk::Result = vk::Result::PIPELINE_COMPILE_REQUIRED;

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
    fn a_driver_that_answers_slowly_is_asked_no_more() {
        let questions = Questions::default();
        questions.note_took(TOO_LONG - Duration::from_micros(1), HAD);
        questions.note_took(LONG, HAD);
        questions.note_took(LONG - Duration::from_micros(1), HAD);
        assert!(questions.may_ask());
        questions.note_took(LONG, REQUIRED);
        assert!(!questions.may_ask(), "three");
        let questions = Questions::default();
        questions.note_took(TOO_LONG, HAD);
        assert!(!questions.may_ask(), "one");
    }
}
