//! The result of `vkstash bench`.

use serde::Serialize;

use crate::programs::bench::caches::Caches;
use crate::programs::bench::figures::{Figures, Pipelines};
use crate::programs::bench::remarks::Remark;

/// What runs with and without the stash took.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Comparison {
    /// The command and its arguments.
    pub(super) command: Vec<String>,
    /// Number of runs of each kind, without those before the first one that counts.
    pub(super) runs: usize,
    /// Number of runs that had filled the stash before the first one that counts.
    pub(super) filled_by_runs: usize,
    /// The drivers' own caches during the runs.
    pub(super) driver_cache: Caches,
    /// The runs without the layer.
    pub(super) without: Figures,
    /// The runs with a new stash.
    pub(super) empty_stash: Figures,
    /// The runs with a stash that earlier runs have filled.
    pub(super) filled_stash: Figures,
    /// The pipelines of the last run with a filled stash.
    pub(super) pipelines: Pipelines,
    /// What a reader of the figures needs to know.
    pub(super) remarks: Vec<Remark>,
}
