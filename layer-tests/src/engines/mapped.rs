//! A file as Microsoft's sample maps it into memory. A mapping has a size of its own, so the file begins with the
//! length of its content.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::{self, NonNull};

/// The size of a new file.
const DEFAULT_SIZE: usize = 64;
/// Bytes of the length before the content.
const LENGTH: usize = 4;

/// MemoryMappedFile. Dropping it is Destroy(false), which unmaps the file and keeps it.
pub struct MemoryMappedFile {
    file: File,
    address: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, and no thread that uses it matters to it.
unsafe impl Send for MemoryMappedFile {}

impl MemoryMappedFile {
    /// Init: creates an empty file where there is none.
    pub fn init(path: &Path) -> MemoryMappedFile {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let size = (file.metadata().unwrap().len() as usize).max(DEFAULT_SIZE);
        let address = map(&file, size);
        MemoryMappedFile { file, address, size }
    }

    /// The content; empty at the initial launch.
    pub fn content(&self) -> &[u8] {
        let bytes = self.bytes();
        let length = u32::from_le_bytes(bytes[..LENGTH].try_into().unwrap()) as usize;
        &bytes[LENGTH..LENGTH + length]
    }

    /// Update: replaces the content, in a larger mapping if necessary.
    pub fn update(&mut self, content: &[u8]) {
        self.grow_mapping(LENGTH + content.len());
        // SAFETY: the mapping has that size, can be written, and belongs to this value alone.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.size) };
        bytes[..LENGTH].copy_from_slice(&(content.len() as u32).to_le_bytes());
        bytes[LENGTH..LENGTH + content.len()].copy_from_slice(content);
    }

    /// GrowMapping: to exactly this size, never to a smaller one.
    fn grow_mapping(&mut self, size: usize) {
        if size > self.size {
            self.unmap();
            self.address = map(&self.file, size);
            self.size = size;
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has that size, and nobody writes to it while this value is borrowed.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.size) }
    }

    fn unmap(&mut self) {
        // SAFETY: this value's own mapping; each caller drops or replaces the address.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.size) };
    }
}

impl Drop for MemoryMappedFile {
    fn drop(&mut self) {
        self.unmap();
    }
}

fn map(file: &File, size: usize) -> NonNull<u8> {
    file.set_len(size as u64).unwrap();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of an open file that has this size.
    let address = unsafe { libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(address, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    NonNull::new(address.cast()).unwrap()
}
