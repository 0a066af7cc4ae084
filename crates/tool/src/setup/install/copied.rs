//! Files that `install.sh` of the archive has copied below a prefix. It keeps a list of them.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::layer::manifest::{self, ManifestError};
use crate::system::regular;

/// The list below the prefix: a line for each file, with its path from there.
const LIST: &str = "share/vkstash/installed-files";
/// No list is larger.
const MOST_BYTES: u64 = 1 << 20;

/// The files of a list.
pub(super) struct Copied {
    prefix: PathBuf,
    files: Vec<PathBuf>,
}

impl Copied {
    /// What the list below this prefix names. None: there is no list, and nothing was copied.
    pub(super) fn below(prefix: &Path) -> Result<Option<Copied>, ManifestError> {
        let path = prefix.join(LIST);
        let text = match regular::read(&path, MOST_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                return Ok(None);
            }
            Err(error) => return Err(ManifestError::Read { path, error }),
        };
        let files = text.lines().map(PathBuf::from).filter(|file| is_below(file)).collect();
        Ok(Some(Copied { prefix: prefix.to_owned(), files }))
    }

    /// Removes the files, the folders that are empty then, and, when all are gone, the list. Returns how many files
    /// were removed, and the first error.
    pub(super) fn remove(&self) -> (u64, Option<ManifestError>) {
        let (mut removed, mut first_error) = (0, None);
        let mut note = |file: &Path| match self.remove_one(file) {
            Ok(was_there) => removed += u64::from(was_there),
            Err(error) => _ = first_error.get_or_insert(error),
        };
        self.files.iter().for_each(|file| note(file));
        if first_error.is_none() {
            first_error = self.remove_one(Path::new(LIST)).err();
        }
        (removed, first_error)
    }

    /// Returns whether the file was there.
    fn remove_one(&self, file: &Path) -> Result<bool, ManifestError> {
        let path = self.prefix.join(file);
        let is_there = path.symlink_metadata().is_ok();
        if is_there {
            manifest::remove(&path)?;
        }
        for folder in file.ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
            if fs::remove_dir(self.prefix.join(folder)).is_err() {
                break;
            }
        }
        Ok(is_there)
    }
}

/// Whether a path of the list stays below the prefix.
fn is_below(file: &Path) -> bool {
    let is_name = |component: Component<'_>| matches!(component, Component::Normal(_));
    file != Path::new("") && file.components().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_names_outside_its_prefix_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("prefix");
        for file in ["prefix/share/vkstash/more", "prefix/bin/vkstash", "prefix/bin/other", "mine"] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mine = folder.path().join("mine");
        let list = format!(
            "bin/vkstash\n\n../mine\nbin/../../mine\n{}\nlib/gone\nshare/vkstash/more\n",
            mine.display()
        );
        assert!(Copied::below(&prefix).unwrap().is_none());
        fs::write(prefix.join(LIST), list).unwrap();
        let (removed, error) = Copied::below(&prefix).unwrap().unwrap().remove();
        assert_eq!((removed, error.map(|error| error.to_string())), (2, None));
        assert!(mine.exists() && prefix.join("bin/other").exists());
        assert!(!prefix.join("bin/vkstash").exists() && !prefix.join("share").exists());
    }

    #[test]
    fn the_list_stays_until_all_of_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("share/vkstash")).unwrap();
        fs::create_dir_all(folder.path().join("bin/vkstash")).unwrap();
        fs::write(folder.path().join(LIST), "bin/vkstash\n").unwrap();
        let copied = Copied::below(folder.path()).unwrap().unwrap();
        assert!(copied.remove().1.is_some(), "a folder is none of what was copied");
        assert!(folder.path().join(LIST).exists());
    }
}
