//! Switches of the kinds of caches: the program disables them through the C API, the user in the settings.

use std::sync::atomic::{AtomicU32, Ordering};

pub use vkstash_store::settings::CacheKinds;

/// The kinds that the program has disabled, and above them those of the settings. One word, so that a look costs one
/// load.
static DISABLED: AtomicU32 = AtomicU32::new(0);
const SETTINGS: u32 = 16;

/// Whether one of these kinds is disabled.
pub fn is_off(kinds: CacheKinds) -> bool {
    let word = DISABLED.load(Ordering::Relaxed);
    CacheKinds(word | word >> SETTINGS).has(kinds)
}

/// Disables kinds for this process, or enables them again.
pub fn set(kinds: CacheKinds, disabled: bool) {
    let bits = kinds.0 & CacheKinds::ALL.0;
    match disabled {
        true => DISABLED.fetch_or(bits, Ordering::Relaxed),
        false => DISABLED.fetch_and(!bits, Ordering::Relaxed),
    };
}

/// Notes what the settings disable.
pub fn follow_settings(kinds: CacheKinds) {
    let bits = (kinds.0 & CacheKinds::ALL.0) << SETTINGS;
    let change = |word: u32| {
        let new = word & CacheKinds::ALL.0 | bits;
        (new != word).then_some(new)
    };
    // An error: nothing changes.
    let _ = DISABLED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_off_while_the_program_or_the_user_says_so() {
        // No other test of this program has a device that uses driver-managed caches.
        let kind = CacheKinds::DRIVER_MANAGED;
        assert!(!is_off(kind));
        set(kind, true);
        follow_settings(kind);
        assert!(is_off(kind) && !is_off(CacheKinds::COMPILATIONS));
        set(kind, false);
        assert!(is_off(kind), "the user says so");
        follow_settings(CacheKinds::NONE);
        assert!(!is_off(kind));
    }
}
