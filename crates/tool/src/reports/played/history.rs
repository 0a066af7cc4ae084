//! The sessions of an application.

use std::cmp::Reverse;
use std::path::Path;

use serde::Serialize;

use vkstash_store::reports::model::RunReport;
use vkstash_store::reports::totals::{self, Separate};

use super::session::{Driver, Session};

/// One session among the others.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) session: Session,
    /// The first session with the stash.
    pub(crate) is_first: bool,
    /// A driver of it had another version when it was last used before.
    pub(crate) is_after_update: bool,
}

/// The sessions that are known, the latest first. One is a process: several may be one session of the user's.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub(crate) struct History(Vec<Row>);

impl History {
    /// Of the application in that folder. Sessions in which nothing was created or presented are left out.
    pub(crate) fn of(root: &Path, folder: &str) -> History {
        History::of_reports(totals::separate(root, folder))
    }

    /// The first session stays when others are folded.
    pub(crate) fn of_reports(Separate { folded, runs }: Separate) -> History {
        let first = folded.first.iter().filter(|first| !runs.contains(first));
        let mut runs: Vec<&RunReport> = first.chain(&runs).collect();
        runs.sort_by_key(|run| run.started_unix_ms);
        let has_older = folded.runs > 0 && folded.first.is_none();
        let mut rows: Vec<Row> = Vec::new();
        for session in runs.into_iter().map(|run| Session::of([run])) {
            if session.has_anything() {
                let is_after_update = session.drivers.iter().any(|driver| is_updated(&rows, driver));
                let is_first = rows.is_empty() && !has_older;
                rows.push(Row { session, is_first, is_after_update });
            }
        }
        rows.sort_by_key(|row| Reverse(row.session.started_unix_ms));
        History(rows)
    }

    /// The latest first.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.0
    }

    /// Those that began then or later.
    pub(crate) fn since(&self, unix_ms: u64) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.session.started_unix_ms >= unix_ms)
    }

    /// Leaves those that ended then or later.
    pub(crate) fn keep_since(&mut self, unix_ms: u64) {
        self.0.retain(|row| row.session.last_use_unix_ms >= unix_ms);
    }

    /// The session that the others are compared with.
    pub(crate) fn first(&self) -> Option<&Session> {
        self.0.iter().find(|row| row.is_first).map(|row| &row.session)
    }
}

/// Whether this driver had another version when it was last used before.
fn is_updated(before: &[Row], driver: &Driver) -> bool {
    let mut drivers = before.iter().rev().flat_map(|row| &row.session.drivers);
    let last = drivers.find(|known| known.is_of_the_driver_of(driver));
    last.is_some_and(|last| last.driver_version != driver.driver_version)
}

#[cfg(test)]
mod tests {
    use vkstash_store::reports::model::DeviceReport;
    use vkstash_store::reports::totals::Totals;

    use super::*;

    fn run(started_unix_ms: u64, driver_version: u32) -> RunReport {
        let counters = [("compiled".to_owned(), 1)].into();
        let device = DeviceReport { driver_version, counters, ..DeviceReport::default() };
        RunReport { started_unix_ms, devices: [device].into(), ..RunReport::default() }
    }

    fn marks(history: &History) -> Vec<(u64, bool, bool)> {
        let mark = |row: &Row| (row.session.started_unix_ms, row.is_first, row.is_after_update);
        history.rows().iter().map(mark).collect()
    }

    #[test]
    fn the_latest_comes_first_and_updates_are_marked() {
        let nothing = RunReport { started_unix_ms: 25, ..RunReport::default() };
        let runs = [run(30, 2), run(10, 1), run(20, 1), nothing, run(40, 2)];
        let history = History::of_reports(Separate { folded: Totals::default(), runs: runs.into() });
        let expected = [(40, false, false), (30, false, true), (20, false, false), (10, true, false)];
        assert_eq!(marks(&history), expected);
    }

    #[test]
    fn the_first_session_outlives_its_report() {
        let mut folded = Totals::default();
        [run(20, 1), run(10, 1), run(30, 1)].iter().for_each(|run| folded.add(run));
        let runs = [run(40, 2)].into();
        let history = History::of_reports(Separate { folded: folded.clone(), runs });
        assert_eq!(marks(&history), [(40, false, true), (10, true, false)]);
        assert_eq!(history.first().map(|first| first.started_unix_ms), Some(10));
        // Totals that have lost it.
        folded.first = None;
        let runs = [run(40, 2)].into();
        assert_eq!(marks(&History::of_reports(Separate { folded, runs })), [(40, false, false)]);
    }
}
