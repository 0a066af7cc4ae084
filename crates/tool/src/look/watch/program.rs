//! One program as it is shown. Its fields are the names in JSON, and their documentation that of
//! docs/schema/watch.json.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use vkstash_model::counters::Count;
use vkstash_model::live::{Activity, COUNTED, Live, LiveCall, LiveError};
use vkstash_store::reports::model::DeviceReport;

use crate::reports::live_pages::Finder;
use crate::reports::tally::Tally;

/// A program.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Program {
    /// The process.
    pub(super) pid: u32,
    /// Why its page cannot be read, for instance a newer version. Then `pid` is all there is beside it. Null: it can.
    pub(super) unreadable: Option<String>,
    #[serde(flatten)]
    pub(super) state: Option<State>,
}

/// What it does.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct State {
    /// What the application is called in the stash.
    pub(super) application: String,
    /// Its folder in the stash. Empty: there is none.
    pub(super) folder: String,
    /// When its first device was created, in Unix milliseconds.
    pub(super) started_unix_ms: u64,
    /// How long ago that was.
    pub(super) running_ns: u64,
    /// Number of pipelines that it has asked for.
    pub(super) pipelines: u64,
    /// Share of these that need not be compiled, of those that could be: percent with one decimal, rounded down. Null:
    /// there are none.
    pub(super) ready_percent: Option<f64>,
    /// Those counters of `vkstash stats --json` that the page has, by name.
    #[cfg_attr(test, schemars(with = "crate::reports::schema::PageCounters"))]
    pub(super) counters: BTreeMap<&'static str, u64>,
    /// Number of workers that exist.
    pub(super) workers: u64,
    /// Whether they leave the processors to other threads now.
    pub(super) workers_paused: bool,
    /// Number of records that the writer has written to the stash, as of its last report.
    pub(super) written_records: u64,
    /// Bytes that the writer has written to the stash, as of its last report.
    pub(super) written_bytes: u64,
    /// Calls in flight, the longest first, at most 32.
    pub(super) calls: Vec<Call>,
}

/// A call in flight.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Call {
    /// The first 16 hexadecimal digits of the pipeline's key, with which `vkstash show` finds it once it is recorded.
    /// Null: not known (yet). A pipeline that the layer only passes on or watches has none (an unknown driver, or
    /// `VKSTASH_BACKGROUND=disabled` on drivers that keep nothing).
    pub(super) key: Option<String>,
    /// VkShaderStageFlags; 0: not known.
    pub(super) stages: u32,
    /// What is being done: `capture` (the create info is described), `parked` (a pipeline that was made ahead is taken
    /// or waited for), `driver` (the driver's caches are asked), `stash` (the pipeline is made from its artifact),
    /// `companion` (a companion is asked), `compile` (the driver compiles), `own_call` (the program's own call, which
    /// may compile), `link` (a link of the program's libraries), `ahead` (a worker makes it ahead), `record` (a worker
    /// records what the driver had), or `unknown` (a newer layer's).
    pub(super) step: &'static str,
    #[serde(skip)]
    pub(super) words: &'static str,
    /// How long ago the call began.
    pub(super) running_ns: u64,
    /// The thread; in a container this is its number there.
    pub(super) thread: u64,
    /// Whether a worker makes the call.
    pub(super) worker: bool,
}

impl Program {
    /// Those that run now, the one that has started last first.
    pub(super) fn all(finder: &mut Finder, monotonic_ns: u64) -> Vec<Program> {
        let of = |(pid, read): (u32, Result<Live, LiveError>)| match &read {
            // It is not written yet.
            Err(LiveError::Empty) => None,
            read => Some(Program::of(pid, read, monotonic_ns)),
        };
        let mut programs: Vec<_> = finder.read().into_iter().filter_map(of).collect();
        programs.sort_by_key(|program| (Reverse(program.started()), program.pid));
        programs
    }

    pub(super) fn of(pid: u32, read: &Result<Live, LiveError>, monotonic_ns: u64) -> Program {
        match read {
            Ok(live) => Program { pid, unreadable: None, state: Some(State::of(live, monotonic_ns)) },
            Err(error) => Program { pid, unreadable: Some(error.to_string()), state: None },
        }
    }

    /// When its first device was created. 0: not known.
    pub(super) fn started(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.started_unix_ms)
    }
}

impl State {
    fn of(live: &Live, monotonic_ns: u64) -> State {
        let counters: BTreeMap<_, _> = COUNTED.map(|what| (what.name(), live.get(what))).into();
        let mut tally = Tally::default();
        let named = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        tally.add(&DeviceReport { counters: named, ..DeviceReport::default() });
        let not_ready = tally.compiled().saturating_add(tally.get(Count::CompileRequired));
        let ready = tally.asked().saturating_sub(not_ready);
        let tenths = (u128::from(ready) * 1000).checked_div(u128::from(tally.asked()));
        State {
            application: live.application.clone(),
            folder: live.folder.clone(),
            started_unix_ms: live.unix_ms,
            running_ns: monotonic_ns.saturating_sub(live.monotonic_ns),
            pipelines: tally.requests(),
            ready_percent: tenths.map(|tenths| tenths as f64 / 10.0),
            counters,
            workers: live.workers,
            workers_paused: live.is_paused,
            written_records: live.written_records,
            written_bytes: live.written_bytes,
            calls: live.calls.iter().map(|call| Call::of(call, monotonic_ns)).collect(),
        }
    }

    /// Calls in which the driver may compile now.
    pub(super) fn compiling(&self) -> usize {
        let compiles = [Activity::Compile.name(), Activity::Own.name()];
        self.calls.iter().filter(|call| compiles.contains(&call.step)).count()
    }
}

impl Call {
    fn of(call: &LiveCall, monotonic_ns: u64) -> Call {
        Call {
            key: call.digits(),
            stages: call.stages.as_raw(),
            step: call.activity.map_or("unknown", Activity::name),
            words: call.activity.map_or("busy", Activity::words),
            running_ns: monotonic_ns.saturating_sub(call.started),
            thread: call.thread,
            worker: call.is_worker,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ash::vk;

    use super::*;

    /// A program with a call that compiles.
    pub(in super::super) fn program(pid: u32, application: &str) -> Program {
        let stages = vk::ShaderStageFlags::VERTEX | vk::ShaderStageFlags::FRAGMENT;
        let call = LiveCall {
            thread: 1234,
            started: 1,
            is_worker: false,
            key: Some(0x3f2a_91c4_0000_0001),
            stages,
            activity: Some(Activity::Compile),
        };
        let mut counters = [0; COUNTED.len()];
        counters[vkstash_model::live::place(Count::Served).unwrap()] = 3;
        counters[vkstash_model::live::place(Count::Compiled).unwrap()] = 1;
        let live = Live {
            application: application.to_owned(),
            unix_ms: u64::from(pid),
            workers: 2,
            written_bytes: 4096,
            written_records: 5,
            counters,
            calls: vec![call],
            ..Live::default()
        };
        Program::of(pid, &Ok(live), 12_000_000_001)
    }

    #[test]
    fn names_in_json_are_stable() {
        let json = serde_json::to_value(program(7, "game")).unwrap();
        let call = serde_json::json!({
            "key": "3f2a91c400000001", "stages": 17, "step": "compile", "running_ns": 12_000_000_000_u64,
            "thread": 1234, "worker": false,
        });
        assert_eq!(json["calls"], serde_json::json!([call]));
        assert_eq!((&json["pipelines"], &json["ready_percent"]), (&4.into(), &75.0.into()));
        assert_eq!((&json["unreadable"], &json["counters"]["served"]), (&().into(), &3.into()));
        let unreadable = Program::of(7, &Err(LiveError::Version(9)), 0);
        let json = serde_json::to_value(unreadable).unwrap();
        let said = "its page has version 9, and this program reads version 1";
        assert_eq!(json, serde_json::json!({ "pid": 7, "unreadable": said }));
    }
}
