//! The folder that gets the database.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use walkdir::WalkDir;

use super::announced::{Announced, MesaDatabase};
use super::{Device, MesaError, Private, database};

/// The folder, which need not exist before there is something to write.
pub(crate) struct Target {
    folder: PathBuf,
}

impl Target {
    /// Finds out early what would fail after all the work.
    pub(crate) fn new(folder: &Path) -> Result<Target, MesaError> {
        let failed = |source| MesaError::Folder { path: folder.to_owned(), source };
        let folder = std::path::absolute(folder).map_err(failed)?;
        if folder.to_str().is_none_or(|text| text.contains([',', '\n'])) {
            return Err(MesaError::Name(folder));
        }
        match fs::read_dir(&folder).map(|mut entries| entries.next().is_some()) {
            Ok(true) => return Err(MesaError::NotEmpty(folder)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let allowed =
            rustix::fs::accessat(CWD, existing, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty());
        allowed.map_err(|error| failed(error.into()))?;
        Ok(Target { folder })
    }

    /// Writes what the workers have left for these devices.
    pub(crate) fn write(self, private: &Private, devices: &[Device]) -> Result<Announced, MesaError> {
        let failed = |source| MesaError::Folder { path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let mut announced = Announced::new(self.folder.clone());
        for device in devices {
            let parent = private.cache(device.index);
            let index = |path: &Path| path.ends_with("foz_cache_idx.foz");
            let files = WalkDir::new(&parent).sort_by_file_name().into_iter().flatten();
            for file in files.filter(|file| index(file.path())) {
                // Mesa: a folder for the build of the driver, in it one for the device.
                let Some(cache) = file.path().parent() else { continue };
                let below = cache.strip_prefix(&parent).unwrap_or(cache).to_owned();
                let name = name(&below);
                let read = |source| MesaError::Read { path: cache.to_owned(), source };
                let Some(database) = database::copy(cache, &self.folder, &name).map_err(read)? else {
                    continue;
                };
                let made = MesaDatabase { name, below, device: device.clone(), database };
                announced.add(made, cache)?;
            }
        }
        if announced.is_empty() {
            // Not empty: another process has put something there.
            let _ = fs::remove_dir(&self.folder);
            return Err(MesaError::Nothing);
        }
        announced.write_list().map_err(failed)?;
        Ok(announced)
    }
}

/// The name of a database, of Mesa's names for the build of the driver and for the device.
fn name(below: &Path) -> String {
    let mut parts = below.iter().map(|part| part.to_string_lossy());
    let build: String = words(&parts.next().unwrap_or_default()).chars().take(8).collect();
    let device = words(&parts.collect::<Vec<_>>().join(" "));
    let words = ["vkstash", device.as_str(), build.as_str()];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// The letters and digits of a text; what is between them becomes one underscore.
fn words(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_letters_and_digits_only() {
        let name = |below: &str| name(Path::new(below));
        assert_eq!(name("0123456789abcdef/AMD RADV NAVI21 (null)"), "vkstash_amd_radv_navi21_null_01234567");
        assert_eq!(name("25.0.7-build/a/b"), "vkstash_a_b_25_0_7_b");
        assert_eq!(name(""), "vkstash");
    }
}
