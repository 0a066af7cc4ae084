//! The workers that are here, for programs of each pointer width: executable, library and manifests.
//!
//! A process loads libraries and drivers of its own width only. For this tool's width the worker is this tool again,
//! for the other one a small program that lies near the library of that width (crates/worker).

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::named;
use crate::layer::environment;
use crate::layer::library::{self, Library, LibraryError};
use crate::layer::loader_folder::{FolderError, LoaderFolder};
use crate::system::elf::Arch;
use crate::system::start;
use crate::term::units::counted;

/// The pointer width of this tool, in bytes, as device headers have it.
pub(crate) const OWN: u8 = size_of::<usize>() as u8;

/// Why no worker can be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkersError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot start a worker: {0}")]
    Start(#[from] io::Error),
}

/// A worker for programs of one pointer width.
pub(crate) struct Worker {
    pointer_width: u8,
    pub(crate) executable: PathBuf,
    /// The layer library.
    pub(crate) library: PathBuf,
    /// Has the manifest through which the loader finds that library.
    pub(crate) manifests: LoaderFolder,
}

/// The workers that are here.
pub(crate) struct Workers {
    all: Vec<Worker>,
    own_alone: bool,
}

impl Workers {
    /// Those for the library at this path and for what came with this tool. `own_alone`: for this tool's width only.
    /// `named`: the name that their executables get, and a folder for the copies.
    pub(crate) fn find(
        path: Option<&Path>,
        own_alone: bool,
        named: Option<(&OsStr, &Path)>,
    ) -> Result<Workers, WorkersError> {
        let mut all = Vec::new();
        for library in library::find_beside(path)? {
            let Some(executable) = executable(&library)? else { continue };
            let pointer_width = library.arch.bits / 8;
            if own_alone && pointer_width != OWN {
                continue;
            }
            let copy = named.and_then(|(name, folder)| {
                named::copy(&executable, &folder.join(format!("as-{}", library.arch.name)), name)
            });
            all.push(Worker {
                pointer_width,
                executable: copy.unwrap_or(executable),
                manifests: environment::folder_for(std::slice::from_ref(&library))?,
                library: library.path,
            });
        }
        Ok(Workers { all, own_alone })
    }

    /// The one for programs of this width. None: [`Workers::missing`] says why.
    pub(crate) fn of(&self, pointer_width: u8) -> Option<&Worker> {
        self.all.iter().find(|worker| worker.pointer_width == pointer_width)
    }

    /// Why so many pipelines of programs of this width are not made.
    pub(crate) fn missing(&self, pointer_width: u8, pipelines: u64) -> String {
        let what = format!("{} of {} left out", counted(pipelines, "pipeline"), programs_of(pointer_width));
        if pointer_width == OWN {
            format!("{what}: no layer library for them is here")
        } else if self.own_alone {
            format!("{what}: --driver and --mesa-foz are for programs of one width")
        } else if pointer_width < OWN {
            let version = env!("CARGO_PKG_VERSION");
            format!("{what}: install vkstash-layer_{version}_i386.deb, or lib32 of the archive")
        } else {
            format!("{what}: they need a 64-bit vkstash")
        }
    }
}

/// Programs of this pointer width, in words.
pub(crate) fn programs_of(pointer_width: u8) -> String {
    format!("{}-bit programs", u32::from(pointer_width) * 8)
}

/// The executable of the worker that loads this library.
fn executable(library: &Library) -> io::Result<Option<PathBuf>> {
    if Arch::own() == Some(library.arch) { start::executable().map(Some) } else { Ok(library.worker()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_says_what_helps() {
        if OWN != 8 {
            return;
        }
        let missing = |own_alone| Workers { all: Vec::new(), own_alone }.missing(4, 2);
        let installed = missing(false);
        assert!(installed.starts_with("2 pipelines of 32-bit programs left out: install vkstash-layer_"));
        assert!(missing(true).contains("--driver"), "{}", missing(true));
    }
}
