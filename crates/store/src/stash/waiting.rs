//! Records that the writer holds back until it can compare them with all that their part has, so that a slow disk does
//! not make a record be written twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::part::open::{Part, Pending, Shared};
use vkstash_host::timer::never;

/// Time between two looks at another thread that reads a part.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The records that are held back: those that still wait, and those that may be written.
#[derive(Default)]
pub(crate) struct WaitingRecords {
    waiting: Vec<Pending>,
    ready: VecDeque<Pending>,
}

impl WaitingRecords {
    /// Whether no record is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    /// The record, if it is to be written now. Otherwise it is held, or dropped because the part has it. Records of a
    /// part stay in order.
    pub(crate) fn pass(&mut self, pending: Pending, shared: &Shared) -> Option<Pending> {
        let part = &pending.part;
        if part.holds_back() || self.waiting.iter().any(|other| Arc::ptr_eq(&other.part, part)) {
            self.waiting.push(Pending { since: None, ..pending });
            return None;
        }
        compared(pending, shared)
    }

    /// The next held record that may be written.
    pub(crate) fn next(&mut self) -> Option<Pending> {
        self.ready.pop_front()
    }

    /// Releases the records of parts that are read by now.
    pub(crate) fn release(&mut self, shared: &Shared) {
        if self.waiting.is_empty() {
            return;
        }
        let (waiting, read): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|pending| pending.part.holds_back());
        self.waiting = waiting;
        self.ready.extend(read.into_iter().filter_map(|pending| compared(pending, shared)));
    }

    /// At the end: reads the parts of the records that wait, because the helper does not any more.
    pub(crate) fn read_for(&self, shared: &Shared) {
        for pending in &self.waiting {
            let part: &Part = &pending.part;
            if !part.holds_back() {
                continue;
            }
            // The helper sees that the stash closes, and ends.
            while shared.helper.is_busy() {
                std::thread::sleep(LOOK_EVERY);
            }
            part.catch_up(&never);
            if part.holds_back() {
                part.stop_holding_back();
            }
        }
    }
}

/// The record, unless it was queued before all was read, and the part has it.
fn compared(pending: Pending, shared: &Shared) -> Option<Pending> {
    if pending.unseen && pending.part.has_already(&pending.id, &pending.payload) {
        pending.part.recent().unwritten(pending.id, &pending.payload);
        shared.release(pending.payload.0.len());
        return None;
    }
    Some(pending)
}
