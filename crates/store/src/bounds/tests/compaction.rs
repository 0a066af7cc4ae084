//! Tests of the rules for merging segments.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::bounds::compaction::FRAME;
use crate::bounds::tests::*;

const ANY: Room = Room { must_free: 0, scratch: u64::MAX };
const MIB: u64 = 1 << 20;

fn full(bytes: u64) -> SegmentMeta {
    SegmentMeta { bytes, live_bytes: bytes.saturating_sub(FRAME), live_records: 1, open: false }
}

fn half_dead(bytes: u64) -> SegmentMeta {
    SegmentMeta { live_bytes: bytes / 2, ..full(bytes) }
}

fn inputs(segments: &[SegmentMeta], room: Room) -> Option<(Vec<usize>, Reason)> {
    compaction(segments, room).map(|compaction| (compaction.inputs, compaction.reason))
}

#[test]
fn three_of_a_size_stay_and_four_are_merged() {
    assert_eq!(inputs(&[full(5000); 3], ANY), None);
    assert_eq!(inputs(&[full(5000); 4], ANY), Some((vec![0, 1, 2, 3], Reason::TooMany)));
    assert_eq!(inputs(&[5000, 50_000, 500_000, 5_000_000].map(full), ANY), None);
}

#[test]
fn a_segment_that_somebody_appends_to_is_left_alone() {
    let mut segments = [full(5000); 5];
    segments[1].open = true;
    assert_eq!(inputs(&segments, ANY), Some((vec![0, 2, 3, 4], Reason::TooMany)));
    segments[2] = SegmentMeta { open: true, live_records: 0, live_bytes: 0, ..segments[2] };
    assert_eq!(inputs(&segments, ANY), None);
}

#[test]
fn large_segments_are_settled() {
    assert_eq!(inputs(&[full(SETTLED); 9], ANY), None);
    // Two of the tier below make one.
    assert_eq!(inputs(&[full(SETTLED - 1); 9], ANY), Some((vec![0, 1], Reason::TooMany)));
}

#[test]
fn dead_segments_are_deleted_first_and_cost_nothing() {
    let dead = SegmentMeta { live_bytes: 0, live_records: 0, ..full(5000) };
    let merged = compaction(
        &[full(5000), dead, full(5000), dead, full(5000), full(5000)],
        Room { must_free: 1, scratch: 0 },
    );
    let expected =
        Compaction { inputs: vec![1, 3], reason: Reason::Empty, written: 0, freed: 2 * (5000 - FRAME) };
    assert_eq!(merged, Some(expected));
}

#[test]
fn a_quarter_dead_is_rewritten_and_less_is_not() {
    assert_eq!(inputs(&[half_dead(10 * MIB), full(5 * MIB)], ANY), Some((vec![0], Reason::Dead)));
    assert_eq!(inputs(&[half_dead(10 * MIB), full(11 * MIB)], ANY), None);
    assert_eq!(inputs(&[half_dead(MIB)], ANY), None);
}

#[test]
fn limits_take_what_is_mostly_dead_and_no_more_than_they_need() {
    let segments = [full(40 * MIB), half_dead(10 * MIB), SegmentMeta { live_bytes: MIB, ..full(4 * MIB) }];
    let ask = |must_free| inputs(&segments, Room { must_free, scratch: u64::MAX });
    assert_eq!(ask(0), None);
    assert_eq!(ask(2 * MIB), Some((vec![2], Reason::Limits)));
    assert_eq!(ask(4 * MIB), Some((vec![1, 2], Reason::Limits)));
}

#[test]
fn nothing_is_written_that_has_no_room() {
    let tight = |scratch| Room { must_free: 10 * MIB, scratch };
    let segments = [half_dead(10 * MIB), half_dead(2 * MIB)];
    assert_eq!(inputs(&segments, tight(0)), None);
    assert_eq!(inputs(&segments, tight(2 * MIB)), Some((vec![1], Reason::Limits)));
    assert_eq!(inputs(&[full(5000); 4], tight(5000)), None);
}

fn segment() -> impl Strategy<Value = SegmentMeta> {
    let bytes = prop_oneof![0..10_000_u64, 0..2 * SETTLED, any::<u64>()];
    (bytes, 0..=100_u64, 0..5_u64, prop::bool::weighted(0.1)).prop_map(
        |(bytes, share, live_records, open)| SegmentMeta {
            bytes,
            live_bytes: (bytes / 100).saturating_mul(share),
            live_records,
            open,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_ends_keeps_within_its_room_and_leaves_few_files(
        mut segments in vec(segment(), 0..60), must_free in any::<u64>(), scratch in any::<u64>(),
    ) {
        let room = Room { must_free, scratch };
        let live = |segments: &[SegmentMeta]| {
            segments.iter().map(|segment| u128::from(segment.live_records)).sum::<u128>()
        };
        let before = live(&segments);
        let mut steps = 0;
        // As its user does: what was freed is no longer asked for.
        let mut missing = must_free;
        while let Some(step) = compaction(&segments, Room { must_free: missing, ..room }) {
            steps += 1;
            prop_assert!(steps < 500, "no end: {:?}", step);
            prop_assert!(step.reason == Reason::Empty || step.written <= scratch);
            prop_assert!(step.inputs.len() == 1 || step.reason == Reason::Empty || step.written <= LARGEST_MERGED);
            prop_assert!(step.inputs.iter().all(|&at| !segments[at].open));
            missing = missing.saturating_sub(step.freed);
            let live_records = step.inputs.iter().map(|&at| segments[at].live_records).sum();
            for &at in step.inputs.iter().rev() {
                segments.remove(at);
            }
            if step.reason != Reason::Empty {
                let bytes = step.written.saturating_add(384);
                segments.push(SegmentMeta { bytes, live_bytes: step.written, live_records, open: false });
            }
        }
        prop_assert_eq!(live(&segments), before);
        if scratch >= LARGEST_MERGED + 384 {
            for tier in 0..14 {
                let sizes = 1_u64 << (2 * tier)..1 << (2 * tier + 2);
                let of_tier = segments.iter().filter(|segment| !segment.open && sizes.contains(&segment.bytes));
                prop_assert!(of_tier.count() <= 3);
            }
        }
    }
}
