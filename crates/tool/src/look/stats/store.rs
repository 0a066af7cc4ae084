//! Words for what happened to the store.

use std::collections::BTreeMap;

use vkstash_store::part::tallies::OF_A_BASE;

use super::model::Store;
use crate::term::units::{counted, plain, size, words};

/// The reason under which reports count files that were read later.
const PUT_OFF: &str = "put_off";

pub(super) fn describe_store(lines: &mut Vec<String>, store: &Store) {
    let mut say = |text: String| lines.push(format!("  {text}"));
    for (reason, &runs) in &store.unusable {
        say(format!("the stash could not be used in {}: {}", counted(runs, "run"), plain(reason)));
    }
    // Not refused: another thread of the program has read them later.
    let late = store.refused.get(PUT_OFF).copied().unwrap_or(0);
    let (bases, files): (Vec<_>, Vec<_>) =
        store.refused.iter().partition(|(reason, _)| reason.starts_with(OF_A_BASE));
    let refused = files.into_iter().filter(|(reason, _)| *reason != PUT_OFF);
    let refused: BTreeMap<_, _> = refused.map(|(reason, &count)| (reason.clone(), count)).collect();
    if !refused.is_empty() {
        say(format!("files refused in those runs: {}", by_reason(&refused)));
    }
    if late > 0 {
        say(format!("files and parts that another thread read, because the program could not wait: {late}"));
    }
    for (reason, &runs) in bases {
        let reason = plain(reason.trim_start_matches(OF_A_BASE));
        say(format!("base not used in {}: {reason}", counted(runs, "run")));
    }
    if store.damaged_records > 0 {
        say(format!("{} skipped in those runs", counted(store.damaged_records, "damaged record")));
    }
    if !store.write_errors.is_empty() {
        say(format!("failed writes: {}", by_reason(&store.write_errors)));
    }
    if store.dropped > 0 {
        say(format!("{} not written", counted(store.dropped, "record")));
    }
    if !store.evicted_bytes.is_empty() {
        let causes = store.evicted_bytes.iter();
        let causes: Vec<_> =
            causes.map(|(cause, &bytes)| format!("{} {}", size(bytes), words(cause))).collect();
        say(format!("evicted: {}, {}", counted(store.evicted_records, "record"), causes.join(", ")));
    }
    match (size(store.compacted_bytes), size(store.reclaimed_bytes)) {
        _ if store.compacted_bytes == 0 && store.reclaimed_bytes == 0 => {}
        (_, freed) if store.compacted_bytes == 0 => say(format!("{freed} freed by removing files")),
        (wrote, freed) => say(format!("merging files wrote {wrote} and freed {freed}")),
    }
}

fn by_reason(counts: &BTreeMap<String, u64>) -> String {
    let rows: Vec<_> = counts.iter().map(|(reason, count)| format!("{count} {}", words(reason))).collect();
    rows.join(", ")
}
