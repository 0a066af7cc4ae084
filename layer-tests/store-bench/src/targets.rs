//! The targets of the store, and the measured values.

use crate::engines::Engine;
use crate::measures::{ALL, Measure, Unit, in_words, ratio_in_words};
use crate::report::{Report, Size};
use crate::table::table;

/// The size for which the targets are stated.
const ENTRIES: u64 = 100_000;
/// The larger size for the target of opening.
const MANY: u64 = 1_000_000;

enum Bound {
    /// The value is at most this multiple of LMDB's.
    MostOfLmdb(f64),
    /// The value is at least this multiple of LMDB's.
    LeastOfLmdb(f64),
    /// The value is at most this.
    Most(f64),
}

/// The name of a measure, and its target.
const ASKED: [(&str, &str, Bound); 10] = [
    ("hit.p50", "get hit, verified, at most 2 times LMDB's unverified", Bound::MostOfLmdb(2.0)),
    ("miss_1.p50", "get miss with 1 other live writer at most 0.5 us", Bound::Most(500.0)),
    ("miss_8.p50", "get miss with 8 other live writers at most 0.5 us", Bound::Most(500.0)),
    ("open", "open to first get at most 1 ms", Bound::Most(1e6)),
    ("killed", "the same after kill -9 of one writer at most 5 ms", Bound::Most(5e6)),
    ("killed_all", "the same after kill -9 with all entries unsealed at most 5 ms", Bound::Most(5e6)),
    ("put.p50", "single put (put + flush) at most 0.7 times LMDB's", Bound::MostOfLmdb(0.7)),
    ("bulk", "bulk insert at least 1.5 times LMDB's", Bound::LeastOfLmdb(1.5)),
    ("disk", "disk at most 1.02 times the payload", Bound::Most(1.02)),
    ("memory.anon", "memory at most 24 bytes an entry", Bound::Most(24.0)),
];

/// The section of the document; empty if its sizes were not measured.
pub fn section(report: &Report) -> String {
    let of = |entries| report.sizes.iter().find(|size| size.entries == entries);
    let Some(size) = of(ENTRIES) else { return String::new() };
    let mut rows = vec![["asked for", "measured", "met"].map(str::to_owned).to_vec()];
    for (name, title, bound) in &ASKED {
        let Some(measure) = ALL.iter().find(|measure| measure.name == *name) else { continue };
        let Some((measured, met)) = judge(measure, size, bound) else { continue };
        rows.push(vec![(*title).to_owned(), measured, yes_or_no(met)]);
        if *name == "put.p50" {
            // Before the flush the record is queued, and readable.
            let Some(measure) = ALL.iter().find(|measure| measure.name == "put_queued.p50") else { continue };
            let Some((measured, met)) = judge(measure, size, bound) else { continue };
            rows.push(vec!["the same, put alone".to_owned(), measured, yes_or_no(met)]);
        }
    }
    rows.extend(of(MANY).and_then(|many| growth(size, many)));
    let mut text = format!("\n## What is asked of the store at {ENTRIES} entries\n\n");
    table(&rows, &mut text);
    text
}

/// How much longer opening takes with many entries.
fn growth(few: &Size, many: &Size) -> Option<Vec<String>> {
    let open = ALL.iter().find(|measure| measure.name == "open")?;
    let (few, many) = (open.value(few, Engine::Stash)?, open.value(many, Engine::Stash)?);
    let measured = format!("{} times ({})", ratio_in_words(many / few), in_words(many, Unit::Time));
    let asked = format!("open to first get at {MANY} entries at most 2 times that");
    Some(vec![asked, measured, yes_or_no(many <= 2.0 * few)])
}

fn judge(measure: &Measure, size: &Size, bound: &Bound) -> Option<(String, bool)> {
    let value = measure.value(size, Engine::Stash)?;
    let words = in_words(value, measure.unit);
    let ratio = || measure.ratio(size, Engine::Stash);
    let compared = |ratio: f64| format!("{} times ({words})", ratio_in_words(ratio));
    Some(match bound {
        Bound::Most(most) => (words, value <= *most),
        Bound::MostOfLmdb(most) => ratio().map(|ratio| (compared(ratio), ratio <= *most))?,
        Bound::LeastOfLmdb(least) => ratio().map(|ratio| (compared(ratio), ratio >= *least))?,
    })
}

fn yes_or_no(met: bool) -> String {
    if met { "yes" } else { "no" }.to_owned()
}
