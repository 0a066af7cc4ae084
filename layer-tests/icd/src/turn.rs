//! A driver that creates pipelines on one thread at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::record::Call;

static TURN: Mutex<()> = Mutex::new(());
/// The thread that may create pipelines now, or did so last.
static HOLDER: AtomicU64 = AtomicU64::new(0);

/// Waits until no other thread is creating pipelines, and records for whom it has waited.
pub fn take(call: &mut Call) -> MutexGuard<'static, ()> {
    let turn = match TURN.try_lock() {
        Ok(turn) => turn,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            call.waited_for = Some(HOLDER.load(Ordering::SeqCst));
            TURN.lock().unwrap_or_else(PoisonError::into_inner)
        }
    };
    HOLDER.store(call.thread, Ordering::SeqCst);
    turn
}
