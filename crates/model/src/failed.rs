//! State of a key with which something has failed: the record *failed* of a device part, and the refusals that an
//! artifact counts itself. docs/process.md has the picture, docs/format.md the bytes.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

/// How often in a row the driver has refused what was recorded under a key (a byte of the artifact's payload). Drivers
/// give out data that they never take back: RADV does so for some ray tracing libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusals(pub u8);

impl Refusals {
    /// From so many on the artifact is neither offered nor recorded again with this device header.
    pub const LIMIT: Refusals = Refusals(3);

    /// Of what was just compiled without an artifact.
    pub const NONE: Refusals = Refusals(0);

    /// Those of an artifact with this payload.
    pub fn of(artifact: &[u8]) -> Refusals {
        Refusals(artifact.get(5).copied().unwrap_or(0))
    }

    /// With one more.
    pub fn and_one(self) -> Refusals {
        Refusals(self.0.saturating_add(1))
    }

    /// Whether the artifact is left alone.
    pub fn are_too_many(self) -> bool {
        self >= Refusals::LIMIT
    }
}

/// Name of a sibling in a record: the first bytes of the digest of the features that its devices enable.
pub type SiblingName = [u8; 8];

/// Name of an artifact in a record: the first bytes of its payload.
pub type ArtifactName = [u8; 8];

/// The end of a worker of `vkstash prewarm` while the driver compiled a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerEnd {
    /// The worker died.
    Died = 2,
    /// The worker took too long.
    Hung = 3,
    /// The worker took too much memory.
    Memory = 4,
}

/// What is known to have failed with a key. What is not known to fail is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failed {
    /// Nothing, or nothing any more.
    #[default]
    Nothing,
    /// The driver answers the program's call with an error: it gets that call unchanged.
    Error,
    /// A worker of `vkstash prewarm` has ended in this way: no worker tries the key again.
    Quarantined(WorkerEnd),
    /// The driver has refused this artifact to workers this number of times.
    RefusedToWorkers(u8, ArtifactName),
    /// Workers could not record the pipeline that the driver had, this number of times.
    NotRecorded(u8),
    /// The driver has refused the artifacts of all siblings.
    SiblingsRefused,
    /// The driver has refused the artifacts of some siblings, and has taken that of this one.
    SiblingTaken(SiblingName),
    /// This version cannot read the record. It may state any failure, so workers leave the key alone.
    Unknown,
}

/// An event that changes the state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The driver has answered the program's own call with an error that does not pass.
    Error,
    /// The driver has made the pipeline for the program.
    Success,
    /// A worker of `vkstash prewarm` has ended in this way.
    WorkerEnded(WorkerEnd),
    /// The user has released the key from quarantine.
    Released,
    /// The driver has refused this artifact to a worker.
    RefusedToWorker(ArtifactName),
    /// A worker could not record the pipeline that the driver had.
    NotRecorded,
    /// No worker can ever record the pipeline that the driver had.
    NeverRecorded,
    /// The driver has refused the artifacts of all siblings.
    SiblingsRefused,
    /// The driver has taken the artifact of this sibling, after it had refused another one.
    SiblingTaken(SiblingName),
}

/// The number of failures after which no worker tries the same again. One failure may be chance.
const MOST_TRIES: u8 = 2;

impl Failed {
    /// Reads a record.
    pub fn of(record: &[u8]) -> Failed {
        match *record {
            [0] => Failed::Nothing,
            [1] => Failed::Error,
            [2] => Failed::Quarantined(WorkerEnd::Died),
            [3] => Failed::Quarantined(WorkerEnd::Hung),
            [4] => Failed::Quarantined(WorkerEnd::Memory),
            [5, count, ref name @ ..] => {
                (*name).try_into().map_or(Failed::Unknown, |name| Failed::RefusedToWorkers(count, name))
            }
            [6, count] => Failed::NotRecorded(count),
            [7] => Failed::SiblingsRefused,
            [7, ref name @ ..] => (*name).try_into().map_or(Failed::Unknown, Failed::SiblingTaken),
            _ => Failed::Unknown,
        }
    }

    /// The record of this state. None: no record states it.
    pub fn record(self) -> Option<Box<[u8]>> {
        let of_name = |head: &[u8], name: [u8; 8]| head.iter().copied().chain(name).collect();
        Some(match self {
            Failed::Nothing => Box::new([0]),
            Failed::Error => Box::new([1]),
            Failed::Quarantined(end) => Box::new([end as u8]),
            Failed::RefusedToWorkers(count, artifact) => of_name(&[5, count], artifact),
            Failed::NotRecorded(count) => Box::new([6, count]),
            Failed::SiblingsRefused => Box::new([7]),
            Failed::SiblingTaken(name) => of_name(&[7], name),
            Failed::Unknown => return None,
        })
    }

    /// The state after an event. A grave state gives way to another grave one, and to the event that contradicts it: a
    /// success after an error, a release after a quarantine. A state about siblings gives way to a state about the
    /// key's own artifact.
    pub fn after(self, event: Event) -> Failed {
        match (self, event) {
            (_, Event::Error) => Failed::Error,
            (_, Event::WorkerEnded(end)) => Failed::Quarantined(end),
            (Failed::Error, Event::Success) | (Failed::Quarantined(_), Event::Released) => Failed::Nothing,
            (_, Event::Success | Event::Released) => self,
            _ if self.is_grave() => self,
            (_, Event::RefusedToWorker(artifact)) => {
                Failed::RefusedToWorkers(self.refused_to_workers(artifact).saturating_add(1), artifact)
            }
            (Failed::NotRecorded(count), Event::NotRecorded) => Failed::NotRecorded(count.saturating_add(1)),
            (_, Event::NotRecorded) => Failed::NotRecorded(1),
            (_, Event::NeverRecorded) => Failed::NotRecorded(MOST_TRIES),
            (Failed::RefusedToWorkers(..) | Failed::NotRecorded(_), _) => self,
            (_, Event::SiblingsRefused) => Failed::SiblingsRefused,
            (_, Event::SiblingTaken(name)) => Failed::SiblingTaken(name),
        }
    }

    /// Whether workers leave the key alone: a driver fails with it, a worker has died of it, or this version cannot
    /// read the record.
    pub fn is_grave(self) -> bool {
        matches!(self, Failed::Error | Failed::Quarantined(_) | Failed::Unknown)
    }

    /// Whether workers may record what the driver has of the key.
    pub fn may_be_recorded(self) -> bool {
        !self.is_grave() && !matches!(self, Failed::NotRecorded(MOST_TRIES..))
    }

    /// The artifact that workers do not offer to the driver any more. Programs may be served it all the same: the
    /// recipe of a link does not describe everything, so the driver may take the artifact in the program's own call.
    pub fn not_offered_by_workers(&self) -> Option<&ArtifactName> {
        if let Failed::RefusedToWorkers(MOST_TRIES.., artifact) = self { Some(artifact) } else { None }
    }

    /// How often the driver has refused this artifact to workers.
    fn refused_to_workers(self, artifact: ArtifactName) -> u8 {
        match self {
            Failed::RefusedToWorkers(count, of) if of == artifact => count,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ArtifactName = [1; 8];
    const B: ArtifactName = [2; 8];
    const DIED: WorkerEnd = WorkerEnd::Died;

    const EVENTS: [Event; 10] = [
        Event::Error,
        Event::Success,
        Event::WorkerEnded(DIED),
        Event::Released,
        Event::RefusedToWorker(A),
        Event::RefusedToWorker(B),
        Event::NotRecorded,
        Event::NeverRecorded,
        Event::SiblingsRefused,
        Event::SiblingTaken(A),
    ];

    /// What a state is called in the table: of artifacts and siblings A and B.
    fn state(word: &str) -> Failed {
        let name = |letter| if letter == "A" { A } else { B };
        let number = |digits: &str| digits.parse().unwrap();
        match *word.split(' ').collect::<Vec<_>>() {
            ["nothing"] => Failed::Nothing,
            ["error"] => Failed::Error,
            ["died"] => Failed::Quarantined(DIED),
            ["unknown"] => Failed::Unknown,
            ["refused", letter, count] => Failed::RefusedToWorkers(number(count), name(letter)),
            ["not", count] => Failed::NotRecorded(number(count)),
            ["siblings"] => Failed::SiblingsRefused,
            ["sibling", letter] => Failed::SiblingTaken(name(letter)),
            _ => panic!("{word}"),
        }
    }

    /// A row for each state, a column for each of [`EVENTS`], in their order. "=": the state stays.
    const TABLE: &str = "
        nothing       | error | = | died | =       | refused A 1 | refused B 1 | not 1 | not 2 | siblings | sibling A
        error         | = | nothing | died | =     | =           | =           | =     | =     | =        | =
        died          | error | = | =    | nothing | =           | =           | =     | =     | =        | =
        unknown       | error | = | died | =       | =           | =           | =     | =     | =        | =
        refused A 1   | error | = | died | =       | refused A 2 | refused B 1 | not 1 | not 2 | =        | =
        refused A 255 | error | = | died | =       | =           | refused B 1 | not 1 | not 2 | =        | =
        not 1         | error | = | died | =       | refused A 1 | refused B 1 | not 2 | not 2 | =        | =
        not 255       | error | = | died | =       | refused A 1 | refused B 1 | =     | not 2 | =        | =
        siblings      | error | = | died | =       | refused A 1 | refused B 1 | not 1 | not 2 | =        | sibling A
        sibling B     | error | = | died | =       | refused A 1 | refused B 1 | not 1 | not 2 | siblings | sibling A
    ";

    #[test]
    fn the_table() {
        let rows: Vec<&str> = TABLE.lines().map(str::trim).filter(|row| !row.is_empty()).collect();
        assert_eq!(rows.len(), 10);
        for row in rows {
            let mut cells = row.split('|').map(str::trim);
            let before = state(cells.next().unwrap());
            let cells: Vec<&str> = cells.collect();
            assert_eq!(cells.len(), EVENTS.len(), "{row}");
            for (event, cell) in EVENTS.into_iter().zip(cells) {
                let after = if cell == "=" { before } else { state(cell) };
                assert_eq!(before.after(event), after, "{before:?} after {event:?}");
            }
        }
    }

    #[test]
    fn what_follows_from_a_state() {
        // Grave, workers may record, workers do not offer.
        let rows = [
            (Failed::Nothing, false, true, None),
            (Failed::Error, true, false, None),
            (Failed::Quarantined(WorkerEnd::Hung), true, false, None),
            (Failed::Unknown, true, false, None),
            (Failed::RefusedToWorkers(1, A), false, true, None),
            (Failed::RefusedToWorkers(2, A), false, true, Some(A)),
            (Failed::RefusedToWorkers(255, A), false, true, Some(A)),
            (Failed::NotRecorded(1), false, true, None),
            (Failed::NotRecorded(2), false, false, None),
            (Failed::NotRecorded(255), false, false, None),
            (Failed::SiblingsRefused, false, true, None),
            (Failed::SiblingTaken(A), false, true, None),
        ];
        for (state, grave, recorded, not_offered) in rows {
            let follows =
                (state.is_grave(), state.may_be_recorded(), state.not_offered_by_workers().copied());
            assert_eq!(follows, (grave, recorded, not_offered), "{state:?}");
            if let Some(record) = state.record() {
                assert_eq!(Failed::of(&record), state);
            }
        }
    }

    #[test]
    fn a_record_of_another_length_or_number_is_unknown() {
        let whole = [7, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(Failed::of(&whole[..9]), Failed::SiblingTaken([1, 2, 3, 4, 5, 6, 7, 8]));
        for length in [2, 8, 10] {
            assert_eq!(Failed::of(&whole[..length]), Failed::Unknown, "{length}");
        }
        for other in [&[][..], &[1, 0], &[5], &[5, 1], &[5, 1, 2], &[6], &[6, 1, 1], &[8], &[255]] {
            assert_eq!(Failed::of(other), Failed::Unknown, "{other:?}");
        }
        assert_eq!(Failed::Unknown.record(), None);
    }

    #[test]
    fn an_artifact_is_left_alone_after_three_refusals_in_a_row() {
        let mut refusals = Refusals::NONE;
        for _ in 0..3 {
            assert!(!refusals.are_too_many());
            refusals = refusals.and_one();
        }
        assert!(refusals.are_too_many() && Refusals(255).and_one().are_too_many());
        assert_eq!(Refusals::of(&[0; 5]), Refusals::NONE);
        assert_eq!(Refusals::of(&[0, 0, 0, 0, 1, 2, 0, 0]), Refusals(2));
    }
}
