//! Counters of one device in this process, and the report that is made of them.
//!
//! Counting must cost a served call nothing that threads could queue for, so the counters are spread over
//! a few cache lines and added up only when somebody asks. Whoever makes reports is told of the first change
//! since the last one, whatever was counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::live;
use vkstash_host::once::OnceLock;
use vkstash_host::sharded::Sharded;
use vkstash_host::sync::Mutex;
use vkstash_model::counters::{BypassReason, Count};
use vkstash_store::reports::model::BypassReport;

const WIDTH: usize = Count::ALL.len();

/// The counters of one device.
#[derive(Default)]
pub struct Counters {
    values: Sharded<WIDTH>,
    bypassed: Mutex<BTreeMap<(BypassReason, i32), u64>>,
    /// Whether a counter has changed since [`Counters::take_changed`], so that a report is due.
    changed: AtomicBool,
    listener: OnceLock<Listener>,
}

/// A callback that is told that a report is due.
type Listener = Box<dyn Fn() + Send + Sync>;

impl Counters {
    /// Adds one.
    pub fn count(&self, what: Count) {
        self.add(what, 1);
    }

    /// Adds `amount`, in the counter's unit.
    pub fn add(&self, what: Count, amount: u64) {
        // In one order with `take_changed`: either the report has this amount, or another one is due.
        self.values.add(what as usize, amount);
        live::count(what, amount);
        if !self.changed.load(Ordering::SeqCst) {
            self.tell();
        }
    }

    /// Something that the report has has changed.
    #[cold]
    pub fn tell(&self) {
        if self.changed.swap(true, Ordering::SeqCst) {
            return;
        }
        // With the fence in `listen`: either this thread sees the listener or that one sees the change.
        fence(Ordering::SeqCst);
        if let Some(listener) = self.listener.get() {
            listener();
        }
    }

    /// Sets the listener that is told of the first change since [`Counters::take_changed`], on the thread that
    /// counts: it must neither wait nor write. The first listener stays; it is told of what was counted before.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        if self.listener.set(Box::new(listener)).is_err() {
            return;
        }
        fence(Ordering::SeqCst);
        if self.changed.load(Ordering::SeqCst) {
            if let Some(listener) = self.listener.get() {
                listener();
            }
        }
    }

    /// Whether a listener is set.
    pub fn has_listener(&self) -> bool {
        self.listener.get().is_some()
    }

    /// To be called before the counters are read for a report: what is counted from here on is told anew.
    pub fn take_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::SeqCst)
    }

    /// Counts one pipeline that went to the driver unchanged, because of the structure `s_type` (0 where no
    /// structure is to blame). Says whether this is the first of its kind in this process.
    pub fn bypass(&self, reason: BypassReason, s_type: i32) -> bool {
        let first = {
            let mut map = self.bypassed.lock();
            let seen = map.entry((reason, s_type)).or_default();
            *seen += 1;
            *seen == 1
        };
        // Last, because it tells that a report is due.
        self.count(Count::Bypassed);
        first
    }

    /// The counter's value, added up over all threads.
    pub fn get(&self, what: Count) -> u64 {
        self.values.sum(what as usize)
    }

    /// Every counter that is not zero, by name.
    pub fn values(&self) -> BTreeMap<String, u64> {
        let nonzero = Count::ALL.iter().map(|&what| (what.name().to_owned(), self.get(what)));
        nonzero.filter(|(_, value)| *value != 0).collect()
    }

    /// The bypassed pipelines by reason and structure.
    pub fn bypasses(&self) -> Vec<BypassReport> {
        let map = self.bypassed.lock();
        map.iter()
            .map(|(&(reason, s_type), &count)| BypassReport {
                reason: reason.name().to_owned(),
                s_type,
                count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn counters_add_up_over_threads() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counters.count(Count::Served)));
            }
        });
        assert_eq!(counters.get(Count::Served), 4000);
        assert_eq!(counters.values(), BTreeMap::from([("served".to_owned(), 4000)]));
    }

    #[test]
    fn the_first_change_is_told_and_after_a_report_the_next() {
        let (counters, told) = (Counters::default(), std::sync::Arc::new(AtomicU64::new(0)));
        let heard = || told.load(Ordering::Relaxed);
        counters.count(Count::Modules);
        let listener = told.clone();
        counters.listen(move || _ = listener.fetch_add(1, Ordering::Relaxed));
        assert_eq!(heard(), 1, "of what was counted before");
        Count::ALL.iter().for_each(|&what| counters.count(what));
        assert_eq!(heard(), 1, "no report has been made since");
        for (number, &what) in Count::ALL.iter().enumerate() {
            assert!(counters.take_changed() && !counters.take_changed());
            counters.count(what);
            assert_eq!(heard(), number as u64 + 2, "{what:?}");
        }
        assert!(counters.take_changed());
        counters.bypass(BypassReason::UnknownFlag, 0);
        assert_eq!(heard(), Count::ALL.len() as u64 + 2);
    }

    #[test]
    fn a_bypass_is_counted_by_reason_and_structure_and_reported_as_new_once() {
        let counters = Counters::default();
        assert!(counters.bypass(BypassReason::UnknownStructure, 7));
        assert!(!counters.bypass(BypassReason::UnknownStructure, 7));
        assert!(counters.bypass(BypassReason::UnknownStructure, 8));
        assert_eq!(counters.get(Count::Bypassed), 3);
        let counts: Vec<_> = counters.bypasses().iter().map(|b| (b.s_type, b.count)).collect();
        assert_eq!(counts, [(7, 2), (8, 1)]);
    }
}
