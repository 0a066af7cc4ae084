//! The result of `vkstash bench`.

use serde::Serialize;
use vkstash_model::driver_caches::DriverCache;

use crate::bench::figures::{Figures, Pipelines};
use crate::bench::remarks::Remark;
use crate::bench::runs::Run;

/// What the drivers' own caches on disk held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Caches {
    /// What earlier runs have left.
    Warm,
    /// Nothing: each run had a new one.
    Empty,
    /// Nothing: the environment switches them off.
    Disabled,
    /// None of the drivers is known to have one, or no driver was seen.
    Unknown,
}

impl Caches {
    /// The caches of the drivers that a run with the layer has used.
    pub(super) fn of(run: Option<&Run>, are_new: bool) -> Caches {
        let devices = run.into_iter().flat_map(|run| &run.reports).flat_map(|report| &report.devices);
        let variable = |name: &str| std::env::var(name).ok();
        let caches: Vec<_> = devices.map(|device| DriverCache::of(device.driver_id, &variable)).collect();
        Caches::among(&caches, are_new)
    }

    fn among(caches: &[DriverCache], are_new: bool) -> Caches {
        if caches.contains(&DriverCache::Enabled) {
            if are_new { Caches::Empty } else { Caches::Warm }
        } else if caches.contains(&DriverCache::Disabled) {
            Caches::Disabled
        } else {
            Caches::Unknown
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Caches::Warm => "the drivers' own caches are warm",
            Caches::Empty => "the drivers' own caches are empty",
            Caches::Disabled => "the environment disables the drivers' own caches",
            Caches::Unknown => "the drivers are not known to have caches of their own",
        }
    }
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) command: Vec<String>,
    /// Of each kind, those before the first one that counts not included.
    pub(super) runs: usize,
    pub(super) driver_cache: Caches,
    pub(super) without: Figures,
    pub(super) empty_stash: Figures,
    pub(super) filled_stash: Figures,
    /// Of the last run with a filled stash.
    pub(super) pipelines: Pipelines,
    pub(super) remarks: Vec<Remark>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_called_warm_or_empty_only_where_a_driver_has_one() {
        use DriverCache::{Disabled, Enabled, Unknown};
        let among = |caches: &[DriverCache]| [false, true].map(|are_new| Caches::among(caches, are_new));
        assert_eq!(among(&[Enabled]), [Caches::Warm, Caches::Empty]);
        assert_eq!(among(&[Disabled, Enabled]), [Caches::Warm, Caches::Empty]);
        assert_eq!(among(&[Unknown, Disabled]), [Caches::Disabled; 2]);
        assert_eq!(among(&[Unknown]), [Caches::Unknown; 2]);
        assert_eq!(among(&[]), [Caches::Unknown; 2]);
    }
}
