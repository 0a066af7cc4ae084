//! Errors of archives: of opening a file, of reading one entry, and of writing.

use std::io;
use std::path::PathBuf;

use super::layout::{MAX_PAYLOAD, OLDEST_VERSION, VERSION};

/// Why a file cannot be read as an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system did not open the file.
    #[error("{path} cannot be opened: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder, a pipe, a device: nothing whose content stays in place while it is read.
    #[error("{path} is not a regular file: an archive of Fossilize (.foz) is wanted")]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The system did not read the file.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Fewer than 16 bytes. Fossilize's layer leaves such a file where it has recorded nothing, or writes them soon.
    #[error(
        "{path} is not an archive of Fossilize: it is shorter than the 16 bytes that a .foz file begins with"
    )]
    TooShort {
        /// The file.
        path: PathBuf,
    },
    /// Something else.
    #[error("{path} is not an archive of Fossilize: its first 16 bytes are not those of a .foz file")]
    NotAnArchive {
        /// The file.
        path: PathBuf,
    },
    /// An archive of a version that is not known here.
    #[error(
        "{path} has version {version} of Fossilize's format; versions {OLDEST_VERSION} to {VERSION} can be read"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the file states.
        version: u8,
    },
}

/// Why the payload of an entry cannot be had. Other entries are not affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file has become shorter since it was opened, or the system does not read it.
    #[error("the payload cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The stored bytes are not those that were written.
    #[error("the stored bytes have CRC {found:08x}, and the header says {stated:08x}")]
    Crc {
        /// The CRC in the header.
        stated: u32,
        /// The CRC of the bytes in the file.
        found: u32,
    },
    /// The stored bytes are not a complete zlib stream of the stated size.
    #[error("the stored bytes are not a zlib stream of {stated} bytes")]
    Inflate {
        /// The size in the header, in bytes.
        stated: u32,
    },
    /// No memory for the payload.
    #[error("no memory for a payload of {0} bytes")]
    Memory(u32),
}

/// Why an entry was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output did not take the bytes; it may have a part of them.
    #[error("the archive cannot be written: {0}")]
    Output(#[from] io::Error),
    /// A payload that [`Reader`](super::Reader) would refuse. Nothing was written.
    #[error("a payload of {0} bytes is larger than the limit of {MAX_PAYLOAD} bytes")]
    TooLarge(usize),
    /// An earlier entry may be incomplete: what follows it could not be read.
    #[error("an earlier write failed, and the archive ends there")]
    Failed,
}
