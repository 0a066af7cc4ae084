//! Description of a session, as the program gives it when it creates one.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vkstash_host::text::hex;
use vkstash_model::app_name::AppName;

/// Bytes that a cache keeps in memory if the program does not say.
pub const DEFAULT_IN_MEMORY_BYTES: u32 = 1 << 10;
/// Entries that a cache keeps in memory if the program does not say.
pub const DEFAULT_IN_MEMORY_ENTRIES: u32 = 128;
/// The largest value file if the program does not say, in bytes.
pub const DEFAULT_VALUE_FILE_BYTES: u32 = 128 << 20;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 16 << 20;

/// The identifier of a cache: a GUID's fields as Windows has them in memory (the first three little-endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The usual text, in lower case.
    pub(crate) fn text(&self) -> String {
        let Guid([a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, rest @ ..]) = *self;
        let (a, b) = (u32::from_le_bytes([a0, a1, a2, a3]), u16::from_le_bytes([b0, b1]));
        let (c, d) = (u16::from_le_bytes([c0, c1]), u16::from_be_bytes([d0, d1]));
        format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{}", hex(&rest))
    }
}

impl Guid {
    /// From [`Guid::text`].
    pub(crate) fn of_text(text: &str) -> Option<Guid> {
        let digits: String = text.chars().filter(|&digit| digit != '-').collect();
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        // The first three fields are numbers.
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        let guid = Guid(bytes);
        (guid.text() == text).then_some(guid)
    }
}

/// Where the entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In memory; they end with the last session.
    Memory,
    /// In files.
    Disk,
}

/// The description of a session. Zeros mean the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The cache.
    pub identifier: Guid,
    /// Where its entries are.
    pub mode: Mode,
    /// Each adapter has files of its own, and another driver wipes them.
    pub driver_versioned: bool,
    /// The files lie in the working directory.
    pub working_directory: bool,
    /// Largest number of bytes of keys and values in memory.
    pub maximum_in_memory_bytes: u32,
    /// Largest number of entries in memory.
    pub maximum_in_memory_entries: u32,
    /// Largest size of the value file.
    pub maximum_value_file_bytes: u32,
    /// Another version wipes the cache.
    pub version: u64,
}

/// The adapter and the driver of a driver-versioned cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// What identifies the device, whatever its driver.
    pub adapter: Vec<u8>,
    /// What identifies the driver and its version.
    pub driver: Vec<u8>,
}

impl Adapter {
    /// The part of the files' names.
    pub(crate) fn short_digest(&self) -> String {
        let digest = Sha256::new().chain_update(b"vkstash adapter 1").chain_update(&self.adapter).finalize();
        hex(&digest[..8])
    }

    /// What another driver has differently.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"vkstash driver 1");
        hash.update((self.adapter.len() as u64).to_le_bytes());
        hash.update(&self.adapter);
        hash.update(&self.driver);
        hash.finalize().into()
    }
}

/// The stash whose sessions are meant: that of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    application: String,
}

impl Place {
    /// The application's stash below `root`.
    pub fn new(root: &Path, application: &AppName) -> Place {
        Place { root: root.to_owned(), application: application.folder.clone() }
    }

    /// The folder of all stashes.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the application's folder.
    pub fn application(&self) -> &str {
        &self.application
    }
}

/// How much a cache may hold: a description without zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of keys and values in memory.
    pub(crate) bytes: usize,
    /// Entries in memory.
    pub(crate) entries: usize,
    /// Length of the value file.
    pub(crate) file: u64,
}

impl Limits {
    pub(crate) fn of(description: &Description) -> Limits {
        let or = |given: u32, default: u32| if given == 0 { default } else { given };
        Limits {
            bytes: or(description.maximum_in_memory_bytes, DEFAULT_IN_MEMORY_BYTES) as usize,
            entries: or(description.maximum_in_memory_entries, DEFAULT_IN_MEMORY_ENTRIES) as usize,
            file: u64::from(or(description.maximum_value_file_bytes, DEFAULT_VALUE_FILE_BYTES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_written_as_windows_writes_it() {
        let guid = Guid([
            0x67, 0x45, 0x23, 0x01, 0xab, 0x89, 0xef, 0xcd, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
        ]);
        assert_eq!(guid.text(), "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(Guid::of_text(&guid.text()), Some(guid));
        for other in ["", "01234567-89AB-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef", "é"] {
            assert_eq!(Guid::of_text(other), None, "{other}");
        }
    }
}
