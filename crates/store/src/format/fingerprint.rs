//! Fingerprint of an artifact's data, by which equal artifacts are found.

use vkstash_model::same::{LEAST_DATA, data_of};

/// Checksum and length of an artifact's data. Artifacts with equal fingerprints are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    crc: u32,
    length: u32,
}

impl Fingerprint {
    /// `None`: the data is too short for a reference.
    pub(crate) fn of(payload: &[u8]) -> Option<Fingerprint> {
        let data = data_of(payload);
        let length = u32::try_from(data.len()).ok()?;
        (data.len() >= LEAST_DATA).then(|| Fingerprint { crc: crc32c::crc32c(data), length })
    }
}
