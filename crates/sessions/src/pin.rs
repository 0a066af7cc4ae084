//! Guards of the map in memory. Those of its crate need thread-local storage, which is gone in exit handlers and at the end
//! of threads; a guard with a number of its own is taken then.
#![allow(unsafe_code, reason = "the trait of guards has an unsafe method")]

use papaya::{Guard, HashMap, LocalGuard, OwnedGuard};
use seize::Collector;

thread_local! {
    /// Its destructor tells that thread-local storage is gone. The crate's own guard is used before this is registered, so
    /// this one's destructor runs before the crate's, and never finds that half gone.
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

/// What keeps entries where they are while a thread reads them.
pub(crate) enum Pin<'a> {
    Usual(LocalGuard<'a>),
    /// Without thread-local storage.
    Late(OwnedGuard<'a>),
}

/// Keeps the entries of the map where they are until the result is dropped.
pub(crate) fn enter<K, V, S>(map: &HashMap<K, V, S>) -> Pin<'_> {
    if has_locals() { Pin::Usual(map.guard()) } else { Pin::Late(map.owned_guard()) }
}

impl Guard for Pin<'_> {
    fn refresh(&mut self) {
        match self {
            Pin::Usual(guard) => guard.refresh(),
            Pin::Late(guard) => guard.refresh(),
        }
    }

    fn flush(&self) {
        match self {
            Pin::Usual(guard) => guard.flush(),
            Pin::Late(guard) => guard.flush(),
        }
    }

    fn collector(&self) -> &Collector {
        match self {
            Pin::Usual(guard) => guard.collector(),
            Pin::Late(guard) => guard.collector(),
        }
    }

    /// The map only spreads its count of entries with it.
    fn thread_id(&self) -> usize {
        match self {
            Pin::Usual(guard) => guard.thread_id(),
            Pin::Late(_) => 0,
        }
    }

    unsafe fn defer_retire<T>(&self, pointer: *mut T, reclaim: unsafe fn(*mut T, &Collector)) {
        // SAFETY: the caller's promise to this method is that of the method which is called.
        unsafe {
            match self {
                Pin::Usual(guard) => guard.defer_retire(pointer, reclaim),
                Pin::Late(guard) => guard.defer_retire(pointer, reclaim),
            }
        }
    }
}
