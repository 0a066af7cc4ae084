//! Bytes that compaction must free in each part, so that the files fit the limits, and not only their live records.

use std::cmp::Reverse;

use crate::bounds::eviction::{Eviction, clamp};
use crate::bounds::inventory::{Inventory, PartInventory};
use vkstash_host::sort;

/// What compaction must free in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaim {
    /// The application.
    pub application: usize,
    /// The part of the application.
    pub part: usize,
    /// Dead bytes that must be freed, at least.
    pub bytes: u64,
}

/// A part after the eviction.
struct Left {
    application: usize,
    part: usize,
    disk: u128,
    dead: u128,
    reclaimed: u128,
    /// The number of its records, and what a file takes beside them.
    records: usize,
    frame: u64,
}

/// Distributes what the limits require over the parts, those with the most dead bytes first. `emptied` are applications
/// that are deleted as a whole.
pub(crate) fn reclaim(
    inventory: &Inventory,
    evictions: &[Eviction],
    emptied: &[usize],
    limit_of: impl Fn(usize) -> Option<u64>,
    total: u64,
) -> Vec<Reclaim> {
    let mut left = left(inventory, evictions, emptied);
    // Equal parts stay in the order of the inventory.
    sort::by_key(&mut left, |left| (Reverse(left.dead), left.application, left.part));
    for application in 0..inventory.applications.len() {
        if let Some(limit) = limit_of(application) {
            demand(&mut left, Some(application), limit);
        }
    }
    demand(&mut left, None, total);
    let asked = left.iter().filter(|left| left.reclaimed > 0);
    asked
        .map(|left| Reclaim { application: left.application, part: left.part, bytes: clamp(left.reclaimed) })
        .collect()
}

fn left(inventory: &Inventory, evictions: &[Eviction], emptied: &[usize]) -> Vec<Left> {
    let mut left: Vec<Vec<Left>> = Vec::new();
    for (application, app) in inventory.applications.iter().enumerate() {
        let of_part = |(part, it): (usize, &PartInventory)| {
            let disk = it.disk();
            let (records, frame) = (it.records().len(), it.frame);
            Left { application, part, disk, dead: disk - it.live(), reclaimed: 0, records, frame }
        };
        left.push(app.parts.iter().enumerate().map(of_part).collect());
    }
    for eviction in evictions {
        let part = &mut left[eviction.target.application][eviction.target.part];
        match eviction.target.record {
            Some(_) => {
                part.records -= 1;
                let frame = if part.records == 0 { part.frame } else { 0 };
                part.dead += u128::from(eviction.bytes) + u128::from(frame);
            }
            None => part.disk -= u128::from(eviction.bytes),
        }
    }
    left.into_iter().flatten().filter(|left| emptied.binary_search(&left.application).is_err()).collect()
}

/// Reclaims dead bytes until what is left takes at most `limit`.
fn demand(left: &mut [Left], application: Option<usize>, limit: u64) {
    let concerned = |left: &Left| application.is_none_or(|app| app == left.application);
    let disk =
        left.iter().filter(|left| concerned(left)).map(|left| left.disk - left.reclaimed).sum::<u128>();
    let mut missing = disk.saturating_sub(u128::from(limit));
    for left in left.iter_mut().filter(|left| concerned(left)) {
        let share = missing.min(left.dead - left.reclaimed);
        left.reclaimed += share;
        missing -= share;
    }
}
