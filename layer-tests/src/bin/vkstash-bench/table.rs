//! Figures, and their output: Markdown that can be pasted into a document, or JSON.

use std::fmt::Write as _;

use serde::Serialize;
use vkstash_layer_tests::bench::data::Data;
use vkstash_layer_tests::bench::numbers::Spread;
use vkstash_layer_tests::bench::report::Device;

use crate::machine::Machine;

const HEAD: [&str; 5] = ["figure", "measured", "against", "peer", "ratio (quartiles)"];

/// One row: a measured value, its peer, and the ratio of the two in the same run.
#[derive(Serialize)]
pub(crate) struct Figure {
    /// Stable name for scripts.
    pub(crate) id: String,
    /// The measured quantity, in words.
    pub(crate) what: String,
    /// The unit of `value` and `peer`.
    pub(crate) unit: &'static str,
    /// Median over the rounds.
    pub(crate) value: f64,
    /// Median of the peer.
    pub(crate) peer: Option<f64>,
    /// The peer, in words.
    pub(crate) against: String,
    /// `value` over `peer` pair by pair: median and quartiles.
    pub(crate) ratio: Option<Spread>,
}

/// Rows for the same driver.
#[derive(Serialize)]
pub(crate) struct Table {
    /// Headline.
    pub(crate) title: String,
    /// The device that was measured.
    pub(crate) device: Device,
    /// Number of modules in the corpus.
    pub(crate) modules: usize,
    /// The rows.
    pub(crate) figures: Vec<Figure>,
}

impl Figure {
    /// Compares pair by pair: `values[i]` was measured beside `peers[i]`.
    pub(crate) fn pairs(
        id: impl Into<String>,
        what: impl Into<String>,
        values: &[f64],
        against: impl Into<String>,
        peers: &[f64],
        unit: &'static str,
    ) -> Self {
        let ratios: Vec<f64> = values.iter().zip(peers).map(|(value, peer)| value / peer).collect();
        Self {
            id: id.into(),
            what: what.into(),
            unit,
            value: Spread::of(values).median,
            peer: Some(Spread::of(peers).median),
            against: against.into(),
            ratio: Some(Spread::of(&ratios)),
        }
    }

    /// A value without a peer.
    pub(crate) fn alone(
        id: impl Into<String>,
        what: impl Into<String>,
        values: &[f64],
        unit: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            unit,
            value: Spread::of(values).median,
            peer: None,
            against: note.into(),
            ratio: None,
        }
    }
}

impl Figure {
    /// Its row, as [`HEAD`] says.
    fn cells(&self) -> [String; 5] {
        [
            self.what.clone(),
            amount(self.value, self.unit),
            self.against.clone(),
            self.peer.map_or_else(String::new, |peer| amount(peer, self.unit)),
            self.ratio.map_or_else(String::new, ratio),
        ]
    }
}

impl Table {
    /// What was measured: the device, its driver, and how many pipelines.
    fn measured(&self) -> String {
        let device = &self.device;
        let driver = [device.driver.as_str(), device.driver_info.as_str()].join(" ");
        let count = match self.modules {
            0 => String::new(),
            modules => format!("; {modules} pipelines"),
        };
        format!("{}, {}{count}", device.name, driver.trim())
    }
}

/// The whole output as JSON.
pub(crate) fn json(machine: &Machine, tables: &[Table]) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&serde_json::json!({ "machine": machine, "tables": tables }))
}

/// The whole output as Markdown, with aligned columns.
pub(crate) fn markdown(machine: &Machine, tables: &[Table]) -> String {
    let mut text = format!("`{}`  \n{}, {} cores\n", machine.command, machine.cpu, machine.cores);
    for table in tables {
        let _ = write!(text, "\n**{}**: {}\n\n", table.title, table.measured());
        let rows = table.figures.iter().map(Figure::cells);
        text.push_str(&aligned(std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect()));
    }
    text
}

/// The whole output as one data file. Rows of several tables begin with the title of theirs.
pub(crate) fn data(machine: &Machine, tables: &[Table]) -> Data {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for table in tables {
        rows.extend(table.figures.iter().map(|figure| figure.cells().to_vec()));
    }
    if tables.len() > 1 {
        let titles = tables.iter().flat_map(|table| table.figures.iter().map(|_| table.title.as_str()));
        for (row, title) in rows.iter_mut().zip(std::iter::once("table").chain(titles)) {
            row.insert(0, title.to_owned());
        }
    }
    let distinct = |mut words: Vec<String>| {
        words.dedup();
        words.join("; ")
    };
    Data {
        topic: tables.first().map_or_else(String::new, |table| table.title.clone()),
        what: distinct(tables.iter().map(|table| table.title.clone()).collect()),
        command: machine.command.clone(),
        machine: machine.words(&distinct(tables.iter().map(Table::measured).collect())),
        rows,
    }
}

fn ratio(spread: Spread) -> String {
    let Spread { low, median, high, count } = spread;
    // If one side is hundreds of times the other, three decimals would round everything away.
    let places = if median < 0.1 { 5 } else { 3 };
    if count < 3 {
        format!("{median:.places$}")
    } else {
        format!("{median:.places$} ({low:.places$} to {high:.places$})")
    }
}

/// Three significant digits.
fn amount(value: f64, unit: &str) -> String {
    let size = value.abs();
    let text = match size {
        _ if value.is_nan() => return "?".to_owned(),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if unit == "%" { format!("{text} %") } else { format!("{text} {unit}") }
}

/// Rows as a table; the first one is the head.
pub(crate) fn aligned<const N: usize>(rows: Vec<[String; N]>) -> String {
    let mut widths = [3; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in widths {
                let _ = write!(text, "|{:-<1$}", "", width + 2);
            }
            text.push_str("|\n");
        }
    }
    text
}
