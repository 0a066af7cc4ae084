//! Records on their way into the stash of one application, at the speed of its writer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::app_name::AppName;
use vkstash_model::recipe;
use vkstash_model::record::{Key, Kind};
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;

/// Bytes that may wait for the writer: far fewer than those at which it drops records.
const QUEUED_BYTES: usize = 16 << 20;
/// Bytes that a waiting record takes beside its payload.
const RECORD_BYTES: usize = 512;
/// Length of one wait for the writer.
const WAIT: Duration = Duration::from_secs(10);

/// Why records are not in the stash.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the stash ({0}); what was imported until then is in it")]
pub struct NotWritten(pub(crate) String);

/// The stash, and what waits for its writer.
pub(crate) struct Sink {
    stash: Arc<Stash>,
    /// Bytes that wait for the writer, and the number of records that were queued in all.
    waiting: usize,
    queued: u64,
}

impl Sink {
    /// Opens the stash, and creates its folder if it is missing.
    pub(crate) fn open(root: &Path, app: &AppName) -> Result<Sink, OpenError> {
        let stash = Stash::open_patiently(root, app)?;
        stash.set_modules_of(recipe::modules_of);
        Ok(Sink { stash, waiting: 0, queued: 0 })
    }

    pub(crate) fn stash(&self) -> &Arc<Stash> {
        &self.stash
    }

    /// Writes a record to a part of this stash.
    pub(crate) fn put(
        &mut self,
        part: &Part,
        kind: Kind,
        key: &Key,
        payload: &[u8],
    ) -> Result<(), NotWritten> {
        let bytes = payload.len() + RECORD_BYTES;
        if self.waiting + bytes > QUEUED_BYTES {
            self.settle()?;
        }
        if !part.put(kind, key, payload.into()) {
            return Err(self.not_written());
        }
        self.waiting += bytes;
        self.queued += 1;
        Ok(())
    }

    /// Waits until everything is written.
    pub(crate) fn settle(&mut self) -> Result<(), NotWritten> {
        self.waiting = 0;
        loop {
            self.stash.flush(WAIT);
            let report = self.stash.report();
            if !report.write_errors.is_empty() || report.dropped > 0 {
                return Err(self.not_written());
            }
            if report.written_records >= self.queued {
                return Ok(());
            }
        }
    }

    fn not_written(&self) -> NotWritten {
        let errors: Vec<String> = self.stash.report().write_errors.into_keys().collect();
        NotWritten(if errors.is_empty() { "records were dropped".to_owned() } else { errors.join(", ") })
    }
}
