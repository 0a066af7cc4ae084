//! Pipeline binaries and their data, which contains the pipeline's shape, so that wrong use is noticed.

use crate::hash::{Digest, digest};

/// Data of a binary: magic, key, shape of the pipeline, index, global key, code, and 32 bytes of checksum.
const MAGIC: [u8; 4] = *b"VPBD";
const CODE: usize = 64;
const SIZE: usize = 4 + 32 + 32 + 4 + 32 + CODE + 32;

/// A VkPipelineBinaryKHR.
#[derive(Debug)]
pub struct Binary {
    /// The binary's own key.
    pub key: Digest,
    /// The shape of its pipeline.
    pub shape: Digest,
    /// Its index among the pipeline's binaries.
    pub index: u32,
}

impl Binary {
    /// The binaries of a pipeline.
    pub fn all(key: &Digest, shape: &Digest, stages: u32) -> Vec<Binary> {
        let one = |index: u32| Binary {
            key: digest("binary", &[&key[..], &index.to_le_bytes()].concat()),
            shape: *shape,
            index,
        };
        (0..stages).map(one).collect()
    }

    /// Its data under a global key.
    pub fn data(&self, global: &Digest) -> Vec<u8> {
        let code = [digest("code", &self.key), digest("more code", &self.key)].concat();
        let mut data =
            [&MAGIC[..], &self.key, &self.shape, &self.index.to_le_bytes(), global, &code].concat();
        data.extend(digest("binary data", &data));
        data
    }

    /// Parses data, if it is complete and of this global key.
    pub fn parse(data: &[u8], global: &Digest) -> Option<Binary> {
        if data.len() != SIZE {
            return None;
        }
        let part = |at: usize| -> Digest { std::array::from_fn(|i| data[at + i]) };
        let index = u32::from_le_bytes(std::array::from_fn(|i| data[68 + i]));
        let binary = Binary { key: part(4), shape: part(36), index };
        (binary.data(global) == data).then_some(binary)
    }
}
