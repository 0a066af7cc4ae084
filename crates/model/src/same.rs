//! References to artifacts with equal data: the payload of [`crate::record::Kind::Same`] (docs/format.md,
//! "Equal artifacts").

use sha2::{Digest, Sha256};

use crate::record::Key;

/// Bytes before the data in the payload of an artifact.
pub const PREFIX_BYTES: usize = 8;
/// Length of the payload of a reference.
const SAME_BYTES: usize = PREFIX_BYTES + 32 + 32;
/// Shorter data is not replaced by a reference, which would save too little.
pub const LEAST_DATA: usize = 2 * SAME_BYTES;

/// A reference: stands for an artifact that has the data of its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Same {
    /// The first bytes of the payload of the artifact that this stands for.
    prefix: [u8; PREFIX_BYTES],
    /// The key of the artifact with the data.
    pub target: Key,
    /// SHA-256 of the data.
    pub digest: [u8; 32],
}

impl Same {
    /// A reference for an artifact with this payload. `None`: the payload is shorter than its prefix.
    pub fn of(payload: &[u8], target: Key) -> Option<Same> {
        let (prefix, data) = payload.split_first_chunk()?;
        Some(Same { prefix: *prefix, target, digest: Sha256::digest(data).into() })
    }

    /// A reference to another target with the same data.
    pub fn with_target(self, target: Key) -> Same {
        Same { target, ..self }
    }

    /// The record's payload.
    pub fn encode(&self) -> Vec<u8> {
        [&self.prefix[..], &self.target, &self.digest].concat()
    }

    /// `None`: a payload of another length.
    pub fn decode(payload: &[u8]) -> Option<Same> {
        let payload: &[u8; SAME_BYTES] = payload.try_into().ok()?;
        let (prefix, rest) = payload.split_first_chunk()?;
        let (target, digest) = rest.split_first_chunk()?;
        Some(Same { prefix: *prefix, target: *target, digest: digest.try_into().ok()? })
    }

    /// Turns the target's payload into the payload of the artifact that this stands for. False: the data has another
    /// digest.
    pub fn complete(&self, payload: &mut [u8]) -> bool {
        let fits = |data: &[u8]| Sha256::digest(data)[..] == self.digest;
        payload.get(PREFIX_BYTES..).is_some_and(fits) && self.complete_unchecked(payload)
    }

    /// [`Same::complete`] for data whose digest is known.
    pub fn complete_unchecked(&self, payload: &mut [u8]) -> bool {
        payload.first_chunk_mut().map(|prefix| *prefix = self.prefix).is_some()
    }
}

/// The data in an artifact's payload.
pub fn data_of(payload: &[u8]) -> &[u8] {
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
