//! The libraries under test.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Names the layer library to test, in place of the one that cargo built.
pub const LAYER_VARIABLE: &str = "VKSTASH_LAYER_LIBRARY";
/// Names the test driver, in place of the one that cargo built.
pub const TEST_DRIVER_VARIABLE: &str = "VKSTASH_TEST_ICD_LIBRARY";

/// The layer under test: the library that VKSTASH_LAYER_LIBRARY names, or the one of this build.
pub fn layer_library() -> PathBuf {
    library(LAYER_VARIABLE, "libVkLayer_vkstash.so").unwrap_or_else(|missing| panic!("{missing}"))
}

/// The programmable test driver: the library that VKSTASH_TEST_ICD_LIBRARY names, or the one of this build.
pub fn test_driver_library() -> Result<PathBuf, String> {
    library(TEST_DRIVER_VARIABLE, "libvkstash_test_icd.so")
}

fn library(variable: &str, file: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        let canonical = path.canonicalize();
        return canonical.map_err(|error| format!("{variable} names {}: {error}", path.display()));
    }
    let profile = profile_folder();
    // Cargo leaves a dependency's library in deps/, and links it into the profile's folder only on request: the newer
    // one is up to date.
    let candidates = [profile.join(file), profile.join("deps").join(file)];
    let newest = candidates.into_iter().filter_map(|path| Some((modified(&path)?, path))).max();
    newest.map(|(_, path)| path).ok_or_else(|| {
        format!(
            "there is no {file} in {}: run `cargo build --workspace`, or name one in {variable}",
            profile.display()
        )
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// The folder of the build profile of this program.
pub fn profile_folder() -> PathBuf {
    let exe = std::env::current_exe().expect("the test program knows its own path");
    let folder = exe.parent().expect("a file has a folder");
    match folder.file_name() {
        Some(name) if name == "deps" => folder.parent().expect("deps has a parent").to_path_buf(),
        _ => folder.to_path_buf(),
    }
}

/// Whether root can reach the libraries under test only by its right to override permissions: they are in the private
/// home of another user.
pub fn are_private() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        // SAFETY: geteuid has no preconditions.
        let is_root = unsafe { libc::geteuid() } == 0;
        let library = library(LAYER_VARIABLE, "libVkLayer_vkstash.so").ok();
        let needed = [Some(profile_folder()), Some(env!("CARGO_MANIFEST_DIR").into()), library];
        is_root && needed.into_iter().flatten().any(|path| !is_open_to_root(&path))
    })
}

/// A missing path is not private.
fn is_open_to_root(path: &Path) -> bool {
    let may = |part: &Path| {
        part.metadata().map_or(true, |found| {
            let shift = if found.uid() == 0 {
                6
            } else if found.gid() == 0 {
                3
            } else {
                0
            };
            let wanted = if found.is_dir() { 0o1 } else { 0o4 };
            (found.mode() >> shift) & wanted != 0
        })
    };
    path.canonicalize().map_or(true, |path| path.ancestors().all(may))
}
