//! Segment files that are exported and imported.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use crate::format::device::DeviceHeader;
use crate::format::file::PartIdentity;
use crate::format::refusal::Refusal;
use crate::segment::file::{DamagedIndex, Segment};
use crate::segment::load;
pub use crate::segment::name::age_of;
use crate::segment::name::new_name;
use crate::settings;
use crate::stash::browse;
use crate::stash::writer::TOO_LITTLE_SPACE;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::{Folder, read_at, write_all_at};
use vkstash_host::disk::ops as disk;
use vkstash_host::util::unix_ms;
use vkstash_model::record::{Key, Kind};

/// Bytes that are copied at once.
const AT_ONCE: usize = 256 << 10;
/// The free space is checked again after this many bytes.
const LOOK_AFTER: u64 = 16 << 20;
/// How often files may be merged between listing and opening them before that is an error.
const ATTEMPTS: usize = 16;

/// Which part of an application's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The portable part.
    Portable,
    /// The part of a device header whose digest starts with these 16 hexadecimal digits.
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

/// An open segment file that is exported. Exactly [`Outgoing::bytes`] bytes are read, whatever its writer appends. If
/// another process cuts off a torn tail, zeros are read in its place.
pub struct Outgoing {
    name: String,
    bytes: u64,
    fd: Descriptor,
    /// How many bytes were read.
    at: u64,
}

impl Outgoing {
    /// The name in the part's folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The age in the name, in Unix milliseconds.
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

/// The open segments of an application's part, newest first. Merging does not affect open files.
pub fn outgoing(root: &Path, application: &str, part: &str) -> Result<Vec<Outgoing>, OpenError> {
    let folder = Folder::root(root, false)?.sub(application, false)?.sub(part, false)?;
    let unreadable = |source| OpenError::Unreadable { path: folder.path().to_owned(), source };
    for _ in 0..ATTEMPTS {
        let mut names = folder.names(".vks").map_err(unreadable)?;
        names.reverse();
        let open = |name: String| match folder.open_file(&name) {
            Ok((fd, bytes)) => Some(Ok(Outgoing { name, bytes, fd, at: 0 })),
            Err(FileError::Missing) => Some(Err(())),
            // Not a segment file of the user.
            Err(_) => None,
        };
        // The segment was merged into a file that was not listed.
        if let Ok(files) = names.into_iter().filter_map(open).collect() {
            return Ok(files);
        }
    }
    Err(unreadable(io::ErrorKind::ResourceBusy.into()))
}

/// Why a segment cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// Reading the archive has failed.
    #[error("{0}")]
    Source(io::Error),
    /// The temporary file cannot be written.
    #[error("{0}")]
    Temporary(io::Error),
    /// Copying it would take space that must stay free.
    #[error("{TOO_LITTLE_SPACE}")]
    TooLittleSpace,
    /// The file is not a segment of that part.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Where imported segment files are examined: in files without a name on the file system of the root, so that nothing
/// is left if the process ends.
pub struct Intake {
    root: Arc<Folder>,
}

/// An imported segment file.
pub struct Incoming {
    segment: Arc<Segment>,
    device: Option<DeviceHeader>,
    damaged: u64,
}

impl Intake {
    /// Opens the root, and creates it if it is missing.
    pub fn open(root: &Path) -> Result<Intake, OpenError> {
        Ok(Intake { root: Arc::new(Folder::root(root, true)?) })
    }

    /// Copies a segment file of `bytes` bytes and reads its index.
    pub fn copied(
        &self,
        place: &Place,
        bytes: u64,
        source: &mut dyn Read,
    ) -> Result<Incoming, IncomingError> {
        self.has_room(bytes)?;
        let (_, _, fd) =
            new_name(unix_ms(), |name| self.root.create_unnamed(name)).map_err(IncomingError::Temporary)?;
        self.copy(source, &fd)?;
        let expected = (*place == Place::Portable).then_some(PartIdentity::Portable);
        let loaded = load::load_unnamed(&self.root, fd, expected.as_ref())?;
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
        Ok(Incoming { segment: loaded.segment, device, damaged: loaded.damaged })
    }

    /// Whether so many bytes can be written without using space that must stay free.
    fn has_room(&self, bytes: u64) -> Result<(), IncomingError> {
        // A file system that does not tell its free space is written until it is full.
        let Ok(space) = disk::fstatvfs(&*self.root) else { return Ok(()) };
        let size = space.f_blocks.saturating_mul(space.f_frsize);
        let floor = settings::read_in(&self.root).all().limits(size).free_space_floor;
        let room = space.f_bavail.saturating_mul(space.f_frsize).saturating_sub(floor);
        if bytes <= room { Ok(()) } else { Err(IncomingError::TooLittleSpace) }
    }

    fn copy(&self, source: &mut dyn Read, file: &Descriptor) -> Result<(), IncomingError> {
        let (mut at, mut looked, mut buffer) = (0, 0, vec![0; AT_ONCE]);
        loop {
            let count = match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(IncomingError::Source(error)),
            };
            if at - looked >= LOOK_AFTER {
                // Other processes write too.
                self.has_room(AT_ONCE as u64)?;
                looked = at;
            }
            write_all_at(file, &buffer[..count], at).map_err(|(_, error)| IncomingError::Temporary(error))?;
            at += count as u64;
        }
    }
}

impl Incoming {
    /// The device header of its part; `None` for the portable part.
    pub fn device(&self) -> Option<&DeviceHeader> {
        self.device.as_ref()
    }

    /// Calls `each` with the newest good record of each kind and key, in the order of the file. Returns the number of
    /// records of which no version is good. Unknown kinds are passed over.
    pub fn for_each(&self, each: &mut dyn FnMut(Kind, &Key, &[u8])) -> u64 {
        self.damaged
            + browse::newest(&self.segment, &DamagedIndex::WHOLLY, &|_| true, &mut |kind, key, payload| {
                each(kind, key, payload);
            })
    }
}
