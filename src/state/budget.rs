//! Bytes that are kept for the program's own caches: bounded for the whole process.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of either kind kept at a time. A 32-bit process has little address space, and none of it is
/// ours.
const MOST_BYTES: usize = if cfg!(target_pointer_width = "64") { 128 << 20 } else { 12 << 20 };

/// For remembered answers.
static ANSWERS: Budget = Budget::new(MOST_BYTES);
/// For what was compiled beside the program's caches: it must not crowd the answers out.
static COMPILED: Budget = Budget::new(MOST_BYTES);
/// For what companion caches take.
static COMPANIONS: Budget = Budget::new(MOST_BYTES);

/// Room for a number of bytes.
pub struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    /// With room for `most` bytes.
    pub const fn new(most: usize) -> Budget {
        Budget { taken: AtomicUsize::new(0), most }
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Bytes for which there was room; the room is given back with them.
pub struct Kept {
    bytes: Vec<u8>,
    budget: &'static Budget,
}

impl Kept {
    /// Keeps an answer, or gives it back where there is no room.
    pub fn answer(bytes: Vec<u8>) -> Result<Kept, Vec<u8>> {
        Kept::within(&ANSWERS, bytes)
    }

    /// Copies what was compiled, unless there is no room.
    pub fn compiled(bytes: &[u8]) -> Option<Kept> {
        COMPILED.take(bytes.len()).then(|| Kept { bytes: bytes.to_vec(), budget: &COMPILED })
    }

    fn within(budget: &'static Budget, bytes: Vec<u8>) -> Result<Kept, Vec<u8>> {
        if budget.take(bytes.len()) { Ok(Kept { bytes, budget }) } else { Err(bytes) }
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Room for bytes that somebody else keeps: a driver, in a cache of the layer's own.
pub struct Room {
    bytes: usize,
    budget: &'static Budget,
}

impl Room {
    /// In companion caches.
    pub fn in_companions(bytes: usize) -> Option<Room> {
        COMPANIONS.take(bytes).then_some(Room { bytes, budget: &COMPANIONS })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        static SMALL: Budget = Budget::new(10);
        let first = Kept::within(&SMALL, vec![1; 6]);
        assert!(first.is_ok());
        assert_eq!(Kept::within(&SMALL, vec![2; 5]).err(), Some(vec![2; 5]));
        assert!(Kept::within(&SMALL, vec![3; 4]).is_ok(), "given back at once");
        drop(first);
        assert!(Kept::within(&SMALL, vec![4; 10]).is_ok());
    }
}
