//! The one place where panics end: nothing unwinds into the loader, the driver or the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log;

/// Runs `body`; if it panics, `fallback` decides what the program gets. State behind the panic is either
/// atomic, behind a lock that tolerates poisoning, or local, so going on is safe.
pub fn guard<R>(command: &'static str, body: impl FnOnce() -> R, fallback: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        // Logging is code too; a panic in here would abort the program.
        let _ = catch_unwind(|| {
            log::init();
            tracing::error!("internal failure in {command}; the driver gets the call");
        });
        fallback()
    })
}

/// Whether this thread's local storage is gone: exit handlers of programs that keep their device in a global
/// object run after it. What needs thread-local storage must not be touched any more; calls are passed
/// through.
pub fn is_late() -> bool {
    struct Alive;
    impl Drop for Alive {
        fn drop(&mut self) {}
    }
    thread_local!(static ALIVE: Alive = const { Alive });
    ALIVE.try_with(|_| ()).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_in_the_fallback() {
        assert_eq!(guard("test", || 1, || 2), 1);
        assert_eq!(guard("test", || panic!("on purpose"), || 2), 2);
    }
}
