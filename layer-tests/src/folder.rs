//! Copies of stashes.

use std::path::Path;
use std::{fs, io};

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
