//! Reports of runs: one small file a process, folded into totals.

use std::path::Path;

use crate::stats::RunReport;

/// Writes a report as one file of its own into `folder`, replacing this process's earlier one. For the
/// folder named by VKSTASH_REPORT and for a stash's runs/ folder alike.
pub fn write(_folder: &Path, _report: &RunReport) -> std::io::Result<()> {
    unimplemented!()
}

/// Every readable report in `folder`, oldest first.
pub fn read_all(_folder: &Path) -> Vec<RunReport> {
    unimplemented!()
}
