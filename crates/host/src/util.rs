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

/// A recorded time, for ordering it among others. One in the future comes before all, as 0: the clock was wrong then,
/// or is now, so it does not show that something else is older.
pub fn believed(time: u64, now: u64) -> u64 {
    if time > now { 0 } else { time }
}

/// The latest of some recorded times. One in the future is none, unless all are: what has it has no age.
pub fn latest(times: impl IntoIterator<Item = u64> + Clone, now: u64) -> u64 {
    let known = times.clone().into_iter().map(|time| believed(time, now)).max().unwrap_or(0);
    if known > 0 { known } else { times.into_iter().max().unwrap_or(0) }
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
