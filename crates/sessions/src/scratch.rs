//! A buffer of each thread for what is read from files, so that a find allocates nothing.

use std::cell::RefCell;

/// A buffer that has grown larger is given back after its use.
const KEPT: usize = 1 << 20;

thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

/// Runs `body` with an empty buffer. At the end of a thread, and inside another use, it is a new one.
pub(crate) fn with<R>(body: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let taken =
        BUFFER.try_with(|buffer| buffer.try_borrow_mut().map(|mut buffer| std::mem::take(&mut *buffer)));
    let mut buffer = taken.ok().and_then(Result::ok).unwrap_or_default();
    buffer.clear();
    let done = body(&mut buffer);
    if buffer.capacity() <= KEPT {
        let _ = BUFFER.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = buffer));
    }
    done
}
