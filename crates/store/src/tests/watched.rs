//! The memory that a test asks for: at once, because no memory may be taken for a length in a file before its bytes
//! were read; and in all, because nothing may grow in a long run.

#![allow(dead_code, reason = "the tests of the store and of the layer each use some of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// The largest piece of memory that this thread has asked for.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// Bytes that this thread has asked for, less those that it has given back.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Watched;

fn watch(size: usize) {
    // At the end of a thread its local storage is gone.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
    hold(size as isize);
}

fn hold(more: isize) {
    let _ = HELD.try_with(|held| held.set(held.get() + more));
}

// SAFETY: everything is done by the system's allocator; the tally beside it allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        watch(layout.size());
        // SAFETY: the caller of `alloc` passes a layout whose size is not 0.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        // SAFETY: the caller passes a block that this allocator, and so `System`, gave out with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        watch(size);
        hold(-(layout.size() as isize));
        // SAFETY: the caller passes a block that this allocator, and so `System`, gave out with this layout, and a size
        // that is not 0.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

/// Starts the measurement.
pub fn forget() {
    LARGEST.set(0);
}

/// The largest piece that this thread has asked for since [`forget`], in bytes.
pub fn largest() -> usize {
    LARGEST.get()
}

/// Bytes that this thread holds of what it has asked for.
pub fn held() -> isize {
    HELD.get()
}
