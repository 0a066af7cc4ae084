//! Writes archives.

use std::io::{self, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use vkstash_host::disk::errors::OpenError;
use vkstash_store::stash::transfer;
use vkstash_store::stash::transfer::Outgoing;

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The stash cannot be read.
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    /// The archive cannot be written, or a file of the stash cannot be read.
    #[error("cannot export {path}: {source}")]
    Copy {
        /// The file that was being copied, below the root.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The end of the archive cannot be written.
    #[error("cannot write the archive: {0}")]
    End(io::Error),
}

/// What an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Segment files.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
}

/// Writes an archive of the given parts, each named by the folders of its application and of the part. Running
/// programs may write to these parts; records that they add from now on are not exported.
pub fn export(root: &Path, parts: &[(String, String)], sink: impl Write) -> Result<Exported, ExportError> {
    let mut archive = Builder::new(sink);
    let mut exported = Exported::default();
    for (application, part) in parts {
        for file in transfer::outgoing(root, application, part)? {
            exported.files += 1;
            exported.bytes += file.bytes();
            let path = format!("{application}/{part}/{}", file.name());
            append(&mut archive, &path, file).map_err(|source| ExportError::Copy { path, source })?;
        }
    }
    archive.into_inner().and_then(|mut sink| sink.flush()).map_err(ExportError::End)?;
    Ok(exported)
}

fn append(archive: &mut Builder<impl Write>, path: &str, file: Outgoing) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path(path)?;
    header.set_mode(0o600);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(file.age() / 1000);
    header.set_size(file.bytes());
    header.set_cksum();
    archive.append(&header, file)
}
