//! What vkd3d-proton's client keeps on disk: identifiers with the UUID of the algorithm that made them, and
//! beside them the data of each pipeline's cache.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file of identifiers. It has one algorithm, and stands or falls with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Identifiers {
    algorithm: [u8; 16],
    /// A shader's digest to its identifier.
    of: BTreeMap<String, Vec<u8>>,
}

/// The store of one client.
#[derive(Debug)]
pub struct Book {
    folder: PathBuf,
    identifiers: Identifiers,
    /// Data by pipeline: as it was found, and what is new.
    blobs: BTreeMap<String, Vec<u8>>,
    /// A file was there, and another algorithm had made it.
    pub rejected: bool,
}

impl Book {
    /// Opens what is in `folder`, for this algorithm. A device without identifiers has none (zero).
    ///
    /// # Errors
    /// A folder that cannot be made, or a file that is not ours.
    pub fn open(folder: &Path, algorithm: [u8; 16]) -> io::Result<Book> {
        fs::create_dir_all(folder.join("blobs"))?;
        let file = folder.join("identifiers.json");
        let kept: Option<Identifiers> = match fs::read(&file) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let rejected = kept.as_ref().is_some_and(|kept| kept.algorithm != algorithm);
        let fresh = Identifiers { algorithm, of: BTreeMap::new() };
        let identifiers = if rejected { fresh } else { kept.unwrap_or(fresh) };
        let mut blobs = BTreeMap::new();
        for entry in fs::read_dir(folder.join("blobs"))? {
            let entry = entry?;
            blobs.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
        }
        Ok(Book { folder: folder.to_path_buf(), identifiers, blobs, rejected })
    }

    /// A shader's identifier.
    pub fn identifier(&self, digest: &str) -> Option<&[u8]> {
        self.identifiers.of.get(digest).map(Vec::as_slice)
    }

    /// Learns a shader's identifier.
    pub fn learn(&mut self, digest: &str, identifier: Vec<u8>) {
        self.identifiers.of.insert(digest.to_owned(), identifier);
    }

    /// The data kept for a pipeline; nothing where there is none.
    pub fn blob(&self, pipeline: &str) -> Vec<u8> {
        self.blobs.get(pipeline).cloned().unwrap_or_default()
    }

    /// Keeps a pipeline's data. In memory: vkd3d-proton leaves writing to another thread, and a file that is made between
    /// two calls makes the second one dearer.
    pub fn keep_blob(&mut self, pipeline: &str, data: Vec<u8>) {
        self.blobs.insert(pipeline.to_owned(), data);
    }

    /// Writes all of it. A device without the extension has no identifiers to write.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self) -> io::Result<()> {
        for (pipeline, data) in &self.blobs {
            fs::write(self.folder.join("blobs").join(pipeline), data)?;
        }
        if self.identifiers.algorithm == [0; 16] {
            return Ok(());
        }
        fs::write(self.folder.join("identifiers.json"), serde_json::to_vec(&self.identifiers)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_algorithm_rejects_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = Book::open(folder.path(), [1; 16]).unwrap();
        book.learn("a", vec![1, 2, 3]);
        book.save().unwrap();
        let same = Book::open(folder.path(), [1; 16]).unwrap();
        assert_eq!((same.identifier("a"), same.rejected), (Some(&[1, 2, 3][..]), false));
        let other = Book::open(folder.path(), [2; 16]).unwrap();
        assert_eq!((other.identifier("a"), other.rejected), (None, true));
    }
}
