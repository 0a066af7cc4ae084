//! Content of the page. The names are those of `--json`, and their documentation is that of
//! docs/schema/report.json.

use serde::Serialize;

use crate::reports::played::Row;

/// Version of the JSON's structure. A new field keeps it; a removed or changed field increments it.
pub(crate) const SCHEMA: u32 = 2;

/// Where a creation ended, by its number in marks and bins.
pub(super) const SOURCES: [&str; 8] =
    ["parked", "stash", "driver", "companion", "compile", "own call", "compile required", "error"];

/// What is on the page about an application.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// Version of this structure, 2. It rises when a name is removed or changes its meaning.
    pub(super) schema: u32,
    /// The application's name.
    pub(super) application: String,
    /// Its folder below the folder of all stashes.
    pub(super) folder: String,
    /// When the report was made, in Unix milliseconds.
    pub(super) written_unix_ms: u64,
    /// Size of its stash now.
    pub(super) bytes: u64,
    /// Number of its pipelines in the stash.
    pub(super) pipelines: u64,
    /// Number of its runs: processes that left a report.
    pub(super) runs: u64,
    /// What the pipelines of the last run took, and would have taken. Null: the last run has no timeline, or the
    /// compile of none of its pipelines was measured.
    pub(super) comparison: Option<Comparison>,
    /// At most 200 pipelines, the slowest first: by the compile, or by the call in the last run if that took longer.
    pub(super) slowest: Vec<SlowPipeline>,
    /// How the last runs got their pipelines, the latest run first, at most 8.
    pub(super) timelines: Vec<RunTimeline>,
    /// Number of timelines that are damaged as a whole, or of another version.
    pub(super) unreadable_timelines: u64,
    /// The sessions that are known, the oldest first.
    pub(super) history: Vec<SessionSummary>,
    /// Number of earlier runs of which only sums are left.
    pub(super) earlier_runs: u64,
    /// Words for classes and stages, by their numbers in marks.
    pub(super) kinds: Vec<String>,
}

/// The pipelines of the last run whose compile was measured: what compiling them takes, and what the calls took. What
/// the drivers' own caches would have saved is not known, so the first is an upper limit.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Comparison {
    /// Number of these pipelines.
    pub(super) pipelines: u64,
    /// Number of pipelines of the run whose compile was not measured; they are in no other number.
    pub(super) not_measured: u64,
    /// Their compiles. One that several devices measured counts with the shortest time.
    pub(super) without_stash: Calls,
    /// The longest call for each of them in the last run.
    pub(super) last_run: Calls,
}

/// Sums of calls.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Calls {
    /// The sum of the times that they took.
    pub(super) took_ns: u64,
    /// The longest one.
    pub(super) longest_ns: u64,
    /// Number of those that took more than 4 ms.
    pub(super) over_4_ms: u64,
    /// Number of those that took more than 16 ms.
    pub(super) over_16_ms: u64,
}

impl Calls {
    pub(super) fn add(&mut self, took_ns: u64) {
        self.took_ns = self.took_ns.saturating_add(took_ns);
        self.longest_ns = self.longest_ns.max(took_ns);
        self.over_4_ms += u64::from(took_ns > 4_000_000);
        self.over_16_ms += u64::from(took_ns > 16_000_000);
    }
}

/// A pipeline among the slowest.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SlowPipeline {
    /// Its key, 64 hexadecimal digits.
    pub(super) key: String,
    /// Its class and stages, in words.
    pub(super) what: String,
    /// The shortest compile that a device measured. Null: not known.
    pub(super) compile_ns: Option<u64>,
    /// The longest call for it in the last run. Null: not known.
    pub(super) last_call_ns: Option<u64>,
    /// Where that call ended, as in `sources`. Null: not known.
    pub(super) last_source: Option<&'static str>,
    /// Size of its largest artifact. Null: not known.
    pub(super) bytes: Option<u64>,
    /// The lines that describe it, for people. They may change with each version.
    pub(super) description: Vec<String>,
}

/// How one run got its pipelines.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RunTimeline {
    /// When the run began, in Unix milliseconds. Null: not known.
    pub(super) started_unix_ms: Option<u64>,
    /// When its first creation began, in Unix microseconds.
    pub(super) first_unix_us: u64,
    /// The time from that to the end of the last creation, in microseconds.
    pub(super) span_us: u64,
    /// Number of creations.
    pub(super) creations: u64,
    /// Number of entries of the file that cannot be read.
    pub(super) damaged: u64,
    /// The file is full: creations after the last one may be missing.
    pub(super) is_full: bool,
    /// Sums of all creations.
    pub(super) calls: Calls,
    /// Creations by where they ended.
    pub(super) sources: Vec<Share>,
    /// The slow frames, the longest first, at most 40.
    pub(super) slow_frames: Vec<SlowFrame>,
    /// Number of all slow frames, listed or not.
    pub(super) slow_frame_count: u64,
    /// The longest creations, at most 20.
    pub(super) longest_calls: Vec<LongCall>,
    /// The longest creations for the picture, at most 1,500, in the order of their begins.
    pub(super) marks: Vec<Mark>,
    /// The other creations, by source and piece of time: 300 pieces.
    pub(super) bins: Vec<Bin>,
}

/// Creations that ended in one way.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Share {
    /// `parked`, `stash`, `driver`, `companion`, `compile`, `own call`, `compile required` or `error`.
    pub(super) source: &'static str,
    /// Number of creations.
    pub(super) creations: u64,
    /// The time that they took.
    pub(super) took_ns: u64,
}

/// A frame in which a creation ended that took 1 ms or more. A frame is what lies between two calls of
/// vkQueuePresentKHR on one device.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SlowFrame {
    /// Its number.
    pub(super) number: u32,
    /// When it began, in microseconds after the first creation began.
    pub(super) at_us: u64,
    /// Its length.
    pub(super) length_ns: u64,
    /// Number of creations in it.
    pub(super) creations: u64,
    /// The creation in it that took longest.
    pub(super) longest: LongCall,
}

/// A call that took long.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LongCall {
    /// The first half of the pipeline's key, 32 hexadecimal digits.
    pub(super) key: String,
    /// Its class and stages, in words.
    pub(super) what: String,
    /// When the call began, in microseconds after the first creation began.
    pub(super) at_us: u64,
    /// The time that it took.
    pub(super) took_ns: u64,
    /// Where it ended, as in `sources`.
    pub(super) source: &'static str,
    /// The frame in which it began; 0: none.
    pub(super) frame: u32,
    /// What the next run gets, or got, in words. Null: the call did not compile.
    pub(super) next_run: Option<&'static str>,
}

/// One creation in the picture.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Mark(
    /// When it began, in microseconds after the first creation began.
    pub(super) u64,
    /// The time that it took, in microseconds.
    pub(super) u64,
    /// Where it ended: 0 `parked`, 1 `stash`, 2 `driver`, 3 `companion`, 4 `compile`, 5 `own call`, 6 `compile
    /// required`, 7 `error`.
    pub(super) usize,
    /// The first 8 hexadecimal digits of the pipeline's key.
    pub(super) String,
    /// The pipeline's class and stages: a place in `kinds`.
    pub(super) usize,
    /// The frame in which it began; 0: none.
    pub(super) u32,
);

/// Creations that ended in one way, in a piece of time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Bin(
    /// When the piece begins, in microseconds after the first creation began.
    pub(super) u64,
    /// The length of the piece, in microseconds.
    pub(super) u64,
    /// Where they ended, as in marks.
    pub(super) usize,
    /// Number of the creations.
    pub(super) u64,
    /// The time that they took together, in microseconds.
    pub(super) u64,
    /// The time that the longest took, in microseconds.
    pub(super) u64,
);

/// One session.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SessionSummary {
    #[serde(flatten)]
    pub(super) row: Row,
    /// Bytes that it has written to the stash.
    pub(super) written_bytes: u64,
    /// Bytes of files that its compaction and eviction have freed.
    pub(super) reclaimed_bytes: u64,
    /// Size of the stash after it, calculated back from today's: what commands and archives have changed is not known.
    /// Null: only sums are left of its report.
    pub(super) bytes_after: Option<u64>,
}
