//! The plot: a panel for each measure and size, a bar for each engine, and one logarithmic scale for a row of panels.

use std::fmt::Write as _;

use crate::engines::Engine;
use crate::measures::{ALL, Measure, Unit, in_words};
use crate::report::{Report, Size};

const LEFT: f64 = 290.0;
const TOP: f64 = 84.0;
const PANEL: f64 = 330.0;
const GAP: f64 = 24.0;
const NAMES: f64 = 58.0;
/// Space for the value after the longest bar.
const WORDS: f64 = 74.0;
const BAR: f64 = 13.0;
const ROW_GAP: f64 = 18.0;

fn colour(engine: Engine) -> &'static str {
    match engine {
        Engine::Stash => "#0b6e4f",
        Engine::Lmdb => "#3d5a80",
        Engine::Redb => "#b56576",
        Engine::Sqlite => "#6d597a",
        Engine::Files => "#b08968",
    }
}

/// The quantity that a bar's length shows. Values near zero are drawn as small ones.
fn drawn(measure: &Measure, value: f64) -> f64 {
    match measure.unit {
        // The overhead over the payload, in percent.
        Unit::Share => ((value - 1.0) * 100.0).max(0.1),
        Unit::Bytes => value.max(1.0),
        Unit::Rate | Unit::Time => value.max(1e-3),
    }
}

fn words(measure: &Measure, value: f64) -> String {
    match measure.unit {
        Unit::Share => format!("{:+.1} %", (value - 1.0) * 100.0),
        unit => in_words(value, unit),
    }
}

/// The picture.
pub fn svg(report: &Report) -> String {
    let rows: Vec<&Measure> = ALL.iter().filter(|measure| measure.plotted).collect();
    let width = LEFT + report.sizes.len() as f64 * (PANEL + GAP);
    let mut body = String::new();
    let mut y = TOP;
    for (at, measure) in rows.iter().enumerate() {
        let height = row(report, measure, y, &mut body);
        if at + 1 < rows.len() && height > 0.0 {
            let line = y + height - ROW_GAP / 2.0;
            let _ = writeln!(
                body,
                r##"<line x1="16" x2="{:.0}" y1="{line:.1}" y2="{line:.1}" stroke="#ddd"/>"##,
                width - 16.0
            );
        }
        y += height;
    }
    let mut text = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{y:.0}" viewBox="0 0 {width:.0} {y:.0}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>
<text x="16" y="28" font-size="17" font-weight="bold" fill="#222">The store against other engines</text>
<text x="16" y="46" fill="#555">{}, {} cores, {}; warm page cache; logarithmic, one scale a row</text>
"##,
        escape(&report.machine.processor),
        report.machine.cores,
        escape(&report.machine.file_system),
    );
    for (at, size) in report.sizes.iter().enumerate() {
        let _ = writeln!(
            text,
            r##"<text x="{:.1}" y="{:.1}" font-size="13" font-weight="bold" fill="#222">{} entries</text>"##,
            panel(at) + NAMES,
            TOP - 14.0,
            size.entries
        );
    }
    text + &body + "</svg>\n"
}

fn panel(column: usize) -> f64 {
    LEFT + column as f64 * (PANEL + GAP)
}

/// Draws a row of panels, and gives its height; 0 if nothing was measured.
fn row(report: &Report, measure: &Measure, y: f64, text: &mut String) -> f64 {
    let bars: Vec<Vec<(Engine, f64)>> = report.sizes.iter().map(|size| bars(measure, size)).collect();
    let most_bars = bars.iter().map(Vec::len).max().unwrap_or(0);
    if most_bars == 0 {
        return 0.0;
    }
    let logs = || bars.iter().flatten().map(|(_, value)| drawn(measure, *value).log10());
    // A little below the least value, so that every bar is visible.
    let (low, high) = (logs().fold(f64::INFINITY, f64::min) - 0.3, logs().fold(f64::NEG_INFINITY, f64::max));
    let better = if measure.unit == Unit::Rate { "longer is better" } else { "shorter is better" };
    let _ = writeln!(
        text,
        r##"<text x="16" y="{:.1}" font-size="12" fill="#222">{}</text>"##,
        y + 10.0,
        heading(measure)
    );
    let _ =
        writeln!(text, r##"<text x="16" y="{:.1}" font-size="10" fill="#777">{better}</text>"##, y + 24.0);
    for (column, bars) in bars.iter().enumerate() {
        for (at, &(engine, value)) in bars.iter().enumerate() {
            let (x, top) = (panel(column) + NAMES, y + at as f64 * BAR);
            let share = (drawn(measure, value).log10() - low) / (high - low).max(0.3);
            let length = share * (PANEL - NAMES - WORDS);
            let (end, line) = (x + length + 4.0, top + BAR - 3.5);
            let _ = writeln!(
                text,
                r##"<text x="{:.1}" y="{line:.1}" text-anchor="end" fill="#444">{}</text><rect x="{x:.1}" y="{top:.1}" width="{length:.1}" height="{:.1}" fill="{}"/><text x="{end:.1}" y="{line:.1}" fill="#222">{}</text>"##,
                x - 5.0,
                engine.name(),
                BAR - 2.0,
                colour(engine),
                words(measure, value),
            );
        }
    }
    most_bars as f64 * BAR + ROW_GAP
}

/// The title of a row without reference to the row before it.
fn heading(measure: &Measure) -> String {
    let title = match measure.name {
        "disk" => "disk beside the payload",
        "killed" => "open to first get after kill -9, median",
        _ => measure.title,
    };
    escape(title)
}

/// In a row that only the stash has, LMDB's comparable value is drawn too.
fn bars(measure: &Measure, size: &Size) -> Vec<(Engine, f64)> {
    let of = |engine| {
        let peer = Measure { name: measure.peer, ..*measure };
        let lent = engine == Engine::Lmdb && measure.value(size, engine).is_none();
        Some((engine, if lent { peer.value(size, engine)? } else { measure.value(size, engine)? }))
    };
    size.engines().filter_map(of).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
