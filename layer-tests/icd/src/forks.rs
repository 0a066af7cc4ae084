//! A fork waits until no other thread is in a command: a child would find the driver's own locks held for ever, and
//! suites that fork look for those of the layer.

use std::cell::{Cell, RefCell};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// Commands may be held up for ever by a script.
const LONGEST: Duration = Duration::from_secs(5);

static IN_COMMANDS: RwLock<()> = RwLock::new(());

thread_local! {
    /// Commands that this thread is in: callbacks of the program's call others.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static FORKING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A thread is in a command until this is dropped.
pub struct Entered(#[expect(dead_code, reason = "held")] Option<RwLockReadGuard<'static, ()>>);

/// The calling thread begins a command.
pub fn enter() -> Entered {
    let depth = DEPTH.replace(DEPTH.get() + 1);
    let is_first = depth == 0 && FORKING.with_borrow(Option::is_none);
    Entered(is_first.then(|| IN_COMMANDS.read().unwrap_or_else(PoisonError::into_inner)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

extern "C" fn before() {
    let began = Instant::now();
    while DEPTH.get() == 0 && began.elapsed() < LONGEST {
        match IN_COMMANDS.try_write() {
            Ok(alone) => return FORKING.set(Some(alone)),
            Err(TryLockError::Poisoned(alone)) => return FORKING.set(Some(alone.into_inner())),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// In the parent, and in the child.
extern "C" fn after() {
    FORKING.set(None);
}

/// Installs the handlers, once.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers unwind nowhere, and the library stays mapped (build.rs).
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
}
