//! The private folder of one run: the manifest for the loader, and the reports from the layer.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use VkLayer_vkstash::stats::RunReport;
use VkLayer_vkstash::store::runs;

use crate::manifest::Kind;

/// Removed with everything in it when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes a new one, for this user only.
    pub(crate) fn create() -> io::Result<Folder> {
        let parent = parent()?;
        let mut attempt = 0;
        loop {
            let path = parent.join(name(attempt));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 64 => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => {
                    let folder = Folder(path);
                    DirBuilder::new().mode(0o700).create(folder.report_folder())?;
                    return Ok(folder);
                }
            }
        }
    }

    /// What goes into XDG_DATA_DIRS.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What the loader searches below it.
    pub(crate) fn manifest_folder(&self) -> PathBuf {
        self.0.join("vulkan").join(Kind::Implicit.folder())
    }

    /// What goes into VKSTASH_REPORT.
    pub(crate) fn report_folder(&self) -> PathBuf {
        self.0.join("reports")
    }

    /// What the command's processes reported.
    pub(crate) fn reports(&self) -> Vec<RunReport> {
        let folder = self.report_folder();
        let empty = fs::read_dir(&folder).map_or(true, |mut entries| entries.next().is_none());
        if empty { Vec::new() } else { runs::read_all(&folder) }
    }

    /// Leaves a copy of the reports in `target` too. A failure costs somebody a report, never the run.
    pub(crate) fn copy_reports(&self, target: &Path) {
        let _ = fs::create_dir_all(target);
        let Ok(entries) = fs::read_dir(self.report_folder()) else { return };
        for entry in entries.flatten() {
            let _ = fs::copy(entry.path(), target.join(entry.file_name()));
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The temporary folder, unless a search path could not name it.
fn parent() -> io::Result<PathBuf> {
    let parent = env::temp_dir();
    if parent.as_os_str().as_bytes().contains(&b':') {
        return Ok("/tmp".into());
    }
    std::path::absolute(parent)
}

/// Nobody can squat on a name that holds the time in nanoseconds; and if somebody does, the next attempt
/// takes another, and no existing folder is ever used.
fn name(attempt: u32) -> String {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    format!("vkstash-{}-{nanos:09}-{attempt}", std::process::id())
}
