//! Caches that hold a pipeline which was just compiled, and whose data nobody has read yet.
//!
//! Reading it takes a driver longer than everything else that recording costs the program's thread. So the cache is put
//! here, and the stash's writer reads it, before it writes what is queued. A thread that looks for the artifact
//! meanwhile reads it itself. A driver is called from here only while its device is alive: vkDestroyDevice reads what is left
//! first, vkDestroyInstance and the end of the process end all reading.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use ash::vk;

use super::cache_data::CacheData;
use super::cache_data_probe::CacheDataProbe;
use super::device_stats::DeviceStats;
use super::pipeline_class::PipelineClass;
use crate::guard::tls_destroyed;
use crate::recipe::payload::PREFIX;
use crate::stats::Count;
use vkstash_store::format::record::{Key, Kind};
use vkstash_store::part::open::Part;

/// Caches that wait, at most: each holds what the driver keeps of one pipeline.
const WAITING: usize = 128;
/// With so many the writer is woken, which would look by itself a moment later.
const MANY: usize = 32;
/// How often the end of an instance looks whether another thread has read what it was reading.
const LOOKS_AGAIN: Duration = Duration::from_millis(1);

/// A device, as its caches know it.
pub struct Origin {
    data: CacheData,
    /// The part that the data goes to.
    part: Arc<Part>,
    probe: Arc<CacheDataProbe>,
    stats: Arc<DeviceStats>,
    /// The device is, or is about to be, gone: changed by who holds [`Unread::reading`], or at the end of the process.
    gone: AtomicBool,
}

impl Origin {
    /// Of a live device.
    pub fn new(
        data: CacheData,
        part: Arc<Part>,
        probe: Arc<CacheDataProbe>,
        stats: Arc<DeviceStats>,
    ) -> Arc<Origin> {
        Arc::new(Origin { data, part, probe, stats, gone: AtomicBool::new(false) })
    }
}

/// A cache with one pipeline.
#[derive(Clone)]
struct Waiting {
    origin: Arc<Origin>,
    key: Key,
    cache: vk::PipelineCache,
    prefix: [u8; PREFIX],
    class: PipelineClass,
}

/// What became of a cache that was to wait.
pub enum Pushed {
    /// It waits; the writer has yet to look.
    Waits,
    /// So many wait that the writer should look now.
    Many,
    /// There is no room, or no thread may read any more: the caller still owns it.
    Refused,
}

/// The caches that wait to be read, of all devices that share a stash: what one of them has compiled another may ask for.
#[derive(Default)]
pub struct Unread {
    /// Held for moments.
    waiting: Mutex<VecDeque<Waiting>>,
    length: AtomicUsize,
    /// Held by the thread that reads the cache at the front, until its data is queued.
    reading: Mutex<()>,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unread {
    /// Leaves a cache to the writer. A pipeline that waits already, because two threads compiled it, is kept once.
    ///
    /// # Safety
    /// The device of `origin` is alive; the layer created `cache` on it, without an allocator, and nobody else uses it.
    pub unsafe fn push(
        &self,
        origin: &Arc<Origin>,
        key: &Key,
        cache: vk::PipelineCache,
        prefix: [u8; PREFIX],
        class: PipelineClass,
    ) -> Pushed {
        let mut waiting = lock(&self.waiting);
        if self.stopped.load(Ordering::Acquire)
            || origin.gone.load(Ordering::Acquire)
            || waiting.len() >= WAITING
        {
            return Pushed::Refused;
        }
        if waiting.iter().any(|other| other.key == *key && Arc::ptr_eq(&other.origin.part, &origin.part)) {
            drop(waiting);
            // SAFETY: the caller's contract: the device is alive, and the cache is the layer's and out of use.
            unsafe { origin.data.destroy(cache) };
            return Pushed::Waits;
        }
        waiting.push_back(Waiting { origin: origin.clone(), key: *key, cache, prefix, class });
        let length = waiting.len();
        self.length.store(length, Ordering::Release);
        if length == MANY { Pushed::Many } else { Pushed::Waits }
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }

    /// Reads the cache of this key and queues its data, if it waits. For a thread that is about to look for the artifact.
    pub fn read_one(&self, part: &Arc<Part>, key: &Key) {
        let fits = |waiting: &Waiting| waiting.key == *key && Arc::ptr_eq(&waiting.origin.part, part);
        if self.is_empty() || !lock(&self.waiting).iter().any(fits) {
            return;
        }
        let _reading = lock(&self.reading);
        // Otherwise another thread has read it meanwhile.
        if self.bring_to_the_front(fits) {
            // SAFETY: this thread holds `reading`.
            unsafe { self.read_first() };
        }
    }

    /// Reads all of them. Between two of them other threads may read.
    pub fn read_all(&self) {
        while !self.is_empty() {
            let _reading = lock(&self.reading);
            // SAFETY: this thread holds `reading`.
            unsafe { self.read_first() };
        }
    }

    /// For who holds `reading`. False: there is none.
    fn bring_to_the_front(&self, fits: impl Fn(&Waiting) -> bool) -> bool {
        let mut waiting = lock(&self.waiting);
        let found = waiting.iter().position(fits);
        if let Some(at) = found {
            waiting.swap(0, at);
        }
        found.is_some()
    }

    /// Reads the cache at the front, which stays there until its data is queued: who looks for it meanwhile waits for `reading`.
    ///
    /// # Safety
    /// The caller holds `reading`. So the device is alive: whoever ends it takes its caches out of the list under `reading` first.
    unsafe fn read_first(&self) {
        let front = lock(&self.waiting).front().cloned();
        let Some(Waiting { origin, key, cache, prefix, class }) = front else { return };
        // SAFETY: the caller's contract; the list owns the cache, and only who holds `reading` touches it.
        let payload = unsafe { origin.data.read(cache, &prefix) };
        origin.probe.note(class, payload.is_some(), false);
        let is_its = |waiting: &Waiting| Arc::ptr_eq(&waiting.origin, &origin);
        let queued =
            payload.is_some_and(|data| origin.part.put(Kind::Artifact, &key, data.into_boxed_slice()));
        if !queued {
            origin.stats.counters.count(Count::Dropped);
        }
        let mut waiting = lock(&self.waiting);
        // It is gone where its device, or the process, did not wait for this thread.
        let is_there = waiting.front().is_some_and(|front| is_its(front) && front.cache == cache);
        if is_there {
            waiting.pop_front();
        }
        self.length.store(waiting.len(), Ordering::Release);
        drop(waiting);
        if is_there {
            // SAFETY: as for the reading; the cache is in the list no more, and nobody else knows it.
            unsafe { origin.data.destroy(cache) };
        }
    }

    /// vkDestroyDevice is about to go down: what waits of the device is read, and nothing is any more.
    pub fn finish(&self, origin: &Arc<Origin>) {
        let is_its = |waiting: &Waiting| Arc::ptr_eq(&waiting.origin, origin);
        // On a late thread a driver's thread-local storage is gone as well.
        while !tls_destroyed() && !self.is_empty() {
            let _reading = lock(&self.reading);
            if !self.bring_to_the_front(is_its) {
                break;
            }
            // SAFETY: this thread holds `reading`.
            unsafe { self.read_first() };
        }
        let _reading = lock(&self.reading);
        for waiting in self.take_out(is_its, origin) {
            // SAFETY: vkDestroyDevice has not gone down yet, this thread holds `reading`, and the list owned the cache.
            unsafe { origin.data.destroy(waiting.cache) };
        }
    }

    /// vkDestroyInstance is about to go down, and with it the driver may be gone, while the device is alive: what waits of the
    /// device is read within `limit`, and nothing is any more.
    pub fn leave(&self, origin: &Arc<Origin>, limit: Duration) {
        let is_its = |waiting: &Waiting| Arc::ptr_eq(&waiting.origin, origin);
        let started = Instant::now();
        while !tls_destroyed() && !self.is_empty() && started.elapsed() < limit {
            match self.reading.try_lock() {
                Ok(_reading) if self.bring_to_the_front(is_its) => {
                    // SAFETY: this thread holds `reading`.
                    unsafe { self.read_first() };
                }
                Ok(_) | Err(TryLockError::Poisoned(_)) => break,
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOKS_AGAIN),
            }
        }
        // They go with the driver. A thread that is still reading one then has been at it for longer than `limit`.
        drop(self.take_out(is_its, origin));
    }

    fn take_out(&self, is_its: impl Fn(&Waiting) -> bool, origin: &Origin) -> VecDeque<Waiting> {
        let mut waiting = lock(&self.waiting);
        origin.gone.store(true, Ordering::Release);
        let (its, others) = std::mem::take(&mut *waiting).into_iter().partition(is_its);
        *waiting = others;
        self.length.store(waiting.len(), Ordering::Release);
        its
    }

    /// The process is about to end, and drivers with it: nothing is read any more.
    pub fn stop(&self) {
        let mut waiting = lock(&self.waiting);
        self.stopped.store(true, Ordering::Release);
        let left = std::mem::take(&mut *waiting);
        self.length.store(0, Ordering::Release);
        drop((waiting, left));
    }
}
