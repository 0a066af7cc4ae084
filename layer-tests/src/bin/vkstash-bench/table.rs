//! Medians, and tables that can be pasted into docs/measurements.md.

use std::fs;

use crate::client::Run;

/// The median; 0 of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2.0,
    }
}

/// Median nanoseconds of a list of times.
pub fn median_ns(times: &[u64]) -> f64 {
    median(times.iter().map(|&time| time as f64))
}

/// For each pipeline its median over the rounds.
pub fn per_pipeline(rounds: &[Vec<u64>]) -> Vec<f64> {
    let count = rounds.first().map_or(0, Vec::len);
    (0..count).map(|index| median(rounds.iter().map(|round| round[index] as f64))).collect()
}

/// The machine, the driver and the command, for the reader of a table.
pub fn head(run: &Run) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|p| p.1);
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let command: Vec<_> = std::env::args().skip(1).collect();
    println!("command: vkstash-bench {}", command.join(" "));
    println!("machine: {}, {cores} cores", model.unwrap_or("unknown"));
    println!("driver:  {}, {}", run.figures.device, run.figures.driver);
    println!();
}

/// Rows of figures against what they should be.
#[derive(Default)]
pub struct Rows(Vec<[String; 4]>);

impl Rows {
    /// A figure that should be at most `limit`.
    pub fn at_most(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        let verdict = if value <= limit { "ok" } else { "MISSED" };
        self.0.push([what.into(), format!("{value:.3}{unit}"), format!("<= {limit}{unit}"), verdict.into()]);
    }

    /// A ratio that should lie between the two.
    pub fn within(&mut self, what: &str, value: f64, low: f64, high: f64) {
        let verdict = if (low..=high).contains(&value) { "ok" } else { "MISSED" };
        self.0.push([what.into(), format!("{value:.3}"), format!("{low} to {high}"), verdict.into()]);
    }

    /// A figure that says something about the others.
    pub fn plain(&mut self, what: &str, value: String) {
        self.0.push([what.into(), value, String::new(), String::new()]);
    }

    /// Prints the rows as a table.
    pub fn print(&self) {
        let header = ["figure", "measured", "wanted", ""].map(String::from);
        let rows: Vec<_> = std::iter::once(&header).chain(&self.0).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..4).map(width).collect();
        for (index, row) in rows.iter().enumerate() {
            let cells: Vec<_> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            println!("| {} |", cells.join(" | "));
            if index == 0 {
                let lines: Vec<_> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
                println!("|{}|", lines.join("|"));
            }
        }
        println!();
    }
}

/// Says on standard error how far a long run has come.
pub fn progress(text: &str) {
    eprintln!("  {text} ...");
}
