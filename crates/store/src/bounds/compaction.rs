//! Which segments of one part are merged, and when.
//!
//! Three reasons, most pressing first: the files must shrink; a quarter of them is dead; there are too many of
//! one size. For the last, sizes fall into tiers of a factor of four, and four of a tier are merged into one of a
//! higher tier: so every record is rewritten once a tier, and a reader meets at most three segments a tier.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// From this size on a segment is no longer merged because there are many.
pub const SETTLED: u64 = 256 << 20;
/// No merge writes a larger file.
pub const LARGEST_MERGED: u64 = 2 * SETTLED;
/// So many of one tier are merged. Also the factor between tiers.
const FAN_IN: usize = 4;
/// The share of dead bytes from which on rewriting is worth it: one in so many.
const DEAD_SHARE: u64 = 4;
/// Fewer dead bytes are not worth the trouble.
const DEAD_AT_LEAST: u64 = 1 << 20;
/// Header and marks, the header's copy, foot, the index record's head and the last of its blocks: neither live nor dead.
pub(crate) const FRAME: u64 = 192 + 128 + 256 + 64 + 4096;

/// One segment file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentMeta {
    /// What the file takes up.
    pub bytes: u64,
    /// What its live records take up: those that are the newest of their kind and key and are not evicted.
    pub live_bytes: u64,
    /// How many those are.
    pub live_records: u64,
    /// Somebody still appends to it: left alone.
    pub open: bool,
}

impl SegmentMeta {
    fn dead(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes).saturating_sub(FRAME)
    }

    /// Whether enough of it is dead.
    fn decayed(&self) -> bool {
        self.dead() > 0 && self.dead() >= self.bytes / DEAD_SHARE
    }

    fn tier(&self) -> u32 {
        self.bytes.max(1).ilog2() / FAN_IN.ilog2()
    }
}

/// What the disk asks for and allows. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What has to be freed in this part for the limits to hold; 0: nothing.
    pub must_free: u64,
    /// What may be written before the inputs are deleted.
    pub scratch: u64,
}

/// Why segments are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Nothing in them is live: they are only deleted.
    Empty,
    /// The limits demand it.
    Limits,
    /// Too much of them is dead.
    Dead,
    /// There are too many of one size.
    TooMany,
}

/// Segments to be merged into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Their places in the list, ascending.
    pub inputs: Vec<usize>,
    /// Why.
    pub reason: Reason,
    /// Live bytes that are written. 0: no file is written.
    pub written: u64,
    /// Dead bytes that are freed.
    pub freed: u64,
}

/// What to merge next in a part whose segments these are, oldest name first; None: nothing. To be asked again
/// after each merge.
pub fn compaction(segments: &[SegmentMeta], room: Room) -> Option<Compaction> {
    let sealed: Vec<usize> = (0..segments.len()).filter(|&at| !segments[at].open).collect();
    let empty: Vec<usize> = sealed.iter().copied().filter(|&at| segments[at].live_records == 0).collect();
    chosen(segments, empty, Reason::Empty)
        .or_else(|| chosen(segments, shrinking(segments, &sealed, room), Reason::Limits))
        .or_else(|| chosen(segments, decayed(segments, &sealed, room.scratch), Reason::Dead))
        .or_else(|| chosen(segments, crowded(segments, &sealed, room.scratch), Reason::TooMany))
}

/// Those with the largest dead shares, until enough is freed.
fn shrinking(segments: &[SegmentMeta], sealed: &[usize], room: Room) -> Vec<usize> {
    let order = by_dead_share(segments, sealed, |segment| segment.dead() > 0);
    pick(segments, &order, room.scratch, |_, freed| freed >= room.must_free)
}

/// Those of which a quarter is dead, where that is so of all of them together.
fn decayed(segments: &[SegmentMeta], sealed: &[usize], scratch: u64) -> Vec<usize> {
    let dead: u128 = sealed.iter().map(|&at| u128::from(segments[at].dead())).sum();
    let bytes: u128 = sealed.iter().map(|&at| u128::from(segments[at].bytes)).sum();
    if dead < u128::from(DEAD_AT_LEAST) || dead * u128::from(DEAD_SHARE) < bytes {
        return Vec::new();
    }
    let order = by_dead_share(segments, sealed, SegmentMeta::decayed);
    pick(segments, &order, scratch, |_, _| false)
}

/// The lowest tier that has too many, oldest first.
fn crowded(segments: &[SegmentMeta], sealed: &[usize], scratch: u64) -> Vec<usize> {
    let mut tiers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for &at in sealed.iter().filter(|&&at| segments[at].bytes < SETTLED) {
        tiers.entry(segments[at].tier()).or_default().push(at);
    }
    let full = tiers.into_values().filter(|members| members.len() >= FAN_IN);
    let mut picked = full.map(|members| pick(segments, &members, scratch, |written, _| written >= SETTLED));
    let live = |inputs: &[usize]| inputs.iter().map(|&at| u128::from(segments[at].live_bytes)).sum::<u128>();
    // Fewer than make a tier's worth will do where they make a settled segment.
    let worth_it = |inputs: &Vec<usize>| inputs.len() >= FAN_IN || live(inputs) >= u128::from(SETTLED);
    picked.find(worth_it).unwrap_or_default()
}

fn by_dead_share(
    segments: &[SegmentMeta],
    sealed: &[usize],
    wanted: impl Fn(&SegmentMeta) -> bool,
) -> Vec<usize> {
    let mut order: Vec<usize> = sealed.iter().copied().filter(|&at| wanted(&segments[at])).collect();
    // In 1/65536 of the file.
    let share = |segment: &SegmentMeta| (u128::from(segment.dead()) << 16) / u128::from(segment.bytes.max(1));
    order.sort_by_key(|&at| Reverse(share(&segments[at])));
    order
}

/// Takes from `order` what fits until `enough(written, freed)`. A segment that is too large for a merge is
/// rewritten alone.
fn pick(
    segments: &[SegmentMeta],
    order: &[usize],
    scratch: u64,
    enough: impl Fn(u64, u64) -> bool,
) -> Vec<usize> {
    let (mut inputs, mut written, mut freed) = (Vec::new(), 0_u64, 0_u64);
    for &at in order {
        if enough(written, freed) {
            break;
        }
        let most = if inputs.is_empty() { scratch } else { scratch.min(LARGEST_MERGED) };
        let next = written.saturating_add(segments[at].live_bytes);
        if next.saturating_add(FRAME) <= most {
            inputs.push(at);
            written = next;
            freed = freed.saturating_add(segments[at].dead());
        }
    }
    inputs
}

fn chosen(segments: &[SegmentMeta], mut inputs: Vec<usize>, reason: Reason) -> Option<Compaction> {
    inputs.sort_unstable();
    let sum =
        |of: fn(&SegmentMeta) -> u64| inputs.iter().map(|&at| of(&segments[at])).fold(0, u64::saturating_add);
    let (written, freed) = (sum(|segment| segment.live_bytes), sum(SegmentMeta::dead));
    (!inputs.is_empty()).then_some(Compaction { inputs, reason, written, freed })
}
