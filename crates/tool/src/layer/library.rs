//! Finds the layer library that belongs to this tool.

use std::env;
use std::path::{Path, PathBuf};

use vkstash_model::variables::LIBRARY;

use crate::system::elf::{self, Arch, ElfError};

/// The file name that Cargo gives it.
const FILE_NAME: &str = "libVkLayer_vkstash.so";

/// The file name of the worker that is no tool.
const WORKER: &str = "vkstash-worker";

/// A layer library that the Vulkan loader can be pointed at.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// The architecture that it was built for.
    pub(crate) arch: &'static Arch,
}

impl Library {
    /// The worker of `vkstash prewarm` for programs of its architecture, if that is not this tool's: beside the
    /// library, as cargo builds both, or in a folder of vkstash's own there, as packages have it, because no user is
    /// to start it. The library's path may be a link.
    pub(crate) fn worker(&self) -> Option<PathBuf> {
        let real = self.path.canonicalize().ok();
        let folders =
            [Some(self.path.as_path()), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
        let mut places =
            folders.flat_map(|folder| [folder.join(WORKER), folder.join("vkstash").join(WORKER)]);
        places.find(|path| elf::arch_of(path).is_ok_and(|arch| arch == self.arch))
    }
}

/// Why no library can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    #[error("cannot use {} as the layer library: {reason}", path.display())]
    Unusable { path: PathBuf, reason: ElfError },
    #[error(
        "the layer library {FILE_NAME} was found neither beside this tool nor in ../lib: \
         build it (cargo build --release), or name it with --library or {LIBRARY}"
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
    if let Some(path) = env::var_os(LIBRARY).filter(|value| !value.is_empty()) {
        return Ok(vec![named(Path::new(&path))?]);
    }
    let executable = env::current_exe().ok();
    let folder = executable.as_deref().and_then(Path::parent).ok_or(LibraryError::NotFound)?;
    let own = Arch::own().ok_or(LibraryError::NotFound)?;
    let first = find_for(folder, own).ok_or(LibraryError::NotFound)?;
    let second = own.sibling().and_then(|sibling| find_for(folder, sibling));
    Ok([Some(first), second].into_iter().flatten().collect())
}

/// The libraries that workers load: the one at this path, and of the architectures that it is not for what came with
/// this tool.
pub(crate) fn find_beside(path: Option<&Path>) -> Result<Vec<Library>, LibraryError> {
    let Some(path) = path else { return find() };
    let named = named(path)?;
    let others = find().unwrap_or_default().into_iter().filter(|library| library.arch != named.arch);
    Ok([named.clone()].into_iter().chain(others).collect())
}

fn find_for(folder: &Path, arch: &'static Arch) -> Option<Library> {
    candidates(folder, arch)
        .into_iter()
        .find(|path| elf::arch_of(path).is_ok_and(|found| found == arch))
        .map(|path| Library { path, arch })
}

/// Paths in the order: build tree, distribution's package, unpacked archive, build tree of another architecture.
fn candidates(folder: &Path, arch: &Arch) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    if let Some(prefix) = folder.parent() {
        for place in ["lib"].iter().chain(arch.folders) {
            folders.push(prefix.join(place));
            folders.push(prefix.join(place).join("vkstash"));
        }
        let built = arch.cross_folder().zip(folder.file_name());
        folders.extend(built.map(|(target, profile)| prefix.join(target).join(profile)));
    }
    folders.into_iter().map(|folder| folder.join(FILE_NAME)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_folder_of_the_tool_comes_before_the_prefix() {
        let found = candidates(Path::new("/usr/bin"), Arch::own().unwrap());
        assert_eq!(found[0], Path::new("/usr/bin/libVkLayer_vkstash.so"));
        assert_eq!(found[1], Path::new("/usr/lib/libVkLayer_vkstash.so"));
        assert_eq!(found[2], Path::new("/usr/lib/vkstash/libVkLayer_vkstash.so"));
        assert!(found.len() > 3);
    }

    #[test]
    fn cargo_builds_for_the_other_architecture_in_a_folder_of_its_name() {
        let Some(narrow) = Arch::own().and_then(Arch::sibling) else { return };
        let found = candidates(Path::new("/home/target/release"), narrow);
        let built = format!("/home/target/{}/release", narrow.cross_folder().unwrap());
        assert_eq!(found.last().unwrap(), &Path::new(&built).join(FILE_NAME));
        assert!(
            candidates(Path::new("/usr/bin"), narrow).contains(&"/usr/lib32/libVkLayer_vkstash.so".into())
                || narrow.name != "x86"
        );
    }

    /// The first bytes of a library or program of this architecture.
    fn place(path: &Path, (class, machine): (u8, u8)) {
        let mut head = [0; 20];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        (head[16], head[18]) = (3, machine);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, head).unwrap();
    }

    const X86: (u8, u8) = (1, 3);
    const X86_64: (u8, u8) = (2, 62);

    #[test]
    fn the_worker_of_the_other_architecture_lies_near_its_library() {
        let folder = tempfile::tempdir().unwrap();
        let near = |library: &Path| named(library).unwrap().worker();
        for (library, worker) in [
            ("usr/lib/i386-linux-gnu/l.so", "usr/lib/i386-linux-gnu/vkstash/vkstash-worker"),
            ("opt/vkstash/lib32/l.so", "opt/vkstash/lib32/vkstash/vkstash-worker"),
            (
                "target/i686-unknown-linux-gnu/debug/l.so",
                "target/i686-unknown-linux-gnu/debug/vkstash-worker",
            ),
        ] {
            let (library, worker) = (folder.path().join(library), folder.path().join(worker));
            place(&library, X86);
            assert_eq!(near(&library), None, "{library:?}");
            // What cargo built for this machine.
            place(&worker, X86_64);
            assert_eq!(near(&library), None, "{library:?}");
            place(&worker, X86);
            assert_eq!(near(&library), Some(worker));
        }
        // Steam's container has links to the host's libraries.
        let link = folder.path().join("overrides/l.so");
        fs::create_dir(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(folder.path().join("usr/lib/i386-linux-gnu/l.so"), &link).unwrap();
        assert!(near(&link).is_some_and(|worker| worker.ends_with("vkstash/vkstash-worker")));
    }
}
