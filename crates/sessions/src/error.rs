//! Why a call on a session fails.

use std::io;

use rustix::io::Errno;
use vkstash_host::disk::errors::{FileError, OpenError};

/// What open sessions of the same identifier have differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The mode.
    Mode,
    /// The flags.
    Flags,
    /// The version, or the driver if the cache is driver-versioned.
    Version,
}

/// Why a call fails. docs/sessions.md has the values of D3D12 that correspond.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument that no cache accepts.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// There is no entry with that key.
    #[error("there is no entry with this key")]
    NotFound,
    /// There is an entry with that key.
    #[error("there is an entry with this key already")]
    AlreadyExists,
    /// A session has the cache open in another way.
    #[error("the cache is open with another {0:?}")]
    OpenWithOther(Other),
    /// The entry would make the cache larger than its maximum.
    #[error("the cache is full")]
    CacheFull,
    /// There is an entry whose key is another one with the same hash.
    #[error("an entry with another key has the same hash")]
    HashCollision,
    /// Not now; the reason may pass.
    #[error("not currently available: {0}")]
    NotCurrentlyAvailable(&'static str),
    /// The buffer is too short for the value.
    #[error("the buffer is too short: the value has {needed} bytes")]
    BufferTooSmall {
        /// Length of the value.
        needed: usize,
    },
    /// The entry, or the file that it is in, is damaged. Storing the entry again replaces it.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// A file with the name of a file of the cache is none, or cannot be trusted. It is left as it is.
    #[error("{name}: {reason}")]
    Refused {
        /// The file's name.
        name: String,
        /// What is wrong with it.
        reason: Reason,
    },
    /// The folder of the cache cannot be used.
    #[error(transparent)]
    Folder(OpenError),
    /// The file system or the permissions allow no writing.
    #[error("the cache is read-only")]
    ReadOnly,
    /// The file system is full, or a limit of the process is reached.
    #[error("the disk is full")]
    DiskFull,
    /// There is not enough memory.
    #[error("not enough memory")]
    NoMemory,
    /// Another error of the system.
    #[error("{0}")]
    Io(io::Error),
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A reason for which any file is refused.
    #[error("{0}")]
    File(FileError),
    /// Other users may write to the file.
    #[error("can be written to by others (mode {0:03o}); run chmod go-w on it")]
    OthersMayWrite(u32),
    /// The file has several names: what is written here would be read there.
    #[error("has other names (hard links); replace it with a copy")]
    HardLink,
    /// The file has neither a header nor the start of one.
    #[error("not a file of a session")]
    Foreign,
    /// A newer program has written it.
    #[error("format version {0} is not known here")]
    Newer(u32),
    /// The file has the identifier of another cache.
    #[error("belongs to another identifier")]
    OtherIdentifier,
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        let source = match &error {
            OpenError::NotCreated { source, .. } | OpenError::Unreadable { source, .. } => {
                Errno::from_io_error(source)
            }
            _ => None,
        };
        match source.map(Error::from) {
            None | Some(Error::Io(_)) => Error::Folder(error),
            Some(error) => error,
        }
    }
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Error {
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Error::DiskFull,
            Errno::ROFS | Errno::ACCESS | Errno::PERM => Error::ReadOnly,
            Errno::NOMEM => Error::NoMemory,
            Errno::MFILE | Errno::NFILE => Error::NotCurrentlyAvailable("no file descriptor is left"),
            Errno::BADF => Error::NotCurrentlyAvailable("the program has closed the descriptor"),
            error => Error::Io(error.into()),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match Errno::from_io_error(&error) {
            Some(error) => error.into(),
            None if error.kind() == io::ErrorKind::OutOfMemory => Error::NoMemory,
            None => Error::Io(error),
        }
    }
}
