//! A fork waits until no other thread is in a command: a child would find the driver's own locks held for ever, and
//! suites that fork look for those of the layer.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Commands may be held up for ever by a script.
const LONGEST: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_micros(100);

/// Threads in commands.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// A thread forks.
static IS_FORKING: AtomicBool = AtomicBool::new(false);

thread_local! {
    // They need no destructors: exit handlers call commands, too.
    /// Commands that this thread is in: callbacks of the program's call others.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// A thread is in a command until this is dropped.
pub struct Entered(());

/// The calling thread begins a command.
pub fn enter() -> Entered {
    let depth = DEPTH.replace(DEPTH.get() + 1);
    if depth == 0 {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        while IS_FORKING.load(Ordering::SeqCst) && !FORKS.get() {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
            INSIDE.fetch_add(1, Ordering::SeqCst);
        }
    }
    Entered(())
}

impl Drop for Entered {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

extern "C" fn before() {
    let (began, own) = (Instant::now(), usize::from(DEPTH.get() > 0));
    FORKS.set(true);
    IS_FORKING.store(true, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > own && began.elapsed() < LONGEST {
        std::thread::sleep(PAUSE);
    }
}

extern "C" fn after_in_parent() {
    IS_FORKING.store(false, Ordering::SeqCst);
    FORKS.set(false);
}

extern "C" fn after_in_child() {
    INSIDE.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
    after_in_parent();
}

/// Installs the handlers, once.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers unwind nowhere, and the library stays mapped (build.rs).
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}
