//! What begins with the program's first command on a device: threads of the layer, which a program may not have before
//! vkCreateDevice has returned (docs/background.md).
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guard::contained;
use vkstash_store::base::sync::Mutex;

type Work = Box<dyn FnOnce() + Send>;

/// The first command on one device, vkCreateDevice not counted.
#[derive(Default)]
pub struct FirstCommand {
    is_over: AtomicBool,
    then: Mutex<Vec<Work>>,
}

impl FirstCommand {
    /// Before the program has the device: does this then.
    pub fn then(&self, work: impl FnOnce() + Send + 'static) {
        self.then.lock().push(Box::new(work));
    }

    /// The program uses the device.
    pub fn note(&self) {
        if !self.is_over.load(Ordering::Relaxed) && !self.is_over.swap(true, Ordering::AcqRel) {
            for work in std::mem::take(&mut *self.then.lock()) {
                contained("background work", work);
            }
        }
    }
}
