//! What is tried for a pipeline, in which order, and what that takes: for traces, and for the timeline of the run.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ash::vk;

use crate::live::call::Call;
use vkstash_model::live::Activity;
use vkstash_model::tried::{Asked, Got, Said, Why, tenths};
use vkstash_store::format::record::Key;
use vkstash_store::reports::timeline::{Creation, MOST_STEPS, Step};

/// What is tried for one pipeline. It is kept on the stack of the call.
pub struct Tried {
    began: Instant,
    last: Instant,
    why: Why,
    count: usize,
    steps: [Step; MOST_STEPS],
    /// What others see of it meanwhile.
    live: Call,
}

impl Tried {
    /// The call begins, of a pipeline with these stages.
    pub fn begin(stages: vk::ShaderStageFlags) -> Tried {
        let now = Instant::now();
        let live = Call::begin(now, Activity::Capture, stages);
        Tried { began: now, last: now, why: Why::PassedOn, count: 0, steps: Default::default(), live }
    }

    /// The pipeline is described.
    #[inline]
    pub fn knows(&self, key: &Key) {
        self.live.knows(key);
    }

    /// This is tried now.
    #[inline]
    pub fn asks(&self, source: Asked) {
        self.live.goes_on(match source {
            Asked::Parked => Activity::Parked,
            Asked::Driver => Activity::Driver,
            Asked::Stash => Activity::Stash,
            Asked::Companion => Activity::Companion,
            Asked::Compile => Activity::Compile,
            Asked::Own => Activity::Own,
        });
    }

    /// The order is known, and the first step begins.
    pub fn because(&mut self, why: Why) {
        self.why = why;
        self.last = Instant::now();
    }

    /// This was tried since the order was known, or since the step before.
    pub fn step(&mut self, source: Asked, answer: Said) {
        let now = Instant::now();
        if let Some(step) = self.steps.get_mut(self.count) {
            let tenths = tenths(now.saturating_duration_since(self.last));
            *step = Step { source: source as u8, answer: answer as u8, tenths };
            self.count += 1;
        }
        self.last = now;
    }

    /// The call has ended, with the last step.
    pub fn creation(&self, key: &Key, got: Got) -> Creation {
        let took = self.last.saturating_duration_since(self.began);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut half = [0; 16];
        half.copy_from_slice(&key[..16]);
        Creation {
            key: half,
            unix_us: u64::try_from(now.saturating_sub(took).as_micros()).unwrap_or(u64::MAX),
            tenths: tenths(took),
            why: self.why as u8,
            result: got as u8,
            count: self.count as u8,
            steps: self.steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use vkstash_model::tried::words;

    use super::*;

    #[test]
    fn steps_add_up_to_the_call_and_no_more_are_kept_than_there_is_room_for() {
        let mut tried = Tried::begin(vk::ShaderStageFlags::COMPUTE);
        for _ in 0..MOST_STEPS + 2 {
            tried.step(Asked::Stash, Said::Refused);
        }
        let creation = tried.creation(&[7; 32], Got::Error);
        assert_eq!(creation.steps().len(), MOST_STEPS);
        assert!(creation.is_of(&[7; 32]) && !creation.is_of(&[8; 32]));
        let sum: u32 = creation.steps().iter().map(|step| step.tenths).sum();
        assert!(sum <= creation.tenths);
        assert_eq!(words(&creation.steps()[0]), "stash refused");
    }
}
