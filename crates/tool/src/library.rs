//! Finds the layer library that belongs to this tool.

use std::env;
use std::path::{Path, PathBuf};

use crate::elf::{self, Arch, ElfError};

/// The file name that Cargo gives it.
const FILE_NAME: &str = "libVkLayer_vkstash.so";

/// The environment variable that names another library.
pub(crate) const VARIABLE: &str = "VKSTASH_LIBRARY";

/// A layer library that the Vulkan loader can be pointed at.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// The architecture that it was built for.
    pub(crate) arch: &'static Arch,
}

/// Why no library can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    #[error("cannot use {} as the layer library: {reason}", path.display())]
    Unusable { path: PathBuf, reason: ElfError },
    #[error(
        "the layer library {FILE_NAME} was found neither beside this tool nor in ../lib: \
         build it (cargo build --release), or name it with --library or {VARIABLE}"
    )]
    NotFound,
}

/// The library at a path that the user named.
pub(crate) fn named(path: &Path) -> Result<Library, LibraryError> {
    named_and_staged(path, None)
}

/// The library at a path that the user named, which may still lie in a packager's staging folder: `staged` maps a
/// path to its place there.
pub(crate) fn named_and_staged(
    path: &Path,
    staged: Option<&dyn Fn(&Path) -> PathBuf>,
) -> Result<Library, LibraryError> {
    // Not canonicalised: a package manager keeps the symbolic link valid over updates.
    let absolute = std::path::absolute(path);
    let unusable = |reason| LibraryError::Unusable { path: path.to_owned(), reason };
    let path = absolute.map_err(|error| unusable(error.into()))?;
    let now = staged.map(|staged| staged(&path)).filter(|now| now.exists());
    let arch = elf::arch_of(now.as_deref().unwrap_or(&path)).map_err(unusable)?;
    Ok(Library { path, arch })
}

/// The libraries that came with this tool: the one of its own architecture, then the 32-bit one if there is one. The
/// library that VKSTASH_LIBRARY names replaces them.
pub(crate) fn find() -> Result<Vec<Library>, LibraryError> {
    if let Some(path) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(vec![named(Path::new(&path))?]);
    }
    let executable = env::current_exe().ok();
    let folder = executable.as_deref().and_then(Path::parent).ok_or(LibraryError::NotFound)?;
    let own = Arch::own().ok_or(LibraryError::NotFound)?;
    let first = find_for(folder, own).ok_or(LibraryError::NotFound)?;
    let second = own.sibling().and_then(|sibling| find_for(folder, sibling));
    Ok([Some(first), second].into_iter().flatten().collect())
}

fn find_for(folder: &Path, arch: &'static Arch) -> Option<Library> {
    candidates(folder, arch)
        .into_iter()
        .find(|path| elf::arch_of(path).is_ok_and(|found| found == arch))
        .map(|path| Library { path, arch })
}

/// Paths in the order: build tree, distribution's package, unpacked archive.
fn candidates(folder: &Path, arch: &Arch) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    if let Some(prefix) = folder.parent() {
        for place in ["lib"].iter().chain(arch.folders) {
            folders.push(prefix.join(place));
            folders.push(prefix.join(place).join("vkstash"));
        }
    }
    folders.into_iter().map(|folder| folder.join(FILE_NAME)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_tool_comes_before_the_prefix() {
        let found = candidates(Path::new("/usr/bin"), Arch::own().unwrap());
        assert_eq!(found[0], Path::new("/usr/bin/libVkLayer_vkstash.so"));
        assert_eq!(found[1], Path::new("/usr/lib/libVkLayer_vkstash.so"));
        assert_eq!(found[2], Path::new("/usr/lib/vkstash/libVkLayer_vkstash.so"));
        assert!(found.len() > 3);
    }
}
