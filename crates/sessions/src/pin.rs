//! Guards of the map in memory. Those of its crate need thread-local storage, which is gone in exit handlers and at the
//! end of threads; a guard with a number of its own is taken then.
#![allow(unsafe_code, reason = "the trait of guards has an unsafe method")]

use std::sync::atomic::{AtomicU64, Ordering};

use papaya::{Guard, HashMap, LocalGuard, OwnedGuard};
use seize::Collector;

thread_local! {
    /// Its destructor tells that thread-local storage is gone. The crate's own guard is used before this is registered,
    /// so this one's destructor runs before the crate's, and never finds that half gone.
    static ALIVE: Alive = {
        drop(Collector::new().enter());
        Alive
    };
}

struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

/// Whether this thread still has its thread-local storage. Log lines need it.
pub(crate) fn has_locals() -> bool {
    ALIVE.try_with(|_| ()).is_ok()
}

/// Whether to say what may happen again and again: the first time, the second, the fourth and so on. A program that
/// clears a session in a loop must not fill a log with it.
pub(crate) fn is_worth_a_line(times: &AtomicU64) -> bool {
    (times.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() && has_locals()
}

/// What keeps entries where they are while a thread reads them.
pub(crate) enum Pin<'a> {
    Usual(LocalGuard<'a>),
    /// Without thread-local storage.
    Owned(OwnedGuard<'a>),
}

/// Keeps the entries of the map where they are until the result is dropped.
pub(crate) fn enter<K, V, S>(map: &HashMap<K, V, S>) -> Pin<'_> {
    if has_locals() { Pin::Usual(map.guard()) } else { Pin::Owned(map.owned_guard()) }
}

impl Guard for Pin<'_> {
    fn refresh(&mut self) {
        match self {
            Pin::Usual(guard) => guard.refresh(),
            Pin::Owned(guard) => guard.refresh(),
        }
    }

    fn flush(&self) {
        match self {
            Pin::Usual(guard) => guard.flush(),
            Pin::Owned(guard) => guard.flush(),
        }
    }

    fn collector(&self) -> &Collector {
        match self {
            Pin::Usual(guard) => guard.collector(),
            Pin::Owned(guard) => guard.collector(),
        }
    }

    /// The map only spreads its count of entries with it.
    fn thread_id(&self) -> usize {
        match self {
            Pin::Usual(guard) => guard.thread_id(),
            Pin::Owned(_) => 0,
        }
    }

    unsafe fn defer_retire<T>(&self, pointer: *mut T, reclaim: unsafe fn(*mut T, &Collector)) {
        // SAFETY: the caller promises that `pointer` is retired once and that no new reader can reach it, which is what
        // both guards' methods need.
        unsafe {
            match self {
                Pin::Usual(guard) => guard.defer_retire(pointer, reclaim),
                Pin::Owned(guard) => guard.defer_retire(pointer, reclaim),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_in_a_loop_is_said_a_few_times() {
        let times = AtomicU64::new(0);
        assert_eq!((0..10_000).filter(|_| is_worth_a_line(&times)).count(), 14);
    }
}
