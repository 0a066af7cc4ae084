//! A session in one sentence.

use vkstash_store::reports::waiting::LONG_NS;

use super::session::Session;
use crate::term::time::{day, span};
use crate::term::units::counted;

impl Session {
    /// `no stutters from compiling, longest wait 3 ms; 415 of 415 pipelines were ready`.
    pub(crate) fn sentence(&self) -> String {
        match self.ready_words() {
            None => self.empty().to_owned(),
            Some(ready) => format!("{}; {ready}", self.verdict()),
        }
    }

    /// How it felt, without what was ready.
    fn verdict(&self) -> String {
        if self.is_small() {
            return format!("nothing to gain: {} in all", span(self.calls_ns.saturating_add(self.saved_ns)));
        }
        let others = || match self.other_threads_ns {
            waited if self.presents() && waited >= LONG_NS => {
                format!(", {} of waiting on other threads", span(waited))
            }
            _ => String::new(),
        };
        match (self.presents(), self.long()) {
            (true, 0) => {
                format!("no stutters from compiling, longest wait {}{}", span(self.longest_ns()), others())
            }
            (false, 0) => format!("no call of 20 ms or more, the longest {}", span(self.longest_ns())),
            _ => self.long_words() + &others(),
        }
    }

    /// `23 stutters of 20 ms or more, the longest 402 ms, 12 s of waiting`.
    fn long_words(&self) -> String {
        let things = counted(self.long(), if self.presents() { "stutter" } else { "call" });
        let (longest, waiting) = (span(self.longest_ns()), span(self.waiting_ns()));
        format!("{things} of 20 ms or more, the longest {longest}, {waiting} of waiting")
    }

    /// The same of the first session, beside a later one. None: nothing in it was long.
    pub(crate) fn as_the_first(&self, now_ms: u64) -> Option<String> {
        let is_worth_it = self.long() > 0;
        is_worth_it
            .then(|| format!("first session, {}: {}", day(self.started_unix_ms, now_ms), self.long_words()))
    }

    /// What was ready. None: nothing was created.
    fn ready_words(&self) -> Option<String> {
        let ready = |ready: u64, all: u64, thing: &str| {
            let were = if all == 1 { "was" } else { "were" };
            (all > 0).then(|| format!("{ready} of {} {were} ready", counted(all, thing)))
        };
        let pipelines = ready(self.ready, self.pipelines, "pipeline");
        let shader_objects = ready(self.ready_shader_objects, self.shader_objects, "shader object");
        let left = (self.pipelines == 0 && self.bypassed > 0)
            .then(|| format!("{} left to the driver", counted(self.bypassed, "pipeline")));
        let words: Vec<_> = [pipelines, shader_objects, left].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    fn empty(&self) -> &'static str {
        match (self.goes_on, self.is_over) {
            (true, _) => "has created no pipeline yet",
            (false, true) => "created no pipeline",
            (false, false) => "had created no pipeline when it last reported, and did not end in order",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A game that has been played: everything was ready.
    fn played() -> Session {
        Session {
            is_over: true,
            ready: 415,
            pipelines: 415,
            saved_ns: 12_000 * MS,
            calls: 415,
            calls_ns: 41 * MS,
            longest_call_ns: 3 * MS,
            frames: 10_000,
            longest_wait_ns: 3 * MS,
            waited_ns: 41 * MS,
            ..Session::default()
        }
    }

    fn stuttered() -> Session {
        Session {
            ready: 12,
            calls_ns: 11_000 * MS,
            longest_call_ns: 300 * MS,
            long_calls: 20,
            stutters: 19,
            longest_stutter_ns: 310 * MS,
            waited_ns: 11_000 * MS,
            ..played()
        }
    }

    #[test]
    fn frames_are_judged_by_their_stutters() {
        let expected = "no stutters from compiling, longest wait 3 ms; 415 of 415 pipelines were ready";
        assert_eq!(played().sentence(), expected);
        let expected = "19 stutters of 20 ms or more, the longest 310 ms, 11 s of waiting; 12 of 415 pipelines were ready";
        assert_eq!(stuttered().sentence(), expected);
        let one = Session { stutters: 1, ready: 1, pipelines: 1, ..stuttered() };
        assert!(one.sentence().starts_with("1 stutter of 20 ms or more, "));
        assert!(one.sentence().ends_with("; 1 of 1 pipeline was ready"));
        let others = Session { other_threads_ns: 4_200 * MS, ..played() };
        let expected = "no stutters from compiling, longest wait 3 ms, 4.2 s of waiting on other threads; ";
        assert!(others.sentence().starts_with(expected), "{}", others.sentence());
    }

    #[test]
    fn a_program_that_presents_nothing_is_judged_by_its_calls() {
        let ready = Session { frames: 0, waited_ns: 0, other_threads_ns: 41 * MS, ..played() };
        let expected = "no call of 20 ms or more, the longest 3 ms; 415 of 415 pipelines were ready";
        assert_eq!(ready.sentence(), expected);
        let waited = Session { frames: 0, stutters: 0, waited_ns: 0, ..stuttered() };
        let expected = "20 calls of 20 ms or more, the longest 300 ms, 11 s of waiting; ";
        assert!(waited.sentence().starts_with(expected), "{}", waited.sentence());
    }

    #[test]
    fn where_all_of_it_is_less_than_a_stutter_nothing_can_be_gained() {
        let small = Session { saved_ns: 0, calls_ns: 2 * MS, ready: 0, pipelines: 1, ..stuttered() };
        assert_eq!(small.sentence(), "nothing to gain: 2 ms in all; 0 of 1 pipeline was ready");
        let saved = Session { saved_ns: LONG_NS - MS, calls_ns: MS, ..played() };
        assert!(!saved.sentence().contains("nothing to gain"));
    }

    #[test]
    fn what_was_created_besides_is_said() {
        let objects =
            Session { pipelines: 0, ready: 0, ready_shader_objects: 7, shader_objects: 8, ..played() };
        assert!(objects.sentence().ends_with("; 7 of 8 shader objects were ready"));
        let both = Session { shader_objects: 1, ..played() };
        let end = "; 415 of 415 pipelines were ready, 0 of 1 shader object was ready";
        assert!(both.sentence().ends_with(end));
        let left = Session { pipelines: 0, ready: 0, bypassed: 3, ..played() };
        assert!(left.sentence().ends_with("; 3 pipelines left to the driver"));
    }

    #[test]
    fn nobody_says_that_a_killed_program_created_nothing() {
        let over = Session { is_over: true, ..Session::default() };
        assert_eq!(over.sentence(), "created no pipeline");
        let killed = Session::default().sentence();
        assert!(killed.ends_with("when it last reported, and did not end in order"), "{killed}");
        assert_eq!(Session { goes_on: true, ..Session::default() }.sentence(), "has created no pipeline yet");
    }

    #[test]
    fn the_first_session_is_compared_where_it_stuttered() {
        let first = Session { started_unix_ms: 0, ..stuttered() };
        let words = first.as_the_first(20 * 24 * 60 * 60 * 1000).unwrap();
        assert!(words.starts_with("first session, 19"), "{words}");
        assert!(words.ends_with(": 19 stutters of 20 ms or more, the longest 310 ms, 11 s of waiting"));
        assert_eq!(played().as_the_first(0), None);
    }
}
