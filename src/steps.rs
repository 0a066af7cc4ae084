//! Steps that are tried for a pipeline, in order, with the time of each: for traces, and for the timeline of the run.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ash::vk;

use crate::live::call::Call;
use vkstash_model::live::Activity;
use vkstash_model::record::Key;
use vkstash_model::steps::Step;
use vkstash_model::steps::{CreationResult, OrderReason, StepAnswer, StepSource, tenths};
use vkstash_store::reports::timeline::{Creation, MOST_STEPS};

/// What is tried for one pipeline. It is kept on the stack of the call.
pub struct Steps {
    began: Instant,
    /// The frame in which it begins, 0 for none.
    frame: u32,
    last: Instant,
    /// Why these sources were asked, in this order.
    pub reason: OrderReason,
    count: usize,
    steps: [Step; MOST_STEPS],
    /// What others see of it meanwhile.
    live: Call,
}

impl Steps {
    /// The call begins in this frame, of a pipeline with these stages.
    pub fn begin(stages: vk::ShaderStageFlags, frame: u32) -> Steps {
        let now = Instant::now();
        let live = Call::begin(now, Activity::Capture, stages);
        Steps {
            began: now,
            frame,
            last: now,
            reason: OrderReason::PassedOn,
            count: 0,
            steps: Default::default(),
            live,
        }
    }

    /// The pipeline is described.
    #[inline]
    pub fn knows(&self, key: &Key) {
        self.live.knows(key);
    }

    /// This is tried now.
    #[inline]
    pub fn asks(&self, source: StepSource) {
        self.live.goes_on(match source {
            StepSource::Parked => Activity::Parked,
            StepSource::Driver => Activity::Driver,
            StepSource::Stash => Activity::Stash,
            StepSource::Companion => Activity::Companion,
            StepSource::Compile => Activity::Compile,
            StepSource::Own => Activity::Own,
        });
    }

    /// This was tried since the step before, or since the call began.
    pub fn add(&mut self, source: StepSource, answer: StepAnswer) {
        let now = Instant::now();
        if let Some(step) = self.steps.get_mut(self.count) {
            let tenths = tenths(now.saturating_duration_since(self.last));
            *step = Step { source: source as u8, answer: answer as u8, tenths };
            self.count += 1;
        }
        self.last = now;
    }

    /// Tries this, and notes what `work` says has come of it.
    pub fn try_out<T>(&mut self, source: StepSource, work: impl FnOnce() -> (StepAnswer, T)) -> T {
        self.asks(source);
        self.last = Instant::now();
        let (answer, result) = work();
        self.add(source, answer);
        result
    }

    /// The call has ended, with the last step.
    pub fn creation(&self, key: &Key, result: CreationResult) -> Creation {
        let took = self.last.saturating_duration_since(self.began);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut half = [0; 16];
        half.copy_from_slice(&key[..16]);
        Creation {
            key: half,
            unix_us: u64::try_from(now.saturating_sub(took).as_micros()).unwrap_or(u64::MAX),
            tenths: tenths(took),
            reason: self.reason as u8,
            result: result as u8,
            count: self.count as u8,
            steps: self.steps,
            frame: self.frame,
        }
    }
}

#[cfg(test)]
mod tests {
    use vkstash_model::steps::words;

    use super::*;

    #[test]
    fn steps_add_up_to_the_call_and_no_more_are_kept_than_there_is_room_for() {
        let mut steps = Steps::begin(vk::ShaderStageFlags::COMPUTE, 8120);
        for _ in 0..MOST_STEPS + 2 {
            steps.add(StepSource::Stash, StepAnswer::Refused);
        }
        let creation = steps.creation(&[7; 32], CreationResult::Error);
        assert_eq!((creation.steps().len(), creation.frame), (MOST_STEPS, 8120));
        assert!(creation.is_of(&[7; 32]) && !creation.is_of(&[8; 32]));
        let sum: u32 = creation.steps().iter().map(|step| step.tenths).sum();
        assert!(sum <= creation.tenths);
        assert_eq!(words(&creation.steps()[0]), "stash refused");
    }
}
