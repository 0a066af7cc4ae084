//! The two threads of a stash as its parts and the program's threads see them. What they do is not known here.

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
/// Everything is written and sealed; there may be something to merge.
const WRITTEN: u8 = 5;

/// The writer thread as the others see it.
#[derive(Default)]
pub(crate) struct WriterThread {
    state: AtomicU8,
    thread: OnceLock<Thread>,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl WriterThread {
    /// Whether nobody has tried to start it.
    pub(crate) fn is_not_started(&self) -> bool {
        self.state.load(Ordering::Acquire) == NOT_STARTED
    }

    /// Starts the thread unless that has been done.
    pub(crate) fn start(&self, spawn: impl FnOnce() -> Option<JoinHandle<()>>) {
        let claim = self.state.compare_exchange(NOT_STARTED, STARTING, Ordering::SeqCst, Ordering::SeqCst);
        if claim.is_err() {
            return;
        }
        let state = match spawn() {
            Some(handle) => {
                // Set once: only the winner of the exchange above gets here.
                let _ = self.thread.set(handle.thread().clone());
                *lock(&self.join) = Some(handle);
                RUNNING
            }
            None => FAILED,
        };
        // The thread may have failed already.
        let _ = self.state.compare_exchange(STARTING, state, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Ends a sleep.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whether there is a thread.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), STARTING | RUNNING)
    }

    /// Whether the thread takes no more records, or will never start.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), NOT_STARTED | WRITTEN | GONE | FAILED)
    }

    /// Whether the thread has ended, or will never start.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), NOT_STARTED | GONE | FAILED)
    }

    /// Whether there can be no thread: the system refused it, or it died.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// Whether this is it.
    pub(crate) fn is_me(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    /// For whoever waits for its end: the thread, unless it is this one or is waited for already.
    pub(crate) fn take_to_join(&self) -> Option<JoinHandle<()>> {
        while self.state.load(Ordering::SeqCst) == STARTING {
            std::thread::yield_now();
        }
        lock(&self.join).take()
    }

    /// Everything is written.
    pub(crate) fn set_written(&self) {
        self.state.store(WRITTEN, Ordering::SeqCst);
    }

    /// It ends, in order or not.
    pub(crate) fn ends(&self, in_order: bool) {
        self.state.store(if in_order { GONE } else { FAILED }, Ordering::SeqCst);
    }

    /// In a forked child: the thread is not here, and nothing may be asked of it.
    pub(crate) fn forget(&self) {
        if let Ok(mut join) = self.join.try_lock() {
            std::mem::forget(join.take());
        }
    }
}

/// The helper's thread as the others see it.
#[derive(Default)]
pub(crate) struct HelperThread {
    busy: AtomicBool,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl HelperThread {
    /// Whether it is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// For the writer: starts the thread, whose body says [`HelperThread::set_done`] at its end. False: there can be none.
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

    /// It has done its work.
    pub(crate) fn set_done(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Joins a thread that has ended; one that has not goes on by itself.
    pub(crate) fn join(&self) {
        let handle = lock(&self.join).take();
        if let Some(handle) = handle.filter(|_| !self.is_busy()) {
            // A panic was caught inside.
            let _ = handle.join();
        }
    }

    /// In a forked child: the thread is not here, and nothing may be asked of it.
    pub(crate) fn forget(&self) {
        if let Ok(mut join) = self.join.try_lock() {
            std::mem::forget(join.take());
        }
    }
}
