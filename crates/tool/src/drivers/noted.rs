//! The file `drivers.json` of a stash (docs/format.md): what was found out of drivers, by the digest of their files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::prepared::Prepared;
use super::{AGAIN_AFTER_MS, Driver};
use crate::system::regular;
use crate::term::time;

const NAME: &str = "drivers.json";
/// Another version's file is replaced.
const VERSION: u32 = 1;
const MOST_BYTES: u64 = 1 << 20;
/// Records that are kept: several machines may have one stash, and a machine several environments.
const MOST_RECORDS: usize = 16;

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Noted {
    version: u32,
    /// The newest last.
    pub(super) records: Vec<Record>,
    /// Programs of Flatpak whose sandboxes were gone through, and what their drivers were known by then.
    #[serde(default)]
    pub(super) sandboxes: BTreeMap<String, String>,
}

/// What is known of the drivers with one digest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) digest: String,
    /// When the drivers were asked, in Unix milliseconds.
    pub(super) asked_unix_ms: u64,
    /// Whether they have answered.
    pub(super) is_answered: bool,
    pub(super) drivers: Vec<Driver>,
    /// Pipelines that were not ready at the last look.
    pub(super) not_ready: u64,
    /// Applications (their folders) that were gone through, and how many pipelines other versions had of each then:
    /// what was not made of these cannot be made.
    pub(super) gone_through: BTreeMap<String, u64>,
    pub(super) prepared: Option<Prepared>,
    /// How often it was tried in vain to go through an application.
    #[serde(default)]
    pub(super) tries: BTreeMap<String, u32>,
    /// The service works for these drivers.
    #[serde(default)]
    pub(super) is_at_work: bool,
    /// How often it has ended without taking that back.
    #[serde(default)]
    pub(super) cut_off: u32,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// What a power cut takes is found out once more.
    Plain,
    /// Also if the machine goes down the next moment.
    ToDisk,
}

impl Noted {
    /// A file that is not there or not understood is empty.
    pub(super) fn read(root: &Path) -> Noted {
        let read = || -> Option<Noted> {
            serde_json::from_slice(&regular::read(&root.join(NAME), MOST_BYTES).ok()?).ok()
        };
        read().filter(|noted| noted.version == VERSION).unwrap_or_default()
    }

    pub(super) fn record(&self, digest: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.digest == digest)
    }

    /// Changes the file as it is now: other commands may have changed it since it was read.
    pub(super) fn change(root: &Path, writing: Writing, change: impl FnOnce(&mut Noted)) -> io::Result<()> {
        let mut noted = Noted::read(root);
        change(&mut noted);
        noted.write(root, writing)
    }

    /// [`Noted::change`] of the record with this digest, or of a new one.
    pub(super) fn change_record(
        root: &Path,
        digest: &str,
        writing: Writing,
        change: impl FnOnce(&mut Record),
    ) -> io::Result<()> {
        Noted::change(root, writing, |noted| {
            let mut record = noted.record(digest).cloned().unwrap_or_else(|| Record::new(digest));
            change(&mut record);
            noted.put(record);
        })
    }

    /// Takes the place of the record with the same digest.
    fn put(&mut self, record: Record) {
        self.records.retain(|other| other.digest != record.digest);
        self.records.push(record);
        let more = self.records.len().saturating_sub(MOST_RECORDS);
        self.records.drain(..more);
    }

    /// Replaces the file as a whole.
    fn write(&mut self, root: &Path, writing: Writing) -> io::Result<()> {
        self.version = VERSION;
        let mut file = tempfile::Builder::new().prefix(".drivers-").tempfile_in(root)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.flush()?;
        if writing == Writing::ToDisk {
            file.as_file().sync_all()?;
        }
        file.persist(root.join(NAME))?;
        if writing == Writing::ToDisk { File::open(root)?.sync_all() } else { Ok(()) }
    }
}

impl Record {
    pub(super) fn new(digest: &str) -> Record {
        Record { digest: digest.to_owned(), ..Record::default() }
    }

    /// Takes the drivers' answer from a record with the same digest.
    pub(super) fn answer(&mut self, of: &Record) {
        self.asked_unix_ms = of.asked_unix_ms;
        self.is_answered = of.is_answered;
        self.drivers.clone_from(&of.drivers);
    }

    /// Whether the drivers are to be asked again, because they did not answer.
    pub(super) fn is_stale(&self) -> bool {
        !self.is_answered && time::now().saturating_sub(self.asked_unix_ms) >= AGAIN_AFTER_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_records_are_kept_and_files_of_other_versions_replaced() {
        let root = tempfile::tempdir().unwrap();
        let mut noted = Noted::read(root.path());
        for number in 0..20 {
            noted.put(Record { not_ready: number, ..Record::new(&format!("d{}", number % 18)) });
        }
        noted.write(root.path(), Writing::Plain).unwrap();
        let read = Noted::read(root.path());
        assert_eq!(read.records.len(), MOST_RECORDS);
        assert_eq!(read.record("d1").map(|record| record.not_ready), Some(19));
        assert!(read.record("d3").is_none());
        let text = std::fs::read_to_string(root.path().join(NAME)).unwrap();
        std::fs::write(root.path().join(NAME), text.replace("\"version\": 1", "\"version\": 2")).unwrap();
        assert!(Noted::read(root.path()).records.is_empty());
        std::fs::write(root.path().join(NAME), "{").unwrap();
        assert!(Noted::read(root.path()).records.is_empty());
    }

    #[test]
    fn drivers_that_did_not_answer_are_asked_again_later() {
        let record = |is_answered, asked_unix_ms| Record { is_answered, asked_unix_ms, ..Record::new("d") };
        let now = time::now();
        assert!(!record(false, now).is_stale() && record(false, now - AGAIN_AFTER_MS).is_stale());
        assert!(!record(true, 0).is_stale());
    }
}
