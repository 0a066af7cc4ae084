//! The statistics as text.

use std::collections::BTreeMap;

use super::model::{Application, Device, Keep, Part, Stash, Store, Work};
use super::updated;
use vkstash_model::counters::Count;
use vkstash_store::part::tallies::OF_A_BASE;

use crate::driver_limits::DriverLimit;
use crate::term::time::{moment, span};
use crate::units::{counted, plain, saved, size};
use crate::{in_force, names, unready};

const PORTABLE: &str = "portable";
/// The reason under which reports count files that were read later.
const PUT_OFF: &str = "put_off";

/// Number of refused files that are named; the JSON names all.
const MOST_FILES: usize = 5;

/// The whole report, without a final line break.
pub(crate) fn of(stash: &Stash) -> String {
    let mut lines = Vec::new();
    if stash.applications.is_empty() {
        lines.push(format!("nothing recorded yet in {}", plain(&stash.root)));
    } else {
        let applications = counted(stash.applications.len() as u64, "application");
        let used = in_force::used(stash.bytes, stash.keep.limit_bytes);
        lines.push(format!("{}: {applications}, {used}", plain(&stash.root)));
    }
    for application in &stash.applications {
        lines.push(String::new());
        describe_application(&mut lines, application);
    }
    if !stash.applications.is_empty() {
        lines.extend(driver_limits(&stash.keep.driver_limits));
    }
    for ignored in &stash.keep.ignored_settings {
        lines.push(format!("setting ignored: {}", plain(ignored)));
    }
    for unreadable in &stash.unreadable {
        // The reason names the folder.
        lines.push(format!("left out: {}", plain(&unreadable.reason)));
    }
    lines.join("\n")
}

fn describe_application(lines: &mut Vec<String>, application: &Application) {
    let mut head = plain(&application.name);
    let keep = &application.keep;
    let used = in_force::used(application.bytes, keep.limit_bytes);
    head += &format!(": {used}, {}", counted(application.runs, "run"));
    if let (Some(since), Some(last)) = (application.since_unix_ms, application.last_use_unix_ms) {
        head += &format!(" since {}, last use {}", moment(since), moment(last));
    }
    lines.push(head);
    for part in application.parts.iter().filter(|part| part.name == PORTABLE) {
        lines.push(format!("  portable: {}", contents(part)));
        describe_trouble(lines, part);
    }
    for device in &application.devices {
        describe_device(lines, device, &application.parts);
    }
    lines.extend(updated::lines(application));
    let is_used = |part: &Part| application.devices.iter().any(|device| device.parts.contains(&part.name));
    for part in application.parts.iter().filter(|part| part.name != PORTABLE && !is_used(part)) {
        let bound = part.bound_to.as_ref();
        let driver = bound.map(|bound| driver(bound.driver.as_deref(), &bound.driver_version_text));
        let driver = driver.map_or(String::new(), |driver| format!(" ({driver})"));
        lines.push(format!("  device part {}{driver}: {}", plain(&part.name), contents(part)));
        describe_trouble(lines, part);
    }
    describe_modules(lines, keep);
    if application.sessions.caches > 0 {
        let caches = counted(application.sessions.caches, "session cache");
        lines.push(format!("  {caches}, {}", size(application.sessions.bytes)));
    }
    describe_store(lines, &application.store);
    if let Some(last) = &application.last_run {
        if last.only_bypassed() {
            let count = counted(last.bypasses(), "pipeline");
            let reasons =
                last.work.bypassed.iter().map(|bypass| names::bypass(&bypass.reason, bypass.s_type));
            let reasons = plain(&reasons.collect::<Vec<_>>().join(", "));
            lines.push(format!("  in the last run nothing but {count} that bypassed the stash: {reasons}"));
        }
    }
    if let Some(remark) = &application.remark {
        lines.push(format!("  {remark}"));
    }
}

/// The limits of the drivers' own caches that `vkstash run` raises, on a line of their own.
fn driver_limits(limits: &[DriverLimit]) -> Vec<String> {
    let raised = |limit: &DriverLimit| {
        limit.raised_to_bytes.map(|bytes| format!("{} to {} ({})", limit.vendor, size(bytes), limit.variable))
    };
    let raised: Vec<_> = limits.iter().filter_map(raised).collect();
    if raised.is_empty() {
        return Vec::new();
    }
    let list = raised.join(", ");
    vec![String::new(), format!("`vkstash run` raises the limits of the drivers' own caches: {list}")]
}

/// The module policy and its cost.
fn describe_modules(lines: &mut Vec<String>, keep: &Keep) {
    let kept = match keep.modules.as_str() {
        "all" if keep.module_bytes == 0 => return,
        "all" => "all are kept".to_owned(),
        "none" => "none are kept".to_owned(),
        runs => format!("those of the last {runs} runs are kept"),
    };
    let share = keep.module_percent.map_or(String::new(), |percent| format!(", {percent:.1} % of the stash"));
    lines.push(format!("  modules: {kept}; {}{share}", size(keep.module_bytes)));
}

/// The content of a part: `1.2 MiB, 412 artifacts`.
fn contents(part: &Part) -> String {
    let mut text = size(part.bytes).to_string();
    for (kind, &count) in &part.records {
        text += &match kind.as_str() {
            "estimates" => continue,
            "same" => format!(", {} with equal data", counted(count, "other")),
            // Of one pipeline there may be several, until files are merged.
            "cost" => format!(", compile times of {}", counted(count, "pipeline")),
            "verified" | "failed" => format!(", {count} {kind}"),
            kind => format!(", {}", counted(count, &plain(kind).replace('_', " "))),
        };
    }
    text
}

fn describe_trouble(lines: &mut Vec<String>, part: &Part) {
    if part.damaged_places > 0 {
        lines.push(format!("    {} in its files", counted(part.damaged_places, "damaged place")));
    }
    for refused in part.refused_files.iter().take(MOST_FILES) {
        lines.push(format!("    refused {}: {}", plain(&refused.file), plain(&refused.detail)));
    }
    let more = part.refused_files.len().saturating_sub(MOST_FILES) as u64;
    if more > 0 {
        lines.push(format!("    refused {} more", counted(more, "file")));
    }
}

fn driver(name: Option<&str>, version: &str) -> String {
    match name.and_then(|name| name.strip_prefix("VK_DRIVER_ID_")) {
        Some(name) => format!("{name} {version}"),
        None => format!("driver {version}"),
    }
}

fn describe_device(lines: &mut Vec<String>, device: &Device, parts: &[Part]) {
    let driver = driver(device.driver.as_deref(), &device.driver_version_text);
    let own = parts.iter().filter(|part| device.parts.contains(&part.name));
    let own: Vec<_> = own.collect();
    let head = format!("  {} ({driver})", plain(&device.name));
    match own.as_slice() {
        [] => lines.push(head),
        [part] => lines.push(format!("{head}: {}", contents(part))),
        several => {
            lines.push(head);
            several.iter().for_each(|part| lines.push(format!("    part {}: {}", part.name, contents(part))));
        }
    }
    own.iter().for_each(|part| describe_trouble(lines, part));
    describe_work(lines, &device.work);
}

fn describe_work(lines: &mut Vec<String>, work: &Work) {
    let mut rows = Rows { lines, work };
    rows.describe_served();
    rows.describe_driver_had();
    rows.describe_compiled();
    for (what, label, note) in SOMETIMES {
        rows.add_if_any(what, label, note);
    }
    let identified = format!("{} of them served", rows.get(Count::IdentifierServed));
    rows.add_if_any(Count::IdentifierRequests, "by identifier", &identified);
    rows.add_if_any(Count::Bypassed, "bypassed", "left to the driver; not in the percentage");
    for bypass in &work.bypassed {
        rows.add("", bypass.count, &plain(&names::bypass(&bypass.reason, bypass.s_type)));
    }
}

/// What is seldom counted, with its label and what there is to say of it.
const SOMETIMES: [(Count, &str, &str); 16] = [
    (Count::ModuleMissing, "module missing", "asked for by identifier, and their code is no longer kept"),
    (Count::Offered, "offered", "through an artifact that the device cannot confirm"),
    (Count::NothingToCompile, "nothing to compile", "libraries without shaders, fast links"),
    (Count::CompileRequired, "compile required", "the program asked not to compile"),
    (Count::ParkedUnasked, "parked in vain", "finished, and not asked for in time"),
    (Count::FoundNoMore, "found no more", "asked for ahead, and no longer in the driver's own caches"),
    (Count::ParkingFailed, "not parked", "could not be made before the program asked"),
    (Count::FromBase, "from a base", "of the served"),
    (Count::FromSibling, "from a sibling", "of the served, made when the program enabled other features"),
    (Count::SiblingNotTaken, "sibling refused", "artifacts of a device with other features: no loss"),
    (Count::NotTaken, "not taken", "artifacts that the driver refused"),
    (Count::Quarantined, "quarantined", "artifacts of which programs died: see vkstash quarantine"),
    (Count::NotReady, "not ready", "artifacts that the disk did not allow to use in time"),
    (Count::Failed, "failed", "the driver answered with an error"),
    (Count::Dropped, "dropped", "not recorded: too much at once"),
    (Count::InternalFailures, "internal failures", "please report"),
];

/// The lines of a device, with a row for each counter.
struct Rows<'a> {
    lines: &'a mut Vec<String>,
    work: &'a Work,
}

impl Rows<'_> {
    fn get(&self, what: Count) -> u64 {
        self.work.counters.get(what.name()).copied().unwrap_or(0)
    }

    fn add(&mut self, label: &str, count: u64, note: &str) {
        self.lines.push(format!("    {label:<18}{count:>8}  {note}").trim_end().to_owned());
    }

    /// Nothing is said of a counter that is 0.
    fn add_if_any(&mut self, what: Count, label: &str, note: &str) {
        if self.get(what) > 0 {
            self.add(label, self.get(what), note);
        }
    }

    fn describe_served(&mut self) {
        let percent = self.work.hit_percent.map_or(String::new(), |percent| format!("{percent:.1} %, "));
        let served = self.get(Count::Served).saturating_add(self.get(Count::Parked));
        let saved = saved(self.get(Count::SavedNanos), self.get(Count::AheadNanos));
        self.add("served", served, &format!("{percent}{saved}"));
        self.add_if_any(Count::Parked, "parked", "of those: finished before the program asked");
        if let Some((count, reasons)) = unready::of(|what| self.get(what)) {
            self.add("not ready", count, &format!("before the program asked: {reasons}"));
        }
    }

    fn describe_driver_had(&mut self) {
        if self.get(Count::DriverHad) == 0 {
            return;
        }
        let percent = self.work.driver_percent.map_or(String::new(), |percent| format!("{percent:.1} %, "));
        let note = format!("{percent}in the program's or the driver's own cache");
        self.add("driver had", self.get(Count::DriverHad), &note);
        let of_those = [
            (Count::DriverHadOnDisk, "on its disk", "of those: read from the driver's disk cache"),
            (Count::CompanionHad, "beside", "of those: from what was served for the same shaders"),
        ];
        for (what, label, note) in of_those {
            self.add_if_any(what, label, note);
        }
    }

    fn describe_compiled(&mut self) {
        let compiled = self.get(Count::Compiled).saturating_add(self.get(Count::CompiledUnrecorded));
        // Reports of earlier versions lack the time for drivers that were only watched.
        let spent = match self.get(Count::CompileNanos) {
            0 if compiled > 0 => "time not measured".to_owned(),
            nanos => format!("in {}", span(nanos)),
        };
        let unrecorded = match self.get(Count::CompiledUnrecorded) {
            0 => String::new(),
            count => format!(", {count} of them without an artifact"),
        };
        self.add("compiled", compiled, &format!("{spent}{unrecorded}"));
        let nothing_kept = "of those: the driver's caches keep nothing of them that a later run could use";
        self.add_if_any(Count::NothingKept, "nothing kept", nothing_kept);
        let again = span(self.get(Count::ServedBeforeNanos));
        let again = format!("compiled again in {again}: evicted or lost");
        self.add_if_any(Count::ServedBefore, "served before", &again);
    }
}

fn describe_store(lines: &mut Vec<String>, store: &Store) {
    let mut say = |text: String| lines.push(format!("  {text}"));
    for (reason, &runs) in &store.unusable {
        say(format!("the stash could not be used in {}: {}", counted(runs, "run"), plain(reason)));
    }
    // Not refused: another thread of the program has read them later.
    let late = store.refused.get(PUT_OFF).copied().unwrap_or(0);
    let (bases, files): (Vec<_>, Vec<_>) =
        store.refused.iter().partition(|(reason, _)| reason.starts_with(OF_A_BASE));
    let refused = files.into_iter().filter(|(reason, _)| *reason != PUT_OFF);
    let refused: BTreeMap<_, _> = refused.map(|(reason, &count)| (reason.clone(), count)).collect();
    if !refused.is_empty() {
        say(format!("files refused in those runs: {}", by_reason(&refused)));
    }
    if late > 0 {
        say(format!("files and parts that another thread read, because the program could not wait: {late}"));
    }
    for (reason, &runs) in bases {
        let reason = plain(reason.trim_start_matches(OF_A_BASE));
        say(format!("base not used in {}: {reason}", counted(runs, "run")));
    }
    if store.damaged_records > 0 {
        say(format!("{} skipped in those runs", counted(store.damaged_records, "damaged record")));
    }
    if !store.write_errors.is_empty() {
        say(format!("failed writes: {}", by_reason(&store.write_errors)));
    }
    if store.dropped > 0 {
        say(format!("{} not written", counted(store.dropped, "record")));
    }
    if !store.evicted_bytes.is_empty() {
        let causes = store.evicted_bytes.iter();
        let causes: Vec<_> =
            causes.map(|(cause, &bytes)| format!("{} {}", size(bytes), words(cause))).collect();
        say(format!("evicted: {}, {}", counted(store.evicted_records, "record"), causes.join(", ")));
    }
    match (size(store.compacted_bytes), size(store.reclaimed_bytes)) {
        _ if store.compacted_bytes == 0 && store.reclaimed_bytes == 0 => {}
        (_, freed) if store.compacted_bytes == 0 => say(format!("{freed} freed by removing files")),
        (wrote, freed) => say(format!("merging files wrote {wrote} and freed {freed}")),
    }
}

/// A name of the JSON as people read it.
fn words(name: &str) -> String {
    plain(name).replace('_', " ")
}

fn by_reason(counts: &BTreeMap<String, u64>) -> String {
    let rows: Vec<_> = counts.iter().map(|(reason, count)| format!("{count} {}", words(reason))).collect();
    rows.join(", ")
}

#[cfg(test)]
mod tests {
    use vkstash_store::reports::model::{BypassReport, DeviceReport, RunReport, StoreReport};
    use vkstash_store::reports::totals::Totals;
    use vkstash_store::stash::inspect::PartInfo;

    use super::super::collect::{application, example};
    use super::super::model::{KeepAll, SCHEMA};
    use super::*;

    fn stash(applications: Vec<Application>) -> Stash {
        Stash {
            schema: SCHEMA,
            root: "/cache".to_owned(),
            bytes: 2048,
            keep: KeepAll { limit_bytes: Some(4096), limit_used_percent: Some(50.0), ..KeepAll::default() },
            applications,
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn nothing_recorded_is_said_in_one_line() {
        assert_eq!(of(&stash(Vec::new())), "nothing recorded yet in /cache");
    }

    /// The report of a run. Its texts have characters that must not reach a terminal.
    fn run() -> RunReport {
        let counters = [
            (Count::Served, 97),
            (Count::SavedNanos, 12_400_000_000),
            (Count::Compiled, 2),
            (Count::CompiledUnrecorded, 1),
            (Count::CompileNanos, 90_000_000),
            (Count::Bypassed, 10),
        ];
        let device = DeviceReport {
            name: "NVIDIA H200\u{1b}".to_owned(),
            part: "aa".to_owned(),
            driver_id: 4,
            driver_version: (580 << 22) | (159 << 14) | (3 << 6),
            counters: counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect(),
            bypassed: vec![
                BypassReport { reason: "unknown_structure".to_owned(), s_type: 1_000_068_000, count: 7 },
                BypassReport { reason: "unknown_structure".to_owned(), s_type: i32::MAX, count: 2 },
                BypassReport { reason: "library".to_owned(), s_type: 0, count: 1 },
            ],
            ..DeviceReport::default()
        };
        RunReport {
            started_unix_ms: 951_782_400_000,
            updated_unix_ms: 1_795_234_199_000,
            devices: vec![device],
            store: StoreReport {
                refused: BTreeMap::from([
                    ("other_driver".to_owned(), 2),
                    ("base: /base can be written to by others".to_owned(), 1),
                ]),
                damaged_records: 1,
                ..StoreReport::default()
            },
            ..RunReport::default()
        }
    }

    #[test]
    fn a_report_reads_as_intended() {
        let part = |name: &str, kinds: &[(&str, u64)]| PartInfo {
            name: name.to_owned(),
            device: None,
            segments: 1,
            sealed: 1,
            bytes: 1024,
            records: kinds.iter().map(|&(kind, count)| (kind.to_owned(), count)).collect(),
            payload_bytes: BTreeMap::new(),
            damaged: 0,
            refused: Vec::new(),
        };
        let mut runs = Totals::default();
        runs.add(&run());
        let mut info = example(runs);
        info.display = "game\u{1b}".to_owned();
        info.parts =
            vec![part("portable", &[("module", 2), ("use", 1)]), part("aa", &[("artifact", 3), ("same", 2)])];
        let shown = of(&stash(vec![application(&info, Default::default())]));
        let expected = "\
/cache: 1 application, 2.0 KiB, 50.0 % of 4.0 KiB

game\u{fffd}: 2.0 KiB, 1 run since 2000-02-29 00:00, last use 2026-11-21 04:09
  portable: 1.0 KiB, 2 modules, 1 use
  NVIDIA H200\u{fffd} (NVIDIA_PROPRIETARY 580.159.3): 1.0 KiB, 3 artifacts, 2 others with equal data
    served                  97  97.0 %, up to 12 s saved
    compiled                 3  in 90 ms, 1 of them without an artifact
    bypassed                10  left to the driver; not in the percentage
                             7  unknown structure VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT
                             2  unknown structure sType 2147483647
                             1  library
  files refused in those runs: 2 other driver
  base not used in 1 run: /base can be written to by others
  1 damaged record skipped in those runs";
        assert_eq!(shown, expected);
    }
}
