//! The line that `vkstash run` prints at its end.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

use vkstash_model::counters::Count;
use vkstash_store::format::app_name::AppName;
use vkstash_store::reports::model::RunReport;
use vkstash_store::settings::{self, Settings};

use crate::in_force;
use crate::names;
use crate::savings::saved;
use crate::tally::Tally;
use crate::units::{counted, plain};
use crate::unready;

/// Number of reasons for bypasses that are named, the most frequent first.
const MOST_REASONS: usize = 2;

/// What the stash and its settings say of the programs of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Background work may be done.
    has_background: bool,
}

impl Known {
    /// Reads the parts of an application only if it makes a difference.
    pub(crate) fn of(root: Option<&Path>, reports: &[RunReport]) -> Known {
        let Some(root) = root else { return Known { has_background: true } };
        let read = settings::read(root);
        let of_root = read.all();
        // Reports name applications as people read them, so these are those of the reports, or have the same name.
        let displays: BTreeSet<_> = reports.iter().map(|report| report.application.as_str()).collect();
        let is_one = |name: &String| {
            AppName::of_folder(name)
                .is_some_and(|application| displays.contains(application.display.as_str()))
        };
        let names = fs::read_dir(root).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let applications: Vec<_> = names.filter(is_one).collect();
        let may_work = |own: &Settings| in_force::background_mode(&of_root, own).allows_work();
        let has_background = match applications.as_slice() {
            [] => may_work(&Settings::default()),
            some => some.iter().any(|application| may_work(&read.of(application))),
        };
        Known { has_background }
    }
}

/// The reports of one run in one line. `had_instance`: a process had an instance with the layer.
pub(crate) fn of(reports: &[RunReport], had_instance: bool, known: Known) -> String {
    let mut parts = vec![outcome(reports, had_instance, known)];
    parts.extend(trouble(reports));
    parts.join("; ")
}

fn outcome(reports: &[RunReport], had_instance: bool, known: Known) -> String {
    let devices: Vec<_> = reports.iter().flat_map(|report| &report.devices).collect();
    if devices.is_empty() {
        return nothing_reported(had_instance || !reports.is_empty());
    }
    let mut tally = Tally::default();
    devices.into_iter().for_each(|device| tally.add(device));
    let shaders = shader_objects(&tally);
    if tally.requests() == 0 {
        return match shaders.is_empty() {
            true => "the layer was loaded; the command created no pipeline".to_owned(),
            false => format!("{shaders}; {}", saved(tally.get(Count::SavedNanos), 0)),
        };
    }
    let mut line = format!("{}, {} compiled", without_compiling(&tally), tally.compiled());
    let sometimes = [
        (Count::Offered, "offered"),
        (Count::CompileRequired, "compile required"),
        (Count::Failed, "failed"),
        (Count::NothingToCompile, "with nothing to compile"),
    ];
    for (what, words) in sometimes {
        if tally.get(what) > 0 {
            line += &format!(", {} {words}", tally.get(what));
        }
    }
    line += &format!(", {} bypassed{}", tally.get(Count::Bypassed), reasons_for_bypasses(&tally));
    if !shaders.is_empty() {
        line += &format!("; {shaders}");
    }
    line += &format!("; {}", saved(tally.get(Count::SavedNanos), tally.get(Count::AheadNanos)));
    line + &remarks(&tally, known)
}

/// What came of shader objects; nothing if there were none.
fn shader_objects(tally: &Tally) -> String {
    let counts = [Count::ShadersServed, Count::ShadersCompiled, Count::ShadersPassedOn];
    match counts.map(|what| tally.get(what)) {
        [0, 0, 0] => String::new(),
        [served, compiled, 0] => format!("shader objects: {served} served, {compiled} compiled"),
        [served, compiled, others] => {
            format!("shader objects: {served} served, {compiled} compiled, {others} passed on")
        }
    }
}

/// How many pipelines were served, and how many the driver's caches had; the greater number first.
fn without_compiling(tally: &Tally) -> String {
    let mut served = match tally.hit_percent() {
        Some(percent) => format!("{} served ({percent:.1} %)", tally.served()),
        None => format!("{} served", tally.served()),
    };
    if tally.get(Count::Parked) > 0 {
        served += &format!(", {} of them ready before the program asked", tally.get(Count::Parked));
    }
    let driver_had = tally.get(Count::DriverHad);
    if driver_had == 0 {
        return served;
    }
    let percent = tally.driver_percent().unwrap_or_default();
    let answered = format!("{driver_had} answered by the driver's caches ({percent:.1} %)");
    if driver_had > tally.served() {
        format!("{answered}, {served}")
    } else {
        format!("{served}, {answered}")
    }
}

/// The most frequent reasons for bypasses, in brackets; nothing if there were none.
fn reasons_for_bypasses(tally: &Tally) -> String {
    let reasons = tally.bypassed();
    let words: Vec<_> = reasons
        .iter()
        .take(MOST_REASONS)
        .map(|&(reason, s_type, _)| plain(&names::bypass(reason, s_type)))
        .collect();
    if words.is_empty() {
        return String::new();
    }
    let more = if reasons.len() > MOST_REASONS { ", ..." } else { "" };
    format!(" ({}{more})", words.join(", "))
}

/// Why not more was served, as far as that can be told.
fn remarks(tally: &Tally, known: Known) -> String {
    let mut remarks = String::new();
    if let Some((_, reasons)) = unready::of(|what| tally.get(what)) {
        remarks += &format!("; not ready: {reasons}");
    }
    if tally.get(Count::SwitchedOff) > 0 {
        remarks += "; compilations were disabled (`vkstash cache`)";
    }
    if tally.get(Count::NothingKept) > 0 && tally.served() == 0 {
        remarks += match known.has_background {
            true => {
                "; this driver's caches keep nothing, so only what background work compiles ahead can be served"
            }
            false => "; this driver's caches keep nothing that could be served",
        };
    }
    remarks
}

/// Why there is nothing to tell of.
fn nothing_reported(was_loaded: bool) -> String {
    let set = |name| env::var_os(name).is_some();
    let hint = if was_loaded {
        "the layer was loaded; the command opened no device, or ended before its report was written"
    } else if set("VKSTASH_DISABLE") {
        "VKSTASH_DISABLE is set, so the layer did nothing"
    } else if set("VK_LOADER_LAYERS_DISABLE") {
        "the layer was not loaded: the command does not use Vulkan, or VK_LOADER_LAYERS_DISABLE kept the layer out"
    } else {
        "the layer was not loaded: the command does not use Vulkan, or `vkstash doctor` tells why"
    };
    hint.to_owned()
}

/// Problems that the user should know of.
fn trouble(reports: &[RunReport]) -> Vec<String> {
    let mut lines = Vec::new();
    let unusable: BTreeSet<_> = reports.iter().map(|report| report.store.unusable.as_str()).collect();
    for reason in unusable.into_iter().filter(|reason| !reason.is_empty()) {
        lines.push(format!("the stash could not be used: {}", plain(reason)));
    }
    let sum =
        |of: fn(&RunReport) -> u64| reports.iter().fold(0_u64, |sum, report| sum.saturating_add(of(report)));
    let damaged = sum(|report| report.store.damaged_records);
    if damaged > 0 {
        lines.push(format!("{} skipped", counted(damaged, "damaged record")));
    }
    let unwritten = sum(|report| report.store.write_errors.values().fold(0, |sum, &n| sum.saturating_add(n)));
    if unwritten > 0 {
        let reasons: BTreeSet<_> =
            reports.iter().flat_map(|report| report.store.write_errors.keys()).collect();
        let reasons: Vec<_> = reasons.into_iter().map(|reason| plain(reason)).collect();
        lines.push(format!("{} ({})", counted(unwritten, "failed write"), reasons.join(", ")));
    }
    let mut tally = Tally::default();
    reports.iter().flat_map(|report| &report.devices).for_each(|device| tally.add(device));
    let internal = tally.get(Count::InternalFailures);
    if internal > 0 {
        lines.push(format!("{} inside the layer, please report", counted(internal, "failure")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt as _;

    use vkstash_store::reports::model::{BypassReport, DeviceReport, StoreReport};

    use super::*;

    fn of(reports: &[RunReport]) -> String {
        super::of(reports, false, Known { has_background: true })
    }

    #[test]
    fn nobody_hears_of_disabled_work() {
        let reports = [report(&[(Count::CompiledUnrecorded, 9), (Count::NothingKept, 9)])];
        let line = super::of(&reports, false, Known::default());
        let expected = "0 served (0.0 %), 9 compiled, 0 bypassed; nothing saved; \
                        this driver's caches keep nothing that could be served";
        assert_eq!(line, expected);
    }

    #[test]
    fn an_application_has_its_own_mode_of_background_work() {
        let root = tempfile::tempdir().unwrap();
        let game = AppName::new(Some(b"game"), b"/bin/game");
        DirBuilder::new().mode(0o700).create(root.path().join(&game.folder)).unwrap();
        let known = |application: &str| {
            let report = RunReport { application: application.to_owned(), ..report(&[]) };
            Known::of(Some(root.path()), &[report]).has_background
        };
        assert!(known(&game.display) && known("other"));
        let off = format!("[application.{}]\nbackground = 'disabled'\n", game.display);
        std::fs::write(root.path().join(settings::places::FILE), off).unwrap();
        assert!(!known(&game.display) && known("other"));
    }

    fn report(counters: &[(Count, u64)]) -> RunReport {
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        RunReport { devices: vec![DeviceReport { counters, ..Default::default() }], ..Default::default() }
    }

    #[test]
    fn a_warm_run_reads_as_one_line() {
        let reports = [
            report(&[(Count::Served, 400), (Count::SavedNanos, 12_400_000_000)]),
            report(&[
                (Count::Served, 12),
                (Count::Compiled, 2),
                (Count::CompiledUnrecorded, 1),
                (Count::Bypassed, 3),
            ]),
        ];
        assert_eq!(of(&reports), "412 served (99.2 %), 3 compiled, 3 bypassed; up to 12 s saved");
    }

    #[test]
    fn bypasses_have_their_reasons_and_a_driver_that_keeps_nothing_is_named() {
        let mut one = report(&[(Count::Bypassed, 21)]);
        let bypass = |reason: &str, s_type, count| BypassReport { reason: reason.to_owned(), s_type, count };
        one.devices[0].bypassed = vec![bypass("statistics", 0, 21)];
        let line = of(&[one.clone()]);
        assert_eq!(line, "0 served, 0 compiled, 21 bypassed (pipeline statistics asked for); nothing saved");
        one.devices[0].bypassed.extend([bypass("unknown_flag", 0, 30), bypass("not\u{1b}hing", 0, 1)]);
        let line = of(&[one]);
        assert!(line.contains("(unknown flag, pipeline statistics asked for, ...)"), "{line}");
        let line = of(&[report(&[(Count::CompiledUnrecorded, 9), (Count::NothingKept, 9)])]);
        let expected = "0 served (0.0 %), 9 compiled, 0 bypassed; nothing saved; \
                        this driver's caches keep nothing, so only what background work compiles ahead can be served";
        assert_eq!(line, expected);
        let line = of(&[report(&[(Count::CompiledUnrecorded, 20), (Count::SwitchedOff, 20)])]);
        let expected = "0 served (0.0 %), 20 compiled, 0 bypassed; nothing saved; \
                        compilations were disabled (`vkstash cache`)";
        assert_eq!(line, expected);
        let line = of(&[report(&[(Count::CompiledUnrecorded, 20)])]);
        assert!(!line.contains("disabled"), "{line}");
        let line = of(&[report(&[(Count::NothingToCompile, 2)])]);
        assert_eq!(line, "0 served, 0 compiled, 2 with nothing to compile, 0 bypassed; nothing saved");
    }

    #[test]
    fn what_workers_compiled_in_the_same_run_is_not_called_saved() {
        let counters =
            [(Count::Parked, 9), (Count::SavedNanos, 132_000_000), (Count::AheadNanos, 132_000_000)];
        let line = of(&[report(&counters)]);
        let expected = "9 served (100.0 %), 9 of them ready before the program asked, 0 compiled, 0 bypassed; \
                        132 ms of compiling done ahead";
        assert_eq!(line, expected);
        let line = of(&[report(&counters), report(&[(Count::SavedNanos, 8_000_000), (Count::Served, 1)])]);
        assert!(line.ends_with("; up to 8 ms saved, 132 ms of compiling done ahead"), "{line}");
    }

    #[test]
    fn shader_objects_are_told_alone_and_beside_pipelines() {
        let counters =
            [(Count::ShadersServed, 7), (Count::ShadersCompiled, 1), (Count::SavedNanos, 8_000_000)];
        assert_eq!(of(&[report(&counters)]), "shader objects: 7 served, 1 compiled; up to 8 ms saved");
        let pipelines = [(Count::Served, 3), (Count::ShadersPassedOn, 2)];
        let expected = "3 served (100.0 %), 0 compiled, 0 bypassed; \
                        shader objects: 0 served, 0 compiled, 2 passed on; nothing saved";
        assert_eq!(of(&[report(&pipelines)]), expected);
    }

    #[test]
    fn why_pipelines_were_not_ready_is_said() {
        let counters =
            [(Count::Parked, 6), (Count::DriverHad, 3), (Count::AskedFirst, 1), (Count::NotPlanned, 2)];
        let expected = "6 served (66.6 %), 6 of them ready before the program asked, \
                        3 answered by the driver's caches (33.3 %), 0 compiled, 0 bypassed; nothing saved; \
                        not ready: 2 that the last run did not ask for, 1 asked for before a worker came to them";
        assert_eq!(of(&[report(&counters)]), expected);
    }

    #[test]
    fn a_run_that_asked_the_driver_first_says_how_many_it_answered() {
        let line = of(&[report(&[(Count::DriverHad, 199), (Count::Compiled, 1)])]);
        let expected = "199 answered by the driver's caches (99.5 %), 0 served (0.0 %), 1 compiled, 0 bypassed; \
                        nothing saved";
        assert_eq!(line, expected);
        let line = of(&[report(&[(Count::Served, 6), (Count::DriverHad, 2)])]);
        let expected = "6 served (75.0 %), 2 answered by the driver's caches (25.0 %), 0 compiled, 0 bypassed; \
                        nothing saved";
        assert_eq!(line, expected);
    }

    #[test]
    fn an_unusable_stash_is_named_with_its_reason_once() {
        let mut one = report(&[(Count::CompiledUnrecorded, 7)]);
        one.store = StoreReport { unusable: "read-only file system".to_owned(), ..Default::default() };
        let line = of(&[one.clone(), one]);
        let expected = "0 served (0.0 %), 14 compiled, 0 bypassed; nothing saved; \
                        the stash could not be used: read-only file system";
        assert_eq!(line, expected);
    }

    #[test]
    fn failed_writes_and_internal_failures_are_reported() {
        let mut one = report(&[(Count::Compiled, 1), (Count::InternalFailures, 1)]);
        one.store.write_errors = BTreeMap::from([("no space left".to_owned(), 2)]);
        one.store.damaged_records = 1;
        let line = of(&[one]);
        assert!(line.ends_with(
            "; 1 damaged record skipped; 2 failed writes (no space left); 1 failure inside the layer, please report"
        ));
    }

    #[test]
    fn a_run_without_reports_is_explained() {
        assert!(of(&[]).starts_with("the layer was not loaded"));
        let loaded =
            "the layer was loaded; the command opened no device, or ended before its report was written";
        assert_eq!(super::of(&[], true, Known::default()), loaded);
        assert_eq!(of(&[RunReport::default()]), loaded);
        assert_eq!(of(&[report(&[])]), "the layer was loaded; the command created no pipeline");
    }
}
