//! Bytes that are kept for the program's caches: bounded for the whole process.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::ops::Deref;

use vkstash_store::base::memory::{Budget, Taken, bounded, copied};

/// For remembered data of the program's own caches.
static ANSWERS: Budget = Budget::new(bounded(128 << 20, 12 << 20));
/// For what was compiled beside the program's own caches. A budget of its own, so that the other one is not used up.
static COMPILED: Budget = Budget::new(bounded(128 << 20, 12 << 20));
/// For companion caches.
static COMPANIONS: Budget = Budget::new(bounded(128 << 20, 12 << 20));

/// Bytes for which there was room; the room is given back with them.
pub struct BudgetedBytes {
    bytes: Vec<u8>,
    _room: Taken,
}

impl BudgetedBytes {
    /// Keeps an answer, or gives it back where there is no room.
    pub fn answer(bytes: Vec<u8>) -> Result<BudgetedBytes, Vec<u8>> {
        BudgetedBytes::within(&ANSWERS, bytes)
    }

    /// Copies what was compiled, unless there is no room.
    pub fn compiled(bytes: &[u8]) -> Option<BudgetedBytes> {
        let room = COMPILED.take(bytes.len())?;
        copied(bytes).map(|bytes| BudgetedBytes { bytes, _room: room })
    }

    fn within(budget: &'static Budget, bytes: Vec<u8>) -> Result<BudgetedBytes, Vec<u8>> {
        match budget.take(bytes.len()) {
            Some(room) => Ok(BudgetedBytes { bytes, _room: room }),
            None => Err(bytes),
        }
    }
}

impl Deref for BudgetedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Room for bytes that a driver keeps, in a cache of the layer's.
pub struct Room(#[expect(dead_code, reason = "given back when it is dropped")] Taken);

impl Room {
    /// Takes room for the bytes of companion caches.
    pub fn in_companions(bytes: usize) -> Option<Room> {
        COMPANIONS.take(bytes).map(Room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        static SMALL: Budget = Budget::new(10);
        let first = BudgetedBytes::within(&SMALL, vec![1; 6]);
        assert!(first.is_ok());
        assert_eq!(BudgetedBytes::within(&SMALL, vec![2; 5]).err(), Some(vec![2; 5]));
        assert!(BudgetedBytes::within(&SMALL, vec![3; 4]).is_ok(), "given back at once");
        drop(first);
        assert!(BudgetedBytes::within(&SMALL, vec![4; 10]).is_ok());
    }
}
