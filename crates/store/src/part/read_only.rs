//! A part that this process looks into and never writes to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::format::file::PartIdentity;
use crate::format::table;
use crate::format::table::Row;
use crate::part::digests::Digests;
use crate::part::merged::Merged;
use crate::part::tallies::Tallies;
use crate::part::view::{ReadLimit, View};
use crate::segment::file::{DamagedIndex, Read, Segment};
use vkstash_host::disk::folder::Folder;
use vkstash_host::once::OnceLock;
use vkstash_model::record::{CRASH_LIMIT, Key, Kind};
use vkstash_model::same::Same;

/// A function that is called with the folder of each damaged record that a read finds.
pub(crate) type Told<'a> = &'a dyn Fn(&Path);

/// Stands for the index among the offsets of damaged records. No record begins at this offset.
const INDEX: u64 = 0;

/// The segments that were there when the part was opened. What other processes write later is not looked for.
pub(crate) struct ReadOnlyPart {
    identity: PartIdentity,
    folder: Arc<Folder>,
    view: View,
    /// Made by the helper, of all segments.
    merged: OnceLock<Merged>,
    /// A bit for each kind of which there are records, once all segments are open.
    kinds: OnceLock<u32>,
    digests: Digests,
}

impl ReadOnlyPart {
    /// Nothing of it is read yet.
    pub(crate) fn new(folder: Folder, identity: PartIdentity) -> ReadOnlyPart {
        ReadOnlyPart {
            identity,
            folder: Arc::new(folder),
            view: View::default(),
            merged: OnceLock::new(),
            kinds: OnceLock::new(),
            digests: Digests::default(),
        }
    }

    /// The digest of what its devices enable. None: a portable part.
    pub(crate) fn features(&self) -> Option<&[u8; 32]> {
        match &self.identity {
            PartIdentity::Device(header) => Some(&header.features_digest),
            PartIdentity::Portable => None,
        }
    }

    /// Opens segments until `interrupted` says true, each of them in the time for one `file`. True: all are open, but
    /// for those that cannot be used, which are counted.
    pub(crate) fn open_until(
        &self,
        file: Option<Duration>,
        interrupted: &dyn Fn() -> bool,
        tallies: &Tallies,
    ) -> bool {
        let limit = ReadLimit { file, interrupted };
        let is_complete = match self.view.refresh(&self.folder, &self.identity, &limit) {
            Some(Ok(found)) => {
                tallies.damaged(found.damaged);
                let first = found.first_refused.as_deref().unwrap_or_default();
                tallies.refused_files(self.folder.path(), first, &found.refused);
                !found.put_off
            }
            // The folder cannot be listed.
            Some(Err(_)) => true,
            None => false,
        };
        if is_complete {
            let of = |kind: &Kind| u32::from(self.has_any(*kind)) << kind.position();
            // Nothing is opened after that.
            let _ = self.kinds.set(Kind::ALL.iter().map(of).sum());
        }
        is_complete
    }

    /// The number of open segments.
    pub(crate) fn segments(&self) -> usize {
        self.view.segments().len()
    }

    /// For the helper, once all segments are open: reads their indexes. From then on a look-up asks the segments that
    /// have the key, and no others.
    pub(crate) fn merge(&self, interrupted: &dyn Fn() -> bool) {
        if self.merged.get().is_none() {
            if let Some(merged) = Merged::of(&self.view.segments(), interrupted) {
                let _ = self.merged.set(merged);
            }
        }
    }

    /// Whether a segment has records of that kind.
    pub(crate) fn has_any(&self, kind: Kind) -> bool {
        match self.kinds.get() {
            Some(kinds) => kinds >> kind.position() & 1 == 1,
            None => self.view.segments().iter().any(|segment| segment.has_any(kind)),
        }
    }

    /// Reads an artifact into `buffer` and verifies it, as [`crate::part::open::Part::read`] does. An artifact that is
    /// quarantined in this part is not read. False: `buffer` is empty.
    pub(crate) fn read_artifact(&self, key: &Key, buffer: &mut Vec<u8>, told: Told<'_>) -> bool {
        let good = !self.is_quarantined(key, buffer, told) && self.read_or_follow(key, buffer, told);
        if !good {
            buffer.clear();
        }
        good
    }

    /// Whether there is a record that was not found damaged, or a reference to an artifact. Artifacts that are
    /// quarantined count.
    pub(crate) fn contains(&self, kind: Kind, key: &Key) -> bool {
        self.find(kind, key, None, |_, _| true)
            || kind == Kind::Artifact && self.find(Kind::Same, key, None, |_, _| true)
    }

    fn read_or_follow(&self, key: &Key, buffer: &mut Vec<u8>, told: Told<'_>) -> bool {
        if self.read(Kind::Artifact, key, buffer, told) {
            return true;
        }
        let same = self.read(Kind::Same, key, buffer, told).then(|| Same::decode(buffer)).flatten();
        same.is_some_and(|same| {
            !self.is_quarantined(&same.target, buffer, told)
                && self.read(Kind::Artifact, &same.target, buffer, told)
                && self.digests.complete(&same, buffer)
        })
    }

    /// Whether the artifact of this key is quarantined in this part.
    pub(crate) fn is_quarantined(&self, key: &Key, buffer: &mut Vec<u8>, told: Told<'_>) -> bool {
        self.has_any(Kind::CrashCount)
            && self.read(Kind::CrashCount, key, buffer, told)
            && buffer.first().is_some_and(|count| *count >= CRASH_LIMIT)
    }

    /// The newest readable record of that kind and key. Damaged ones are counted.
    pub(crate) fn read(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>, told: Told<'_>) -> bool {
        self.find(kind, key, Some(told), |segment, row| match segment.read_row(row, key, buffer) {
            Read::Good => true,
            Read::Damaged => {
                self.lose(segment, row.offset, told);
                false
            }
            Read::Gone | Read::Other | Read::Failed => false,
        })
    }

    /// A record of a segment is damaged, or its index.
    fn lose(&self, segment: &Segment, offset: u64, told: Told<'_>) {
        if self.view.lose(segment, offset) {
            told(self.folder.path());
        }
    }

    /// Calls `each` with the rows of a record, the newest first, until it says true.
    fn find(
        &self,
        kind: Kind,
        key: &Key,
        told: Option<Told<'_>>,
        mut each: impl FnMut(&Segment, &Row) -> bool,
    ) -> bool {
        let code = kind.position() as u8;
        let hash = table::hash(code, key);
        self.ask(kind, hash, |segment| {
            // A damaged index is not scanned: the program would wait for it.
            let interrupted = || {
                told.into_iter().for_each(|told| self.lose(segment, INDEX, told));
                true
            };
            let instead = DamagedIndex { damaged: &|| (), interrupted: &interrupted };
            let found = segment.find(hash, &instead, |row| {
                row.code == code
                    && row.is_readable()
                    && !self.view.is_lost(segment, row.offset)
                    && each(segment, &row)
            });
            found == Ok(true)
        })
    }

    /// Calls `each` with the segments that may have the record, the newest first, until it says true.
    fn ask(&self, kind: Kind, hash: u64, mut each: impl FnMut(&Segment) -> bool) -> bool {
        if !self.has_any(kind) {
            return false;
        }
        let segments = self.view.segments();
        match self.merged.get() {
            Some(merged) => merged.find(hash).filter_map(|at| segments.get(at)).any(|segment| each(segment)),
            None => segments.iter().any(|segment| segment.has_any(kind) && each(segment)),
        }
    }

    /// How many segments a look-up asks.
    #[cfg(test)]
    pub(crate) fn asked(&self, kind: Kind, key: &Key) -> usize {
        let mut count = 0;
        self.ask(kind, table::hash(kind.position() as u8, key), |_| {
            count += 1;
            false
        });
        count
    }
}
