//! The writer and the helper as other threads see them: whether they run, and how to wake and join them.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};

use crate::base::thread;
use crate::base::util::lock;

const NOT_STARTED: u8 = 0;
const STARTING: u8 = 1;
const RUNNING: u8 = 2;
const GONE: u8 = 3;
const FAILED: u8 = 4;
/// Everything is written and sealed. Merging may go on.
const WRITTEN: u8 = 5;

/// The writer as other threads see it.
#[derive(Default)]
pub(crate) struct WriterThread {
    state: AtomicU8,
    thread: OnceLock<Thread>,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl WriterThread {
    /// Whether no thread has tried to start it.
    pub(crate) fn is_not_started(&self) -> bool {
        self.state.load(Ordering::Acquire) == NOT_STARTED
    }

    /// Starts the thread, once.
    pub(crate) fn start(&self, spawn: impl FnOnce() -> Option<JoinHandle<()>>) {
        let claim = self.state.compare_exchange(NOT_STARTED, STARTING, Ordering::SeqCst, Ordering::SeqCst);
        if claim.is_err() {
            return;
        }
        let state = match spawn() {
            Some(handle) => {
                // The thread that wins the exchange above is the only one to set it.
                let _ = self.thread.set(handle.thread().clone());
                *lock(&self.join) = Some(handle);
                RUNNING
            }
            None => FAILED,
        };
        // The new thread may have ended already.
        let _ = self.state.compare_exchange(STARTING, state, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Ends a sleep.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whether the thread takes records.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), STARTING | RUNNING)
    }

    /// Whether the thread takes no records any more, or never started.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), NOT_STARTED | WRITTEN | GONE | FAILED)
    }

    /// Whether the thread has ended, or never started.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), NOT_STARTED | GONE | FAILED)
    }

    /// Whether the system refused the thread, or it panicked.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// Whether the caller is this thread.
    pub(crate) fn is_me(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    /// The handle, for the one thread that joins it. `None`: it was taken, or there is no thread.
    pub(crate) fn take_to_join(&self) -> Option<JoinHandle<()>> {
        while self.state.load(Ordering::SeqCst) == STARTING {
            std::thread::yield_now();
        }
        lock(&self.join).take()
    }

    /// For the writer: everything is written.
    pub(crate) fn set_written(&self) {
        self.state.store(WRITTEN, Ordering::SeqCst);
    }

    /// For the writer: it ends, after a panic if not `in_order`.
    pub(crate) fn ends(&self, in_order: bool) {
        self.state.store(if in_order { GONE } else { FAILED }, Ordering::SeqCst);
    }

    /// For a forked child, which does not have the thread: the handle must not be dropped.
    pub(crate) fn forget(&self) {
        if let Ok(mut join) = self.join.try_lock() {
            std::mem::forget(join.take());
        }
    }
}

/// The helper as other threads see it.
#[derive(Default)]
pub(crate) struct HelperThread {
    busy: AtomicBool,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl HelperThread {
    /// Whether it runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// For the writer: starts the thread. `body` calls [`HelperThread::set_done`] at its end. False: the system refuses
    /// the thread.
    pub(crate) fn start(&self, body: impl FnOnce() + Send + 'static) -> bool {
        self.join();
        self.busy.store(true, Ordering::Release);
        let handle = thread::spawn("vkstash-helper", body);
        let started = handle.is_some();
        if !started {
            self.set_done();
        }
        *lock(&self.join) = handle;
        started
    }

    /// For the helper: it ends.
    pub(crate) fn set_done(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Joins the thread if it has ended. Otherwise it goes on, detached.
    pub(crate) fn join(&self) {
        let handle = lock(&self.join).take();
        if let Some(handle) = handle.filter(|_| !self.is_busy()) {
            // The thread's body catches panics.
            let _ = handle.join();
        }
    }

    /// For a forked child, which does not have the thread: the handle must not be dropped.
    pub(crate) fn forget(&self) {
        if let Ok(mut join) = self.join.try_lock() {
            std::mem::forget(join.take());
        }
    }
}
