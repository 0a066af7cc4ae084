//! The siblings of a device part: parts of the same application whose artifacts its driver may take. The specification
//! binds cache data to the driver, and not to the features that a device enables. It does not bind the binaries of
//! shader objects to a version of the driver, but to the behaviour of the shaders, which other features may change.

use std::path::Path;
use std::sync::Arc;

use arc_swap::Guard;

use crate::format::device::{DeviceHeader, HeaderMismatch};
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::sizes::HEADER_BYTES;
use crate::format::table;
use crate::home::Home;
use crate::part::open::Shared;
use crate::part::read_only::ReadOnlyPart;
use crate::part::read_only_parts::{Candidate, Lister, ReadOnlyParts};
use crate::part::tallies::Tallies;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::{Folder, read_at};
use vkstash_host::keyed::Keyed;
use vkstash_host::sort;
use vkstash_model::record::{Key, Kind};

/// Device parts that are looked at, to find the siblings among them.
const MOST_LOOKED_AT: usize = 64;
/// The number of segments of a part that are tried for a header that can be read.
const HEADERS: usize = 3;

/// Which parts are siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// Their device headers differ in the digest of the enabled features alone.
    Features,
    /// They are of another version of the driver.
    Versions,
}

impl Kin {
    fn are(self, one: &DeviceHeader, other: &DeviceHeader) -> bool {
        let but_for_version = || DeviceHeader {
            driver_version: other.driver_version,
            pipeline_cache_uuid: other.pipeline_cache_uuid,
            ..one.clone()
        };
        match self {
            Kin::Features => one.mismatch(other) == Some(HeaderMismatch::Features),
            Kin::Versions => one != other && but_for_version() == *other,
        }
    }
}

/// The siblings of one device part. They are opened after the first miss in that part.
pub struct Siblings {
    home: Arc<Home>,
    shared: Arc<Shared>,
    header: DeviceHeader,
    kin: Kin,
    parts: ReadOnlyParts,
    /// Artifacts that the driver has refused in this process, as [`table::hash`].
    refused: papaya::HashSet<u64, Keyed>,
    /// The number of the sibling whose artifact the driver has taken, where it was not the first one that has it.
    taken: papaya::HashMap<u64, usize, Keyed>,
}

/// A sibling that was found.
struct Sibling {
    /// The name of its newest segment: names sort by age.
    newest: String,
    part: ReadOnlyPart,
}

impl Siblings {
    /// Opens nothing.
    pub(crate) fn new(home: &Arc<Home>, shared: &Arc<Shared>, header: &DeviceHeader, kin: Kin) -> Siblings {
        Siblings {
            home: home.clone(),
            shared: shared.clone(),
            header: header.clone(),
            kin,
            parts: ReadOnlyParts::default(),
            refused: papaya::HashSet::builder()
                .hasher(Keyed::default())
                .resize_mode(papaya::ResizeMode::Blocking)
                .build(),
            taken: papaya::HashMap::builder()
                .hasher(Keyed::default())
                .resize_mode(papaya::ResizeMode::Blocking)
                .build(),
        }
    }

    /// Reads an artifact that the own part does not have, and that the driver has not refused in this process, from the
    /// sibling of this number or a later one. Returns that sibling's number. None: there is none, `buffer` is empty.
    pub fn read(&self, key: &Key, from: usize, buffer: &mut Vec<u8>) -> Option<usize> {
        let parts = self.open();
        buffer.clear();
        if parts.is_empty() || self.refused.pin().contains(&table::hash(0, key)) {
            return None;
        }
        let told = |_: &Path| self.shared.tallies.damaged(1);
        let reads = |part: &Arc<ReadOnlyPart>| part.read_artifact(key, buffer, &told);
        parts.iter().skip(from).position(reads).map(|after| from + after)
    }

    /// Reads an artifact from the first sibling that has one, among those whose digest of features passes. False: there
    /// is none, and `buffer` is empty.
    pub fn read_of(&self, which: &dyn Fn(&Key) -> bool, key: &Key, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        let told = |_: &Path| self.shared.tallies.damaged(1);
        let passes = |part: &ReadOnlyPart| part.features().is_some_and(which);
        self.open().iter().any(|part| passes(part) && part.read_artifact(key, buffer, &told))
    }

    /// Whether [`Siblings::read_of`] may find an artifact: it may be damaged. Reads no artifact.
    pub fn has_of(&self, which: &dyn Fn(&Key) -> bool, key: &Key) -> bool {
        let (told, mut buffer) = (|_: &Path| self.shared.tallies.damaged(1), Vec::new());
        let passes = |part: &ReadOnlyPart| part.features().is_some_and(which);
        let mut has = |part: &ReadOnlyPart| {
            part.contains(Kind::Artifact, key) && !part.is_quarantined(key, &mut buffer, &told)
        };
        self.open().iter().any(|part| passes(part) && has(part))
    }

    /// Whether nothing is left to be opened.
    pub fn are_open(&self) -> bool {
        drop(self.open());
        self.parts.are_done()
    }

    /// Reads the artifact of this key that the driver has taken, or that of the first sibling that has one. False:
    /// there is none, and `buffer` is empty.
    pub fn read_taken(&self, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let from = self.taken.pin().get(&table::hash(0, key)).copied().unwrap_or(0);
        // The siblings may have been opened again since.
        self.read(key, from, buffer).or_else(|| self.read(key, 0, buffer)).is_some()
    }

    /// The number of the sibling whose digest of features begins with these bytes, if it is open.
    pub fn number(&self, name: &[u8; 8]) -> Option<usize> {
        self.open().iter().position(|part| part.features().is_some_and(|digest| digest.starts_with(name)))
    }

    /// The first bytes of the digest of features of the sibling of this number.
    pub fn name(&self, number: usize) -> Option<[u8; 8]> {
        self.parts.open().get(number)?.features()?.first_chunk().copied()
    }

    /// The driver has taken the artifact of the sibling of this number.
    pub fn note_taken(&self, key: &Key, number: usize) {
        if number > 0 {
            self.taken.pin().insert(table::hash(0, key), number);
        }
    }

    /// Reads the module identity that a driver's identifier stands for. False: no sibling knows it.
    pub fn read_pair(&self, digest: &Key, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        let told = |_: &Path| self.shared.tallies.damaged(1);
        self.open().iter().any(|part| part.read(Kind::IdentifierPair, digest, buffer, &told))
    }

    /// Whether [`Siblings::read`] may find an artifact. Reads no artifact.
    pub fn contains(&self, key: &Key) -> bool {
        let parts = self.open();
        !parts.is_empty()
            && !self.refused.pin().contains(&table::hash(0, key))
            && parts.iter().any(|part| part.contains(Kind::Artifact, key))
    }

    /// Whether there may be artifacts in siblings, as far as they are open.
    pub fn have_artifacts(&self) -> bool {
        self.open().iter().any(|part| part.has_any(Kind::Artifact))
    }

    /// The driver does not take the artifact of this key: it is not read again in this process.
    pub fn note_refused(&self, key: &Key) {
        self.refused.pin().insert(table::hash(0, key));
    }

    /// The siblings that are open, after another attempt to open the rest.
    fn open(&self) -> Guard<Arc<Vec<Arc<ReadOnlyPart>>>> {
        self.parts.open_more(&self.shared, self);
        self.parts.open()
    }

    /// Adds the siblings in this folder of the application. False: there was no time to look at all of them.
    fn find(&self, home: &Folder, interrupted: &dyn Fn() -> bool, found: &mut Vec<Sibling>) -> bool {
        // A folder that cannot be listed has no siblings.
        let Ok((names, complete)) = home.names_until("", interrupted) else { return true };
        let own = folder_name(&self.header);
        let others = names.iter().filter(|name| name.starts_with(DEVICE) && **name != own);
        for name in others.take(MOST_LOOKED_AT) {
            found.extend(self.sibling(home, name, interrupted));
            // The last sibling may not have been looked at to its end.
            if interrupted() {
                return false;
            }
        }
        complete
    }

    /// The part in this folder, if it is a sibling.
    fn sibling(&self, home: &Folder, name: &str, interrupted: &dyn Fn() -> bool) -> Option<Sibling> {
        let folder = home.sub_until(name, false, interrupted).ok()?;
        let (mut names, _) = folder.names_until(".vks", interrupted).ok()?;
        let header = names.iter().rev().take(HEADERS).find_map(|name| header_of(&folder, name))?;
        if !self.kin.are(&header, &self.header) || name != folder_name(&header) {
            return None;
        }
        Some(Sibling { newest: names.pop()?, part: ReadOnlyPart::new(folder, PartIdentity::Device(header)) })
    }
}

impl Lister for Siblings {
    const MOST: usize = 8;

    /// Lists the siblings; those that were written last come first.
    fn list(
        &self,
        tallies: &Tallies,
        patient: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Vec<Candidate>> {
        let mut found = Vec::new();
        let Ok(home) = self.home.open_until(interrupted) else { return None };
        let mut complete = self.find(&home.folder, interrupted, &mut found);
        complete &= self.home.knows_bases();
        for path in self.home.bases() {
            match self.home.open_base(path, interrupted) {
                Ok(Some(base)) => complete &= self.find(&base, interrupted, &mut found),
                Ok(None) => {}
                Err(error) if error.is_for_now() => complete = false,
                Err(error) => tallies.base_not_used(path, error.to_string()),
            }
        }
        sort::by(&mut found, |one, other| other.newest.cmp(&one.newest));
        let all = || found.into_iter().map(|sibling| Candidate::found(sibling.part)).collect();
        (complete || !patient).then(all)
    }

    /// Opens nothing: `list` gives candidates whose folders are open.
    fn open(&self, _: usize, _: &Tallies, _: &dyn Fn() -> bool) -> Result<Option<ReadOnlyPart>, OpenError> {
        Ok(None)
    }

    fn given_up(&self, _: usize, _: &Tallies) {}

    /// Only a part with artifacts is worth keeping: one whose devices were served by siblings alone has none.
    fn wants(&self, part: &ReadOnlyPart) -> bool {
        part.has_any(Kind::Artifact)
    }
}

/// The prefix of the names of device parts' folders.
const DEVICE: &str = "device-";

fn folder_name(header: &DeviceHeader) -> String {
    format!("{DEVICE}{}", header.short_digest())
}

/// The device header of a segment file.
fn header_of(folder: &Folder, name: &str) -> Option<DeviceHeader> {
    let (file, _) = folder.open_file(name).ok()?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    read_at(&file, &mut bytes, HEADER_BYTES, 0).ok()?;
    match FileHeader::decode(&bytes).ok()??.identity {
        PartIdentity::Device(header) => Some(header),
        PartIdentity::Portable => None,
    }
}
