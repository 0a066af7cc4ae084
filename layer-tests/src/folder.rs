//! Folders of stashes: copies, and their configuration.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use vkstash_model::variables::CONFIG_FILE;

/// Writes the configuration file of a root, which is created if it is missing. An empty text removes the file.
pub fn configure(root: &Path, text: &str) {
    DirBuilder::new().recursive(true).mode(0o700).create(root).unwrap();
    let file = root.join(CONFIG_FILE);
    if text.is_empty() {
        return fs::remove_file(file).unwrap();
    }
    fs::write(file, text).unwrap();
}

/// Copies a folder of folders and files.
///
/// # Errors
/// Where `to` exists, or a file cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
