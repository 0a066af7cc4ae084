//! Count of the pipelines that the driver is known to answer with an error, and not known to make since.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::state::process::stored::Stored;
use vkstash_host::once::OnceLock;
use vkstash_model::failed::Failed;
use vkstash_model::record::Kind;

/// Their number, counted at the first look-up.
#[derive(Default)]
pub struct Failures(OnceLock<AtomicI64>);

impl Failures {
    /// Whether there are any. What other processes find out after this one has counted is known to the next run.
    pub fn exist(&self, stored: &Stored) -> bool {
        if let Some(failures) = self.0.get() {
            return failures.load(Ordering::Relaxed) > 0;
        }
        if !stored.device.has_any(Kind::Failed) && !stored.device.may_have_more() {
            let _ = self.0.set(AtomicI64::new(0));
            return false;
        }
        let mut live = 0;
        let is_whole = stored.device.for_each(Kind::Failed, &mut |_, payload| {
            live += i64::from(Failed::of(payload) == Failed::Error)
        });
        // What is not read yet may name more of them.
        if is_whole && !stored.device.may_have_more() {
            let _ = self.0.set(AtomicI64::new(live));
        }
        live > 0
    }

    /// Adjusts the number after a key was recorded as failed, or as made.
    pub fn count(&self, fails: bool) {
        // If the records were not counted yet, the first count finds this one.
        if let Some(failures) = self.0.get() {
            failures.fetch_add(if fails { 1 } else { -1 }, Ordering::Relaxed);
        }
    }
}
