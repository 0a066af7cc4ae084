//! Order of the sources that are asked for a pipeline before it is compiled, and what comes after them.

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

/// What comes after the sources, if none has the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The facts that cost something are found out, and decide about further sources.
    Facts,
    /// The driver compiles, or answers where the program forbids that.
    Compile,
    /// The driver gets the program's own call as it is.
    AsItIs,
}

/// The order, and what has decided about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The reason.
    pub reason: OrderReason,
    /// Each is asked if those before it do not have the pipeline.
    pub sources: &'static [Source],
    /// What comes after them.
    pub then: Then,
}

const fn by(reason: OrderReason, sources: &'static [Source], then: Then) -> Order {
    Order { reason, sources, then }
}

/// What decides before anything costly: next to nothing is looked up for it. The default is a request on a device with
/// cache control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFacts {
    /// There is nothing to compile, or nothing of a cache may stand in.
    pub passes_on: bool,
    /// Only what is parked may be handed out.
    pub parked_alone: bool,
    /// The stash knows that the driver answers this key with an error: it goes down once, as the program made it.
    pub has_failed: bool,
    /// The program has just been told that there is nothing, by a call that forbids compiling, and makes it again.
    pub was_just_refused: bool,
    /// The driver cannot be kept from compiling.
    pub lacks_cache_control: bool,
    /// The program asks whether its cache has the pipeline. The driver may have put it there, so it answers before the
    /// stash does. (Looked up only where the program asks.)
    pub answer_is_the_drivers: bool,
}

/// The order as far as it is known before anything costly.
pub fn first(facts: &FirstFacts) -> Order {
    if facts.passes_on {
        by(OrderReason::PassedOn, &[], Then::AsItIs)
    } else if facts.parked_alone {
        let then = if facts.has_failed { Then::AsItIs } else { Then::Compile };
        by(OrderReason::BaseMissing, &[Parked], then)
    } else if facts.has_failed {
        by(OrderReason::Failed, &[Parked, Stash], Then::AsItIs)
    } else if facts.was_just_refused {
        by(OrderReason::JustRefused, &[Parked, Stash], Then::Compile)
    } else if facts.lacks_cache_control {
        by(OrderReason::NoCacheControl, &[Parked, Stash], Then::Compile)
    } else if facts.answer_is_the_drivers {
        by(OrderReason::Feedback, &[Driver, Parked, Stash, Companion], Then::Compile)
    } else {
        by(OrderReason::ParkedFirst, &[Parked], Then::Facts)
    }
}

/// What decides about the order of a request for which nothing is parked, of the request and of the device. The default
/// is a request for which the driver may not be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The driver may be asked what its caches have.
    pub may_ask_driver: bool,
    /// The driver's turn is before the stash's on this driver, with the program's habit.
    pub driver_is_first: bool,
    /// Asking the driver has been worth it lately.
    pub driver_is_worth_asking: bool,
    /// The program forbids compiling: what goes down in the end is a question to the driver.
    pub forbids_compiling: bool,
    /// The driver's object behind the cache that the program passed may have a pipeline of these shaders.
    pub driver_object_may_have: bool,
    /// What the driver has on its disk is found by the call that records at the price of a question.
    pub recording_finds_disk: bool,
    /// A question in vain takes the driver long.
    pub questions_are_dear: bool,
}

/// The order where nothing is parked.
pub fn order(facts: &Facts) -> Order {
    if !facts.may_ask_driver {
        by(OrderReason::NoQuestion, &[Stash, Companion], Then::Compile)
    } else if facts.driver_is_first && facts.driver_is_worth_asking {
        by(OrderReason::DriverFirst, &[Driver, Stash, Companion], Then::Compile)
    } else {
        let reason = if facts.driver_is_first { OrderReason::NothingLately } else { OrderReason::StashFirst };
        by(reason, after_stash(facts), Then::Compile)
    }
}

/// The order where the stash is asked before the driver.
fn after_stash(facts: &Facts) -> &'static [Source] {
    if !asks_driver_after_stash(facts) {
        &[Stash, Companion]
    } else if facts.driver_object_may_have {
        &[Stash, Driver, Companion]
    } else {
        // Only the driver's disk may have it: 8 ms for the first pipeline that NVIDIA reads there.
        &[Stash, Companion, Driver]
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
        may_ask_driver: true,
        driver_is_first: true,
        driver_is_worth_asking: true,
        forbids_compiling: false,
        driver_object_may_have: false,
        recording_finds_disk: false,
        questions_are_dear: false,
    };

    /// RADV: what its disk has is found by the call that records, and a question in vain takes 0.8 ms.
    const RADV: Facts = Facts { recording_finds_disk: true, questions_are_dear: true, ..USUAL };

    /// NVIDIA's with one cache for all calls: the disk is dear, and asked by the call that records.
    const NVIDIA_SHARED: Facts = Facts { driver_is_first: false, recording_finds_disk: true, ..USUAL };

    /// Requests, and the sources that are asked for each in turn.
    const TABLE: &[(&str, Facts, &[Source])] = &[
        ("the usual", USUAL, &[Driver, Stash, Companion]),
        ("RADV", RADV, &[Driver, Stash, Companion]),
        ("NVIDIA, one cache", NVIDIA_SHARED, &[Stash, Companion]),
        (
            "NVIDIA, one cache that has met the shaders",
            Facts { driver_object_may_have: true, ..NVIDIA_SHARED },
            &[Stash, Driver, Companion],
        ),
        (
            "NVIDIA, one cache, and workers record what the driver has",
            Facts { recording_finds_disk: false, ..NVIDIA_SHARED },
            &[Stash, Companion, Driver],
        ),
        (
            "the driver has had nothing lately, but its disk may be all that has it",
            Facts { driver_is_worth_asking: false, ..USUAL },
            &[Stash, Companion, Driver],
        ),
        (
            "the same on RADV, where the call that records finds it",
            Facts { driver_is_worth_asking: false, ..RADV },
            &[Stash, Companion],
        ),
        (
            "the same where the program's cache may have it",
            Facts { driver_is_worth_asking: false, driver_object_may_have: true, ..RADV },
            &[Stash, Companion],
        ),
        (
            "the user has the stash asked first",
            Facts { driver_is_first: false, ..USUAL },
            &[Stash, Companion, Driver],
        ),
        ("the same on RADV", Facts { driver_is_first: false, ..RADV }, &[Stash, Companion]),
        (
            "the same on RADV where the program's cache may have it",
            Facts { driver_is_first: false, driver_object_may_have: true, ..RADV },
            &[Stash, Driver, Companion],
        ),
        (
            "the program forbids compiling: its own call comes last, and is a question",
            Facts { forbids_compiling: true, driver_is_first: false, ..USUAL },
            &[Stash, Companion],
        ),
        (
            "the same where the driver is first",
            Facts { forbids_compiling: true, ..USUAL },
            &[Driver, Stash, Companion],
        ),
        (
            "an identifier of the layer's, which the driver cannot resolve",
            Facts { may_ask_driver: false, ..USUAL },
            &[Stash, Companion],
        ),
    ];

    #[test]
    fn the_table() {
        for (what, facts, expected) in TABLE {
            assert_eq!(order(facts).sources, *expected, "{what}");
        }
    }

    /// What decides before anything else, and what is done.
    const FIRST: &[(&str, FirstFacts, &[Source], Then)] = &[
        ("the usual", USUALLY, &[Parked], Then::Facts),
        (
            "a fast link of the program's",
            FirstFacts { passes_on: true, has_failed: true, ..USUALLY },
            &[],
            Then::AsItIs,
        ),
        (
            "a deferred call whose base is missing",
            FirstFacts { parked_alone: true, was_just_refused: true, ..USUALLY },
            &[Parked],
            Then::Compile,
        ),
        (
            "a key that has failed",
            FirstFacts { has_failed: true, was_just_refused: true, ..USUALLY },
            &[Parked, Stash],
            Then::AsItIs,
        ),
        (
            "the program makes a call again that was just refused",
            FirstFacts { was_just_refused: true, answer_is_the_drivers: true, ..USUALLY },
            &[Parked, Stash],
            Then::Compile,
        ),
        (
            "no cache control",
            FirstFacts { lacks_cache_control: true, ..USUALLY },
            &[Parked, Stash],
            Then::Compile,
        ),
        (
            "the program wants to know whether its cache had it",
            FirstFacts { answer_is_the_drivers: true, ..USUALLY },
            &[Driver, Parked, Stash, Companion],
            Then::Compile,
        ),
    ];

    const USUALLY: FirstFacts = FirstFacts {
        passes_on: false,
        parked_alone: false,
        has_failed: false,
        was_just_refused: false,
        lacks_cache_control: false,
        answer_is_the_drivers: false,
    };

    #[test]
    fn what_decides_first() {
        for (what, facts, sources, then) in FIRST {
            let order = first(facts);
            assert_eq!((order.sources, order.then), (*sources, *then), "{what}");
        }
    }

    /// Every combination of facts.
    #[test]
    fn each_source_is_asked_once_and_only_where_it_may_be() {
        let count = |order: &Order, source| order.sources.iter().filter(|one| **one == source).count();
        for bits in 0..1_u32 << 7 {
            let is = |bit: u32| bits & 1 << bit != 0;
            let facts = Facts {
                may_ask_driver: is(0),
                driver_is_first: is(1),
                driver_is_worth_asking: is(2),
                forbids_compiling: is(3),
                driver_object_may_have: is(4),
                recording_finds_disk: is(5),
                questions_are_dear: is(6),
            };
            let order = order(&facts);
            assert_eq!((count(&order, Parked), count(&order, Stash)), (0, 1), "{facts:?}");
            assert!(count(&order, Driver) <= usize::from(facts.may_ask_driver), "{facts:?}");
            assert_eq!((count(&order, Companion), order.then), (1, Then::Compile), "{facts:?}");
        }
        for bits in 0..1_u32 << 6 {
            let is = |bit: u32| bits & 1 << bit != 0;
            let facts = FirstFacts {
                passes_on: is(0),
                parked_alone: is(1),
                has_failed: is(2),
                was_just_refused: is(3),
                lacks_cache_control: is(4),
                answer_is_the_drivers: is(5),
            };
            let order = first(&facts);
            assert_eq!(count(&order, Parked), usize::from(!facts.passes_on), "{facts:?}");
            let asks = count(&order, Driver) + count(&order, Companion);
            assert!(asks == 0 || !facts.lacks_cache_control && !facts.has_failed, "{facts:?}");
            assert_eq!(order.then == Then::Facts, facts == FirstFacts::default(), "{facts:?}");
        }
    }
}
