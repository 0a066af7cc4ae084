//! A part over a thousand runs: what compaction writes, how many files it leaves, and that it loses nothing.

use std::collections::BTreeMap;

use crate::bounds::tests::*;

const FRAME: u64 = 384;
const RUNS: u64 = 1000;

/// What a run does, in numbers of records.
struct Habit {
    /// Keys that it writes for the first time.
    new: u64,
    /// Keys that it writes again, of those there are.
    again: u64,
    /// The largest record, in bytes.
    largest: u64,
    /// Above so many live bytes the oldest keys go.
    limit: u64,
}

/// Key, version and size of each record of a segment; whether the record is the newest is looked up.
type Segment = Vec<(u64, u64, u64)>;

#[derive(Default)]
struct Store {
    segments: Vec<Segment>,
    /// By key: the newest version, and its size.
    newest: BTreeMap<u64, (u64, u64)>,
    ingested: u64,
    /// The smallest segment that a run left.
    smallest: Option<u64>,
    written: u64,
    freed: u64,
    most_files: usize,
    random: u64,
}

impl Store {
    fn next(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn run(&mut self, run: u64, habit: &Habit) {
        let mut segment = Segment::new();
        let known: Vec<u64> = self.newest.keys().copied().collect();
        let again = if known.is_empty() { 0 } else { habit.again };
        for number in 0..habit.new + again {
            let key = match number.checked_sub(habit.new) {
                None => run * 1000 + number,
                Some(_) => known[self.next() as usize % known.len()],
            };
            let size = 128 + self.next() % habit.largest;
            segment.retain(|&(other, ..)| other != key);
            segment.push((key, run, size));
            self.newest.insert(key, (run, size));
        }
        let bytes = FRAME + segment.iter().map(|&(.., size)| size).sum::<u64>();
        self.ingested += bytes;
        self.smallest = Some(self.smallest.map_or(bytes, |smallest| smallest.min(bytes)));
        self.segments.push(segment);
        let mut live: u64 = self.newest.values().map(|&(_, size)| size).sum();
        while live > habit.limit {
            let (&key, &(_, size)) = self.newest.iter().min_by_key(|(_, (run, _))| *run).unwrap();
            self.newest.remove(&key);
            live -= size;
        }
    }

    fn is_live(&self, &(key, version, _): &(u64, u64, u64)) -> bool {
        self.newest.get(&key).is_some_and(|&(newest, _)| newest == version)
    }

    fn metas(&self) -> Vec<SegmentMeta> {
        let meta = |segment: &Segment| {
            let live = segment.iter().filter(|record| self.is_live(record));
            SegmentMeta {
                bytes: FRAME + segment.iter().map(|&(.., size)| size).sum::<u64>(),
                live_bytes: live.clone().map(|&(.., size)| size).sum(),
                live_records: live.count() as u64,
                open: false,
            }
        };
        self.segments.iter().map(meta).collect()
    }

    fn compact(&mut self) {
        while let Some(step) = compaction(&self.metas(), Room { must_free: 0, scratch: u64::MAX }) {
            let merged: Segment = step
                .inputs
                .iter()
                .flat_map(|&at| &self.segments[at])
                .copied()
                .filter(|it| self.is_live(it))
                .collect();
            let records: Vec<Record> = merged
                .iter()
                .map(|&(key, version, bytes)| Record {
                    kind: Kind::Artifact,
                    key: [key as u8; 32],
                    bytes,
                    last_use: LastUse { unix_ms: version, run: version, order: 0 },
                    current: false,
                })
                .collect();
            let bytes: u64 = records.iter().map(|record| record.bytes).sum();
            assert_eq!(bytes, step.written);
            step.inputs.iter().rev().for_each(|&at| drop(self.segments.remove(at)));
            if !merged.is_empty() {
                self.written += bytes + FRAME;
                self.segments.push(layout(&records).into_iter().map(|at| merged[at]).collect());
            }
            self.freed += step.freed;
        }
        self.most_files = self.most_files.max(self.segments.len());
    }

    /// Every live record is there, once.
    fn check(&self) {
        let mut found: Vec<u64> =
            self.segments.iter().flatten().filter(|it| self.is_live(it)).map(|&(key, ..)| key).collect();
        found.sort_unstable();
        assert!(found.iter().eq(self.newest.keys()), "a live record is missing or there twice");
    }
}

/// A thousand runs of that habit; with the dead bytes of the files that are left, and all their bytes.
fn simulated(habit: &Habit, seed: u64) -> (Store, u64, u64) {
    let mut store = Store { random: seed, ..Store::default() };
    for run in 1..=RUNS {
        store.run(run, habit);
        store.compact();
        store.check();
    }
    let disk: u64 = store.metas().iter().map(|meta| meta.bytes).sum();
    let live: u64 = store.metas().iter().map(|meta| meta.live_bytes).sum();
    let amplification = store.written as f64 / store.ingested as f64;
    let (dead, most_files) = (disk - live, store.most_files);
    println!(
        "written {amplification:.2} for each byte, {dead} of {disk} bytes dead, at most {most_files} files"
    );
    (store, dead, disk)
}

/// Tiers that are merged, from that of the smallest segment up to [`SETTLED`].
fn tiers(store: &Store) -> u64 {
    u64::from(SETTLED.ilog2() / 2 - store.smallest.unwrap().ilog2() / 2)
}

#[test]
fn where_nothing_dies_every_byte_is_written_once_a_tier_at_most() {
    for (seed, largest) in [(1, 4000), (2, 100_000), (3, 8 << 20)] {
        let habit = Habit { new: 8, again: 0, largest, limit: u64::MAX };
        let (store, ..) = simulated(&habit, seed);
        assert!(store.written <= tiers(&store) * store.ingested, "{} of {}", store.written, store.ingested);
        assert!(store.most_files <= 3 * 14 + (store.ingested / SETTLED) as usize);
    }
}

#[test]
fn dying_records_cost_three_bytes_for_each_that_is_freed() {
    let habits = [
        // Uses: the same small records in every run.
        Habit { new: 1, again: 100, largest: 100, limit: u64::MAX },
        // A working set that moves on under a limit.
        Habit { new: 10, again: 2, largest: 200_000, limit: 100 << 20 },
        // Everything is replaced all the time.
        Habit { new: 5, again: 50, largest: 1 << 20, limit: 200 << 20 },
        // Sizes differ from run to run.
        Habit { new: 1, again: 1, largest: 30 << 20, limit: 1 << 30 },
    ];
    for (seed, habit) in habits.iter().enumerate() {
        let (store, dead, disk) = simulated(habit, seed as u64);
        let bound = tiers(&store) * store.ingested + 3 * store.freed;
        assert!(store.written <= bound, "{} of {bound}", store.written);
        assert!(dead <= disk / 4 + (1 << 20) + FRAME * store.segments.len() as u64, "{dead} of {disk}");
        assert!(store.most_files <= 3 * 14 + 8, "{}", store.most_files);
    }
}
