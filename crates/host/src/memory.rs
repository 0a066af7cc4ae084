//! Memory whose size a driver, a program or a file decides.
//!
//! An allocation that fails ends the process, which belongs to the program. So memory of such a size is reserved here,
//! where reserving may fail, and what is kept has a budget. `clippy.toml` forbids the usual ways in the modules that
//! work with drivers.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Budgets are smaller in a 32-bit process, whose address space the program needs.
pub const fn bounded(wide: usize, narrow: usize) -> usize {
    if cfg!(target_pointer_width = "64") { wide } else { narrow }
}

/// The largest piece of memory that is reserved. A driver that asks for more is not believed.
const LARGEST: usize = bounded(1 << 30, 64 << 20);

/// An empty list with room for `count` elements.
pub fn room<T>(count: usize) -> Option<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count).then_some(list)
}

/// Reserves room for `more` elements.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> bool {
    let bytes = list.len().checked_add(more).and_then(|count| count.checked_mul(size_of::<T>()));
    bytes.is_some_and(|bytes| bytes <= LARGEST) && list.try_reserve_exact(more).is_ok()
}

/// Appends zeros up to `length` elements. False: the list is unchanged.
pub fn lengthen<T: Clone + Default>(list: &mut Vec<T>, length: usize) -> bool {
    let there = reserve(list, length.saturating_sub(list.len()));
    if there && length > list.len() {
        list.resize(length, T::default());
    }
    there
}

/// The parts, one after the other, in exactly as much memory as they take.
pub fn joined(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let length = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()))?;
    let mut whole = room(length)?;
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    Some(whole)
}

/// A copy.
pub fn copied(bytes: &[u8]) -> Option<Vec<u8>> {
    joined(&[bytes])
}

/// A budget of bytes for the process.
pub struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    /// A budget of `most` bytes.
    pub const fn new(most: usize) -> Budget {
        Budget { taken: AtomicUsize::new(0), most }
    }

    /// Takes bytes from the budget until the result is dropped. None: there are not enough.
    pub fn take(&'static self, bytes: usize) -> Option<Taken> {
        let take = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Taken { budget: self, bytes })
    }
}

/// Bytes that are taken from a budget until this is dropped.
pub struct Taken {
    budget: &'static Budget,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_refused_and_what_is_not_is_there() {
        assert!(room::<u8>(usize::MAX).is_none() && room::<u64>(usize::MAX / 8).is_none());
        assert!(room::<u8>(LARGEST + 1).is_none() && room::<u64>(LARGEST / 8 + 1).is_none());
        assert_eq!(joined(&[b"one", b"", b"two"]).as_deref(), Some(&b"onetwo"[..]));
        assert_eq!(copied(&[7; 100]).map(|copy| copy.capacity()), Some(100), "no byte more than it takes");
        let mut buffer = b"abc".to_vec();
        assert!(!lengthen(&mut buffer, usize::MAX) && buffer == b"abc");
        assert!(lengthen(&mut buffer, 5) && buffer == b"abc\0\0");
        assert!(lengthen(&mut buffer, 2) && buffer == b"abc\0\0", "never shortened");
    }

    #[test]
    fn a_budget_is_never_overdrawn() {
        static SMALL: Budget = Budget::new(10);
        let six = SMALL.take(6);
        assert!(six.is_some() && SMALL.take(5).is_none() && SMALL.take(usize::MAX).is_none());
        assert!(SMALL.take(4).is_some(), "and given back at once");
        drop(six);
        assert!(SMALL.take(10).is_some());
    }
}
