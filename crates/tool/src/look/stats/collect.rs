//! Makes the statistics from what the store knows.

use std::path::Path;

use vkstash_host::disk::errors::OpenError;
use vkstash_host::parallel;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::reports::model::{DeviceReport, RunReport};
use vkstash_store::reports::totals::{self, Separate, Totals};
use vkstash_store::settings;
use vkstash_store::settings::Settings;
use vkstash_store::stash::inspect::{ApplicationInfo, PartInfo};
use vkstash_store::stash::{self, deaths::Death, inspect};

use super::attention::InForce;
use super::model::{
    Application, Benefit, BoundTo, Bypass, Device, Died, Keep, KeepAll, LastRun, Part, RefusedFile, SCHEMA,
    Selection, Sessions, Stash, Store, Unreadable, Work,
};
use super::{attention, remark, updated};
use crate::config::in_force;
use crate::config::problems::problems;
use crate::drivers::caches::limits;
use crate::drivers::{self, Lack, Updates};
use crate::reports::names;
use crate::reports::played::{History, Session};
use crate::reports::tally::Tally;
use crate::stash::choice::{ChoiceError, choose, program_of};
use crate::stash::deaths;
use crate::stash::pulled_bases;
use crate::stash::session_caches;
use crate::term::time;

/// Why there are no statistics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
}

/// Looks at every application below `root`, and shows that of this name, or all. A missing root counts as empty.
pub(crate) fn collect(root: &Path, name: Option<&str>, selection: Selection) -> Result<Stash, CollectError> {
    let found = inspect::list_applications(root)?;
    let updates = drivers::look(root, &found);
    let only = name.map(|name| choose(&found, name, root)).transpose()?.map(|info| info.folder.clone());
    let mut stash = shown(root, found, selection, updates);
    if let Some(folder) = only {
        stash.applications.retain(|application| application.folder == folder);
    }
    Ok(stash)
}

fn shown(root: &Path, found: Vec<ApplicationInfo>, selection: Selection, updates: Updates) -> Stash {
    let unreadable = found.iter().flat_map(|info| unreadable(root, info)).collect();
    let read = settings::read(root);
    let of_all = read.all();
    let described = |info: &ApplicationInfo| {
        let sessions = sessions(root, info);
        if !is_ours(info) && sessions.caches == 0 {
            return None;
        }
        let own = read.of(&info.folder);
        let lacks = updated::of(info, &updates);
        let past = Past { history: History::of(root, &info.folder), deaths: died(root, info, 0) };
        let runs = selected(root, info, selection);
        let mut shown = application(info, &runs, in_force(&of_all, &own), lacks, past);
        match selection {
            Selection::All => {}
            Selection::Last => shown.history.keep_since(shown.session.last_use_unix_ms),
            Selection::Since { since_unix_ms } => shown.history.keep_since(since_unix_ms),
        }
        let keep = keep(&shown, &of_all, &own);
        Some(Application { sessions, keep, ..shown })
    };
    let mut applications: Vec<_> = parallel::map(&found, described).into_iter().flatten().collect();
    applications.sort_by_key(|application| std::cmp::Reverse(application.last_use_unix_ms));
    let bytes = in_force::sum(applications.iter().map(|application| application.bytes));
    let pulled = pulled_bases::bytes(root);
    let limits = in_force::limits(root, &of_all);
    let limit_bytes = Some(limits.total_bytes).filter(|&limit| limit != u64::MAX);
    Stash {
        schema: SCHEMA,
        root: root.to_string_lossy().into_owned(),
        bytes,
        pulled_bases_bytes: pulled,
        keep: KeepAll {
            limit_bytes,
            limit_used_percent: limit_bytes
                .and_then(|limit| in_force::percent(bytes.saturating_add(pulled), limit)),
            free_space_bytes: limits.free_space_floor,
            missing_space_bytes: missing_space(root, limits.free_space_floor),
            device_age_ms: Some(limits.device_age).filter(|&age| age != u64::MAX),
            ignored_settings: problems(&read),
            driver_limits: limits::planned(),
        },
        told_of_updates: updates.told(time::now()),
        not_ready: updates.not_ready,
        prepared: updates.prepared,
        selection,
        applications,
        unreadable,
    }
}

/// What has come of one application in a run that has ended, as [`collect`] tells it of the last one, but without a
/// look at what is stored. `folder`: where its reports are; None where it has no stash.
pub(crate) fn of_run(root: &Path, folder: Option<&str>, reports: &[RunReport]) -> Application {
    let separate = folder.map(|folder| totals::separate(root, folder)).unwrap_or_default();
    // What is in the stash tells whether the process goes on.
    let stored = |report: &RunReport| {
        let is_it = |run: &&RunReport| (run.started_unix_ms, run.pid) == (report.started_unix_ms, report.pid);
        separate.runs.iter().find(is_it).unwrap_or(report).clone()
    };
    let reports: Vec<RunReport> = reports.iter().map(stored).collect();
    let mut totals = separate.folded.clone();
    separate.runs.iter().for_each(|run| totals.add(run));
    if separate.runs.is_empty() {
        reports.iter().for_each(|run| totals.add(run));
    }
    totals.last = Some(joined(&reports));
    let display = reports.first().map(|report| report.application.clone()).unwrap_or_default();
    let info = ApplicationInfo {
        folder: folder.unwrap_or(&display).to_owned(),
        display,
        parts: Vec::new(),
        runs: totals.clone(),
        unusable: Default::default(),
    };
    let read = settings::read(root);
    let in_force = in_force(&read.all(), &read.of(&info.folder));
    // What ended earlier sessions was told then.
    let since = reports.iter().map(|report| report.started_unix_ms).min().unwrap_or_default();
    let deaths = if folder.is_some() { died(root, &info, since) } else { Vec::new() };
    let past = Past { history: History::of_reports(separate), deaths };
    application(&info, &Runs { totals, not_told_apart: 0 }, in_force, Vec::new(), past)
}

/// What is known of an application's earlier sessions beside the sums.
#[derive(Default)]
struct Past {
    history: History,
    deaths: Vec<Died>,
}

/// The pipelines at which processes ended then or later. The time of a death is in whole seconds.
fn died(root: &Path, info: &ApplicationInfo, since_unix_ms: u64) -> Vec<Died> {
    let of = |death: Death| Died {
        line: deaths::line(root, &info.folder, &info.display, &death),
        key: hex::encode(death.key),
        stages: death.stages,
        deaths: death.deaths,
        unix_ms: death.unix_ms,
        part: death.part,
    };
    let all = stash::deaths::of(root, &info.folder).into_iter();
    all.filter(|death| death.unix_ms.saturating_add(999) >= since_unix_ms).map(of).collect()
}

/// The reports of several processes as one.
fn joined(reports: &[RunReport]) -> RunReport {
    let mut all = reports.first().cloned().unwrap_or_default();
    for report in reports.iter().skip(1) {
        report.devices.iter().for_each(|device| device.clone().add_to(&mut all.devices));
        all.store.add(&report.store);
        if all.store.unusable.is_empty() {
            all.store.unusable.clone_from(&report.store.unusable);
        }
        all.started_unix_ms = all.started_unix_ms.min(report.started_unix_ms);
        all.updated_unix_ms = all.updated_unix_ms.max(report.updated_unix_ms);
        all.is_over &= report.is_over;
        all.goes_on |= report.goes_on;
    }
    all
}

fn in_force(of_all: &Settings, own: &Settings) -> InForce {
    InForce {
        background: in_force::background_mode(of_all, own),
        disabled: own.disabled_caches.or(of_all.disabled_caches).unwrap_or_default(),
    }
}

/// How much less than that is free on the disk.
fn missing_space(root: &Path, floor: u64) -> u64 {
    in_force::file_system(root).map_or(0, |(_, free)| floor.saturating_sub(free))
}

/// Some of an application's runs.
struct Runs {
    totals: Totals,
    /// Folded runs that may be among them, or not.
    not_told_apart: u64,
}

/// The runs that count.
fn selected(root: &Path, info: &ApplicationInfo, selection: Selection) -> Runs {
    let mut runs = Runs { totals: Totals::default(), not_told_apart: 0 };
    match selection {
        Selection::All => runs.totals = info.runs.clone(),
        Selection::Last => info.runs.last.iter().for_each(|last| runs.totals.add(last)),
        Selection::Since { since_unix_ms } => {
            let Separate { folded, runs: separate } = totals::separate(root, &info.folder);
            let is_since = |updated_unix_ms: u64| updated_unix_ms >= since_unix_ms;
            separate.iter().filter(|run| is_since(run.updated_unix_ms)).for_each(|run| runs.totals.add(run));
            runs.not_told_apart = if is_since(folded.until_unix_ms) { folded.runs } else { 0 };
        }
    }
    let is_there = runs.totals.runs > 0;
    runs.totals.last = info.runs.last.clone().filter(|_| is_there);
    runs.totals.unreadable = info.runs.unreadable;
    runs
}

/// Whether the folder holds a stash: other folders may lie beside the stashes.
fn is_ours(info: &ApplicationInfo) -> bool {
    !info.parts.is_empty() || info.runs.runs > 0
}

/// The caches of its sessions. Where they cannot be read there are none.
fn sessions(root: &Path, info: &ApplicationInfo) -> Sessions {
    let caches = session_caches::of(root, info);
    let bytes = in_force::sum(caches.iter().map(|kept| kept.bytes));
    Sessions { caches: caches.len() as u64, bytes }
}

fn unreadable(root: &Path, info: &ApplicationInfo) -> Vec<Unreadable> {
    let of = |(name, reason): (&String, &String)| {
        let folder = root.join(&info.folder);
        // Under its own name stands the application's whole folder.
        let path = if *name == info.folder { folder } else { folder.join(name) };
        Unreadable { path: path.to_string_lossy().into_owned(), reason: reason.clone() }
    };
    info.unusable.iter().map(of).collect()
}

/// The limits of an application under the settings of all and its own.
fn keep(application: &Application, of_root: &Settings, own: &Settings) -> Keep {
    let limit_bytes = in_force::application_limit(of_root, own).value;
    Keep {
        limit_bytes,
        limit_used_percent: limit_bytes.and_then(|limit| in_force::percent(application.bytes, limit)),
        modules: settings::modules_text(in_force::module_policy(of_root, own).value),
        ..application.keep.clone()
    }
}

/// The statistics of one application over these runs, with default limits.
fn application(
    info: &ApplicationInfo,
    Runs { totals: runs, not_told_apart }: &Runs,
    in_force: InForce,
    lacks: Vec<Lack>,
    Past { history, deaths }: Past,
) -> Application {
    let mut tally = Tally::default();
    runs.devices.iter().for_each(|device| tally.add(device));
    let (bytes, module_bytes) = (in_force::bytes(info), in_force::module_bytes(info));
    let moment = |unix_ms| (runs.runs > 0).then_some(unix_ms);
    let mut application = Application {
        name: info.display.clone(),
        folder: info.folder.clone(),
        program: program_of(info).to_owned(),
        bytes,
        sessions: Sessions::default(),
        keep: Keep {
            modules: settings::modules_text(Default::default()),
            module_bytes,
            module_percent: in_force::percent(module_bytes, bytes),
            ..Keep::default()
        },
        runs: runs.runs,
        runs_not_told_apart: *not_told_apart,
        unreadable_reports: runs.unreadable,
        since_unix_ms: moment(runs.since_unix_ms),
        last_use_unix_ms: moment(runs.until_unix_ms),
        work: work(&tally),
        last_run: runs.last.as_ref().map(last_run),
        session: match &runs.last {
            Some(last) => Session::of([last]),
            None => Session::of([&RunReport { devices: runs.devices.clone(), ..RunReport::default() }]),
        },
        history,
        deaths,
        devices: devices(runs),
        parts: info.parts.iter().map(part).collect(),
        store: store(runs),
        lacks,
        benefit: Benefit::Unknown,
        remark: None,
        attention: Vec::new(),
    };
    (application.benefit, application.remark) = remark::judge(&application, &tally, in_force.background);
    application.attention = attention::of(&application, in_force);
    application
}

fn last_run(run: &RunReport) -> LastRun {
    let (mut tally, mut totals) = (Tally::default(), Totals::default());
    totals.add(run);
    run.devices.iter().for_each(|device| tally.add(device));
    LastRun {
        started_unix_ms: run.started_unix_ms,
        last_use_unix_ms: run.updated_unix_ms,
        work: work(&tally),
        devices: devices(&totals),
        store: store(&totals),
    }
}

/// One row for each device and driver version, whatever features were enabled; the latest first.
fn devices(runs: &Totals) -> Vec<Device> {
    let identity = |report: &DeviceReport| {
        let numbers = (report.vendor_id, report.device_id, report.driver_id, report.driver_version);
        (numbers, report.name.clone())
    };
    let mut rows: Vec<(_, Tally, Device)> = Vec::new();
    for report in &runs.devices {
        let place = rows.iter().position(|(known, ..)| *known == identity(report));
        let place = place.unwrap_or_else(|| {
            rows.push((identity(report), Tally::default(), unused(report)));
            rows.len() - 1
        });
        let (_, tally, device) = &mut rows[place];
        tally.add(report);
        if !report.part.is_empty() && !device.parts.contains(&report.part) {
            device.parts.push(report.part.clone());
        }
    }
    rows.into_iter().rev().map(|(_, tally, device)| Device { work: work(&tally), ..device }).collect()
}

fn unused(device: &DeviceReport) -> Device {
    Device {
        name: device.name.clone(),
        vendor_id: device.vendor_id,
        device_id: device.device_id,
        driver_id: device.driver_id,
        driver: names::driver_id(device.driver_id),
        driver_version: device.driver_version,
        driver_version_text: names::driver_version(device.driver_id, device.driver_version),
        parts: Vec::new(),
        work: work(&Tally::default()),
    }
}

fn part(info: &PartInfo) -> Part {
    let refused = info.refused.iter().map(|refused| RefusedFile {
        file: refused.file.clone(),
        reason: refused.reason.name().to_owned(),
        detail: refused.reason.to_string(),
    });
    Part {
        name: info.name.clone(),
        bound_to: info.device.as_ref().map(bound_to),
        bytes: info.bytes,
        segments: info.segments,
        sealed_segments: info.sealed,
        records: info.records.clone(),
        payload_bytes: info.payload_bytes.clone(),
        damaged_places: info.damaged,
        refused_files: refused.collect(),
    }
}

fn bound_to(header: &DeviceHeader) -> BoundTo {
    BoundTo {
        vendor_id: header.vendor_id,
        device_id: header.device_id,
        driver_id: header.driver_id,
        driver: names::driver_id(header.driver_id),
        driver_version: header.driver_version,
        driver_version_text: names::driver_version(header.driver_id, header.driver_version),
        pipeline_cache_uuid: hex::encode(header.pipeline_cache_uuid),
        pointer_width: header.pointer_width,
        key_schema: header.schema,
        features_digest: hex::encode(header.features_digest),
    }
}

fn work(tally: &Tally) -> Work {
    let bypassed = tally.bypassed().into_iter().map(|(reason, s_type, count)| Bypass {
        reason: reason.to_owned(),
        s_type,
        // 0 stands for "no structure", although Vulkan gives this number to VkApplicationInfo.
        structure: if s_type == 0 { None } else { names::structure_type(s_type) },
        count,
    });
    Work {
        hit_percent: tally.hit_percent(),
        driver_percent: tally.driver_percent(),
        ready: tally.ready(),
        pipelines: tally.pipelines(),
        counters: tally.counters(),
        bypassed: bypassed.collect(),
        requests: tally.requests(),
    }
}

fn store(runs: &Totals) -> Store {
    let met = &runs.store;
    Store {
        unusable: runs.unusable.clone(),
        refused: met.refused.clone(),
        write_errors: met.write_errors.clone(),
        damaged_records: met.damaged_records,
        written_records: met.written_records,
        written_bytes: met.written_bytes,
        dropped: met.dropped,
        evicted_bytes: met.evicted_bytes.clone(),
        evicted_records: met.evicted_records,
        compacted_bytes: met.compacted_bytes,
        reclaimed_bytes: met.reclaimed_bytes,
    }
}

#[cfg(test)]
pub(super) fn of_all(info: &ApplicationInfo) -> Application {
    let lacks = updated::of(info, &Updates::default());
    let runs = selected(Path::new("/"), info, Selection::All);
    application(info, &runs, InForce::default(), lacks, Past::default())
}

#[cfg(test)]
pub(super) fn example(runs: Totals) -> ApplicationInfo {
    ApplicationInfo {
        folder: "my-game-01234567-89abcdef".to_owned(),
        display: "my-game".to_owned(),
        parts: Vec::new(),
        runs,
        unusable: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vkstash_model::counters::Count;
    use vkstash_store::reports::model::BypassReport;

    use super::*;

    fn device(part: &str, version: u32, served: u64) -> DeviceReport {
        DeviceReport {
            name: "Test GPU".to_owned(),
            driver_id: 3,
            driver_version: version,
            part: part.to_owned(),
            counters: BTreeMap::from([(Count::Served.name().to_owned(), served)]),
            bypassed: vec![BypassReport { reason: "library".to_owned(), s_type: 0, count: 1 }],
            ..DeviceReport::default()
        }
    }

    fn report(time: u64, devices: Vec<DeviceReport>) -> RunReport {
        let (started_unix_ms, updated_unix_ms) = (time, time + 10);
        RunReport { started_unix_ms, updated_unix_ms, devices, ..Default::default() }
    }

    #[test]
    fn one_device_with_two_feature_sets_is_one_row_and_a_new_driver_another() {
        let mut runs = Totals::default();
        runs.add(&report(100, vec![device("aa", 1, 2), device("bb", 1, 3)]));
        runs.add(&report(200, vec![device("cc", 2, 4)]));
        let application = of_all(&example(runs));
        assert_eq!((application.since_unix_ms, application.last_use_unix_ms), (Some(100), Some(210)));
        let rows: Vec<_> = application.devices.iter().map(|d| (d.driver_version, d.parts.len())).collect();
        assert_eq!(rows, [(2, 1), (1, 2)]);
        assert_eq!(application.devices[1].work.counters["served"], 5);
        assert_eq!(application.work.counters["served"], 9);
        assert_eq!(application.work.bypassed[0].count, 3);
        assert_eq!(application.work.bypassed[0].structure, None);
    }

    #[test]
    fn an_application_without_a_report_has_no_times() {
        let application = of_all(&example(Totals::default()));
        assert_eq!((application.since_unix_ms, application.last_use_unix_ms), (None, None));
    }

    #[test]
    fn folders_without_a_stash_are_left_out_and_unusable_ones_named() {
        let mut foreign = example(Totals::default());
        foreign.unusable.insert(foreign.folder.clone(), "not yours".to_owned());
        let stash = shown(Path::new("/r"), vec![foreign], Selection::All, Updates::default());
        assert!(stash.applications.is_empty());
        assert_eq!(stash.unreadable[0].path, "/r/my-game-01234567-89abcdef");
    }
}
