//! Panics on purpose, for the suites: what becomes of the program where the layer fails in the middle of a call. Builds
//! without debug assertions, as every release is, have none of it.

/// Panics where VKSTASH_TEST_PANIC names this place: `PLACE`, or `PLACE:N` for the N-th time that it is reached.
#[cfg(debug_assertions)]
pub fn here(place: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static REACHED: AtomicU64 = AtomicU64::new(0);

    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("VKSTASH_TEST_PANIC").ok()?;
        match text.split_once(':') {
            Some((place, number)) => Some((place.to_owned(), number.parse().ok()?)),
            None => Some((text, 1)),
        }
    });
    if wanted.as_ref().is_some_and(|(wanted, number)| {
        wanted == place && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == *number
    }) {
        panic!("on purpose: {place}");
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn here(_: &str) {}
