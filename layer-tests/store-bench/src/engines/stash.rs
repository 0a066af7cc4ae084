//! The stash.

#[path = "../../../../crates/store/src/tests/header.rs"]
mod header;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_store::part::open::Part;
use vkstash_store::settings;
use vkstash_store::settings::Settings;
use vkstash_store::stash::open::Stash;

use self::header::header;
use super::store::{Fresh, Store};
use crate::failure::Failure;
use crate::workload::Key;

/// Far longer than a flush of 64 MiB takes.
const LIMIT: Duration = Duration::from_secs(120);

/// An open stash, and the part that holds all entries.
pub struct Opened {
    stash: Arc<Stash>,
    part: Arc<Part>,
}

/// Opens the stash whose root is `folder`.
pub fn open(folder: &Path) -> Result<Opened, Failure> {
    // Limits must not evict what is measured.
    if !folder.join(settings::FILE).exists() {
        let all = Settings { limit: Some(u64::MAX), free_space: Some(0), ..Settings::default() };
        settings::write(folder, None, &all)?;
    }
    let stash = Stash::open(folder, &AppName::new(Some(b"store-bench"), b"store-bench"))?;
    let part = stash.device(&header())?;
    Ok(Opened { stash, part })
}

impl Opened {
    fn take(&self, (key, value): &mut Fresh) -> bool {
        self.part.put(Kind::Artifact, key, std::mem::take(value))
    }
}

impl Store for Opened {
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure> {
        for entry in entries {
            // A full queue drops the record with its bytes, so the queue must not be full.
            if !self.take(entry) {
                return Err("the stash dropped a record".into());
            }
        }
        self.flush()
    }

    fn put(&mut self, entry: &mut Fresh) -> Result<(), Failure> {
        if self.take(entry) { Ok(()) } else { Err("the stash dropped a record".into()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.stash.flush(LIMIT);
        Ok(())
    }

    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
        Ok(self.part.read(Kind::Artifact, key, buffer))
    }

    fn contains(&mut self, key: &Key) -> Result<bool, Failure> {
        Ok(self.part.contains(Kind::Artifact, key))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let Opened { stash, part } = *self;
        drop(part);
        let report = stash.report();
        if report.dropped > 0 || report.damaged_records > 0 || !report.write_errors.is_empty() {
            return Err(format!("the stash reports {report:?}").into());
        }
        drop(stash);
        Ok(())
    }
}
