//! Sessions and the size of the stash over time: pictures that need no script, and a table of the same numbers.

use std::fmt::Write as _;

use super::escape::text;
use super::model::{Report, SessionSummary};
use super::pieces::{number, table};
use crate::reports::played::{Row, Session};
use crate::term::time::{moment, span};
use crate::term::units::size;

/// The height of a chart in its own units; a session is 10 wide.
const HEIGHT: u64 = 100;

/// Bars of a chart: of each, its parts from the bottom up, with their classes.
fn chart(label: &str, bars: &[Vec<(u64, &str)>]) -> String {
    let sum = |bar: &Vec<(u64, &str)>| bar.iter().fold(0_u64, |sum, part| sum.saturating_add(part.0));
    let most = bars.iter().map(sum).max().unwrap_or_default().max(1);
    let mut html = format!(
        "<svg class=\"bars\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\">",
        text(label),
        // Few runs do not become wide blocks.
        10 * bars.len().max(12)
    );
    for (place, bar) in bars.iter().enumerate() {
        let mut top = HEIGHT as f64;
        for (value, class) in bar {
            let tall = HEIGHT as f64 * (*value as f64 / most as f64);
            top -= tall;
            let x = 10 * place + 1;
            let _ = write!(
                html,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{top:.2}\" width=\"8\" height=\"{tall:.2}\"/>"
            );
        }
    }
    html + "</svg>\n"
}

fn key(class: &str, name: &str) -> String {
    format!("<svg class=\"key\" aria-hidden=\"true\"><rect class=\"{class}\"/></svg>{name} ")
}

/// The section.
pub(super) fn history(report: &Report) -> String {
    let mut html = "<section aria-labelledby=\"sessions\">\n<h2 id=\"sessions\">Sessions</h2>\n".to_owned();
    let sessions = &report.history;
    let (Some(first), Some(last)) = (sessions.first(), sessions.last()) else {
        html += "<p>No reports of sessions are there.</p>\n";
        return html + "</section>\n";
    };
    let things = if sessions.iter().any(|one| one.row.session.presents()) { "stutters" } else { "calls" };
    let long = |one: &SessionSummary| {
        let class = if one.row.is_after_update { "s6" } else { "s7" };
        vec![(one.row.session.long(), class)]
    };
    let pipelines = |one: &SessionSummary| {
        let Session { ready, pipelines, .. } = one.row.session;
        vec![(ready, "s0"), (pipelines.saturating_sub(ready), "s4")]
    };
    let sizes = |one: &SessionSummary| vec![(one.bytes_after.unwrap_or_default(), "s1")];
    let Session { ready, pipelines: all, .. } = last.row.session;
    html += "<div class=\"columns\">\n";
    let label =
        format!("{things} of 20 ms or more in each session; in the last one {}", last.row.session.long());
    let keys = key("s7", &format!("{things} of 20 ms or more")) + &key("s6", "after an update of the driver");
    html += &figure(&label, sessions.iter().map(long), &format!("Of each session: {keys}"));
    let label = format!("Pipelines of each session; in the last one {ready} of {all} were ready");
    let keys = key("s0", "ready") + &key("s4", "not ready");
    html += &figure(&label, sessions.iter().map(pipelines), &format!("Pipelines of each session: {keys}"));
    let label = format!("Size of the stash after each session; now {}", size(report.bytes));
    html += &figure(&label, sessions.iter().map(sizes), "Size of the stash after each session");
    html += "</div>\n";
    let (from, to) = (moment(first.row.session.started_unix_ms), moment(last.row.session.last_use_unix_ms));
    let _ = writeln!(
        html,
        "<p class=\"quiet\">The sessions of {from} to {to}, oldest first. Sizes are calculated back from today's, {}, \
         by what each has written and freed.</p>",
        size(report.bytes)
    );
    if report.earlier_runs > 0 {
        let earlier = number(report.earlier_runs);
        let _ = writeln!(
            html,
            "<p class=\"quiet\">Of earlier ones, {earlier}, only the first and sums are left.</p>"
        );
    }
    html += "<details>\n<summary>All sessions as a table</summary>\n";
    html += &sessions_table(sessions, things);
    html + "</details>\n</section>\n"
}

fn figure<'a>(label: &str, bars: impl Iterator<Item = Vec<(u64, &'a str)>>, caption: &str) -> String {
    let chart = chart(label, &bars.collect::<Vec<_>>());
    format!("<figure>\n{chart}<figcaption>{caption}</figcaption>\n</figure>\n")
}

fn sessions_table(sessions: &[SessionSummary], things: &str) -> String {
    let long = format!("{things} \u{2265} 20 ms");
    let columns = [
        ("Session", false),
        ("Driver", false),
        (long.as_str(), true),
        ("Longest", true),
        ("Waiting", true),
        ("Ready", true),
        ("Saved, at most", true),
        ("Size", true),
    ];
    let mut rows = String::new();
    for (place, one) in sessions.iter().enumerate().rev() {
        let earlier = place.checked_sub(1).and_then(|place| sessions.get(place));
        rows += &row(one, earlier.map(|earlier| earlier.row.session.driver_names()));
    }
    table("The latest session first", &columns, &rows)
}

/// `earlier`: the drivers of the session before.
fn row(SessionSummary { row, bytes_after, .. }: &SessionSummary, earlier: Option<String>) -> String {
    let Row { session, is_first, is_after_update } = row;
    let mark = match (is_first, is_after_update) {
        (true, _) => " (the first)",
        (_, true) => " (after an update)",
        _ => "",
    };
    let driver = Some(session.driver_names()).filter(|driver| earlier.as_ref() != Some(driver));
    let cells = [
        number(session.long()),
        span(session.longest_ns()),
        span(session.waiting_ns()),
        format!("{} of {}", number(session.ready), number(session.pipelines)),
        span(session.saved_ns),
        bytes_after.map_or_else(String::new, |bytes| size(bytes).to_string()),
    ];
    let cells = cells.map(|cell| format!("<td class=\"number\">{}</td>", text(&cell))).concat();
    let (started, driver) = (moment(session.started_unix_ms), driver.unwrap_or_default());
    format!("<tr><th scope=\"row\">{started}{mark}</th><td>{}</td>{cells}</tr>\n", text(&driver))
}
