//! Microsoft's sample: a pipeline library in a memory-mapped file, or a memory-mapped file for each pipeline's blob. A
//! mapping has a size of its own, so the files begin with the length of the content, and grow by doubling.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use ash::vk;

use super::gpu::Gpu;

/// A file as the sample maps it.
struct MappedFile {
    file: File,
    size: u64,
}

impl MappedFile {
    fn open(path: PathBuf) -> MappedFile {
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let size = file.seek(std::io::SeekFrom::End(0)).unwrap().max(4096);
        file.set_len(size).unwrap();
        MappedFile { file, size }
    }

    /// The content; empty at the initial launch.
    fn content(&mut self) -> Vec<u8> {
        self.file.rewind().unwrap();
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        bytes[4..4 + length].to_vec()
    }

    fn write(&mut self, content: &[u8]) {
        while self.size < content.len() as u64 + 4 {
            self.size *= 2;
        }
        self.file.set_len(self.size).unwrap();
        self.file.rewind().unwrap();
        self.file.write_all(&(content.len() as u32).to_le_bytes()).unwrap();
        self.file.write_all(content).unwrap();
    }
}

/// Loads each pipeline from the library; if it is not there, creates and stores it. The file is written at the end.
pub fn library(gpu: &Gpu, folder: &Path) {
    let mut file = MappedFile::open(folder.join("pipelineLibrary.cache"));
    let library = gpu.device.cache(&file.content());
    for name in gpu.names() {
        let loaded = gpu.create(name, library, false);
        loaded.or_else(|| gpu.create(name, library, true)).unwrap();
    }
    file.write(&gpu.device.cache_data(library));
    gpu.device.destroy_cache(library);
}

/// A file for each pipeline.
pub fn blobs(gpu: &Gpu, folder: &Path) {
    for name in gpu.names() {
        let mut file = MappedFile::open(folder.join(format!("{name}.cache")));
        let before = file.content();
        let (pipeline, blob) = gpu.create_with_blob(name, (!before.is_empty()).then_some(&before));
        assert_ne!(pipeline, vk::Pipeline::null());
        if before.is_empty() {
            file.write(&blob);
        }
    }
}
