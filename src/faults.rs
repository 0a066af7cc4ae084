//! Switches for the suites: panics on purpose, which show what becomes of the program where the layer fails in the
//! middle of a call, and decisions that do not depend on how busy the machine is. Builds without debug assertions, as
//! every release is, have none of them.

use std::time::Duration;

#[cfg(debug_assertions)]
use vkstash_host::once::OnceLock;
#[cfg(debug_assertions)]
use vkstash_host::sync::Mutex;

/// Panics where VKSTASH_TEST_PANIC names this place: `PLACE`, or `PLACE:N` for the N-th time that it is reached. Where
/// VKSTASH_TEST_HOLDS names it, the thread has a lock from now on.
#[cfg(debug_assertions)]
pub fn here(place: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static REACHED: AtomicU64 = AtomicU64::new(0);

    hold(place);
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

#[cfg(debug_assertions)]
fn hold(place: &str) {
    struct OnPurpose;
    static LOCK: Mutex<OnPurpose> = Mutex::new(OnPurpose);
    static WANTED: OnceLock<Option<String>> = OnceLock::new();

    if WANTED.get_or_init(|| std::env::var("VKSTASH_TEST_HOLDS").ok()).as_deref() == Some(place) {
        std::mem::forget(LOCK.try_lock());
    }
}

/// Panics on purpose at a named place in builds with debug assertions; here it does nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn here(_: &str) {}

/// A limit of time, or ten minutes where VKSTASH_TEST_UNHURRIED is set: then what the layer does, and what
/// suites count, is the same on a machine whose processors are all busy.
#[cfg(debug_assertions)]
pub fn time_limit(usual: Duration) -> Duration {
    if is_unhurried() { Duration::from_secs(600) } else { usual }
}

/// A time that something has taken, unless VKSTASH_TEST_UNHURRIED is set.
#[cfg(debug_assertions)]
pub fn measured(took: Duration) -> Option<Duration> {
    (!is_unhurried()).then_some(took)
}

#[cfg(debug_assertions)]
fn is_unhurried() -> bool {
    static IS_UNHURRIED: OnceLock<bool> = OnceLock::new();

    *IS_UNHURRIED.get_or_init(|| std::env::var_os("VKSTASH_TEST_UNHURRIED").is_some())
}

/// The usual time limit: tests change it only in builds with debug assertions.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn time_limit(usual: Duration) -> Duration {
    usual
}

/// The measured time, unchanged: tests change it only in builds with debug assertions.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn measured(took: Duration) -> Option<Duration> {
    Some(took)
}

/// Whether the machine is busy, which `look` says: as VKSTASH_TEST_BUSY has it (0 or 1), and not where
/// VKSTASH_TEST_UNHURRIED is set.
#[cfg(debug_assertions)]
pub fn is_busy(look: impl FnOnce() -> bool) -> bool {
    static WANTED: OnceLock<Option<bool>> = OnceLock::new();

    let wanted = *WANTED.get_or_init(|| match std::env::var_os("VKSTASH_TEST_BUSY") {
        Some(value) => Some(value == "1"),
        None => std::env::var_os("VKSTASH_TEST_UNHURRIED").map(|_| false),
    });
    wanted.unwrap_or_else(look)
}

/// Whether the machine is busy, as `look` finds it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn is_busy(look: impl FnOnce() -> bool) -> bool {
    look()
}

/// Whether memory is scarce, which `look` says, but for a process with VKSTASH_TEST_SCARCE: there it is, from the start
/// on.
#[cfg(debug_assertions)]
pub fn is_memory_scarce(look: impl FnOnce() -> bool) -> bool {
    is_to_be_scarce() || look()
}

/// How long until memory is looked at: no time with VKSTASH_TEST_SCARCE.
#[cfg(debug_assertions)]
pub fn until_memory(usual: Duration) -> Duration {
    if is_to_be_scarce() { Duration::ZERO } else { usual }
}

#[cfg(debug_assertions)]
fn is_to_be_scarce() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();

    *WANTED.get_or_init(|| std::env::var_os("VKSTASH_TEST_SCARCE").is_some())
}

/// Whether memory is scarce, as `look` finds it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn is_memory_scarce(look: impl FnOnce() -> bool) -> bool {
    look()
}

/// The usual time until memory is looked at.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn until_memory(usual: Duration) -> Duration {
    usual
}

/// Writes the name of what the calling thread has that another one can wait for to memory of `size` bytes, and says how
/// long it is; 0: there is nothing. The test driver asks in each of its commands, and before callbacks.
#[cfg(debug_assertions)]
#[unsafe(no_mangle)]
pub extern "C" fn vkstash_test_held(in_callback: bool, to: *mut u8, size: usize) -> usize {
    let name = vkstash_host::held::held(in_callback).unwrap_or_default();
    let length = name.len().min(size);
    if length > 0 {
        // SAFETY: the test driver passes memory of `size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), to, length) };
    }
    length
}

/// Has each lock told that a thread takes, with its name, from now on. Suites fork there.
#[cfg(debug_assertions)]
#[unsafe(no_mangle)]
pub extern "C" fn vkstash_test_observe(observer: extern "C" fn(*const u8, usize)) {
    static OBSERVER: OnceLock<extern "C" fn(*const u8, usize)> = OnceLock::new();
    let _ = OBSERVER.set(observer);
    vkstash_host::held::observe(|name| {
        if let Some(observer) = OBSERVER.get() {
            observer(name.as_ptr(), name.len());
        }
    });
}
