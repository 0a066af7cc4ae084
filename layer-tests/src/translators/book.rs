//! Files of the vkd3d-proton client: identifiers with the UUID of their algorithm, and the data of each pipeline's
//! cache.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file of identifiers. All are of one algorithm; if that changes, the file is rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Identifiers {
    algorithm: [u8; 16],
    /// Identifiers by the digest of the shader.
    of: BTreeMap<String, Vec<u8>>,
}

/// The store of one client.
#[derive(Debug)]
pub struct Book {
    folder: PathBuf,
    identifiers: Identifiers,
    /// Cache data by pipeline, loaded and new.
    blobs: BTreeMap<String, Vec<u8>>,
    /// Whether there was a file of identifiers that another algorithm had made.
    pub rejected: bool,
}

impl Book {
    /// Opens the files in `folder` for this algorithm (zero for a device without identifiers).
    ///
    /// # Errors
    /// A folder that cannot be created, or a file with other content.
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

    /// Adds a shader's identifier.
    pub fn learn(&mut self, digest: &str, identifier: Vec<u8>) {
        self.identifiers.of.insert(digest.to_owned(), identifier);
    }

    /// The data kept for a pipeline; empty if there is none.
    pub fn blob(&self, pipeline: &str) -> Vec<u8> {
        self.blobs.get(pipeline).cloned().unwrap_or_default()
    }

    /// Keeps a pipeline's data in memory: vkd3d-proton writes on another thread, and creating a file between two
    /// calls makes the second one slower.
    pub fn keep_blob(&mut self, pipeline: &str, data: Vec<u8>) {
        self.blobs.insert(pipeline.to_owned(), data);
    }

    /// Writes everything. A device without the extension has no identifiers to write.
    ///
    /// # Errors
    /// Those of the file system.
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
