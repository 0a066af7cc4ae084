//! The digests of the blobs that are pending for a cache of the program's. Drivers leave state out of their own keys,
//! so two recipes can be one entry of a driver's cache, and their blobs are equal then. Noted for programs that ask
//! where a pipeline came from.

use rustc_hash::FxHashSet;
use sha2::{Digest as _, Sha256};

use vkstash_store::base::sync::{Mutex, MutexGuard};

/// The first half of the SHA-256 of each of them: a wrong "hit" would be a lie to the program.
#[derive(Default)]
pub struct BlobDigests(Mutex<FxHashSet<[u8; 16]>>);

impl BlobDigests {
    /// This one is pending for the cache. Says whether it was already.
    pub fn note(&self, blob: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(blob).into();
        let (half, _) = digest.split_at(16);
        half.try_into().is_ok_and(|half| !self.entries().insert(half))
    }

    /// Takes over what is pending for another cache.
    pub fn merge_from(&self, source: &BlobDigests) {
        // One lock at a time: two threads may merge two caches into each other.
        let theirs: Vec<[u8; 16]> = source.entries().iter().copied().collect();
        self.entries().extend(theirs);
    }

    fn entries(&self) -> MutexGuard<'_, FxHashSet<[u8; 16]>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_pending_once_and_merges() {
        let (one, other) = (BlobDigests::default(), BlobDigests::default());
        assert!(!one.note(b"first") && one.note(b"first") && !one.note(b"second"));
        other.merge_from(&one);
        assert!(other.note(b"first") && other.note(b"second") && !other.note(b"third"));
    }
}
