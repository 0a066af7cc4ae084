//! The output files of a run.

use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::report::Report;
use crate::{document, plot};

/// Writes the JSON, and the two documents.
pub fn write(report: &Report, json: Option<&Path>, docs: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(report)? + "\n")?;
    }
    if let Some(folder) = docs {
        fs::write(folder.join("store-bench.md"), document::text(report))?;
        fs::write(folder.join("store-bench.svg"), plot::svg(report))?;
    }
    Ok(())
}
