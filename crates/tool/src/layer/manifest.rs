//! The layer's manifests: their text, names and places.
//!
//! There is one file for each architecture and kind. All name the same layer, so each says its pointer width; loaders
//! from 1.3.231 on skip those of another width.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::layer::library::Library;
use crate::system::regular;

/// The layer's name for the loader, on every architecture.
pub(crate) const LAYER_NAME: &str = "VK_LAYER_VKSTASH_pipeline_cache";

/// No manifest is larger.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

const FILE_PREFIX: &str = "VkLayer_vkstash.";

/// How the loader finds and enables the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By its enabling environment variable.
    Implicit,
    /// By the program or VK_INSTANCE_LAYERS. Loaders before 1.3.247 find layers for that in explicit manifests only,
    /// so both kinds are written.
    Explicit,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Implicit, Kind::Explicit];

    /// The folder below `vulkan` that the loader searches for this kind.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Kind::Implicit => "implicit_layer.d",
            Kind::Explicit => "explicit_layer.d",
        }
    }

    const fn template(self) -> &'static str {
        match self {
            Kind::Implicit => include_str!("../../../../manifest/VkLayer_vkstash.implicit.json.in"),
            Kind::Explicit => include_str!("../../../../manifest/VkLayer_vkstash.explicit.json.in"),
        }
    }
}

/// Why a manifest could not be written or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("the layer library's path {} is not UTF-8, so no manifest can name it", .0.display())]
    NotUtf8(PathBuf),
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("cannot remove {}: {error}", path.display())]
    Remove { path: PathBuf, error: io::Error },
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} is not a file of vkstash; it was left alone", .0.display())]
    Foreign(PathBuf),
}

/// The manifest's file name for a library.
pub(crate) fn file_name(library: &Library) -> String {
    format!("{FILE_PREFIX}{}.json", library.arch.name)
}

/// The manifest's text for a library.
pub(crate) fn text(kind: Kind, library: &Library) -> Result<String, ManifestError> {
    let path = library.path.to_str().ok_or_else(|| ManifestError::NotUtf8(library.path.clone()))?;
    let quoted = serde_json::Value::from(path).to_string();
    let filled = kind.template().replace("\"@LIBRARY_PATH@\"", &quoted);
    Ok(filled.replace("@LIBRARY_ARCH@", &library.arch.bits.to_string()))
}

/// What a path that may hold a file of this tool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    Nobody,
    Ours,
    Foreign,
}

/// Of a manifest.
pub(crate) fn occupant(path: &Path) -> Result<Occupant, ManifestError> {
    occupant_by(path, |bytes| {
        serde_json::from_slice::<serde_json::Value>(bytes)
            .is_ok_and(|json| json["layer"]["name"].as_str() == Some(LAYER_NAME))
    })
}

/// Of any file whose bytes say whose it is. Does not follow a symbolic link: this tool never creates one for a file.
pub(crate) fn occupant_by(path: &Path, is_ours: impl Fn(&[u8]) -> bool) -> Result<Occupant, ManifestError> {
    let read = |error| ManifestError::Read { path: path.to_owned(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Occupant::Nobody),
        Err(error) => return Err(read(error)),
        Ok(metadata) if !metadata.is_file() => return Ok(Occupant::Foreign),
        Ok(_) => {}
    }
    let bytes = regular::read(path, MOST_BYTES).map_err(read)?;
    Ok(if is_ours(&bytes) { Occupant::Ours } else { Occupant::Foreign })
}

/// Writes `text` as `folder/name`, to stay: readers see the old file or the new one, never a part, also after a crash
/// of the machine.
pub(crate) fn install(folder: &Path, name: &str, text: &str) -> Result<PathBuf, ManifestError> {
    let path = folder.join(name);
    replace(&path, folder, text).map_err(|error| ManifestError::Write { path: path.clone(), error })?;
    Ok(path)
}

/// Makes sure that `folder`, which exists, has `text` as `name`: what is there and equal stays. Returns whether it was
/// missing. Readers see a whole file. It need not survive a crash of the machine, and is not synced: on a disk that
/// takes ten times as long as all else, and what a crash has left of it is not equal.
pub(crate) fn ensure(folder: &Path, name: &str, text: &str) -> Result<bool, ManifestError> {
    let path = folder.join(name);
    if regular::read(&path, MOST_BYTES).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(false);
    }
    let written = unsynced(folder, text).and_then(|file| Ok(file.persist(&path)?));
    written.map(|_| true).map_err(|error| ManifestError::Write { path, error })
}

fn replace(path: &Path, folder: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let file = unsynced(folder, text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn unsynced(folder: &Path, text: &str) -> io::Result<NamedTempFile> {
    // The loader reads only names that end in .json, so it does not see the temporary file.
    let readable = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new()
        .prefix(".vkstash-")
        .suffix(".tmp")
        .permissions(readable)
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// The paths in `folder` that this tool may have written, for any architecture.
pub(crate) fn written_in(folder: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let read = |error| ManifestError::Read { path: folder.to_owned(), error };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(read)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(read)?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(FILE_PREFIX) && name.ends_with(".json")) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Removes one manifest.
pub(crate) fn remove(path: &Path) -> Result<(), ManifestError> {
    fs::remove_file(path).map_err(|error| ManifestError::Remove { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::elf::Arch;

    fn library(path: &str) -> Library {
        Library { path: path.into(), arch: Arch::own().unwrap() }
    }

    #[test]
    fn a_path_with_quotes_and_backslashes_stays_one_json_string() {
        for kind in Kind::ALL {
            let odd = "/a \"b\"/c\\d/@LIBRARY_ARCH/lib.so";
            let json: serde_json::Value = serde_json::from_str(&text(kind, &library(odd)).unwrap()).unwrap();
            assert_eq!(json["layer"]["library_path"], odd);
            assert_eq!(json["layer"]["name"], LAYER_NAME);
        }
    }

    #[test]
    fn only_the_implicit_manifest_listens_to_the_environment() {
        let parsed = |kind| -> serde_json::Value {
            serde_json::from_str(&text(kind, &library("/l.so")).unwrap()).unwrap()
        };
        let implicit = parsed(Kind::Implicit);
        assert_eq!(implicit["layer"]["enable_environment"]["VKSTASH"], "1");
        assert_eq!(implicit["layer"]["disable_environment"]["VKSTASH_DISABLE"], "1");
        let explicit = parsed(Kind::Explicit);
        assert!(explicit["layer"].get("enable_environment").is_none());
        // The loader would add listed device extensions to every device, and so hide the driver's own support
        // (contract 1.5).
        for json in [implicit, explicit] {
            assert!(json["layer"].get("device_extensions").is_none());
        }
    }
}
