//! Switch that disables application-managed caches in this process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

static DISABLED: AtomicBool = AtomicBool::new(false);

pub(crate) fn set(disabled: bool) {
    DISABLED.store(disabled, Ordering::Relaxed);
}

pub(crate) fn is_off() -> bool {
    DISABLED.load(Ordering::Relaxed)
}

/// The answer while they are.
pub(crate) fn answer() -> Error {
    Error::NotCurrentlyAvailable("application-managed caches are disabled")
}
