//! Why a folder or a file is not used: values with a reason.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use serde::Serialize;

/// Why a folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path is not a folder.
    #[error("{} is not a folder; move it away or choose another place", .path.display())]
    NotAFolder {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The folder belongs to another user, who could put artifacts into it.
    #[error("{} belongs to user {owner}, not to user {user}; change its owner or choose another place",
        .path.display())]
    NotOwned {
        /// What was to be opened.
        path: PathBuf,
        /// The user id of the folder's owner.
        owner: u32,
        /// The effective user id of this process.
        user: u32,
    },
    /// Root would create a folder in a user's home (sudo can leave HOME unchanged), which that user could not use.
    #[error("{} would be root's in a folder of user {owner}; run it as that user, or choose another place",
        .path.display())]
    OfAnother {
        /// What was to be made.
        path: PathBuf,
        /// The user id of the home's owner.
        owner: u32,
    },
    /// Other users may put artifacts into the folder.
    #[error("{} can be written to by others (mode {mode:03o}); run chmod go-w on it", .path.display())]
    OthersMayWrite {
        /// What was to be opened.
        path: PathBuf,
        /// The folder's permission bits.
        mode: u32,
    },
    /// A symbolic link below the root.
    #[error("{} is a symbolic link, which the stash does not follow; replace it by a folder", .path.display())]
    SymbolicLink {
        /// What was to be opened.
        path: PathBuf,
    },
    /// A folder's name that could lead to another place.
    #[error("{name:?} cannot be the name of an application's folder")]
    Name {
        /// The name.
        name: String,
    },
    /// The folder is missing and cannot be created.
    #[error("{} cannot be created ({source}); make it writable or choose another place", .path.display())]
    NotCreated {
        /// What was to be made.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder cannot be read.
    #[error("{} cannot be opened ({source}); check its permissions", .path.display())]
    Unreadable {
        /// What was to be opened.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Opening the folder takes longer than the program may wait. Another thread opens it.
    #[error("{} cannot be opened in time", .path.display())]
    PutOff {
        /// What was to be opened.
        path: PathBuf,
    },
    /// A forked child cannot open parts of its parent's stash.
    #[error("a forked process cannot open further parts of its parent's stash")]
    Forked,
}

impl OpenError {
    /// Whether there is no such folder.
    pub fn is_missing(&self) -> bool {
        matches!(self, OpenError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the reason passes: a lack of descriptors or memory, or of time.
    pub fn is_for_now(&self) -> bool {
        match self {
            OpenError::NotCreated { source, .. } | OpenError::Unreadable { source, .. } => is_for_now(source),
            OpenError::PutOff { .. } => true,
            _ => false,
        }
    }
}

/// Whether an error is a lack of descriptors or memory.
pub fn is_lack(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// [`is_lack`] of an error of the standard library.
pub fn is_for_now(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_lack)
}

/// Why a file is not used. The file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileError {
    /// There is none of that name.
    #[error("there is no such file")]
    Missing,
    /// A symbolic link.
    #[error("a symbolic link")]
    SymbolicLink,
    /// A folder, a socket, or the like.
    #[error("not a regular file")]
    NotAFile,
    /// A file of another user.
    #[error("belongs to user {0}")]
    NotOwned(u32),
    /// A file of a base that other users may write to.
    #[error("other users may write to it (mode {0:o})")]
    OthersMayWrite(u32),
    /// The system does not let it be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Reading it takes longer than the program may wait, or there is no descriptor or memory. Another thread reads it.
    #[error("cannot be read for now")]
    PutOff,
}

impl FileError {
    /// The reason's name in reports and in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            FileError::Missing => "missing",
            FileError::SymbolicLink => "symbolic_link",
            FileError::NotAFile => "not_a_file",
            FileError::NotOwned(_) => "not_owned",
            FileError::OthersMayWrite(_) => "others_may_write",
            FileError::Unreadable(_) => "unreadable",
            FileError::PutOff => "put_off",
        }
    }
}
