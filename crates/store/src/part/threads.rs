//! The writer and the helper as other threads see them: whether they run, and how to wake and join them.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use vkstash_host::sync::{Condvar, Mutex};
use vkstash_host::thread::{self, Stack};

const NOT_STARTED: u8 = 0;
const STARTING: u8 = 1;
const RUNNING: u8 = 2;
const GONE: u8 = 3;
const FAILED: u8 = 4;
/// Everything is written and sealed. Merging may go on.
const WRITTEN: u8 = 5;
/// The thread has ended for lack of work, and has left what the next one goes on with.
const RESTING: u8 = 6;

/// The writer as other threads see it: a thread that ends when it has been idle for a while, and is started again when
/// there is something to write. No thread of the stash keeps a process alive that has no other one.
#[derive(Default)]
pub(crate) struct WriterThread {
    state: AtomicU8,
    /// Locked while it is started.
    handle: Mutex<Option<JoinHandle<()>>>,
    /// With `woken`: it is to look at its queues now.
    must_look: Mutex<bool>,
    woken: Condvar,
}

impl WriterThread {
    /// Whether no thread has tried to start it.
    pub(crate) fn is_not_started(&self) -> bool {
        self.state.load(Ordering::Acquire) == NOT_STARTED
    }

    /// Whether it has ended for lack of work.
    pub(crate) fn is_resting(&self) -> bool {
        self.state.load(Ordering::Acquire) == RESTING
    }

    /// Starts the thread, unless it runs or has ended for good.
    pub(crate) fn start(&self, spawn: impl FnOnce() -> Option<JoinHandle<()>>) {
        if !self.is_not_started() && !self.is_resting() {
            return;
        }
        // The handle of a thread that rests is dropped: there is nothing of it to wait for.
        let mut handle = self.handle.lock();
        let claims = |from| self.state.compare_exchange(from, STARTING, Ordering::SeqCst, Ordering::SeqCst);
        if claims(NOT_STARTED).is_ok() || claims(RESTING).is_ok() {
            *handle = spawn();
            if handle.is_none() {
                self.state.store(FAILED, Ordering::SeqCst);
            }
        }
    }

    /// Ends a sleep.
    pub(crate) fn wake(&self) {
        *self.must_look.lock() = true;
        self.woken.notify_one();
    }

    /// For the writer: sleeps, until another thread ends that.
    pub(crate) fn sleep(&self, limit: Duration) {
        let must_look = self.must_look.lock();
        *self.woken.wait_timeout_while(must_look, limit, |must_look| !*must_look) = false;
    }

    /// Whether there is a thread that takes records, or one that has left something to go on with.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), STARTING | RUNNING | RESTING)
    }

    /// Whether the thread takes no records any more, or never started.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), NOT_STARTED | WRITTEN | GONE | FAILED)
    }

    /// Whether the thread has ended for good, or never started.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), NOT_STARTED | GONE | FAILED)
    }

    /// Whether the system refused the thread, or it panicked.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// Whether the caller is this thread.
    pub(crate) fn is_me(&self) -> bool {
        let handle = self.handle.lock();
        handle.as_ref().is_some_and(|handle| handle.thread().id() == std::thread::current().id())
    }

    /// The handle, for the one thread that joins it. `None`: it was taken, or there is no thread.
    pub(crate) fn take_to_join(&self) -> Option<JoinHandle<()>> {
        self.handle.lock().take()
    }

    /// For the writer: it runs.
    pub(crate) fn begins(&self) {
        self.state.store(RUNNING, Ordering::SeqCst);
    }

    /// For the writer, which has left what another thread goes on with: it ends for lack of work.
    pub(crate) fn rests(&self) {
        self.state.store(RESTING, Ordering::SeqCst);
    }

    /// For the writer that rests: it goes on itself. False: another one was started.
    pub(crate) fn goes_on(&self) -> bool {
        self.state.compare_exchange(RESTING, RUNNING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// For the writer: everything is written.
    pub(crate) fn set_written(&self) {
        self.state.store(WRITTEN, Ordering::SeqCst);
    }

    /// For the writer: it ends for good, after a panic if not `in_order`.
    pub(crate) fn ends(&self, in_order: bool) {
        self.state.store(if in_order { GONE } else { FAILED }, Ordering::SeqCst);
    }

    /// For a forked child, which does not have the thread: the handle must not be dropped.
    pub(crate) fn forget(&self) {
        if let Some(mut handle) = self.handle.try_lock() {
            std::mem::forget(handle.take());
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
        let handle = thread::spawn("vkstash-helper", Stack::Own, body);
        let started = handle.is_some();
        if !started {
            self.set_done();
        }
        *self.join.lock() = handle;
        started
    }

    /// For the helper: it ends.
    pub(crate) fn set_done(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Joins the thread if it has ended. Otherwise it goes on, detached.
    pub(crate) fn join(&self) {
        let handle = self.join.lock().take();
        if let Some(handle) = handle.filter(|_| !self.is_busy()) {
            // The thread's body catches panics.
            let _ = handle.join();
        }
    }

    /// For a forked child, which does not have the thread: the handle must not be dropped.
    pub(crate) fn forget(&self) {
        if let Some(mut join) = self.join.try_lock() {
            std::mem::forget(join.take());
        }
    }
}
