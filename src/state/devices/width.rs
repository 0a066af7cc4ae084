//! Width of a driver: how many threads at a time enter it with calls that are served from an artifact.
//!
//! A driver whose warm path holds one lock makes every thread that waits for the lock slower. If fewer threads are let
//! in, all of them may be done sooner (docs/evidence/measurements.md). On other drivers nobody waits here.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use crate::state::process::held;
use vkstash_host::held::HeldInDriver;
use vkstash_host::sync::{Condvar, Mutex, MutexGuard};
/// The way into one driver.
#[derive(Debug, Default)]
pub struct Width {
    /// The most threads inside; None: any number.
    most: Option<u32>,
    inside: Mutex<u32>,
    left: Condvar,
}

/// Held while a thread is inside.
#[must_use]
pub struct Inside<'a>(Option<(&'a Width, HeldInDriver)>);

impl Width {
    /// A way for so many threads at a time.
    pub fn new(most: Option<u32>) -> Width {
        Width { most: most.filter(|&most| most > 0), ..Width::default() }
    }

    /// Waits until there is room.
    pub fn enter(&self) -> Inside<'_> {
        let Some(most) = self.most else { return Inside(None) };
        let mut inside = self.inside();
        while *inside >= most {
            inside = self.left.wait(inside);
        }
        *inside += 1;
        Inside(Some((self, held::WIDTH.hold())))
    }

    fn inside(&self) -> MutexGuard<'_, u32> {
        self.inside.lock()
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some((width, _)) = &self.0 {
            *width.inside() -= 1;
            width.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_more_threads_are_inside_than_fit_and_all_get_in() {
        for most in [None, Some(1), Some(3)] {
            let (width, inside, seen) = (Width::new(most), AtomicU32::new(0), AtomicU32::new(0));
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            let _inside = width.enter();
                            seen.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            assert!(seen.into_inner() <= most.unwrap_or(8));
        }
    }
}
