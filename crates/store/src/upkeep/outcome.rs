//! What came of it.

use std::collections::BTreeMap;

use crate::bounds::Cause;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Records that were evicted.
    pub evicted_records: u64,
    /// What they and evicted parts took, by [`Cause::name`].
    pub evicted_bytes: BTreeMap<String, u64>,
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that files take less than before, those that were written included.
    pub freed: u64,
    /// By how much limits stay exceeded, by [`Cause::name`]: running programs hold the rest.
    pub short_by: BTreeMap<String, u64>,
    /// Folders of applications without a record that were removed.
    pub emptied: u64,
}

impl Outcome {
    pub(crate) fn evicted(&mut self, cause: Cause, records: u64, bytes: u64) {
        self.evicted_records += records;
        *self.evicted_bytes.entry(cause.name().to_owned()).or_default() += bytes;
    }
}
