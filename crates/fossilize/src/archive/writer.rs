//! Writes an archive.

use std::collections::HashSet;
use std::io::Write;

use super::error::WriteError;
use super::inflate::deflate;
use super::layout::{self, Compression, MAGIC, MAX_PAYLOAD, PayloadHeader, VERSION};
use super::tag::Tag;

/// A new archive. The same entries in the same order give the same bytes.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    written: HashSet<(Tag, u64)>,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Begins an archive: the first 16 bytes are written.
    pub fn new(mut output: W) -> Result<Self, WriteError> {
        output.write_all(&MAGIC)?;
        output.write_all(&[VERSION])?;
        Ok(Self { output, written: HashSet::new(), failed: false })
    }

    /// Writes an entry, compressed if that makes it smaller; in one call of the output's, so that few are cut when a
    /// process dies. False, and nothing is written, if the archive has an entry of this tag and hash.
    pub fn write(&mut self, tag: Tag, hash: u64, payload: &[u8]) -> Result<bool, WriteError> {
        if self.failed {
            return Err(WriteError::Failed);
        }
        let too_large = || WriteError::TooLarge(payload.len());
        let size = u32::try_from(payload.len()).map_err(|_| too_large())?;
        if size > MAX_PAYLOAD {
            return Err(too_large());
        }
        if self.written.contains(&(tag, hash)) {
            return Ok(false);
        }
        let deflated = deflate(payload)?;
        let (compression, stored) = if deflated.len() < payload.len() {
            (Compression::Zlib, deflated.as_slice())
        } else {
            (Compression::None, payload)
        };
        let header = PayloadHeader {
            // Not larger than the payload.
            stored: stored.len() as u32,
            flags: compression.flags(),
            crc: crc32fast::hash(stored),
            size,
        };
        let entry = [layout::name(tag, hash).as_bytes(), &header.to_bytes(), stored].concat();
        self.output.write_all(&entry).inspect_err(|_| self.failed = true)?;
        self.written.insert((tag, hash));
        Ok(true)
    }

    /// Flushes the output and returns it.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if self.failed {
            return Err(WriteError::Failed);
        }
        self.output.flush()?;
        Ok(self.output)
    }
}
