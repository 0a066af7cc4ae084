//! Which sources are asked for a pipeline before it is compiled, and in which order.

use Source::{Companion, Driver, Parked, Stash};

use vkstash_model::steps::{OrderReason, StepSource};

/// Where a pipeline may be that need not be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Background work has made it.
    Parked,
    /// The driver's caches: the program's own call is the question.
    Driver,
    /// The stash.
    Stash,
    /// A cache of the layer's with what the program's would hold without the stash.
    Companion,
}

impl Source {
    /// The word for it.
    pub fn step_source(self) -> StepSource {
        match self {
            Parked => StepSource::Parked,
            Driver => StepSource::Driver,
            Stash => StepSource::Stash,
            Companion => StepSource::Companion,
        }
    }
}

/// The order, and what has decided about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The reason.
    pub reason: OrderReason,
    /// Each is asked if those before it do not have the pipeline.
    pub sources: &'static [Source],
}

/// What decides about the order, of a request and of the device. The default is a request for which no source but the
/// stash may be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Only what is parked may be handed out.
    pub parked_alone: bool,
    /// The stash knows that the driver answers this key with an error: it goes down once, as the program made it.
    pub has_failed: bool,
    /// The program has just been told that there is nothing, by a call that forbids compiling, and makes it again.
    pub was_just_refused: bool,
    /// The driver may be asked what its caches have. It may only where the companion may.
    pub may_ask_driver: bool,
    /// The companion may be asked.
    pub may_ask_companion: bool,
    /// The driver's turn is before the stash's on this driver, with the program's habit.
    pub driver_is_first: bool,
    /// Asking the driver has been worth it lately.
    pub driver_is_worth_asking: bool,
    /// The program forbids compiling: what goes down in the end is a question to the driver.
    pub forbids_compiling: bool,
    /// The driver's object behind the cache that the program passed may have a pipeline of these shaders.
    pub driver_object_may_have: bool,
    /// The program asks whether its cache has the pipeline. The driver may have put it there, so it answers before the
    /// stash does.
    pub answer_is_the_drivers: bool,
    /// What the driver has on its disk is found by the call that records at the price of a question.
    pub recording_finds_disk: bool,
    /// A question in vain takes the driver long.
    pub questions_are_dear: bool,
}

/// The order. What is had nowhere is compiled, or refused.
pub fn order(facts: &Facts) -> Order {
    let by = |reason, sources: &'static [Source]| Order { reason, sources };
    if facts.parked_alone {
        by(OrderReason::BaseMissing, &[Parked])
    } else if facts.has_failed {
        by(OrderReason::Failed, &[Parked, Stash])
    } else if facts.was_just_refused {
        by(OrderReason::JustRefused, &[Parked, Stash])
    } else if !facts.may_ask_companion {
        by(OrderReason::NoCacheControl, &[Parked, Stash])
    } else if !facts.may_ask_driver {
        by(OrderReason::NoQuestion, &[Parked, Stash, Companion])
    } else if facts.answer_is_the_drivers {
        by(OrderReason::Feedback, &[Driver, Parked, Stash, Companion])
    } else if facts.driver_is_first && facts.driver_is_worth_asking {
        by(OrderReason::DriverFirst, &[Parked, Driver, Stash, Companion])
    } else {
        let reason = if facts.driver_is_first { OrderReason::NothingLately } else { OrderReason::StashFirst };
        by(reason, after_stash(facts))
    }
}

/// The order where the stash is asked before the driver.
fn after_stash(facts: &Facts) -> &'static [Source] {
    if !asks_driver_after_stash(facts) {
        &[Parked, Stash, Companion]
    } else if facts.driver_object_may_have {
        &[Parked, Stash, Driver, Companion]
    } else {
        // Only the driver's disk may have it: 8 ms for the first pipeline that NVIDIA reads there.
        &[Parked, Stash, Companion, Driver]
    }
}

/// Whether the driver is asked before something is compiled through a cache of the layer's, which does not have what
/// the driver's own has.
fn asks_driver_after_stash(facts: &Facts) -> bool {
    !facts.forbids_compiling
        && (facts.driver_object_may_have || !facts.recording_finds_disk)
        && (facts.driver_is_worth_asking || !facts.questions_are_dear)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request for which both may be asked, on a driver whose questions are cheap, which is asked first.
    const USUAL: Facts = Facts {
        parked_alone: false,
        has_failed: false,
        was_just_refused: false,
        may_ask_driver: true,
        may_ask_companion: true,
        driver_is_first: true,
        driver_is_worth_asking: true,
        forbids_compiling: false,
        driver_object_may_have: false,
        answer_is_the_drivers: false,
        recording_finds_disk: false,
        questions_are_dear: false,
    };

    /// RADV: what its disk has is found by the call that records, and a question in vain takes 0.8 ms.
    const RADV: Facts = Facts { recording_finds_disk: true, questions_are_dear: true, ..USUAL };

    /// NVIDIA's with one cache for all calls: the disk is dear, and asked by the call that records.
    const NVIDIA_SHARED: Facts = Facts { driver_is_first: false, recording_finds_disk: true, ..USUAL };

    /// Requests, and the sources that are asked for each in turn.
    const TABLE: &[(&str, Facts, &[Source])] = &[
        ("the usual", USUAL, &[Parked, Driver, Stash, Companion]),
        ("RADV", RADV, &[Parked, Driver, Stash, Companion]),
        ("NVIDIA, one cache", NVIDIA_SHARED, &[Parked, Stash, Companion]),
        (
            "NVIDIA, one cache that has met the shaders",
            Facts { driver_object_may_have: true, ..NVIDIA_SHARED },
            &[Parked, Stash, Driver, Companion],
        ),
        (
            "NVIDIA, one cache, and workers record what the driver has",
            Facts { recording_finds_disk: false, ..NVIDIA_SHARED },
            &[Parked, Stash, Companion, Driver],
        ),
        (
            "the driver has had nothing lately, but its disk may be all that has it",
            Facts { driver_is_worth_asking: false, ..USUAL },
            &[Parked, Stash, Companion, Driver],
        ),
        (
            "the same on RADV, where the call that records finds it",
            Facts { driver_is_worth_asking: false, ..RADV },
            &[Parked, Stash, Companion],
        ),
        (
            "the same where the program's cache may have it",
            Facts { driver_is_worth_asking: false, driver_object_may_have: true, ..RADV },
            &[Parked, Stash, Companion],
        ),
        (
            "the user has the stash asked first",
            Facts { driver_is_first: false, ..USUAL },
            &[Parked, Stash, Companion, Driver],
        ),
        ("the same on RADV", Facts { driver_is_first: false, ..RADV }, &[Parked, Stash, Companion]),
        (
            "the same on RADV where the program's cache may have it",
            Facts { driver_is_first: false, driver_object_may_have: true, ..RADV },
            &[Parked, Stash, Driver, Companion],
        ),
        (
            "the program forbids compiling: its own call comes last, and is a question",
            Facts { forbids_compiling: true, driver_is_first: false, ..USUAL },
            &[Parked, Stash, Companion],
        ),
        (
            "the same where the driver is first",
            Facts { forbids_compiling: true, ..USUAL },
            &[Parked, Driver, Stash, Companion],
        ),
        (
            "the program wants to know whether its cache had it",
            Facts { answer_is_the_drivers: true, driver_is_worth_asking: false, ..RADV },
            &[Driver, Parked, Stash, Companion],
        ),
        (
            "an identifier of the layer's, which the driver cannot resolve",
            Facts { may_ask_driver: false, ..USUAL },
            &[Parked, Stash, Companion],
        ),
        (
            "no cache control",
            Facts { may_ask_driver: false, may_ask_companion: false, ..USUAL },
            &[Parked, Stash],
        ),
        ("a key that has failed", Facts { has_failed: true, ..USUAL }, &[Parked, Stash]),
        (
            "the program makes a call again that was just refused",
            Facts { was_just_refused: true, ..USUAL },
            &[Parked, Stash],
        ),
        ("a deferred call whose base is missing", Facts { parked_alone: true, ..USUAL }, &[Parked]),
    ];

    #[test]
    fn the_table() {
        for (what, facts, expected) in TABLE {
            assert_eq!(order(facts).sources, *expected, "{what}");
        }
    }

    /// Every combination of facts.
    #[test]
    fn each_source_is_asked_once_and_only_where_it_may_be() {
        for bits in 0..1_u32 << 12 {
            let is = |bit: u32| bits & 1 << bit != 0;
            let facts = Facts {
                parked_alone: is(0),
                may_ask_driver: is(1),
                may_ask_companion: is(2),
                driver_is_first: is(3),
                driver_is_worth_asking: is(4),
                forbids_compiling: is(5),
                driver_object_may_have: is(6),
                answer_is_the_drivers: is(7),
                recording_finds_disk: is(8),
                questions_are_dear: is(9),
                has_failed: is(10),
                was_just_refused: is(11),
            };
            let order = order(&facts).sources;
            let count = |source| order.iter().filter(|one| **one == source).count();
            assert_eq!(count(Parked), 1, "{facts:?}");
            assert_eq!(count(Stash), usize::from(!facts.parked_alone), "{facts:?}");
            let is_open = !(facts.parked_alone || facts.has_failed || facts.was_just_refused);
            assert!(count(Driver) <= usize::from(facts.may_ask_driver && is_open), "{facts:?}");
            assert!(count(Companion) <= usize::from(facts.may_ask_companion && is_open), "{facts:?}");
        }
    }
}
