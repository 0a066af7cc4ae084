//! The timelines of the last runs: sums, slow frames, and as much of the creations as a picture can show.

use std::collections::{BTreeMap, HashMap};

use vkstash_model::steps::{self, CreationResult, StepSource};
use vkstash_store::reports::timeline::{Creation, Frame, Timeline};

use super::model::{Bin, Calls, LongCall, Mark, RunTimeline, SOURCES, Share, SlowFrame};

/// Creations that a picture shows one by one.
const MARKS: usize = 1_500;
/// Pieces of time in which it shows the others.
const BINS: u64 = 300;
/// Slow frames that are listed of one run.
const FRAMES: usize = 40;
/// Calls that are listed.
const CALLS: usize = 20;

/// What is known of a pipeline, by the first half of its key.
pub(super) struct Known {
    /// The number of its class and stages.
    pub(super) kind: usize,
    /// The shortest compile that was measured.
    pub(super) compile_ns: Option<u64>,
    /// A device has an artifact of it.
    pub(super) is_stored: bool,
}

/// Pipelines by the first halves of their keys, and words for their classes and stages.
pub(super) struct Pipelines {
    pub(super) known: HashMap<[u8; 16], Known>,
    pub(super) kinds: Vec<String>,
}

impl Pipelines {
    /// The number of a pipeline's kind; the first one is that of pipelines which the stash has no more.
    fn kind(&self, creation: &Creation) -> usize {
        self.known.get(&creation.key).map_or(0, |known| known.kind)
    }
}

pub(super) fn took_ns(creation: &Creation) -> u64 {
    nanos(creation.tenths)
}

fn nanos(tenths: u32) -> u64 {
    u64::try_from(steps::duration(tenths).as_nanos()).unwrap_or(u64::MAX)
}

/// Where a creation ended: a number in [`SOURCES`].
pub(super) fn source(creation: &Creation) -> usize {
    let last = creation.steps().last().map(|step| step.source);
    let is = |source: StepSource| last == Some(source as u8);
    match creation.result {
        result if result == CreationResult::CompileRequired as u8 => 6,
        result if result != CreationResult::Pipeline as u8 => 7,
        _ if is(StepSource::Parked) => 0,
        _ if is(StepSource::Stash) => 1,
        _ if is(StepSource::Driver) => 2,
        _ if is(StepSource::Companion) => 3,
        _ if is(StepSource::Compile) => 4,
        _ => 5,
    }
}

/// The number of `compile` in [`SOURCES`].
const COMPILE: usize = 4;

/// The longest call of each pipeline.
pub(super) fn longest_calls(timeline: &Timeline) -> HashMap<[u8; 16], &Creation> {
    let mut longest: HashMap<[u8; 16], &Creation> = HashMap::new();
    for creation in &timeline.creations {
        let known = longest.entry(creation.key).or_insert(creation);
        if creation.tenths > known.tenths {
            *known = creation;
        }
    }
    longest
}

/// One run on the page. `next`: the run after it.
pub(super) fn of(timeline: &Timeline, next: Option<&Timeline>, pipelines: &Pipelines) -> RunTimeline {
    let creations = &timeline.creations;
    let first_unix_us = creations.iter().map(|creation| creation.unix_us).min().unwrap_or_default();
    let view = View { timeline, first_unix_us, pipelines, next: next.map(longest_calls) };
    let mut calls = Calls::default();
    let mut shares: BTreeMap<usize, Share> = BTreeMap::new();
    for creation in creations {
        calls.add(took_ns(creation));
        let source = source(creation);
        let new = Share { source: SOURCES[source], creations: 0, took_ns: 0 };
        let share = shares.entry(source).or_insert(new);
        share.creations += 1;
        share.took_ns = share.took_ns.saturating_add(took_ns(creation));
    }
    let end = |creation: &Creation| view.at_us(creation.unix_us).saturating_add(took_ns(creation) / 1000);
    let span_us = creations.iter().map(end).max().unwrap_or_default().max(1);
    let mut order: Vec<&Creation> = creations.iter().collect();
    order.sort_by_key(|creation| (std::cmp::Reverse(creation.tenths), creation.unix_us));
    let (alone, others) = order.split_at(order.len().min(MARKS));
    let mut marks: Vec<Mark> = alone.iter().map(|creation| view.mark(creation)).collect();
    marks.sort_by_key(|mark| mark.0);
    let mut slow_frames = view.slow_frames();
    let slow_frame_count = slow_frames.len() as u64;
    slow_frames.truncate(FRAMES);
    RunTimeline {
        started_unix_ms: timeline.started_unix_ms,
        first_unix_us,
        span_us,
        creations: creations.len() as u64,
        damaged: timeline.damaged,
        is_full: timeline.is_full,
        calls,
        sources: shares.into_values().collect(),
        slow_frames,
        slow_frame_count,
        longest_calls: order.iter().take(CALLS).map(|creation| view.long_call(creation)).collect(),
        marks,
        bins: view.bins(others, span_us),
    }
}

/// A timeline, and what it is looked at with.
struct View<'a> {
    timeline: &'a Timeline,
    first_unix_us: u64,
    pipelines: &'a Pipelines,
    next: Option<HashMap<[u8; 16], &'a Creation>>,
}

impl View<'_> {
    fn at_us(&self, unix_us: u64) -> u64 {
        unix_us.saturating_sub(self.first_unix_us)
    }

    fn mark(&self, creation: &Creation) -> Mark {
        Mark(
            self.at_us(creation.unix_us),
            took_ns(creation) / 1000,
            source(creation),
            hex::encode(&creation.key[..4]),
            self.pipelines.kind(creation),
            creation.frame,
        )
    }

    fn bins(&self, creations: &[&Creation], span_us: u64) -> Vec<Bin> {
        let wide = span_us.div_ceil(BINS).max(1);
        let mut bins: BTreeMap<(u64, usize), Bin> = BTreeMap::new();
        for creation in creations {
            let at = self.at_us(creation.unix_us) / wide * wide;
            let (source, took) = (source(creation), took_ns(creation) / 1000);
            let bin = bins.entry((at, source)).or_insert(Bin(at, wide, source, 0, 0, 0));
            bin.3 += 1;
            bin.4 = bin.4.saturating_add(took);
            bin.5 = bin.5.max(took);
        }
        bins.into_values().collect()
    }

    fn long_call(&self, creation: &Creation) -> LongCall {
        let source = source(creation);
        LongCall {
            key: hex::encode(creation.key),
            what: self.pipelines.kinds.get(self.pipelines.kind(creation)).cloned().unwrap_or_default(),
            at_us: self.at_us(creation.unix_us),
            took_ns: took_ns(creation),
            source: SOURCES[source],
            frame: creation.frame,
            next_run: (source == COMPILE).then(|| self.next_run(creation)),
        }
    }

    /// What became of a compile in the next run, or becomes of it.
    fn next_run(&self, creation: &Creation) -> &'static str {
        let is_stored = self.pipelines.known.get(&creation.key).is_some_and(|known| known.is_stored);
        match self.next.as_ref().and_then(|next| next.get(&creation.key)) {
            Some(call) if source(call) == COMPILE => "compiled again in the next run",
            Some(call) if call.result == CreationResult::Pipeline as u8 => "was ready in the next run",
            _ if is_stored => "ready in the next run",
            _ => "no artifact of it is stored",
        }
    }

    /// The frames whose lengths are known, the longest first.
    fn slow_frames(&self) -> Vec<SlowFrame> {
        let mut of_frame: HashMap<u32, Vec<&Creation>> = HashMap::new();
        for creation in self.timeline.creations.iter().filter(|creation| creation.frame > 0) {
            of_frame.entry(creation.frame).or_default().push(creation);
        }
        let slow_frame = |frame: &Frame| {
            let creations = of_frame.get(&frame.number)?;
            let longest = creations.iter().max_by_key(|creation| creation.tenths)?;
            Some(SlowFrame {
                number: frame.number,
                at_us: self.at_us(frame.unix_us),
                length_ns: nanos(frame.tenths),
                creations: creations.len() as u64,
                longest: self.long_call(longest),
            })
        };
        let mut frames: Vec<SlowFrame> = self.timeline.frames.iter().filter_map(slow_frame).collect();
        frames.sort_by_key(|frame| (std::cmp::Reverse(frame.length_ns), frame.number));
        frames
    }
}
