//! What background work makes ahead of the program's requests, in the order in which earlier runs asked for it.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustc_hash::FxBuildHasher;

use vkstash_store::format::record::Key;

/// The keys in that order, and how far it has been gone through.
pub struct Plan {
    keys: Vec<Key>,
    positions: HashMap<Key, u32, FxBuildHasher>,
    asked: Vec<AtomicBool>,
    /// By [`Plan::next`], since the start or [`Plan::rewind`].
    returned: Vec<AtomicBool>,
    next: AtomicUsize,
    /// The program has gone on to a place behind keys that were not returned.
    skipped: AtomicBool,
    surprised: AtomicBool,
    rewinds: AtomicUsize,
}

impl Plan {
    /// The most keys of a plan: what a program uses in an hour, in a few megabytes.
    pub const MOST: usize = 16_384;

    /// How often it is gone through again.
    const REWINDS: usize = 3;

    /// A plan of these keys; each is in it once.
    pub fn new(mut keys: Vec<Key>) -> Plan {
        keys.truncate(Plan::MOST);
        let positions = keys.iter().zip(0..).map(|(key, position)| (*key, position)).collect();
        let flags = || keys.iter().map(|_| AtomicBool::new(false)).collect();
        let (asked, returned) = (flags(), flags());
        let (next, rewinds) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (skipped, surprised) = (AtomicBool::new(false), AtomicBool::new(false));
        Plan { keys, positions, asked, returned, next, skipped, surprised, rewinds }
    }

    /// The next key that the program has not asked for yet. Each is returned once until [`Plan::rewind`]; those that
    /// the program has left behind come last.
    pub fn next(&self) -> Option<&Key> {
        loop {
            let position = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(key) = self.keys.get(position) else {
                if self.skipped.swap(false, Ordering::Relaxed) {
                    self.next.store(0, Ordering::Relaxed);
                    continue;
                }
                // So that counting on does not come around.
                self.next.fetch_min(self.keys.len(), Ordering::Relaxed);
                return None;
            };
            let is_wanted = !self.asked[position].load(Ordering::Relaxed);
            if is_wanted && !self.returned[position].swap(true, Ordering::Relaxed) {
                return Some(key);
            }
        }
    }

    /// Whether [`Plan::next`] may return another key.
    pub fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.keys.len() || self.skipped.load(Ordering::Relaxed)
    }

    /// Whether the program has not asked for it yet.
    pub fn is_open(&self, key: &Key) -> bool {
        let asked = self.positions.get(key).map(|&position| &self.asked[position as usize]);
        asked.is_some_and(|asked| !asked.load(Ordering::Relaxed))
    }

    /// Whether the program has asked for something that is not in the plan: another run would be planned better.
    pub fn was_surprised(&self) -> bool {
        self.surprised.load(Ordering::Relaxed)
    }

    /// Returns no more keys, until it is gone through again.
    pub fn stop(&self) {
        self.skipped.store(false, Ordering::Relaxed);
        self.next.store(self.keys.len(), Ordering::Relaxed);
    }

    /// Goes through the keys from the start again, a few times: while there is a plan, every request is described
    /// before the driver is asked.
    pub fn rewind(&self) {
        if self.rewinds.fetch_add(1, Ordering::Relaxed) < Plan::REWINDS {
            self.returned.iter().for_each(|returned| returned.store(false, Ordering::Relaxed));
            self.next.store(0, Ordering::Relaxed);
        } else {
            self.stop();
        }
    }

    /// The program has asked for these keys before there was a plan.
    pub fn note_requests(&self, was_asked: impl Fn(&Key) -> bool) {
        self.keys.iter().filter(|key| was_asked(key)).for_each(|key| _ = self.note_request(key));
    }

    /// The program asks for this key. Work that lies behind the request goes on after it, because the program is
    /// further on than in the earlier run, and comes back at the end: threads may have asked in another order. True: it
    /// is a key of the plan that the program has not asked for before.
    pub fn note_request(&self, key: &Key) -> bool {
        let Some(&position) = self.positions.get(key) else {
            self.surprised.store(true, Ordering::Relaxed);
            return false;
        };
        let position = position as usize;
        let is_new = !self.asked[position].load(Ordering::Relaxed);
        if is_new {
            self.asked[position].store(true, Ordering::Relaxed);
            if self.next.fetch_max(position + 1, Ordering::Relaxed) < position {
                self.skipped.store(true, Ordering::Relaxed);
            }
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new((0..10).map(|number| [number; 32]).collect())
    }

    fn rest(plan: &Plan) -> Vec<u8> {
        std::iter::from_fn(|| plan.next()).map(|key| key[0]).collect()
    }

    #[test]
    fn keys_come_in_order_once() {
        let plan = plan();
        assert_eq!(rest(&plan), (0..10).collect::<Vec<_>>());
        assert!(!plan.has_more() && plan.next().is_none());
    }

    #[test]
    fn what_the_program_has_asked_for_is_left_out_and_the_work_goes_on_behind_it() {
        let plan = plan();
        assert_eq!(plan.next().map(|key| key[0]), Some(0));
        assert!(plan.note_request(&[6; 32]) && !plan.note_request(&[6; 32]));
        plan.note_request(&[8; 32]);
        assert!(!plan.was_surprised());
        assert!(!plan.note_request(&[77; 32]));
        assert!(plan.was_surprised());
        assert_eq!(plan.next().map(|key| key[0]), Some(9));
        plan.note_request(&[3; 32]);
        assert_eq!(rest(&plan), [1, 2, 4, 5, 7], "what was left behind comes last");
        assert!(!plan.has_more() && !plan.is_open(&[3; 32]) && plan.is_open(&[4; 32]));
        plan.rewind();
        assert_eq!(rest(&plan), [0, 1, 2, 4, 5, 7, 9]);
    }

    #[test]
    fn what_was_asked_for_before_there_was_a_plan_is_left_out() {
        let plan = plan();
        plan.note_requests(|key| [2, 5].contains(&key[0]));
        assert!(!plan.is_open(&[2; 32]) && !plan.note_request(&[5; 32]) && !plan.was_surprised());
        assert_eq!(rest(&plan), [6, 7, 8, 9, 0, 1, 3, 4]);
    }

    #[test]
    fn a_plan_that_is_stopped_gives_nothing_until_it_starts_again() {
        let plan = plan();
        plan.stop();
        assert!(!plan.has_more() && plan.next().is_none());
        plan.rewind();
        assert_eq!(rest(&plan).len(), 10);
    }

    #[test]
    fn a_request_behind_the_work_changes_nothing() {
        let plan = plan();
        for _ in 0..5 {
            plan.next();
        }
        plan.note_request(&[2; 32]);
        assert_eq!(rest(&plan), [5, 6, 7, 8, 9]);
    }

    /// One thread asks for what sixteen have asked for in the earlier run.
    #[test]
    fn another_order_leaves_nothing_out() {
        const THREADS: usize = 16;
        let keys: Vec<Key> = (0..THREADS as u8 * 15).map(|number| [number; 32]).collect();
        let interleaved = (0..keys.len()).map(|at| keys[at % THREADS * 15 + at / THREADS]).collect();
        let plan = Plan::new(interleaved);
        let mut returned: Vec<Key> = Vec::new();
        for key in &keys {
            // The worker is a little faster.
            returned.extend(plan.next());
            returned.extend(plan.next());
            plan.note_request(key);
        }
        let before: Vec<&Key> = keys.iter().filter(|key| returned.contains(key)).collect();
        assert!(before.len() * 2 > keys.len(), "{} of {}", before.len(), keys.len());
        returned.sort_unstable();
        returned.dedup();
        assert_eq!(returned.len(), before.len(), "each once");
        assert!(!plan.has_more() || rest(&plan).is_empty());
    }
}
