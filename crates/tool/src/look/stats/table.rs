//! The sessions of an application as a table.

use super::model::Application;
use super::view::View;
use crate::reports::played::{Row, Session};
use crate::term::style::Style;
use crate::term::table::{Column, Table};
use crate::term::time::{day, span};

/// So many of the latest sessions are shown, and the first one; all of them with `-v`.
const MOST: usize = 8;
/// Columns that the table is indented by.
const INDENT: u16 = 2;
/// Waiting of other threads has a column where it is as long as that anywhere.
const WORTH_A_COLUMN_NS: u64 = 1_000_000;

/// The lines of the table; none where no session is known.
pub(super) fn lines(application: &Application, view: View) -> Vec<String> {
    let all = application.history.rows();
    let is_shown = |&(place, row): &(usize, &Row)| view.verbosity > 0 || place < MOST || row.is_first;
    let rows: Vec<&Row> = all.iter().enumerate().filter(is_shown).map(|(_, row)| row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let presents = rows.iter().any(|row| row.session.presents());
    let has_others = rows.iter().any(|row| others_ns(&row.session) >= WORTH_A_COLUMN_NS);
    let mut columns = Vec::from([
        Column::words("session", 6),
        Column::words("driver", 1),
        Column::numbers(if presents { "stutters >= 20 ms" } else { "calls >= 20 ms" }, 5),
        Column::numbers("longest", 3),
        Column::numbers("waiting", 4),
    ]);
    if has_others {
        columns.push(Column::numbers("other threads", 1));
    }
    columns.extend([Column::numbers("ready", 5), Column::words("", 2)]);
    let mut table = Table::new(&columns);
    for (place, row) in rows.iter().enumerate() {
        let earlier = rows.get(place + 1).map(|row| row.session.driver_names());
        table.row(cells(row, earlier, presents, has_others, view.now_unix_ms));
    }
    let width = view.width.map(|width| width.saturating_sub(INDENT));
    let indent = " ".repeat(INDENT.into());
    let mut lines: Vec<_> = table.lines(width).lines().map(|line| format!("{indent}{line}")).collect();
    let left_out = all.len() - rows.len();
    if left_out > 0 {
        let text = format!("{indent}and {left_out} between them: -v");
        let before_the_first = lines.len() - 1;
        lines.insert(before_the_first, Style::Faint.paint(&text));
    }
    lines
}

/// `earlier`: the driver of the session before, in the row below.
fn cells(
    Row { session, is_first, is_after_update }: &Row,
    earlier: Option<String>,
    presents: bool,
    has_others: bool,
    now_unix_ms: u64,
) -> Vec<String> {
    let driver = session.driver_names();
    let mark = match (is_first, is_after_update) {
        (true, _) => "first session",
        (false, true) => "first after the update",
        (false, false) if session.goes_on => "goes on",
        (false, false) if !session.is_over => "did not end in order",
        (false, false) => "",
    };
    // A process that presented nothing has no frames to stutter.
    let long = if session.presents() == presents { session.long().to_string() } else { "-".to_owned() };
    let mut cells = Vec::from([
        day(session.started_unix_ms, now_unix_ms),
        if earlier.as_ref() == Some(&driver) { String::new() } else { driver },
        long,
        span(session.longest_ns()),
        span(session.waiting_ns()),
    ]);
    if has_others {
        cells.push(span(others_ns(session)));
    }
    let (ready, all) = match session.pipelines {
        0 => (session.ready_shader_objects, session.shader_objects),
        pipelines => (session.ready, pipelines),
    };
    cells.extend([format!("{ready} of {all}"), mark.to_owned()]);
    cells
}

/// What threads have waited that do not present, beside those that do.
fn others_ns(session: &Session) -> u64 {
    if session.presents() { session.other_threads_ns } else { 0 }
}
