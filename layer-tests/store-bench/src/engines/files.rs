//! One file for each entry, as in the caches of drivers and compilers.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::store::{Fresh, Store};
use crate::failure::Failure;
use crate::workload::Key;

/// A folder with 256 subfolders.
pub struct Opened {
    folder: PathBuf,
    /// Prefix of unfinished files.
    unfinished: String,
}

/// Opens `folder`.
pub fn open(folder: &Path) -> Result<Opened, Failure> {
    if !folder.join("ff").is_dir() {
        for first in 0..=u8::MAX {
            match fs::create_dir(folder.join(format!("{first:02x}"))) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(Opened { folder: folder.to_owned(), unfinished: format!(".tmp-{}", std::process::id()) })
}

impl Opened {
    fn path(&self, key: &Key) -> PathBuf {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut name = String::with_capacity(65);
        for (at, &byte) in key.iter().enumerate() {
            name.push(char::from(DIGITS[usize::from(byte >> 4)]));
            name.push(char::from(DIGITS[usize::from(byte & 15)]));
            if at == 0 {
                name.push('/');
            }
        }
        self.folder.join(name)
    }
}

impl Store for Opened {
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure> {
        entries.iter_mut().try_for_each(|entry| self.put(entry))
    }

    fn put(&mut self, (key, value): &mut Fresh) -> Result<(), Failure> {
        let path = self.path(key);
        let unfinished = path.with_file_name(&self.unfinished);
        OpenOptions::new().write(true).create_new(true).open(&unfinished)?.write_all(value)?;
        Ok(fs::rename(unfinished, path)?)
    }

    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
        buffer.clear();
        let mut file = match File::open(self.path(key)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        buffer.resize(file.metadata()?.size() as usize, 0);
        file.read_exact(buffer)?;
        Ok(true)
    }

    fn contains(&mut self, key: &Key) -> Result<bool, Failure> {
        Ok(self.path(key).exists())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
