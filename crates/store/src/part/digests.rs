//! Data whose digest was verified in this process. Many references name the same artifact, whose data is then hashed
//! once.
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::table;
use vkstash_host::once::OnceLock;
use vkstash_model::same::{Same, data_of};

/// The number of digests that are remembered.
const SLOTS: usize = 256;

/// A number that differs for other targets and for other data: hashing covers every bit of both.
fn number_of(same: &Same) -> u64 {
    table::hash(0, &same.digest) ^ table::hash(1, &same.target)
}

/// Verified digests, in a table of fixed size without a lock. Data whose slot another digest has taken is hashed again.
#[derive(Default)]
pub(crate) struct Digests(OnceLock<Box<[AtomicU64]>>);

impl Digests {
    /// Turns the payload of the target into the payload of the artifact for which `same` stands. False: the data has
    /// another digest.
    pub(crate) fn complete(&self, same: &Same, payload: &mut [u8]) -> bool {
        // If the target was recorded again with other data, the data has another checksum.
        let seen = number_of(same) ^ u64::from(crc32c::crc32c(data_of(payload))) << 32;
        let slots = self.0.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        let slot = &slots[seen as usize % SLOTS];
        if seen != 0 && slot.load(Ordering::Relaxed) == seen {
            return same.complete_unchecked(payload);
        }
        let right = same.complete(payload);
        if right {
            slot.store(seen, Ordering::Relaxed);
        }
        right
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    #[test]
    fn data_that_was_hashed_once_is_known_and_no_other() {
        let digests = Digests::default();
        for number in 0..3 * SLOTS as u64 {
            let payload = [&[1; 8][..], &number.to_le_bytes(), &[7; 300]].concat();
            let same = Same::of(&payload, [9; 32]).unwrap();
            for _ in 0..3 {
                let mut theirs = payload.clone();
                theirs[..8].copy_from_slice(&[2; 8]);
                assert!(digests.complete(&same, &mut theirs));
                assert_eq!(theirs, payload);
                theirs[100] ^= 1;
                assert!(!digests.complete(&same, &mut theirs));
                assert!(!digests.complete(&same, &mut [0; 7]));
            }
        }
        assert_eq!(digests.0.get().map(|slots| slots.len()), Some(SLOTS));
    }
}
