//! Messages from a device to its background work, which stands on a higher floor (`src/background`, `src/prewarm`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::lending::Keys;
use vkstash_host::guard::contained;
use vkstash_host::sync::Mutex;

/// Work for one device that the program does not wait for. It is told on a thread of the program, within one of the
/// program's calls, and returns at once.
pub trait BackgroundWork: Send + Sync {
    /// The program uses the device for the first time, vkCreateDevice not counted. From now on the layer may have
    /// threads (docs/process.md).
    fn first_command(&self) {}

    /// The program creates its first shader module or pipeline on the device.
    fn first_creation(&self) {}

    /// The program has taken so much of what waited that more of the plan may be made.
    fn has_room(&self) {}

    /// The program has created a layout that work has waited for, to make the pipelines of these keys.
    fn layout_came(&self, _keys: &Arc<Keys>) {}

    /// The driver had one more pipeline that is to be recorded. The calls for all that wait have taken so long.
    fn driver_had(&self, _took: Duration) {}
}

/// The background work of one device.
#[derive(Default)]
pub struct Listeners {
    all: Mutex<Vec<Arc<dyn BackgroundWork>>>,
    was_used: AtomicBool,
    has_created: AtomicBool,
}

impl Listeners {
    /// This work is told from now on. Before the program has the device.
    pub fn add(&self, work: Arc<dyn BackgroundWork>) {
        self.all.lock().push(work);
    }

    /// Tells all of it.
    pub fn tell(&self, what: impl Fn(&dyn BackgroundWork)) {
        // Not under the lock: work may wait for other locks.
        let all = self.all.lock().clone();
        contained("background work", || all.iter().for_each(|work| what(&**work)));
    }

    /// The program uses the device.
    pub fn note_command(&self) {
        if !self.was_used.load(Ordering::Relaxed) && !self.was_used.swap(true, Ordering::AcqRel) {
            self.tell(|work| work.first_command());
        }
    }

    /// The program creates a shader module or a pipeline.
    pub fn note_creation(&self) {
        self.note_command();
        if !self.has_created.load(Ordering::Relaxed) && !self.has_created.swap(true, Ordering::AcqRel) {
            self.tell(|work| work.first_creation());
        }
    }

    /// Whether the program has created neither a shader module nor a pipeline.
    pub fn has_no_creation(&self) -> bool {
        !self.has_created.load(Ordering::Relaxed)
    }
}
