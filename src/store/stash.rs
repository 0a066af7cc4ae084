//! One application's stash, and the thread that writes it.

use std::path::Path;
use std::sync::Arc;

use super::header::DeviceHeader;
use super::name::AppName;
use super::part::{Key, Kind, Part};
use crate::stats::{RunReport, StoreReport};

/// Why a stash cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Placeholder.
    #[error("unusable")]
    Unusable,
}

/// An open stash. Dropping the last reference writes what is queued, seals this process's segments and joins
/// the writer thread.
pub struct Stash {}

impl Stash {
    /// Opens (and creates where missing) the application's folder below `root`. Starts no thread.
    pub fn open(_root: &Path, _app: &AppName) -> Result<Arc<Stash>, OpenError> {
        unimplemented!()
    }

    /// The part that every device shares.
    pub fn portable(&self) -> &Arc<Part> {
        unimplemented!()
    }

    /// The part of this device header, opened on first use, the same object afterwards.
    pub fn device(&self, _header: &DeviceHeader) -> Result<Arc<Part>, OpenError> {
        unimplemented!()
    }

    /// Who makes this process's report; polled by the writer while something has changed, and once more
    /// when the stash closes. `report` fills everything but `store`.
    pub fn set_reporter(&self, _report: Box<dyn Fn() -> RunReport + Send + Sync>) {
        unimplemented!()
    }

    /// Notes a use of a record without waking anybody: a bounded lock-free ring, dropped when full. The
    /// writer writes the first use of each key in a run as a Kind::Use record and refreshes the report.
    pub fn note_use(&self, _kind: Kind, _key: &Key) {
        unimplemented!()
    }

    /// Tells the writer that the report has changed, without waking it unless it sleeps for good.
    pub fn touch(&self) {
        unimplemented!()
    }

    /// Writes everything that is queued, and the report; waits at most `limit`.
    pub fn flush(&self, _limit: std::time::Duration) {
        unimplemented!()
    }

    /// What the store met so far.
    pub fn report(&self) -> StoreReport {
        unimplemented!()
    }
}
