//! Calls that overlap because the layer has threads: pairs that the program alone never makes, of which drivers have
//! locks of the whole process in one order here and in another one there.
//!
//! One of a pair is a call on a thread of the layer's. What may overlap:
//!
//! - Pipeline creation beside pipeline creation, with no cache or with caches of the layer's own: the specification has
//!   drivers expect it from threads, programs do it, and making pipelines beside the program is what the layer's
//!   threads are for. On other devices, too: pipelines of two devices share no object.
//! - The calls on objects of one device (shader modules, layouts, render passes, caches, pipelines) beside each other
//!   and beside pipeline creation: each thread uses its own objects, and nobody sees those of the layer's threads.
//! - Questions to instances and physical devices beside all of these.
//!
//! What may not: any call beside the creation or the destruction of an instance or a device, whichever it is, and
//! beside the naming or tagging of a device, unless it has been waited for in vain ([`WAITS`]).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::record;

/// How long the layer has the program wait for a call of its own.
const WAITS: Duration = Duration::from_secs(1);

struct UnderWay {
    since: Instant,
    process: u32,
    thread: u64,
    command: &'static str,
    is_of_layer: bool,
}

static UNDER_WAY: Mutex<Vec<UnderWay>> = Mutex::new(Vec::new());

thread_local! {
    /// The thread belongs to the layer, by its name: the layer has another copy of the standard library.
    static IS_OF_LAYER: bool = thread_name().starts_with(b"vkstash");
}

/// Asks the kernel for the thread's name: reading a file would be a cancellation point, and the thread may be
/// cancelled.
fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: `name` has 16 bytes, and PR_GET_NAME writes at most 16.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Held while a call is under way.
pub struct Call {
    thread: u64,
}

fn is_alone(command: &str) -> bool {
    matches!(command, "vkCreateInstance" | "vkDestroyInstance" | "vkCreateDevice" | "vkDestroyDevice")
        || command.ends_with(" of a device")
}

/// A call begins. If it must not beside one that is under way, the process is aborted, so that no suite misses it.
pub fn begin(command: &'static str) -> Call {
    let thread = record::thread();
    let own = UnderWay {
        since: Instant::now(),
        process: std::process::id(),
        thread,
        command,
        is_of_layer: IS_OF_LAYER.with(|is_of_layer| *is_of_layer),
    };
    let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked child has none of its parent's threads.
    under_way.retain(|other| other.process == own.process);
    let overlaps = |other: &&UnderWay| {
        other.thread != thread
            && other.is_of_layer != own.is_of_layer
            && (is_alone(other.command) || is_alone(command))
            && (own.is_of_layer || other.since.elapsed() < WAITS)
    };
    if let Some(other) = under_way.iter().find(overlaps) {
        eprintln!("test driver: {command} has begun while another thread was in {}", other.command);
        record::save();
        std::process::abort();
    }
    under_way.push(own);
    Call { thread }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one of this thread: a callback may have made another call.
        if let Some(at) = under_way.iter().rposition(|call| call.thread == self.thread) {
            under_way.remove(at);
        }
    }
}
