//! Rules that decide which segments of one part are merged, and when.
//!
//! There are three reasons, the most pressing first: the files must shrink, a quarter of their bytes is dead, or there
//! are too many of one size. For the third reason sizes fall into tiers, each four times the one below. Four segments
//! of a tier are merged into one of a higher tier, so each record is rewritten once in each tier, and a reader finds at
//! most three segments in each.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use vkstash_host::sort;

/// Segments of at least this size are not merged for their number.
pub const SETTLED: u64 = 256 << 20;
/// The largest file that a merge writes.
pub const LARGEST_MERGED: u64 = 2 * SETTLED;
/// The number of segments of a tier that are merged. Also the factor between tiers.
const FAN_IN: usize = 4;
/// Segments are rewritten for their dead bytes if one byte in this many is dead, ...
const DEAD_SHARE: u64 = 4;
/// ... and all segments of the part together have this many dead bytes.
const DEAD_AT_LEAST: u64 = 1 << 20;
/// Header, checkpoint pointers, the header's copy, footer, and the index record's header and last block are neither
/// live nor dead.
pub(crate) const FRAME: u64 = 192 + 128 + 256 + 64 + 4096;

/// One segment file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentMeta {
    /// The size of the file.
    pub bytes: u64,
    /// Bytes of its live records: the newest of their kind and key that are not evicted.
    pub live_bytes: u64,
    /// The number of its live records.
    pub live_records: u64,
    /// A process appends to it, so it is not merged.
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

/// What the disk requires and allows, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that must be freed in this part so that the limits hold.
    pub must_free: u64,
    /// Bytes that may be written before the inputs are deleted.
    pub scratch: u64,
}

/// Why segments are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The segments have no live record and are only deleted.
    Empty,
    /// The limits demand it.
    Limits,
    /// Too many bytes of the segments belong to dead records.
    Dead,
    /// There are too many segments of one size.
    TooMany,
}

/// Segments to be merged into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The segments' places in the list, ascending.
    pub inputs: Vec<usize>,
    /// The reason.
    pub reason: Reason,
    /// Live bytes that are written. 0: no file is written.
    pub written: u64,
    /// Dead bytes that are freed.
    pub freed: u64,
}

/// The next merge in a part with these segments, oldest name first. None: nothing is to be merged. Asked again after
/// each merge.
pub fn compaction(segments: &[SegmentMeta], room: Room) -> Option<Compaction> {
    let sealed: Vec<usize> = (0..segments.len()).filter(|&at| !segments[at].open).collect();
    let empty: Vec<usize> = sealed.iter().copied().filter(|&at| segments[at].live_records == 0).collect();
    chosen(segments, empty, Reason::Empty)
        .or_else(|| chosen(segments, shrinking(segments, &sealed, room), Reason::Limits))
        .or_else(|| chosen(segments, decayed(segments, &sealed, room.scratch), Reason::Dead))
        .or_else(|| chosen(segments, full_tier(segments, &sealed, room.scratch), Reason::TooMany))
}

/// Segments with the largest dead shares, until enough is freed.
fn shrinking(segments: &[SegmentMeta], sealed: &[usize], room: Room) -> Vec<usize> {
    let order = by_dead_share(segments, sealed, |segment| segment.dead() > 0);
    pick(segments, &order, room.scratch, |_, freed| freed >= room.must_free)
}

/// Segments of which a quarter is dead, if a quarter of all of them together is.
fn decayed(segments: &[SegmentMeta], sealed: &[usize], scratch: u64) -> Vec<usize> {
    let dead: u128 = sealed.iter().map(|&at| u128::from(segments[at].dead())).sum();
    let bytes: u128 = sealed.iter().map(|&at| u128::from(segments[at].bytes)).sum();
    if dead < u128::from(DEAD_AT_LEAST) || dead * u128::from(DEAD_SHARE) < bytes {
        return Vec::new();
    }
    let order = by_dead_share(segments, sealed, SegmentMeta::decayed);
    pick(segments, &order, scratch, |_, _| false)
}

/// Segments of the lowest tier that has too many, the oldest first.
fn full_tier(segments: &[SegmentMeta], sealed: &[usize], scratch: u64) -> Vec<usize> {
    let mut tiers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for &at in sealed.iter().filter(|&&at| segments[at].bytes < SETTLED) {
        tiers.entry(segments[at].tier()).or_default().push(at);
    }
    let full = tiers.into_values().filter(|members| members.len() >= FAN_IN);
    let mut picked = full.map(|members| pick(segments, &members, scratch, |written, _| written >= SETTLED));
    let live = |inputs: &[usize]| inputs.iter().map(|&at| u128::from(segments[at].live_bytes)).sum::<u128>();
    // Fewer segments are enough if their result is too large to be merged again.
    let worth_it = |inputs: &Vec<usize>| inputs.len() >= FAN_IN || live(inputs) >= u128::from(SETTLED);
    picked.find(worth_it).unwrap_or_default()
}

fn by_dead_share(
    segments: &[SegmentMeta],
    sealed: &[usize],
    wanted: impl Fn(&SegmentMeta) -> bool,
) -> Vec<usize> {
    let mut order: Vec<usize> = sealed.iter().copied().filter(|&at| wanted(&segments[at])).collect();
    // In units of 1/65536 of the file.
    let share = |segment: &SegmentMeta| (u128::from(segment.dead()) << 16) / u128::from(segment.bytes.max(1));
    sort::by_key(&mut order, |&at| (Reverse(share(&segments[at])), at));
    order
}

/// Takes segments from `order` until `enough(written, freed)`. A segment that is too large for a merge is rewritten
/// alone.
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
    sort::sort(&mut inputs);
    let sum =
        |of: fn(&SegmentMeta) -> u64| inputs.iter().map(|&at| of(&segments[at])).fold(0, u64::saturating_add);
    let (written, freed) = (sum(|segment| segment.live_bytes), sum(SegmentMeta::dead));
    (!inputs.is_empty()).then_some(Compaction { inputs, reason, written, freed })
}
