//! The result of `vkstash bench` for people.

use std::fmt::Write as _;

use crate::bench::comparison::Comparison;
use crate::bench::figures::{Figures, Spread};
use crate::term::time::span;
use crate::units::counted;

/// The rows of the table: name, time, quartiles, ratio, ratio of processor time.
fn rows(result: &Comparison) -> [[String; 5]; 3] {
    let time = |seconds: f64| span((seconds * 1e9) as u64);
    let ratio = |Spread { median, low, high }: Spread| format!("{median:.3} ({low:.3} to {high:.3})");
    let row = |name: &str, figures: &Figures, is_compared: bool| {
        let Figures { seconds, ratio: wall, processor_ratio, .. } = figures;
        let quartiles = format!("{} to {}", time(seconds.low), time(seconds.high));
        let [wall, processor] =
            [wall, processor_ratio].map(|of| if is_compared { ratio(*of) } else { String::new() });
        [name.to_owned(), time(seconds.median), quartiles, wall, processor]
    };
    [
        row("without", &result.without, false),
        row("empty stash", &result.empty_stash, true),
        row("filled stash", &result.filled_stash, true),
    ]
}

const HEAD: [&str; 5] = ["", "time", "quartiles", "against without", "processor time"];

fn title(result: &Comparison) -> String {
    let runs = counted(result.runs as u64, "run");
    format!("{runs} of each kind, in turns; {}", result.driver_cache.words())
}

fn pipelines(result: &Comparison) -> String {
    let of = result.pipelines;
    format!(
        "last run with a filled stash: {}, {} served, {} in the driver's caches, {} compiled, {} bypassed",
        counted(of.requested, "pipeline"),
        of.served,
        of.driver_had,
        of.compiled,
        of.bypassed
    )
}

/// For a terminal.
pub(super) fn plain(result: &Comparison) -> String {
    let mut text = format!("{}\n\n", title(result));
    let rows = rows(result);
    let head = HEAD.map(str::to_owned);
    let all = || [&head].into_iter().chain(&rows);
    let widths: [usize; 5] = std::array::from_fn(|at| all().map(|row| row[at].len()).max().unwrap_or(0));
    for row in all() {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    let _ = writeln!(text, "\n{}", pipelines(result));
    for remark in &result.remarks {
        let _ = writeln!(text, "note: {}: {}", remark.what, remark.next);
    }
    text
}

/// For a report.
pub(super) fn markdown(result: &Comparison) -> String {
    // A bar would end the cell, and a backquote the code.
    let command = result.command.join(" ").replace('`', "'").replace(['\n', '\r'], " ");
    let mut text = format!("`{command}`: {}\n\n", title(result));
    let _ = writeln!(text, "| {} |", HEAD.join(" | "));
    let _ = writeln!(text, "|---|---|---|---|---|");
    for row in rows(result) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    let _ = writeln!(text, "\n{}", pipelines(result));
    for remark in &result.remarks {
        let _ = writeln!(text, "\n- {}: {}", remark.what, remark.next);
    }
    text
}
