//! The drivers' files, as one digest: what changes when a driver is updated, and costs some hundred system calls to
//! look at.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use vkstash_model::driver_options;

use crate::drivers::loader_paths::{DRIVERS, json_files};
use crate::system::elf::Arch;
use crate::system::regular;

/// No manifest is longer.
const MOST_BYTES: u64 = 64 << 10;

/// Variables that decide which drivers a process gets, or which devices they show. Those that decide what drivers
/// compile are in [`driver_options`].
const VARIABLES: [&str; 9] = [
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "AMDGPU_GPU_ID",
    "RADV_FORCE_FAMILY",
];

/// What is known without asking a driver.
pub(super) struct Installed {
    pub(super) digest: String,
    /// Since a file was last changed.
    pub(super) since_change: Duration,
}

/// Looks at them, for processes with this environment on this machine. The kernel's half of NVIDIA's driver is in it,
/// because the other half answers when both are of one version only, which they are after the next boot; and the
/// devices are, because a GPU may come later.
pub(super) fn look() -> Installed {
    let mut text = String::new();
    let mut newest = 0;
    // A stash may be shared by several machines.
    for path in ["/etc/machine-id", "/sys/module/nvidia/version"] {
        let _ = writeln!(text, "{path} {}", fs::read_to_string(path).unwrap_or_default().trim());
    }
    for name in VARIABLES {
        let _ = writeln!(text, "{name} {:?}", env::var_os(name));
    }
    let _ = writeln!(text, "options {}", hex::encode(driver_options::of_process()));
    for node in nodes() {
        let _ = writeln!(text, "node {}", node.to_string_lossy());
    }
    let set = |name: &str| env::var_os(name);
    for manifest in DRIVERS.folders(&set).iter().flat_map(|folder| json_files(folder)) {
        for file in [Some(manifest.clone()), library(&manifest)].into_iter().flatten() {
            newest = newest.max(add_file(&mut text, &file));
        }
    }
    let changed = UNIX_EPOCH + Duration::from_secs(u64::try_from(newest).unwrap_or(0));
    Installed {
        digest: hex::encode(&Sha256::digest(text.as_bytes())[..16]),
        // A change that is to come, by a clock that was set back, is no reason to wait for it.
        since_change: changed.elapsed().unwrap_or(Duration::MAX),
    }
}

/// The names of the devices that drivers open.
fn nodes() -> Vec<OsString> {
    let names =
        |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_nvidias = |name: &OsString| name.as_encoded_bytes().starts_with(b"nvidia");
    let mut nodes: Vec<_> = names("/dev/dri").chain(names("/dev").filter(is_nvidias)).collect();
    nodes.sort();
    nodes
}

/// Adds a file's name, and what changes when another one takes its place. Returns when it was changed, in seconds.
fn add_file(text: &mut String, path: &Path) -> i64 {
    let metadata = path.metadata();
    let _ = match &metadata {
        Ok(of) => writeln!(
            text,
            "{} {} {} {}.{:09} {}",
            path.display(),
            of.ino(),
            of.size(),
            of.mtime(),
            of.mtime_nsec(),
            // Packages have files with the times of their build.
            of.ctime()
        ),
        Err(_) => writeln!(text, "{} none", path.display()),
    };
    metadata.map_or(0, |of| of.ctime())
}

/// The library that a manifest names. None: it cannot be told.
fn library(manifest: &Path) -> Option<PathBuf> {
    let bytes = regular::read(manifest, MOST_BYTES).ok()?;
    let json: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let named = Path::new(json["ICD"]["library_path"].as_str()?);
    if named.components().count() > 1 {
        // The loader takes a path with a slash as relative to the manifest.
        return Some(manifest.parent()?.join(named));
    }
    // A name alone is searched by the dynamic linker.
    let of_variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        env::split_paths(&of_variable).filter(|path| !path.as_os_str().is_empty()).collect();
    let own = Arch::own().map_or(&[][..], |arch| arch.folders);
    for prefix in ["/usr/local", "/usr", "/"] {
        folders.extend(own.iter().chain(&["lib"]).map(|folder| Path::new(prefix).join(folder)));
    }
    folders.into_iter().map(|folder| folder.join(named)).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_where_its_manifest_says() {
        let folder = tempfile::tempdir().unwrap();
        let of = |named: &str| {
            let manifest = folder.path().join("driver.json");
            fs::write(&manifest, format!("{{\"ICD\":{{\"library_path\":\"{named}\"}}}}")).unwrap();
            library(&manifest)
        };
        assert_eq!(of("../lib/libvulkan_a.so"), Some(folder.path().join("../lib/libvulkan_a.so")));
        assert_eq!(of("/lib/libvulkan_a.so"), Some("/lib/libvulkan_a.so".into()));
        assert_eq!(of("libvulkan_that_is_not_here.so"), None);
        let libc = of("libc.so.6");
        assert!(libc.as_ref().is_some_and(|path| path.is_absolute()), "{libc:?}");
    }

    #[test]
    fn another_file_at_the_same_place_has_other_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        let words = || {
            let mut text = String::new();
            add_file(&mut text, &path);
            text
        };
        let none = words();
        fs::write(&path, "one").unwrap();
        let one = words();
        assert_eq!(one, words());
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        let two = words();
        assert!(none != one && one != two, "{none}{one}{two}");
    }
}
