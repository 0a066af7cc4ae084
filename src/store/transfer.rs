//! Segment files on their way out of a stash, and into one.

use std::cmp::Reverse;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::append::new_name;
use super::folder::{Folder, read_at, write_all_at};
use super::format::PartIdentity;
use super::header::DeviceHeader;
use super::part::{Key, Kind, Part};
use super::refusal::{OpenError, Refusal};
pub use super::segment::age_of;
use super::segment::{self, Location, Segment};
use super::shared::unix_ms;
use super::table::Row;

/// So much is copied at once.
const AT_ONCE: usize = 256 << 10;
/// How often files may be merged away between listing and opening them before that counts as an error.
const ATTEMPTS: usize = 16;

/// Which part of an application's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The portable part.
    Portable,
    /// The part of the device header whose digest starts with these 16 hexadecimal digits.
    Device(String),
}

impl Place {
    /// From the name of the part's folder.
    pub fn of_folder(name: &str) -> Option<Place> {
        if name == "portable" {
            return Some(Place::Portable);
        }
        let digits = name.strip_prefix("device-")?;
        let is_hex =
            digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| Place::Device(digits.to_owned()))
    }
}

/// A segment file of a stash, open. It is read as it was then: exactly [`Outgoing::bytes`], whatever its writer appends.
/// Where somebody cuts a torn tail off meanwhile, zeros stand for that.
pub struct Outgoing {
    name: String,
    bytes: u64,
    fd: OwnedFd,
    /// How far it was read.
    at: u64,
}

impl Outgoing {
    /// Its name in the part's folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The age that its name gives, in Unix milliseconds.
    pub fn age(&self) -> u64 {
        age_of(&self.name)
    }
}

impl Read for Outgoing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.bytes - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let mut bytes = Vec::new();
        read_at(&self.fd, &mut bytes, wanted, self.at)?;
        bytes.resize(wanted, 0);
        buffer[..wanted].copy_from_slice(&bytes);
        self.at += wanted as u64;
        Ok(wanted)
    }
}

/// The segments of an application's part, newest first, open: merging takes none of them away any more.
pub fn outgoing(root: &Path, application: &str, part: &str) -> Result<Vec<Outgoing>, OpenError> {
    let folder = Folder::root(root, false)?.sub(application, false)?.sub(part, false)?;
    let unreadable = |source| OpenError::Unreadable { path: folder.path().to_owned(), source };
    for _ in 0..ATTEMPTS {
        let mut names = folder.names(".vks").map_err(unreadable)?;
        names.reverse();
        let open = |name: String| match folder.open_file(&name) {
            Ok((fd, bytes)) => Some(Ok(Outgoing { name, bytes, fd, at: 0 })),
            Err(Refusal::NotYet) => Some(Err(())),
            // Not a segment of the user's.
            Err(_) => None,
        };
        // One that was merged meanwhile stands in a file that was not listed.
        if let Ok(files) = names.into_iter().filter_map(open).collect() {
            return Ok(files);
        }
    }
    Err(unreadable(io::ErrorKind::ResourceBusy.into()))
}

/// Why a segment could not be brought in.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// It came to an end, or to an error.
    #[error("{0}")]
    Source(io::Error),
    /// There is no place for it.
    #[error("{0}")]
    Aside(io::Error),
    /// It is none of that part's.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A segment file from elsewhere, copied aside in a part's folder until this is dropped.
pub struct Incoming {
    folder: Arc<Folder>,
    aside: String,
    /// Its lock says that it is not left behind.
    _locked: OwnedFd,
    segment: Arc<Segment>,
    device: Option<DeviceHeader>,
    damaged: u64,
}

/// A file aside that goes when it is not wanted any more.
struct Aside<'a>(&'a Folder, &'a str);

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        let _ = self.0.remove_file(self.1);
    }
}

impl Incoming {
    /// Copies a whole segment file into the folder of `part`, which need not be the one that it belongs to.
    pub fn copied(part: &Part, place: &Place, source: &mut dyn Read) -> Result<Incoming, IncomingError> {
        let folder =
            part.folder().map_err(|error| IncomingError::Aside(io::Error::other(error.to_string())))?;
        let (_, _, (aside, fd)) =
            new_name(unix_ms(), |name| folder.create_aside(name)).map_err(IncomingError::Aside)?;
        let going = Aside(&folder, &aside);
        copy(source, &fd)?;
        let expected = (*place == Place::Portable).then_some(PartIdentity::Portable);
        let loaded = segment::load(&folder, &aside, expected.as_ref())?;
        let device = match (place, loaded.header.map(|header| header.identity)) {
            (Place::Portable, _) => None,
            (Place::Device(digits), Some(PartIdentity::Device(header)))
                if header.short_digest() == *digits =>
            {
                Some(header)
            }
            (Place::Device(_), Some(_)) => return Err(Refusal::OtherPart.into()),
            (Place::Device(_), None) => return Err(Refusal::NotASegment.into()),
        };
        std::mem::forget(going);
        let (segment, damaged) = (loaded.segment, loaded.damaged);
        Ok(Incoming { folder: folder.clone(), aside, _locked: fd, segment, device, damaged })
    }

    /// What its records are bound to; `None` for those of the portable part.
    pub fn device(&self) -> Option<&DeviceHeader> {
        self.device.as_ref()
    }

    /// Calls `each` for the newest good record of each kind and key, in the order in which they stand; says how many
    /// there are of which none is good. Kinds that this program does not know are passed over.
    pub fn for_each(&self, each: &mut dyn FnMut(Kind, &Key, &[u8])) -> u64 {
        let mut damaged = self.damaged;
        let mut rows = self.segment.rows(|| ());
        rows.retain(Row::is_readable);
        rows.sort_unstable_by_key(|row| (row.hash, Reverse(row.offset)));
        let mut alike: Vec<&[Row]> = rows.chunk_by(|one, other| one.hash == other.hash).collect();
        alike.sort_unstable_by_key(|rows| rows[0].offset);
        let (mut given, mut buffer) = (Vec::new(), Vec::new());
        for rows in alike {
            given.clear();
            for row in rows {
                let Some(entry) = self.segment.head_at(row.offset) else { continue };
                let Some(kind) = Kind::from_number(entry.kind) else { continue };
                // Rows are alike for their hash; different keys may be, by chance.
                if given.contains(&(kind, entry.key)) {
                    continue;
                }
                let location = Location::new(&self.segment, &entry);
                if location.read(&entry.key, &mut buffer) == segment::Read::Good {
                    given.push((kind, entry.key));
                    each(kind, &entry.key, &buffer);
                }
            }
            damaged += u64::from(given.is_empty());
        }
        damaged
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        drop(Aside(&self.folder, &self.aside));
    }
}

fn copy(source: &mut dyn Read, file: &OwnedFd) -> Result<(), IncomingError> {
    let (mut at, mut buffer) = (0, vec![0; AT_ONCE]);
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(IncomingError::Source(error)),
        };
        write_all_at(file, &buffer[..count], at).map_err(|(_, error)| IncomingError::Aside(error))?;
        at += count as u64;
    }
}
