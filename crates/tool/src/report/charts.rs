//! Runs and the size of the stash over time: pictures that need no script, and a table of the same numbers.

use std::fmt::Write as _;

use super::escape::text;
use super::model::{Report, RunSummary};
use super::pieces::{number, table};
use crate::term::time::{moment, span};
use crate::units::size;

/// The height of a chart in its own units; a run is 10 wide.
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
    let mut html =
        "<section aria-labelledby=\"runs\">\n<h2 id=\"runs\">Runs and size over time</h2>\n".to_owned();
    let runs = &report.history;
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        html += "<p>No reports of runs are there.</p>\n";
        return html + "</section>\n";
    };
    let pipelines =
        |run: &RunSummary| vec![(run.ready, "s0"), (run.pipelines.saturating_sub(run.ready), "s4")];
    let sizes = |run: &RunSummary| vec![(run.bytes_after, "s1")];
    let label =
        format!("Pipelines of each run; in the last one {} of {} were ready", last.ready, last.pipelines);
    html += "<div class=\"columns\">\n<figure>\n";
    html += &chart(&label, &runs.iter().map(pipelines).collect::<Vec<_>>());
    let keys = key("s0", "ready") + &key("s4", "not ready");
    let _ = writeln!(html, "<figcaption>Pipelines of each run: {keys}</figcaption>\n</figure>\n<figure>");
    let label = format!("Size of the stash after each run; now {}", size(report.bytes));
    html += &chart(&label, &runs.iter().map(sizes).collect::<Vec<_>>());
    html += "<figcaption>Size of the stash after each run</figcaption>\n</figure>\n</div>\n";
    let (from, to) = (moment(first.started_unix_ms), moment(last.updated_unix_ms));
    let _ = writeln!(
        html,
        "<p class=\"quiet\">The runs of {from} to {to}, oldest first. Sizes are calculated back from today's, {}, by \
         what each run has written and freed.</p>",
        size(report.bytes)
    );
    if report.earlier_runs > 0 {
        let earlier = number(report.earlier_runs);
        let _ = writeln!(html, "<p class=\"quiet\">Of earlier runs, {earlier}, only sums are left.</p>");
    }
    let rows: String = runs.iter().rev().map(row).collect();
    let columns =
        [("Run", false), ("Ready", true), ("Compiling", true), ("Saved, at most", true), ("Size", true)];
    html += "<details>\n<summary>All runs as a table</summary>\n";
    html += &table("The latest run first", &columns, &rows);
    html + "</details>\n</section>\n"
}

fn row(run: &RunSummary) -> String {
    let cells = [
        format!("{} of {}", number(run.ready), number(run.pipelines)),
        span(run.compile_ns),
        span(run.saved_ns),
        size(run.bytes_after).to_string(),
    ];
    let cells = cells.map(|cell| format!("<td class=\"number\">{}</td>", text(&cell))).concat();
    format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", moment(run.started_unix_ms))
}
