//! Random numbers for names, the time, and locks that outlive a panic.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// A random number, good enough to keep two names apart. The standard library has asked the system for the keys already; a
/// crate (getrandom, fastrand) would ask again.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Locks, also after a panic elsewhere: what is behind these locks is whole at any time.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
