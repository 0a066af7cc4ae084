//! Words for what wants attention in an application's statistics.

use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::counters::Count;
use vkstash_store::settings::CacheKinds;

use super::model::{Application, Store, Work};
use super::unready;
use crate::config::in_force;
use crate::reports::names;
use crate::term::units::counted;

/// What the settings say that an application may do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InForce {
    pub(super) background: BackgroundMode,
    pub(super) disabled: CacheKinds,
}

/// The most important first. They tell of the last run where its report is there, or else of all runs.
pub(super) fn of(application: &Application, in_force: InForce) -> Vec<String> {
    let last = application.last_run.as_ref().map(|run| (&run.work, &run.store));
    let (work, store) = last.unwrap_or((&application.work, &application.store));
    let mut lines: Vec<_> = application.deaths.iter().map(|death| death.line.clone()).collect();
    lines.extend(of_store(store));
    if in_force.disabled.has(CacheKinds::COMPILATIONS) {
        lines.push("disabled by the settings: nothing is served or recorded (`vkstash cache`)".to_owned());
    }
    lines.extend(of_work(work));
    if work.get(Count::SwitchedOff) > 0 && !in_force.disabled.has(CacheKinds::COMPILATIONS) {
        lines.push("compilations were disabled in this session (`vkstash cache`)".to_owned());
    }
    lines.extend(of_files(application));
    if application.parts.is_empty() && store.damaged_records > 0 {
        lines.push(format!(
            "{} skipped: `vkstash verify --repair`",
            counted(store.damaged_records, "damaged record")
        ));
    }
    if work.only_bypassed() {
        lines.push(bypassed(work));
    }
    let reason = not_ready(application, work, in_force);
    lines.extend(reason);
    lines
}

fn of_store(store: &Store) -> Vec<String> {
    let unusable = store.unusable.keys().map(|reason| format!("the stash could not be used: {reason}"));
    let failed = store.write_errors.iter().map(|(reason, &count)| {
        format!("not everything could be written: {reason} ({})", counted(count, "time"))
    });
    unusable.chain(failed).collect()
}

fn of_work(work: &Work) -> Vec<String> {
    let mut lines = Vec::new();
    let quarantined = work.get(Count::Quarantined);
    if quarantined > 0 {
        let pipelines = counted(quarantined, "pipeline");
        lines.push(format!("{pipelines} not served, because programs died of them: `vkstash quarantine`"));
    }
    let failed = work.get(Count::Failed);
    if failed > 0 {
        lines.push(format!("the driver answered with an error for {}", counted(failed, "pipeline")));
    }
    let failures = work.get(Count::InternalFailures);
    if failures > 0 {
        lines.push(format!("the layer failed in {}: please report this", counted(failures, "call")));
    }
    lines
}

fn of_files(application: &Application) -> Vec<String> {
    let mut lines = Vec::new();
    let mut refused = application.parts.iter().flat_map(|part| &part.refused_files);
    if let Some(first) = refused.next() {
        let files = counted(1 + refused.count() as u64, "file");
        lines.push(format!("{files} not used, the first because it is {}: `vkstash verify`", first.detail));
    }
    let damaged = in_force::sum(application.parts.iter().map(|part| part.damaged_places));
    if damaged > 0 {
        lines.push(format!("{} in its files: `vkstash verify --repair`", counted(damaged, "damaged place")));
    }
    if application.unreadable_reports > 0 {
        let reports = counted(application.unreadable_reports, "report");
        lines.push(format!("{reports} of runs not read: damaged, or of another version of vkstash"));
    }
    lines
}

fn bypassed(work: &Work) -> String {
    let reasons = work.bypassed.iter().map(|bypass| names::bypass(&bypass.reason, bypass.s_type));
    let reasons = reasons.collect::<Vec<_>>().join(", ");
    format!("nothing but {} left to the driver: {reasons}", counted(work.requests, "pipeline"))
}

/// Why pipelines were not ready. One reason hides those that follow from it.
fn not_ready(application: &Application, work: &Work, in_force: InForce) -> Vec<String> {
    if !application.lacks.is_empty() {
        return application.lacks.iter().map(|lack| lack.line(&application.name)).collect();
    }
    if work.ready >= work.pipelines || application.session.is_small() {
        return Vec::new();
    }
    let missed = work.pipelines - work.ready;
    let of_last = || application.history.since(application.session.started_unix_ms);
    if of_last().any(|row| row.is_after_update) {
        return vec![updated(work, missed)];
    }
    if of_last().any(|row| row.is_first) {
        let nothing = "the first session: nothing could be ready yet".to_owned();
        return if work.ready == 0 { vec![nothing] } else { Vec::new() };
    }
    if let Some(remark) = &application.remark {
        return vec![remark.clone()];
    }
    if work.get(Count::Parked) > 0 {
        return Vec::new();
    }
    if !in_force.background.allows_work() {
        return vec!["background work is disabled: nothing is ready before it is asked for".to_owned()];
    }
    let reasons = unready::of(|what| work.get(what));
    let line = |(_, reasons): (u64, String)| format!("none was ready before the program asked: {reasons}");
    reasons.map(line).into_iter().collect()
}

/// The driver had another version in the session before.
fn updated(work: &Work, missed: u64) -> String {
    let again = format!(
        "the driver was updated before this session: {missed} of {} compiled again",
        counted(work.pipelines, "pipeline")
    );
    // Where its caches keep nothing, nothing can be compiled before the program is there.
    if work.get(Count::NothingKept) > 0 {
        return again;
    }
    again
        + "; `vkstash prewarm --all` after an update compiles them before, and `vkstash install` has that done by itself"
}
