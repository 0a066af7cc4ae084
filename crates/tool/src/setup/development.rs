//! The files that a program in C needs to use the layer's library: the header, and the file for pkg-config.

use std::path::{Path, PathBuf};

use crate::layer::library::Library;
use crate::layer::manifest::{self, ManifestError, Occupant};

const HEADER: &str = include_str!("../../../../include/vkstash.h");
const PKG_CONFIG: &str = include_str!("../../../../include/vkstash.pc.in");

/// A file that `vkstash install` writes.
pub(crate) struct Planned {
    pub(crate) folder: PathBuf,
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// The folders of both files.
pub(crate) struct Folders {
    /// Of the header.
    pub(crate) include: PathBuf,
    /// Of the file for pkg-config, two levels below `prefix`.
    pub(crate) pkg_config: PathBuf,
    /// What may be moved as a whole, as programs will see it.
    pub(crate) prefix: PathBuf,
}

impl Folders {
    /// The files, for this library. `include` is the folder of the header as programs will see it. None: the library's
    /// path cannot be written in such a file.
    pub(crate) fn plan(&self, include: &Path, library: Option<&Library>) -> Option<[Planned; 2]> {
        let path = &library?.path;
        let escaped = |path: &Path| {
            let text = path.to_str().filter(|text| !text.contains('\n'))?.replace(' ', "\\ ");
            let below = path.strip_prefix(&self.prefix).is_ok();
            let prefix = self.prefix.to_str()?.replace(' ', "\\ ");
            Some(if below { text.replacen(&prefix, "${prefix}", 1) } else { text })
        };
        let name = path.file_name()?.to_str()?;
        let text = PKG_CONFIG.replace("@LIBDIR@", &escaped(path.parent()?)?);
        let text = text.replace("@INCLUDEDIR@", &escaped(include)?);
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        // The library may have any name.
        let text = text.replace("-lVkLayer_vkstash", &format!("-l:{}", name.replace(' ', "\\ ")));
        Some([
            Planned { folder: self.include.clone(), name: "vkstash.h", text: HEADER.to_owned() },
            Planned { folder: self.pkg_config.clone(), name: "vkstash.pc", text },
        ])
    }

    /// The paths of the header and of the file for pkg-config.
    pub(crate) fn paths(&self) -> [PathBuf; 2] {
        [self.include.join("vkstash.h"), self.pkg_config.join("vkstash.pc")]
    }
}

/// What is at one of these paths. Both files begin with a line that no other file has.
pub(crate) fn occupant(path: &Path) -> Result<Occupant, ManifestError> {
    let begins = |bytes: &[u8], text: &str| bytes.starts_with(text.split_at(BEGINNING).0.as_bytes());
    manifest::occupant_by(path, |bytes| begins(bytes, HEADER) || begins(bytes, PKG_CONFIG))
}

/// The number of first bytes of these files that are the same in every version: `/* vkstash: ` and `# Filled by `.
const BEGINNING: usize = 12;
