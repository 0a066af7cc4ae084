//! Contents of the drivers' own caches on disk when the runs began, and when they had ended.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use vkstash_model::driver_caches::DriverCache;

use crate::drivers::caches::on_disk::{self, OnDisk};
use crate::programs::bench::runs::Run;

/// The state of the caches during the runs that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Earlier runs had left something, and no run added to it.
    Warm,
    /// The runs added to what there was.
    Filling,
    /// Nothing: each run had a new one.
    Empty,
    /// The drivers would have one, and nothing is on disk.
    NothingKept,
    /// Nothing: the environment switches them off.
    Disabled,
    /// None of the drivers is known to have one, or no driver was seen.
    Unknown,
}

impl State {
    pub(super) fn words(self) -> &'static str {
        match self {
            State::Warm => "warm",
            State::Filling => "growing",
            State::Empty => "new each run",
            State::NothingKept => "nothing on disk",
            State::Disabled => "disabled",
            State::Unknown => "none known",
        }
    }
}

/// One cache of a driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Cache {
    /// The vendor of the driver.
    pub(super) vendor: &'static str,
    /// Where the cache is.
    pub(super) folder: PathBuf,
    /// The sum of the files' sizes before the first run that counts.
    pub(super) bytes_before: u64,
    /// The same after the last one.
    pub(super) bytes_after: u64,
}

/// The drivers' own caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Caches {
    /// What they had.
    pub(super) state: State,
    /// Those on disk whose size tells the state.
    pub(super) caches: Vec<Cache>,
}

impl Caches {
    /// `run`: one with the layer, which tells the drivers. `before`: what was on disk before the runs that count.
    /// `are_new`: each run had new ones.
    pub(super) fn of(run: Option<&Run>, before: &[OnDisk], are_new: bool) -> Caches {
        let devices = run.into_iter().flat_map(|run| &run.reports).flat_map(|report| &report.devices);
        let ids: Vec<_> = devices.map(|device| device.driver_id).collect();
        let variable = |name: &str| std::env::var(name).ok();
        let drivers: Vec<_> = ids.iter().map(|&id| DriverCache::of(id, &variable)).collect();
        let mut caches = if are_new { Vec::new() } else { paired(before, on_disk::all()) };
        // Other programs may fill those of other drivers meanwhile.
        caches.retain(|cache| ids.iter().any(|&id| on_disk::vendor_of(id) == Some(cache.vendor)));
        let state = state(&drivers, &caches, are_new);
        Caches { state, caches: if state == State::Disabled { Vec::new() } else { caches } }
    }
}

/// Each folder once, with its sizes.
fn paired(before: &[OnDisk], after: Vec<OnDisk>) -> Vec<Cache> {
    let sizes: BTreeMap<_, _> = before.iter().map(|cache| (&cache.folder, cache.bytes)).collect();
    let pair = |OnDisk { vendor, folder, bytes, .. }| {
        let bytes_before = sizes.get(&folder).copied().unwrap_or(0);
        Cache { vendor, folder, bytes_before, bytes_after: bytes }
    };
    after.into_iter().map(pair).filter(|cache| cache.bytes_before + cache.bytes_after > 0).collect()
}

fn state(drivers: &[DriverCache], caches: &[Cache], are_new: bool) -> State {
    if !drivers.contains(&DriverCache::Enabled) {
        return if drivers.contains(&DriverCache::Disabled) { State::Disabled } else { State::Unknown };
    }
    if are_new {
        State::Empty
    } else if caches.is_empty() {
        State::NothingKept
    } else if caches.iter().any(|cache| cache.bytes_after > cache.bytes_before) {
        State::Filling
    } else {
        State::Warm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_disk(bytes: u64) -> OnDisk {
        OnDisk { vendor: "Mesa", folder: "/c".into(), bytes, limit: None, variable: "" }
    }

    #[test]
    fn caches_are_what_is_on_disk_before_and_after() {
        use DriverCache::{Disabled, Enabled, Unknown};
        let of = |drivers: &[DriverCache], before: u64, after: u64| {
            state(drivers, &paired(&[on_disk(before)], vec![on_disk(after)]), false)
        };
        assert_eq!(of(&[Enabled], 7, 7), State::Warm);
        assert_eq!(of(&[Enabled], 7, 9), State::Filling);
        assert_eq!(of(&[Enabled], 0, 9), State::Filling);
        assert_eq!(of(&[Enabled], 0, 0), State::NothingKept);
        assert_eq!(of(&[Enabled, Disabled], 9, 7), State::Warm, "the driver has removed something");
        assert_eq!(of(&[Unknown, Disabled], 7, 7), State::Disabled);
        assert_eq!(of(&[Unknown], 7, 7), State::Unknown);
        assert_eq!(of(&[], 7, 7), State::Unknown);
        assert_eq!(state(&[Enabled], &[], true), State::Empty);
    }
}
