//! Counters of the store for the report. The log gets one line for each reason.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::format::refusal::Refusal;
use crate::maintenance::outcome::Outcome;
use crate::reports::model::StoreReport;
use vkstash_host::disk::errors::FileError;
use vkstash_host::sync::Mutex;

/// What the reason begins with for which a base is not used, or some of its files, in [`StoreReport::refused`].
pub const OF_A_BASE: &str = "base: ";

/// The counters.
#[derive(Default)]
pub(crate) struct Tallies {
    /// Why the stash cannot be used, if that was found out after it was opened.
    unusable: Mutex<String>,
    refused: Mutex<BTreeMap<String, u64>>,
    /// Why bases are not used, by their paths.
    bases: Mutex<BTreeMap<String, String>>,
    write_errors: Mutex<BTreeMap<String, u64>>,
    damaged: AtomicU64,
    written_records: AtomicU64,
    written_bytes: AtomicU64,
    dropped: AtomicU64,
    maintenance: Mutex<Outcome>,
}

/// Adds one. True: it is the first with this reason.
fn count_one(tally: &Mutex<BTreeMap<String, u64>>, reason: String) -> bool {
    let mut tally = tally.lock();
    let seen = tally.entry(reason).or_default();
    *seen += 1;
    *seen == 1
}

impl Tallies {
    /// A file was refused.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        let reason = refusal.name();
        if !count_one(&self.refused, reason.to_owned()) {
            return;
        }
        match refusal {
            Refusal::File(FileError::PutOff) => {
                tracing::debug!(
                    "a file of the stash cannot be read for now; that is done beside the program"
                );
            }
            _ => tracing::warn!("a file of the stash is refused ({reason}); it is left alone"),
        }
    }

    /// A base is not used in this run, for this reason.
    pub(crate) fn base_not_used(&self, path: &Path, reason: String) {
        let mut bases = self.bases.lock();
        if let Entry::Vacant(entry) = bases.entry(path.to_string_lossy().into_owned()) {
            tracing::warn!("a base is not used: {reason}");
            entry.insert(reason);
        }
    }

    /// Files of a part that is only read were refused: `first` is one of them.
    pub(crate) fn refused_files(&self, folder: &Path, first: &str, refusals: &[Refusal]) {
        for refusal in refusals {
            count_one(&self.refused, refusal.name().to_owned());
        }
        let lasting: Vec<_> =
            refusals.iter().filter(|refusal| !matches!(refusal, Refusal::File(FileError::PutOff))).collect();
        let Some(reason) = lasting.first() else { return };
        let (count, folder) = (lasting.len(), folder.display());
        tracing::warn!("{count} files in {folder} are not used, {first} among them: {reason}");
        let told = format!("files in {folder} are not used, {first} among them: {reason}");
        self.bases.lock().entry(folder.to_string()).or_insert(told);
    }

    /// The stash cannot be used, for this reason.
    pub(crate) fn set_unusable(&self, reason: String) {
        *self.unusable.lock() = reason;
    }

    /// A write failed.
    pub(crate) fn write_error(&self, reason: String) {
        if count_one(&self.write_errors, reason.clone()) {
            tracing::warn!("the stash cannot be written ({reason}); what is made now may not be kept");
        }
    }

    /// Records are damaged.
    pub(crate) fn damaged(&self, count: u64) {
        if count > 0 && self.damaged.fetch_add(count, Ordering::Relaxed) == 0 {
            tracing::warn!("the stash holds damaged records; they are skipped");
        }
    }

    /// A record in this folder of a base is damaged. Each folder is named once.
    pub(crate) fn damaged_in_a_base(&self, folder: &Path) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        let told = format!("records in {} are damaged, and not used", folder.display());
        if let Entry::Vacant(entry) = self.bases.lock().entry(format!("{} damaged", folder.display())) {
            tracing::warn!("{told}");
            entry.insert(told);
        }
    }

    /// The writer has written this much.
    pub(crate) fn written(&self, records: usize, bytes: u64) {
        self.written_records.fetch_add(records as u64, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records or uses were dropped.
    pub(crate) fn dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// What maintenance has evicted and merged.
    pub(crate) fn set_maintained(&self, outcome: Outcome) {
        *self.maintenance.lock() = outcome;
    }

    /// Files by reason, and bases by [`OF_A_BASE`] and the reason in words.
    fn all_refused(&self) -> BTreeMap<String, u64> {
        let mut refused = self.refused.lock().clone();
        refused.extend(self.bases.lock().values().map(|reason| (format!("{OF_A_BASE}{reason}"), 1)));
        refused
    }

    /// The counters as the report has them.
    pub(crate) fn report(&self) -> StoreReport {
        let Outcome { evicted_records, evicted_bytes, written, freed, .. } = self.maintenance.lock().clone();
        StoreReport {
            unusable: self.unusable.lock().clone(),
            refused: self.all_refused(),
            damaged_records: self.damaged.load(Ordering::Relaxed),
            written_records: self.written_records.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            write_errors: self.write_errors.lock().clone(),
            dropped: self.dropped.load(Ordering::Relaxed),
            evicted_bytes,
            evicted_records,
            compacted_bytes: written,
            reclaimed_bytes: freed.saturating_sub(written),
        }
    }
}
