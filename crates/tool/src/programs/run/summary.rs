//! Lines that `vkstash run` prints at its end: what `vkstash stats` says of the session, for each application.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use vkstash_model::app_name::AppName;
use vkstash_store::reports::model::RunReport;
use vkstash_store::stash::deaths::Death;

use crate::look::stats;
use crate::reports::played::Session;
use crate::stash::deaths;
use crate::term::time;
use crate::term::units::{counted, plain};

/// So many applications have lines of their own.
const MOST: usize = 4;

/// One application's share of a run.
struct Share {
    /// Its folder in the stash; None where it has none.
    folder: Option<String>,
    reports: Vec<RunReport>,
}

impl Share {
    fn session(&self) -> Session {
        Session::of(&self.reports)
    }

    /// What wants attention, and then how it went, beside the first session.
    fn lines(&self, root: &Path, now_ms: u64) -> Vec<String> {
        let application = stats::of_run(root, self.folder.as_deref(), &self.reports);
        let name = plain(&application.name);
        let mut lines: Vec<_> = application.attention.iter().map(|line| format!("{name}: {line}")).collect();
        let session = &application.session;
        let mut verdict = format!("{name}: {}", session.sentence());
        if session.has_anything() && session.goes_on {
            verdict += "; it goes on";
        } else if session.has_anything() && !session.is_over {
            verdict += "; it did not end in order, so its last seconds may be missing";
        }
        let first = application.history.first();
        let first = first.filter(|first| first.started_unix_ms < session.started_unix_ms);
        if let Some(words) = first.and_then(|first| first.as_the_first(now_ms)) {
            verdict = format!("{verdict}; {words}");
        }
        lines.push(verdict);
        lines
    }
}

/// What is known of a run that has ended.
#[derive(Default)]
pub(crate) struct Ended {
    /// Reports, with the folders of the applications that have recorded them.
    pub(crate) recorded: Vec<(Option<String>, RunReport)>,
    /// Deaths in compiles that no process has counted yet, with the folders of the applications.
    pub(crate) deaths: Vec<(String, Death)>,
    /// A process had an instance with the layer.
    pub(crate) had_instance: bool,
}

/// The lines about it, by applications, that of the one that matters most last.
pub(crate) fn lines(root: Option<&Path>, ended: Ended) -> Vec<String> {
    let Ended { recorded, deaths, had_instance } = ended;
    let mut shares: BTreeMap<(Option<String>, String), Share> = BTreeMap::new();
    let has_reports = !recorded.is_empty();
    for (folder, report) in recorded.into_iter().filter(|(_, report)| !report.devices.is_empty()) {
        let place = (folder.clone(), report.application.clone());
        let share = shares.entry(place).or_insert(Share { folder, reports: Vec::new() });
        share.reports.push(report);
    }
    let weight = |share: &Share| {
        let session = share.session();
        (session.has_anything(), session.frames, session.pipelines, session.last_use_unix_ms)
    };
    let mut shares: Vec<Share> = shares.into_values().collect();
    shares.sort_by_cached_key(weight);
    // A launcher's probe of the drivers is nothing beside the program that it starts.
    if shares.last().is_some_and(|last| last.session().has_anything()) {
        shares.retain(|share| share.session().has_anything());
    }
    let root = root.unwrap_or(Path::new(""));
    // A program that died before its first report.
    let has_share = |folder: &String| shares.iter().any(|share| share.folder.as_ref() == Some(folder));
    let of_others = deaths.iter().filter(|(folder, _)| !has_share(folder));
    let mut lines: Vec<String> = of_others.map(|(folder, death)| died(root, folder, death)).collect();
    if shares.is_empty() && lines.is_empty() {
        return Vec::from([nothing_reported(had_instance || has_reports)]);
    }
    let left_out = shares.len().saturating_sub(MOST);
    if left_out > 0 {
        lines.push(format!("and {}: `vkstash stats --all`", counted(left_out as u64, "other program")));
    }
    let now_ms = time::now();
    shares.iter().skip(left_out).for_each(|share| lines.extend(share.lines(root, now_ms)));
    lines
}

fn died(root: &Path, folder: &str, death: &Death) -> String {
    let name = AppName::of_folder(folder).map_or(folder.to_owned(), |name| name.display);
    format!("{}: {}", plain(&name), deaths::line(root, folder, &name, death))
}

/// Why there is nothing to tell of.
fn nothing_reported(was_loaded: bool) -> String {
    let set = |name| env::var_os(name).is_some();
    let hint = if was_loaded {
        // Wine's own programs ask for the drivers, and a launcher's game may still be there.
        "the layer was loaded, and no program has created a device and reported it by now; what goes on is recorded \
         all the same (`vkstash stats`)"
    } else if set("VKSTASH_DISABLE") {
        "VKSTASH_DISABLE is set, so the layer did nothing"
    } else if set("VK_LOADER_LAYERS_DISABLE") {
        "the layer was not loaded: the command does not use Vulkan, or VK_LOADER_LAYERS_DISABLE kept the layer out"
    } else {
        "the layer was not loaded: the command does not use Vulkan, or `vkstash doctor` tells why; a program that it has \
         started and that begins later is recorded all the same (`vkstash stats`)"
    };
    hint.to_owned()
}

#[cfg(test)]
mod tests {
    use vkstash_model::counters::Count;
    use vkstash_store::reports::model::{DeviceReport, StoreReport};
    use vkstash_store::reports::waiting::{Frames, Waiting};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn report(name: &str, counters: &[(Count, u64)], frames: u64) -> RunReport {
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        let frames = Frames { count: frames, longest_wait_ns: SECOND / 500, ..Frames::default() };
        let waiting = Waiting { calls_ns: SECOND / 50, frames, ..Waiting::default() };
        let device = DeviceReport { counters, waiting, ..DeviceReport::default() };
        let application = name.to_owned();
        RunReport { application, is_over: true, devices: [device].into(), ..RunReport::default() }
    }

    fn lines(reports: &[RunReport]) -> Vec<String> {
        let recorded = reports.iter().map(|report| (None, report.clone())).collect();
        super::lines(None, Ended { recorded, ..Ended::default() })
    }

    #[test]
    fn the_program_that_presents_comes_last_and_probes_are_left_out() {
        let tool = report("tool", &[(Count::Served, 400)], 0);
        let game = report("game", &[(Count::Served, 2), (Count::SavedNanos, SECOND)], 9);
        let probe = report("probe", &[], 0);
        let expected = [
            "tool: no call of 20 ms or more, the longest 0 s; 400 of 400 pipelines were ready",
            "game: no stutters from compiling, longest wait 2 ms, 20 ms of waiting on other threads; 2 of 2 \
             pipelines were ready",
        ];
        assert_eq!(lines(&[game, tool.clone(), probe.clone(), tool]), {
            let mut expected = expected.map(str::to_owned);
            expected[0] = expected[0].replace("400 of 400", "800 of 800");
            expected
        });
        assert_eq!(lines(&[probe]), ["probe: created no pipeline"]);
    }

    #[test]
    fn a_program_that_was_killed_is_not_told_as_one_that_ended() {
        let killed = RunReport { is_over: false, ..report("game", &[(Count::Compiled, 1)], 0) };
        let [line] = lines(&[killed]).try_into().unwrap();
        assert!(line.ends_with("; it did not end in order, so its last seconds may be missing"), "{line}");
        let [line] = lines(&[RunReport { is_over: false, ..report("game", &[], 0) }]).try_into().unwrap();
        assert!(!line.contains("game: created no pipeline"), "{line}");
    }

    #[test]
    fn what_wants_attention_stands_before_the_verdict() {
        let mut one = report("game", &[(Count::Compiled, 7), (Count::InternalFailures, 1)], 0);
        one.store = StoreReport { unusable: "read-only file system".to_owned(), ..StoreReport::default() };
        one.store.write_errors.insert("no space left".to_owned(), 2);
        one.store.damaged_records = 1;
        let said = lines(&[one]);
        let expected = [
            "game: the stash could not be used: read-only file system",
            "game: not everything could be written: no space left (2 times)",
            "game: the layer failed in 1 call: please report this",
            "game: 1 damaged record skipped: `vkstash verify --repair`",
        ];
        assert_eq!(said[..4], expected);
        assert!(said[4].ends_with("; 0 of 7 pipelines were ready") && said.len() == 5, "{said:?}");
    }

    #[test]
    fn of_many_programs_a_few_are_told_of() {
        let many: Vec<_> =
            (0..9).map(|number| report(&format!("tool{number}"), &[(Count::Served, 9)], 0)).collect();
        let said = lines(&many);
        assert_eq!((said.len(), said[0].as_str()), (MOST + 1, "and 5 other programs: `vkstash stats --all`"));
    }

    #[test]
    fn a_run_without_reports_is_explained() {
        let of = |reports: &[RunReport], had_instance: bool| {
            let recorded = reports.iter().map(|report| (None, report.clone())).collect();
            super::lines(None, Ended { recorded, had_instance, ..Ended::default() })
        };
        assert!(of(&[], false)[0].starts_with("the layer was not loaded"));
        assert!(of(&[], true)[0].starts_with("the layer was loaded, and no program has created a device"));
        assert_eq!(of(&[], true), of(&[RunReport::default()], false));
    }
    #[test]
    fn a_death_before_the_first_report_is_told_all_the_same() {
        let death = Death { key: [0x45; 32], stages: 0x20, deaths: 1, unix_ms: 1, part: String::new() };
        let deaths = Vec::from([("game-00000000-00000000".to_owned(), death)]);
        let said = super::lines(None, Ended { deaths, had_instance: true, ..Ended::default() });
        let expected = "game: died while compiling 45454545 (compute): run the program again: ";
        assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
    }
}
