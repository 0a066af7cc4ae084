//! The digests of the blobs that are pending for a cache of the program's. Drivers leave state out of their own keys,
//! so two recipes can be one entry of a driver's cache, and their blobs are equal then. Noted for programs that ask
//! where a pipeline came from.

use rustc_hash::FxHashSet;
use sha2::{Digest as _, Sha256};

use vkstash_host::sync::{Mutex, MutexGuard};

/// The first half of the SHA-256 of a blob: a wrong "hit" would be a lie to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobDigest([u8; 16]);

impl BlobDigest {
    /// Of a blob.
    pub fn of(blob: &[u8]) -> BlobDigest {
        let digest: [u8; 32] = Sha256::digest(blob).into();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        BlobDigest(half)
    }
}

/// Those that are pending for one cache.
#[derive(Default)]
pub struct BlobDigests(Mutex<FxHashSet<BlobDigest>>);

impl BlobDigests {
    /// This one is pending for the cache. Says whether it was already.
    pub fn note(&self, digest: BlobDigest) -> bool {
        !self.entries().insert(digest)
    }

    /// Takes over what is pending for another cache.
    pub fn merge_from(&self, source: &BlobDigests) {
        // One lock at a time: two threads may merge two caches into each other.
        let theirs: Vec<BlobDigest> = source.entries().iter().copied().collect();
        self.entries().extend(theirs);
    }

    fn entries(&self) -> MutexGuard<'_, FxHashSet<BlobDigest>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_pending_once_and_merges() {
        let (one, other) = (BlobDigests::default(), BlobDigests::default());
        let [first, second, third] = [b"first" as &[u8], b"second", b"third"].map(BlobDigest::of);
        assert!(!one.note(first) && one.note(first) && !one.note(second));
        other.merge_from(&one);
        assert!(other.note(first) && other.note(second) && !other.note(third));
    }
}
