//! The spans of a trace. Without `VKSTASH_TRACE` there are none, and asking costs one relaxed load.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tracing::info_span;
use tracing::span::EnteredSpan;

use super::file::{self, TARGET};
use crate::config::OfProcess;
use crate::log;
use vkstash_model::steps::{self, OrderReason};
use vkstash_store::reports::timeline::{Creation, Step};

/// Shorter creation calls are not written.
const SHORTEST_CALL: Duration = Duration::from_millis(1);

const UNKNOWN: u8 = 0;
const UNWANTED: u8 = 1;
const WANTED: u8 = 2;

/// Whether the environment names a file.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// A span that lasts until this is dropped, on the same thread.
#[must_use]
pub struct Span(#[allow(dead_code, reason = "dropping it ends the span")] Option<EnteredSpan>);

/// A background task.
pub fn task(name: &'static str) -> Span {
    Span(is_on().then(|| info_span!(target: TARGET, "task", name, category = "task").entered()))
}

/// A creation call of the program.
pub fn creation(command: &'static str, count: u32) -> Span {
    let shortest_us = SHORTEST_CALL.as_micros() as u64;
    let span = || {
        let category = "creation";
        info_span!(target: TARGET, "creation", name = command, category, count, shortest_us).entered()
    };
    Span(is_on().then(span))
}

/// A pipeline that was created just now: what was tried, what it took, and why in this order.
pub fn pipeline(creation: &Creation) {
    if is_on() {
        write_pipeline(creation);
    }
}

#[cold]
fn write_pipeline(creation: &Creation) {
    let step = |step: &Step| format!("{} {:?}", steps::words(step), steps::duration(step.tenths));
    let steps: Vec<String> = creation.steps().iter().map(step).collect();
    let name = creation.steps().last().map_or_else(String::new, steps::words);
    let (tried, why) = (steps.join(", "), OrderReason::word(creation.reason));
    let took_ns = steps::duration(creation.tenths).as_nanos() as u64;
    let key = creation.key.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let (name, tried, key) = (name.as_str(), tried.as_str(), key.as_str());
    info_span!(target: TARGET, "pipeline", name, category = "pipeline", took_ns, key, tried, why);
}

#[inline]
fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        UNWANTED => false,
        // A forked child writes nothing: the file is its parent's, and a thread of the parent may have held a lock of
        // the subscriber.
        WANTED => file::is_of_this_process(),
        _ => begin(),
    }
}

#[cold]
fn begin() -> bool {
    let is_wanted = OfProcess::get().trace.is_some();
    STATE.store(if is_wanted { WANTED } else { UNWANTED }, Ordering::Relaxed);
    if is_wanted {
        log::init();
    }
    is_wanted && file::is_of_this_process()
}
