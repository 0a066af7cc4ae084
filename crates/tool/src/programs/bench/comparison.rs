//! The result of `vkstash bench`.

use serde::Serialize;

use crate::programs::bench::caches::Caches;
use crate::programs::bench::figures::{Figures, Pipelines};
use crate::programs::bench::remarks::Remark;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) command: Vec<String>,
    /// Of each kind, those before the first one that counts not included.
    pub(super) runs: usize,
    /// Runs that had filled the stash before the first one that counts.
    pub(super) filled_by_runs: usize,
    pub(super) driver_cache: Caches,
    pub(super) without: Figures,
    pub(super) empty_stash: Figures,
    pub(super) filled_stash: Figures,
    /// Of the last run with a filled stash.
    pub(super) pipelines: Pipelines,
    pub(super) remarks: Vec<Remark>,
}
