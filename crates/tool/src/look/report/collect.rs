//! Makes the report of an application from its stash. Reads only.

use std::collections::HashMap;
use std::path::Path;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::key;
use vkstash_model::recipe::Recipe;
use vkstash_model::record::{Key, Kind};
use vkstash_store::reports::model::RunReport;
use vkstash_store::reports::timeline::{self, Creation, Timeline};
use vkstash_store::reports::totals::{self, Separate};
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::inspect::ApplicationInfo;

use super::model::{Comparison, Report, SCHEMA, SOURCES, SessionSummary, SlowPipeline};
use super::timelines::{self, Known, Pipelines};
use crate::look::show::describe::describe;
use crate::look::show::pipelines::{self, Listed};
use crate::reports::played::{History, Row};
use crate::term::time;

/// The most pipelines among the slowest.
const SLOWEST: usize = 200;
/// Of pipelines that a run created, and that the stash has no more.
const GONE: &str = "not in the stash any more";

pub(super) fn report(root: &Path, application: &ApplicationInfo) -> Result<Report, OpenError> {
    let portable = match Browser::open(root, &application.folder, "portable") {
        Err(error) if error.is_missing() => None,
        opened => Some(opened?),
    };
    let listed =
        portable.as_ref().map(|portable| pipelines::of(root, application, portable)).unwrap_or_default();
    let pipelines = by_half_key(&listed);
    let (found, unreadable): (Vec<Timeline>, Vec<Timeline>) =
        timeline::all(root, &application.folder).into_iter().partition(|found| !found.is_unreadable);
    let last = found.iter().find(|found| !found.creations.is_empty());
    let calls = last.map(timelines::longest_calls).unwrap_or_default();
    let next = |place: usize| place.checked_sub(1).and_then(|next| found.get(next));
    let separate = totals::separate(root, &application.folder);
    let bytes = application.parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.bytes));
    Ok(Report {
        schema: SCHEMA,
        application: application.display.clone(),
        folder: application.folder.clone(),
        written_unix_ms: time::now(),
        bytes,
        pipelines: listed.len() as u64,
        runs: application.runs.runs,
        comparison: comparison(&calls, &pipelines),
        slowest: slowest(&listed, &calls, portable.as_ref()),
        timelines: found
            .iter()
            .enumerate()
            .map(|(place, found)| timelines::of(found, next(place), &pipelines))
            .filter(|run| run.creations > 0 || run.damaged > 0)
            .collect(),
        unreadable_timelines: unreadable.len() as u64,
        earlier_runs: separate.folded.runs,
        history: history(separate, bytes),
        kinds: pipelines.kinds,
    })
}

fn half(key: &str) -> Option<[u8; 16]> {
    let mut half = [0; 16];
    hex::decode_to_slice(key.get(..32)?, &mut half).ok()?;
    Some(half)
}

fn shortest_compile(listed: &Listed) -> Option<u64> {
    listed.devices.iter().filter_map(|device| device.compile_ns).min()
}

fn by_half_key(listed: &[Listed]) -> Pipelines {
    let mut kinds = vec![GONE.to_owned()];
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut known = HashMap::with_capacity(listed.len());
    for pipeline in listed {
        let Some(half) = half(&pipeline.key) else { continue };
        let kind = *numbers.entry(&pipeline.what).or_insert_with(|| {
            kinds.push(pipeline.what.clone());
            kinds.len() - 1
        });
        let is_stored = pipeline.devices.iter().any(|device| device.is_stored);
        known.insert(half, Known { kind, compile_ns: shortest_compile(pipeline), is_stored });
    }
    Pipelines { known, kinds }
}

/// None: there is nothing to compare.
fn comparison(calls: &HashMap<[u8; 16], &Creation>, pipelines: &Pipelines) -> Option<Comparison> {
    let mut comparison = Comparison::default();
    for (half, call) in calls {
        let Some(compile_ns) = pipelines.known.get(half).and_then(|known| known.compile_ns) else {
            comparison.not_measured += 1;
            continue;
        };
        comparison.pipelines += 1;
        comparison.without_stash.add(compile_ns);
        comparison.last_run.add(timelines::took_ns(call));
    }
    (comparison.pipelines > 0).then_some(comparison)
}

/// Ordered by the compile or by the call of the last run, whichever took longer.
fn slowest(
    listed: &[Listed],
    calls: &HashMap<[u8; 16], &Creation>,
    portable: Option<&Browser>,
) -> Vec<SlowPipeline> {
    let call = |pipeline: &Listed| half(&pipeline.key).and_then(|half| calls.get(&half).copied());
    let mut order: Vec<(u64, &Listed)> = listed
        .iter()
        .map(|pipeline| {
            let call = call(pipeline).map(timelines::took_ns).unwrap_or_default();
            (call.max(shortest_compile(pipeline).unwrap_or_default()), pipeline)
        })
        .filter(|(took, _)| *took > 0)
        .collect();
    order.sort_by(|(one, this), (other, that)| other.cmp(one).then_with(|| this.key.cmp(&that.key)));
    order.truncate(SLOWEST);
    let slow = |(_, pipeline): (u64, &Listed)| SlowPipeline {
        key: pipeline.key.clone(),
        what: pipeline.what.clone(),
        compile_ns: shortest_compile(pipeline),
        last_call_ns: call(pipeline).map(timelines::took_ns),
        last_source: call(pipeline).map(|call| SOURCES[timelines::source(call)]),
        bytes: pipeline.devices.iter().filter_map(|device| device.bytes).max(),
        description: portable.and_then(|portable| description(portable, &pipeline.key)).unwrap_or_default(),
    };
    order.into_iter().map(slow).collect()
}

/// None: the recipe cannot be read.
fn description(portable: &Browser, digits: &str) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    let key = Key::try_from(hex::decode(digits).ok()?).ok()?;
    if !portable.read(Kind::Recipe, &key, &mut bytes) {
        return None;
    }
    let recipe: Recipe<'_> = key::decode(&bytes).ok()?;
    let mut text = Vec::new();
    describe(portable, &recipe, &mut text).ok()?;
    Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

/// The oldest first. Sizes are calculated from the last run back.
fn history(separate: Separate, bytes: u64) -> Vec<SessionSummary> {
    let mut after = i128::from(bytes);
    let mut runs: Vec<&RunReport> = separate.runs.iter().collect();
    runs.sort_by_key(|run| (run.updated_unix_ms, run.started_unix_ms));
    let mut sizes = HashMap::new();
    for run in runs.into_iter().rev() {
        let RunReport { store, started_unix_ms, .. } = run;
        sizes.insert(*started_unix_ms, (store.written_bytes, store.reclaimed_bytes, after));
        after -= i128::from(store.written_bytes) + i128::from(store.compacted_bytes);
        after += i128::from(store.reclaimed_bytes);
    }
    let summary = |row: &Row| {
        let size = sizes.get(&row.session.started_unix_ms);
        let (written_bytes, reclaimed_bytes, _) = size.copied().unwrap_or_default();
        let bytes_after = size.map(|(.., after)| u64::try_from(*after).unwrap_or_default());
        SessionSummary { row: row.clone(), written_bytes, reclaimed_bytes, bytes_after }
    };
    History::of_reports(separate).rows().iter().rev().map(summary).collect()
}
