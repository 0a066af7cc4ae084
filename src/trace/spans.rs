//! The spans of a trace. Without `VKSTASH_TRACE` there are none, and asking costs one relaxed load.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::file::{Event, TraceFile, now};
use crate::config::OfProcess;
use crate::log;
use vkstash_host::once::OnceLock;
use vkstash_model::steps::Step;
use vkstash_model::steps::{self, OrderReason};
use vkstash_store::reports::timeline::Creation;

/// Shorter creation calls are not written.
const SHORTEST_CALL: Duration = Duration::from_millis(1);

const UNKNOWN: u8 = 0;
const UNWANTED: u8 = 1;
const WANTED: u8 = 2;

/// Whether the environment names a file.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The file, if it could be opened.
static FILE: OnceLock<Option<TraceFile>> = OnceLock::new();

/// A span that lasts until this is dropped, on the same thread.
#[must_use]
pub struct Span(Option<Begun>);

struct Begun {
    at: Duration,
    name: &'static str,
    category: &'static str,
    /// How many pipelines the call creates.
    count: Option<u32>,
    shortest: Duration,
}

impl Drop for Span {
    fn drop(&mut self) {
        // A forked child does not end its parent's spans.
        let Some((begun, file)) = self.0.take().zip(file()) else { return };
        let took = now().saturating_sub(begun.at);
        if took >= begun.shortest {
            let mut event = Event::new(begun.name, begun.category);
            if let Some(count) = begun.count {
                event.tell("count", count);
            }
            file.write(&event, begun.at, took);
        }
    }
}

/// A background task.
pub fn task(name: &'static str) -> Span {
    let begun = || Begun { at: now(), name, category: "task", count: None, shortest: Duration::ZERO };
    Span(file().map(|_| begun()))
}

/// A creation call of the program.
pub fn creation(command: &'static str, count: u32) -> Span {
    let begun = || Begun {
        at: now(),
        name: command,
        category: "creation",
        count: Some(count),
        shortest: SHORTEST_CALL,
    };
    Span(file().map(|_| begun()))
}

/// A pipeline that was created just now: what was tried, what it took, and why in this order.
pub fn pipeline(creation: &Creation) {
    if let Some(file) = file() {
        write_pipeline(file, creation);
    }
}

#[cold]
fn write_pipeline(file: &TraceFile, creation: &Creation) {
    let step = |step: &Step| format!("{} {:?}", steps::words(step), steps::duration(step.tenths));
    let steps: Vec<String> = creation.steps().iter().map(step).collect();
    let name = creation.steps().last().map_or_else(String::new, steps::words);
    let key = creation.key.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let mut event = Event::new(&name, "pipeline");
    event.tell_text("key", &key);
    event.tell_text("tried", &steps.join(", "));
    event.tell_text("why", OrderReason::word(creation.reason));
    let took = steps::duration(creation.tenths);
    file.write(&event, now().saturating_sub(took), took);
}

/// The file, where this process writes one. A forked child writes nothing: the file is its parent's.
#[inline]
fn file() -> Option<&'static TraceFile> {
    match STATE.load(Ordering::Relaxed) {
        UNWANTED => None,
        WANTED => FILE.get()?.as_ref().filter(|file| file.is_of_this_process()),
        _ => begin(),
    }
}

#[cold]
fn begin() -> Option<&'static TraceFile> {
    let path = OfProcess::get().trace.as_deref();
    let Some(path) = path else {
        STATE.store(UNWANTED, Ordering::Relaxed);
        return None;
    };
    let open = || match TraceFile::open(path) {
        Ok(file) => Some(file),
        Err(reason) => {
            log::init();
            tracing::warn!("{}: {reason}; no trace is written", path.display());
            None
        }
    };
    let file = FILE.get_or_init(open).as_ref();
    STATE.store(if file.is_some() { WANTED } else { UNWANTED }, Ordering::Relaxed);
    file.filter(|file| file.is_of_this_process())
}
