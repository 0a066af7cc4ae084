//! Artifacts whose data another artifact has: the payload of a record that stands for one (docs/format.md, "Equal
//! artifacts").

use sha2::{Digest, Sha256};

use crate::format::record::Key;
use crate::format::table;

/// What stands in front of the data in an artifact's payload.
pub(crate) const PREFIX_BYTES: usize = 8;
/// The payload of a record of [`crate::format::record::Kind::Same`].
const SAME_BYTES: usize = PREFIX_BYTES + 32 + 32;
/// Shorter data is stored for itself: a record that names it is as long.
const LEAST_DATA: usize = 2 * SAME_BYTES;

/// Stands for an artifact with the data of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Same {
    /// The first bytes of this artifact's own payload.
    prefix: [u8; PREFIX_BYTES],
    /// The key of the artifact that has the data.
    pub target: Key,
    /// SHA-256 of the data.
    digest: [u8; 32],
}

impl Same {
    /// For an artifact with this payload, whose data the artifact `target` has. `None`: a payload that has no data.
    pub(crate) fn of(payload: &[u8], target: Key) -> Option<Same> {
        let (prefix, data) = payload.split_first_chunk()?;
        Some(Same { prefix: *prefix, target, digest: Sha256::digest(data).into() })
    }

    /// The same reference to another artifact with the same data.
    pub(crate) fn with_target(self, target: Key) -> Same {
        Same { target, ..self }
    }

    /// The record's payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.prefix[..], &self.target, &self.digest].concat()
    }

    /// `None` for a payload of another length.
    pub fn decode(payload: &[u8]) -> Option<Same> {
        let payload: &[u8; SAME_BYTES] = payload.try_into().ok()?;
        let (prefix, rest) = payload.split_first_chunk()?;
        let (target, digest) = rest.split_first_chunk()?;
        Some(Same { prefix: *prefix, target: *target, digest: digest.try_into().ok()? })
    }

    /// Turns the payload of the target's artifact record into that of this artifact. False: its data is another.
    pub fn complete(&self, payload: &mut [u8]) -> bool {
        let fits = |data: &[u8]| Sha256::digest(data)[..] == self.digest;
        payload.get(PREFIX_BYTES..).is_some_and(fits) && self.complete_unchecked(payload)
    }

    /// The same for data that is known to have the digest.
    pub(crate) fn complete_unchecked(&self, payload: &mut [u8]) -> bool {
        payload.first_chunk_mut().map(|prefix| *prefix = self.prefix).is_some()
    }

    /// Tells the target and its data apart from others.
    pub(crate) fn fingerprint(&self) -> u64 {
        // Every bit of both counts.
        table::hash(0, &self.digest) ^ table::hash(1, &self.target)
    }
}

/// Tells most data apart: checksum and length. Artifacts with equal ones are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    crc: u32,
    length: u32,
}

impl Fingerprint {
    /// Of an artifact's data. `None`: so little that it is not worth a reference.
    pub(crate) fn of(payload: &[u8]) -> Option<Fingerprint> {
        let data = data_of(payload);
        let length = u32::try_from(data.len()).ok()?;
        (data.len() >= LEAST_DATA).then(|| Fingerprint { crc: crc32c::crc32c(data), length })
    }
}

/// An artifact's payload without its prefix.
pub(crate) fn data_of(payload: &[u8]) -> &[u8] {
    payload.get(PREFIX_BYTES..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    #[test]
    fn a_reference_gives_the_payload_back_and_no_other() {
        let mine = [[1; 8].as_slice(), &[7; 300]].concat();
        let mut theirs = [[2; 8].as_slice(), &[7; 300]].concat();
        let same = Same::of(&mine, [9; 32]).unwrap();
        assert_eq!(Same::decode(&same.encode()).as_ref(), Some(&same));
        assert!(same.complete(&mut theirs));
        assert_eq!(theirs, mine);
        for changed in 8..308 {
            let mut other = mine.clone();
            other[changed] ^= 1;
            assert!(!same.complete(&mut other));
        }
        assert!(!same.complete(&mut mine[..307].to_vec()));
        assert!(!same.complete(&mut [0; 7]));
        assert_eq!(Same::decode(&same.encode()[..71]), None);
        assert_eq!(Same::of(&[0; 7], [9; 32]), None);
    }
}
