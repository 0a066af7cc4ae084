//! The result of `vkstash bench` for people.

use std::fmt::Write as _;

use crate::programs::bench::caches::Caches;
use crate::programs::bench::comparison::Comparison;
use crate::programs::bench::figures::{Figures, Spread};
use crate::term::screen;
use crate::term::style::Style;
use crate::term::table::{Column, Table};
use crate::term::time::{decimals, spread};
use crate::term::units::{counted, size};

const COLUMNS: [Column; 6] = [
    Column::words("", 5),
    Column::numbers("time", 4),
    Column::numbers("against without", 3),
    Column::numbers("processor time", 0),
    Column::words("stash", 1),
    Column::words("driver's own cache", 2),
];

/// What the runs prove, in one line: `1.17 ± 0.02 times faster with the stash: 247 ms ± 3 instead of 290 ms ± 4`.
fn verdict(result: &Comparison) -> String {
    let (with, without) = (&result.filled_stash, &result.without);
    let times = format!("{} instead of {}", time(&with.seconds), time(&without.seconds));
    let Spread { median, low, high } = with.ratio;
    if low <= 1.0 && high >= 1.0 {
        return format!("with and without the stash are the same within the spread: {times}");
    }
    let (word, factor) = if median < 1.0 { ("faster", 1.0 / median) } else { ("slower", median) };
    let half = factor * with.ratio.half() / median.max(f64::MIN_POSITIVE);
    let digits = decimals(factor);
    format!("{factor:.digits$} ± {half:.digits$} times {word} with the stash: {times}")
}

fn time(seconds: &Spread) -> String {
    spread(seconds.median * 1e9, seconds.half() * 1e9)
}

/// The cells of the table.
fn rows(result: &Comparison) -> [[String; 6]; 3] {
    let ratio = |of: &Spread| format!("{:.3} ± {:.3}", of.median, of.half());
    let caches = caches(&result.driver_cache);
    let row = |name: &str, figures: &Figures, stash: Option<String>| {
        let Figures { seconds, ratio: wall, processor_ratio, .. } = figures;
        let compared = |of| if stash.is_some() { ratio(of) } else { String::new() };
        let [wall, processor] = [wall, processor_ratio].map(compared);
        let stash = stash.unwrap_or_else(|| "none".to_owned());
        [name.to_owned(), time(seconds), wall, processor, stash, caches.clone()]
    };
    let filled = format!("filled by {} and more", counted(result.filled_by_runs as u64, "run"));
    [
        row("without", &result.without, None),
        row("empty stash", &result.empty_stash, Some("new each run".to_owned())),
        row("filled stash", &result.filled_stash, Some(filled)),
    ]
}

/// The state of the drivers' caches, with what they had at first.
fn caches(of: &Caches) -> String {
    let bytes: u64 = of.caches.iter().map(|cache| cache.bytes_before).sum();
    match of.caches.is_empty() {
        true => of.state.words().to_owned(),
        false => format!("{}, {}", of.state.words(), size(bytes)),
    }
}

fn how(result: &Comparison) -> String {
    let runs = counted(result.runs as u64, "run");
    format!("{runs} of each kind, in turns; medians, and half of the distance of the quartiles")
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
    let mut table = Table::new(&COLUMNS);
    for row in rows(result) {
        table.row(row);
    }
    let mut text = format!("{}\n\n", Style::Strong.paint(verdict(result)));
    text += &table.lines(screen::width());
    let _ = writeln!(text, "\n{}\n{}", how(result), pipelines(result));
    for remark in &result.remarks {
        let _ = writeln!(text, "note: {}: {}", remark.what, remark.next);
    }
    text
}

/// For a report.
pub(super) fn markdown(result: &Comparison) -> String {
    // A bar would end the cell, and a backquote the code.
    let command = result.command.join(" ").replace('`', "'").replace(['\n', '\r'], " ");
    let mut text = format!("`{command}`: {}\n\n", verdict(result));
    let _ = writeln!(text, "| {} |", COLUMNS.map(|column| column.title()).join(" | "));
    let _ = writeln!(text, "|---|---|---|---|---|---|");
    for row in rows(result) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    let _ = writeln!(text, "\n{}. {}", how(result), pipelines(result));
    for remark in &result.remarks {
        let _ = writeln!(text, "\n- {}: {}", remark.what, remark.next);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::bench::caches::State;
    use crate::programs::bench::figures::Pipelines;

    fn of(ratio: (f64, f64, f64)) -> Comparison {
        let spread = |(low, median, high): (f64, f64, f64)| Spread { median, low, high };
        let figures = |ratio| Figures {
            seconds: spread((0.286 * ratio, 0.290 * ratio, 0.294 * ratio)),
            ratio: spread((ratio, ratio, ratio)),
            processor_seconds: spread((0.1, 0.1, 0.1)),
            processor_ratio: spread((1.0, 1.0, 1.0)),
        };
        let filled = Figures { ratio: spread(ratio), ..figures(ratio.1) };
        Comparison {
            command: vec!["game".to_owned()],
            runs: 10,
            filled_by_runs: 2,
            driver_cache: Caches { state: State::Unknown, caches: Vec::new() },
            without: figures(1.0),
            empty_stash: figures(1.1),
            filled_stash: filled,
            pipelines: Pipelines::default(),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn the_first_line_says_what_the_runs_prove() {
        let said = |ratio| verdict(&of(ratio));
        assert_eq!(
            said((0.84, 0.85, 0.86)),
            "1.18 ± 0.01 times faster with the stash: 246 ms ± 3 instead of 290 ms ± 4"
        );
        let faster = said((0.015, 0.015_625, 0.016));
        assert!(faster.starts_with("64.0 ± 2.0 times faster"), "{faster}");
        let slower = said((1.02, 1.05, 1.08));
        assert!(slower.starts_with("1.05 ± 0.03 times slower"), "{slower}");
        let same = said((0.98, 1.0, 1.01));
        assert!(same.starts_with("with and without the stash are the same within the spread"), "{same}");
    }

    #[test]
    fn the_table_says_what_each_cache_held() {
        let text = plain(&of((0.84, 0.85, 0.86)));
        let ends = |name: &str, end: &[&str]| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            assert!(words.ends_with(end), "{text}");
        };
        ends("without", &["none", "none", "known"]);
        ends("empty stash", &["new", "each", "run", "none", "known"]);
        ends("filled stash", &["filled", "by", "2", "runs", "and", "more", "none", "known"]);
    }
}
