//! Recorded calls, in order, with violations and counts.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use serde::Serialize;

/// One call of a command, as the test driver recorded it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Call {
    /// The command's name.
    pub command: &'static str,
    /// The number of the thread, from 1, in the order of their first calls.
    pub thread: u64,
    /// Pipelines: the effective flags of each create info. Caches: creation flags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<u64>,
    /// "null" or the cache's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Number of create infos.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_infos: Option<u32>,
    /// initialDataSize of a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_size: Option<usize>,
    /// Entries that a cache took from its initial data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_entries: Option<usize>,
    /// Entries of the sources of a merge, or of the cache whose data is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<usize>,
    /// sTypes of the create infos' chains, in order.
    pub p_next: Vec<i32>,
    /// sTypes of the stages' chains, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stage_p_next: Vec<i32>,
    /// VkResult; 0 for commands without one.
    pub result: i32,
    /// Pipelines: whether each create info was served without a compile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hit: Vec<bool>,
    /// Pipelines: the number of the thread for whose call this one had to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<u64>,
    /// Words of its modules that faults name.
    #[serde(skip)]
    pub words: Vec<u32>,
}

#[derive(Default, Serialize)]
struct Record {
    calls: Vec<Call>,
    violations: Vec<String>,
    compiles: u64,
    hits: u64,
    /// Objects that are alive when the record is taken.
    pipelines: Vec<String>,
    /// Number of calls that were taken before: indices continue.
    #[serde(skip)]
    taken: usize,
    #[serde(skip)]
    counts: HashMap<&'static str, u64>,
}

static RECORD: LazyLock<Mutex<Record>> = LazyLock::new(Mutex::default);
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

fn lock() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the calling thread.
pub fn thread() -> u64 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

/// Records a violation.
pub fn violation(text: impl Into<String>) {
    lock().violations.push(text.into());
}

/// Counts a compile.
pub fn count_compile() {
    lock().compiles += 1;
}

/// Counts a pipeline that was not compiled.
pub fn count_hit() {
    lock().hits += 1;
}

/// Resets the counts of calls, for new faults.
pub fn reset_counts() {
    lock().counts.clear();
}

/// Records the begin of a command. Returns its place, for [`end`], and the number of calls of this command, this one
/// included.
pub fn begin(call: &Call) -> (usize, u64) {
    let mut record = lock();
    let count = record.counts.entry(call.command).or_default();
    *count += 1;
    let count = *count;
    record.calls.push(call.clone());
    (record.taken + record.calls.len() - 1, count)
}

/// Records the end of a call, unless the record was taken in between.
pub fn end(place: usize, call: Call) {
    let mut record = lock();
    if let Some(old) = place.checked_sub(record.taken).and_then(|at| record.calls.get_mut(at)) {
        *old = call;
    }
}

/// Takes the record, with the live pipelines; a new record begins.
pub fn take(pipelines: Vec<String>) -> String {
    let mut record = lock();
    record.pipelines = pipelines;
    let text = serde_json::to_string(&*record).unwrap_or_default();
    record.taken += record.calls.len();
    record.calls.clear();
    record.violations.clear();
    record.compiles = 0;
    record.hits = 0;
    text
}

/// Writes the record to VKSTASH_TEST_ICD_RECORD, if that is set.
pub fn save() {
    let Some(path) = std::env::var_os("VKSTASH_TEST_ICD_RECORD") else { return };
    let text = serde_json::to_string(&*lock()).unwrap_or_default();
    // A test that misses the record reports that itself.
    let _ = std::fs::write(path, text);
}

extern "C" fn at_exit() {
    let _ = std::panic::catch_unwind(save);
}

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> i32;
}

/// Calls [`save`] when the process exits.
pub fn save_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler never unwinds, and the library stays mapped (build.rs).
        unsafe { atexit(at_exit) };
    });
}

/// A call without further data.
pub fn plain(command: &'static str) -> Call {
    Call { command, ..Call::default() }
}
