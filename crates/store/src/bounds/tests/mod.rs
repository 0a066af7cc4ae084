//! Eviction, clocks and compaction, by example and by property.

mod clocks;
mod compaction;
mod eviction;
mod properties;
mod simulation;

use crate::bounds::*;
use vkstash_model::record::Kind;

const DAY: u64 = 24 * 60 * 60 * 1000;
/// Some day in 2024.
const NOW: u64 = 1_710_000_000_000;
const PLENTY: u64 = u64::MAX;

/// A record of 10 bytes that was used so many days ago, in a run of its own.
fn record(kind: Kind, name: u8, days_ago: u64) -> Record {
    let unix_ms = NOW - days_ago * DAY;
    Record {
        kind,
        key: [name; 32],
        bytes: 10,
        last_use: LastUse { unix_ms, run: unix_ms, order: 0 },
        current: false,
    }
}

fn listed(records: Vec<Record>) -> PartInventory {
    let bytes = records.iter().map(|record| record.bytes).sum();
    let last_use = records.iter().map(|record| record.last_use.unix_ms).max().unwrap_or(0);
    PartInventory { bytes, frame: 0, last_use, current: false, listing: Listing::Listed(records) }
}

fn foreign(bytes: u64, days_ago: u64) -> PartInventory {
    let last_use = NOW - days_ago * DAY;
    PartInventory { bytes, frame: 0, last_use, current: false, listing: Listing::Foreign }
}

fn app(parts: Vec<PartInventory>) -> ApplicationInventory {
    let last_use = parts.iter().map(|part| part.last_use).max().unwrap_or(0);
    let mut runs: Vec<u64> =
        parts.iter().flat_map(PartInventory::records).map(|record| record.last_use.run).collect();
    runs.sort_unstable();
    ApplicationInventory { last_use, runs, parts, ..ApplicationInventory::default() }
}

fn stored(applications: Vec<ApplicationInventory>) -> Inventory {
    Inventory { applications }
}

fn total(total_bytes: u64) -> Limits {
    Limits { total_bytes, free_space_floor: 0, ..Limits::default() }
}

/// What goes, as application, part and record.
fn gone(plan: &Plan) -> Vec<(usize, usize, Option<usize>)> {
    let targets = plan.evictions.iter().map(|eviction| eviction.target);
    targets.map(|target| (target.application, target.part, target.record)).collect()
}

fn causes(plan: &Plan) -> Vec<Cause> {
    plan.evictions.iter().map(|eviction| eviction.cause).collect()
}

/// The inventory once the plan is carried out and its reclaims are compacted in full.
fn carried_out(inventory: &Inventory, plan: &Plan) -> Inventory {
    let mut after = inventory.clone();
    let mut targets: Vec<Target> = plan.evictions.iter().map(|eviction| eviction.target).collect();
    targets.sort_unstable();
    for target in targets.iter().rev() {
        let parts = &mut after.applications[target.application].parts;
        match (target.record, &mut parts[target.part].listing) {
            (Some(at), Listing::Listed(records)) => drop(records.remove(at)),
            (None, Listing::Foreign | Listing::Unlisted) => parts[target.part].bytes = 0,
            other => panic!("{other:?}"),
        }
    }
    for app in &mut after.applications {
        app.parts.retain(|part| part.is_listed() || part.bytes > 0 || part.current);
        for part in app.parts.iter_mut().filter(|part| part.is_listed()) {
            part.bytes = u64::try_from(part.live()).unwrap_or(u64::MAX);
        }
    }
    after
}
