//! Random numbers for names, and the time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// A random number that tells two names apart. The standard library has asked the system for random keys already; a
/// crate (getrandom, fastrand) would ask again.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
