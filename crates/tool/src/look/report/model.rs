//! Content of the page. The names are those of `--json`; docs/report.md describes them.

use serde::Serialize;

use crate::reports::played::Row;

/// Version of the JSON's structure. A new field keeps it; a removed or changed field increments it.
pub(crate) const SCHEMA: u32 = 2;

/// Where a creation ended, by its number in [`Mark`] and [`Bin`].
pub(super) const SOURCES: [&str; 8] =
    ["parked", "stash", "driver", "companion", "compile", "own call", "compile required", "error"];

/// An application.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) application: String,
    pub(super) folder: String,
    pub(super) written_unix_ms: u64,
    /// Size of its stash now.
    pub(super) bytes: u64,
    /// Number of its pipelines in the stash.
    pub(super) pipelines: u64,
    /// Number of its runs.
    pub(super) runs: u64,
    /// Null: the last run has no timeline, or the compile of none of its pipelines was measured.
    pub(super) comparison: Option<Comparison>,
    /// The slowest first.
    pub(super) slowest: Vec<SlowPipeline>,
    /// The latest first.
    pub(super) timelines: Vec<RunTimeline>,
    /// Timelines of which nothing can be read.
    pub(super) unreadable_timelines: u64,
    /// The sessions that are known, the oldest first.
    pub(super) history: Vec<SessionSummary>,
    /// Earlier runs, of which only sums are left.
    pub(super) earlier_runs: u64,
    /// Words for classes and stages, by their numbers in marks.
    pub(super) kinds: Vec<String>,
}

/// The pipelines of the last run whose compile was measured: what compiling them takes, and what the calls took.
#[derive(Debug, Default, Serialize)]
pub(super) struct Comparison {
    pub(super) pipelines: u64,
    /// Pipelines of the run whose compile was not measured; they are in no other number.
    pub(super) not_measured: u64,
    pub(super) without_stash: Calls,
    pub(super) last_run: Calls,
}

/// Sums of calls.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Calls {
    pub(super) took_ns: u64,
    pub(super) longest_ns: u64,
    pub(super) over_4_ms: u64,
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
pub(super) struct SlowPipeline {
    pub(super) key: String,
    /// Class and stages.
    pub(super) what: String,
    /// The shortest compile of its devices that was measured.
    pub(super) compile_ns: Option<u64>,
    /// The longest call of the last run.
    pub(super) last_call_ns: Option<u64>,
    /// How that call ended.
    pub(super) last_source: Option<&'static str>,
    /// Size of its largest artifact.
    pub(super) bytes: Option<u64>,
    /// For people; the lines may change with each version.
    pub(super) description: Vec<String>,
}

/// How one run got its pipelines.
#[derive(Debug, Serialize)]
pub(super) struct RunTimeline {
    pub(super) started_unix_ms: Option<u64>,
    /// When its first creation began.
    pub(super) first_unix_us: u64,
    /// From that to the end of the last creation.
    pub(super) span_us: u64,
    pub(super) creations: u64,
    /// Entries of the file that cannot be read.
    pub(super) damaged: u64,
    /// Creations after the last one may be missing.
    pub(super) is_full: bool,
    pub(super) calls: Calls,
    pub(super) sources: Vec<Share>,
    /// The longest first.
    pub(super) slow_frames: Vec<SlowFrame>,
    /// How many slow frames there are; so many more than are listed.
    pub(super) slow_frame_count: u64,
    pub(super) longest_calls: Vec<LongCall>,
    /// The longest creations for the picture.
    pub(super) marks: Vec<Mark>,
    /// The others, by source and time.
    pub(super) bins: Vec<Bin>,
}

/// Creations that ended with one source.
#[derive(Debug, Serialize)]
pub(super) struct Share {
    pub(super) source: &'static str,
    pub(super) creations: u64,
    pub(super) took_ns: u64,
}

/// A frame in which a creation took 1 ms or more.
#[derive(Debug, Serialize)]
pub(super) struct SlowFrame {
    pub(super) number: u32,
    /// When it began, after the first creation.
    pub(super) at_us: u64,
    pub(super) length_ns: u64,
    pub(super) creations: u64,
    /// The creation in it that took longest.
    pub(super) longest: LongCall,
}

/// A call that took long.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LongCall {
    /// The first half of the pipeline's key, in hexadecimal digits.
    pub(super) key: String,
    pub(super) what: String,
    pub(super) at_us: u64,
    pub(super) took_ns: u64,
    pub(super) source: &'static str,
    /// 0: none.
    pub(super) frame: u32,
    /// What the next run gets, or got, in words; only of what was compiled.
    pub(super) next_run: Option<&'static str>,
}

/// When it began after the first creation and what it took, both in microseconds; the numbers of its source, its first
/// digits, the number of its kind, and its frame (0: none).
#[derive(Debug, Serialize)]
pub(super) struct Mark(
    pub(super) u64,
    pub(super) u64,
    pub(super) usize,
    pub(super) String,
    pub(super) usize,
    pub(super) u32,
);

/// Creations of one source in a piece of time: its begin and its length, the number of the source, how many there are,
/// what they took together, and the longest; all times in microseconds.
#[derive(Debug, Serialize)]
pub(super) struct Bin(
    pub(super) u64,
    pub(super) u64,
    pub(super) usize,
    pub(super) u64,
    pub(super) u64,
    pub(super) u64,
);

/// One session.
#[derive(Debug, Serialize)]
pub(super) struct SessionSummary {
    #[serde(flatten)]
    pub(super) row: Row,
    pub(super) written_bytes: u64,
    pub(super) reclaimed_bytes: u64,
    /// Today's size less what later runs have added: what commands and archives have changed is not known. Null: the
    /// report is folded.
    pub(super) bytes_after: Option<u64>,
}
