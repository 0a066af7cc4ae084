//! Records that wait until everything is read that they have to be compared with: nothing is written twice because a disk
//! is slow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::timer::never;
use crate::part::open::{Part, Pending, Shared};

/// Between two looks at whoever else is reading a part.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Records of parts of which not all is read, and of parts of which it is by now.
#[derive(Default)]
pub(crate) struct Held {
    waiting: Vec<Pending>,
    ready: VecDeque<Pending>,
}

impl Held {
    /// Whether there are records that wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    /// The record, if it can be written now. Otherwise it waits here, or is there already. No record overtakes another one of
    /// its part.
    pub(crate) fn pass(&mut self, pending: Pending, shared: &Shared) -> Option<Pending> {
        let part = &pending.part;
        if part.holds_back() || self.waiting.iter().any(|other| Arc::ptr_eq(&other.part, part)) {
            self.waiting.push(Pending { since: None, ..pending });
            return None;
        }
        compared(pending, shared)
    }

    /// The next record that has waited for long enough.
    pub(crate) fn next(&mut self) -> Option<Pending> {
        self.ready.pop_front()
    }

    /// Looks which of them still wait. Those that were not seen in the part, and are there now, are dropped.
    pub(crate) fn look(&mut self, shared: &Shared) {
        if self.waiting.is_empty() {
            return;
        }
        let (waiting, read): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|pending| pending.part.holds_back());
        self.waiting = waiting;
        self.ready.extend(read.into_iter().filter_map(|pending| compared(pending, shared)));
    }

    /// At the end: reads what they wait for, because nobody else will.
    pub(crate) fn read_for(&self, shared: &Shared) {
        for pending in &self.waiting {
            let part: &Part = &pending.part;
            if !part.holds_back() {
                continue;
            }
            // Both have been told that the stash closes, and end by themselves.
            while part.is_opening() || shared.helper.is_busy() {
                std::thread::sleep(LOOK_EVERY);
            }
            part.catch_up(&never);
            if part.holds_back() {
                part.stop_holding_back();
            }
        }
    }
}

/// The record, unless it was not seen in its part when it was queued, and turned out to be there.
fn compared(pending: Pending, shared: &Shared) -> Option<Pending> {
    if pending.unseen && pending.part.has_already(&pending.slot, &pending.payload) {
        pending.part.index().unwritten(pending.slot, &pending.payload);
        shared.release(pending.payload.0.len());
        return None;
    }
    Some(pending)
}
