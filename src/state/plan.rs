//! What background work makes ahead of the program's requests, in the order in which earlier runs asked for it.
//!
//! At first only what the last run asked for: of many pipelines that all runs together have used, a small job asks for
//! few. If the program asks for one that the last run did not ask for, more is made, and never more of it ahead than
//! the program has asked for so far.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};

use rustc_hash::FxBuildHasher;

use vkstash_store::base::util::lock;
use vkstash_store::format::record::Key;

/// The keys in that order, and how far it has been gone through.
pub struct Plan {
    keys: Vec<Key>,
    positions: HashMap<Key, u32, FxBuildHasher>,
    /// By position: [`ASKED`], [`RETURNED`], [`AHEAD`], [`RELEASED`] and [`PASSED_OVER`].
    states: Vec<AtomicU8>,
    /// The keys before this position are those of the last run. They are returned without a request.
    first: AtomicUsize,
    of_last_run: Cursor,
    of_others: Cursor,
    /// Keys of the plan that the program has asked for, since the start or [`Plan::rewind`].
    requests: AtomicI64,
    /// Keys of other runs than the last one that were returned, and that the program has not asked for. A request may
    /// be counted before the return, so it is negative at times.
    ahead: AtomicI64,
    /// The program has asked for a key of another run.
    goes_beyond: AtomicBool,
    /// The latest request was for such a key.
    is_beyond: AtomicBool,
    rewinds: AtomicUsize,
    /// Held by workers that take keys or go back. Requests never wait for it.
    turn: Mutex<()>,
}

/// What [`Plan::note_request`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The key is not in the plan.
    Unknown,
    /// It is one of other runs than the last one, and was not returned.
    OfOthers,
    /// Nothing is made of it yet.
    NotMade,
    /// Nothing could be made of it.
    PassedOver,
    /// What was made of it is released.
    Released,
    /// The program has asked for it before.
    Again,
}

impl Met {
    /// Whether it is a key of the plan that the program has not asked for before.
    pub fn is_new(self) -> bool {
        !matches!(self, Met::Unknown | Met::Again)
    }
}

/// The program has asked for it.
const ASKED: u8 = 1;
/// By [`Plan::next`], since the start or [`Plan::rewind`].
const RETURNED: u8 = 2;
/// It counts in [`Plan::ahead`].
const AHEAD: u8 = 4;
/// What was made of it is released, because the program did not ask for it in time.
const RELEASED: u8 = 8;
/// Nothing could be made of it.
const PASSED_OVER: u8 = 16;

/// How far a part of the keys has been gone through.
#[derive(Default)]
struct Cursor {
    next: AtomicUsize,
    /// The program has gone on to a place behind keys that were not returned.
    skipped: AtomicBool,
}

impl Cursor {
    /// The next position that `take` accepts. Those that the program has left behind come last.
    fn next(&self, part: Range<usize>, take: impl Fn(usize) -> bool) -> Option<usize> {
        loop {
            let position = self.next.fetch_add(1, Ordering::Relaxed);
            if position >= part.end {
                if self.skipped.swap(false, Ordering::Relaxed) {
                    self.next.store(part.start, Ordering::Relaxed);
                    continue;
                }
                // So that counting on does not come around.
                self.next.fetch_min(part.end, Ordering::Relaxed);
                return None;
            }
            if take(position) {
                return Some(position);
            }
        }
    }

    fn has_more(&self, end: usize) -> bool {
        self.next.load(Ordering::Relaxed) < end || self.skipped.load(Ordering::Relaxed)
    }

    /// Goes on behind this position.
    fn go_behind(&self, position: usize) {
        if self.next.fetch_max(position + 1, Ordering::Relaxed) < position {
            self.skipped.store(true, Ordering::Relaxed);
        }
    }

    fn go_to(&self, position: usize) {
        self.skipped.store(false, Ordering::Relaxed);
        self.next.store(position, Ordering::Relaxed);
    }
}

impl Plan {
    /// The most keys of a plan, which takes about 100 bytes for each. Large games use tens of thousands in a run.
    pub const MOST: usize = if cfg!(target_pointer_width = "32") { 16_384 } else { 65_536 };

    /// After how many lulls it is gone through again.
    pub(super) const REWINDS: usize = 3;

    /// A plan of these keys; each is in it once. The first so many are those of the last run.
    pub fn new(mut keys: Vec<Key>, first: usize) -> Plan {
        keys.truncate(Plan::MOST);
        let first = first.min(keys.len());
        let positions = keys.iter().zip(0..).map(|(key, position)| (*key, position)).collect();
        let states = keys.iter().map(|_| AtomicU8::new(0)).collect();
        let (of_last_run, of_others) = (Cursor::default(), Cursor::default());
        of_others.go_to(first);
        Plan {
            keys,
            positions,
            states,
            first: AtomicUsize::new(first),
            of_last_run,
            of_others,
            requests: AtomicI64::new(0),
            ahead: AtomicI64::new(0),
            goes_beyond: AtomicBool::new(false),
            is_beyond: AtomicBool::new(false),
            rewinds: AtomicUsize::new(0),
            turn: Mutex::default(),
        }
    }

    fn first(&self) -> usize {
        self.first.load(Ordering::Relaxed)
    }

    /// The next key that the program has not asked for yet. Each is returned once until [`Plan::rewind`]; those that
    /// the program has left behind come last. None: there is no more, or the program has to ask for more first.
    pub fn next(&self) -> Option<&Key> {
        let _turn = lock(&self.turn);
        let late_first = self.is_beyond.load(Ordering::Relaxed);
        let late = || self.may_go_beyond(1).then(|| self.next_of_others()).flatten();
        let position = match late_first {
            true => late().or_else(|| self.next_of_last_run()),
            false => self.next_of_last_run().or_else(late),
        };
        self.keys.get(position?)
    }

    fn next_of_last_run(&self) -> Option<usize> {
        self.of_last_run.next(0..self.first(), |position| self.take(position, RETURNED))
    }

    fn next_of_others(&self) -> Option<usize> {
        let part = self.first()..self.keys.len();
        let position = self.of_others.next(part, |position| self.take(position, RETURNED | AHEAD))?;
        self.ahead.fetch_add(1, Ordering::Relaxed);
        Some(position)
    }

    /// Whether it is wanted and not returned yet.
    fn take(&self, position: usize, as_what: u8) -> bool {
        let take = |state: u8| (state & (ASKED | RETURNED) == 0).then_some(as_what);
        self.states[position].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Whether the program has asked for as much as is made ahead of it, so many times over.
    fn may_go_beyond(&self, times: i64) -> bool {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.goes_beyond.load(Ordering::Relaxed) && times * ahead < self.requests.load(Ordering::Relaxed)
    }

    /// Whether [`Plan::next`] may return another key now.
    pub fn has_more(&self) -> bool {
        self.of_last_run.has_more(self.first()) || self.has_more_of_others(1)
    }

    /// Whether so much may be returned that it is worth waking a worker.
    pub fn is_due(&self) -> bool {
        self.of_last_run.has_more(self.first()) || self.has_more_of_others(2)
    }

    /// How many keys [`Plan::next`] may return now, about.
    pub fn available(&self) -> usize {
        let of_last_run = self.first().saturating_sub(self.of_last_run.next.load(Ordering::Relaxed));
        if !self.has_more_of_others(1) {
            return of_last_run;
        }
        let allowed = self.requests.load(Ordering::Relaxed) - self.ahead.load(Ordering::Relaxed);
        of_last_run.saturating_add(usize::try_from(allowed).unwrap_or_default())
    }

    fn has_more_of_others(&self, times: i64) -> bool {
        self.may_go_beyond(times) && self.of_others.has_more(self.keys.len())
    }

    /// Nothing is made of this key, which [`Plan::next`] has returned: another one may be made in its place.
    pub fn pass_over(&self, key: &Key) {
        self.be_no_more_ahead_as(key, PASSED_OVER);
    }

    /// What was made of this key is released: another one may be made in its place.
    pub fn note_release(&self, key: &Key) {
        self.be_no_more_ahead_as(key, RELEASED);
    }

    fn be_no_more_ahead_as(&self, key: &Key, what: u8) {
        if let Some(&position) = self.positions.get(key) {
            self.states[position as usize].fetch_or(what, Ordering::Relaxed);
            self.be_no_more_ahead(position as usize);
        }
    }

    /// This key, which [`Plan::next`] has returned, could not be made yet: it is returned again.
    pub fn give_back(&self, key: &Key) {
        let Some(&position) = self.positions.get(key) else { return };
        let position = position as usize;
        self.be_no_more_ahead(position);
        self.states[position].fetch_and(!RETURNED, Ordering::Relaxed);
        let cursor = if position < self.first() { &self.of_last_run } else { &self.of_others };
        cursor.skipped.store(true, Ordering::Relaxed);
    }

    fn be_no_more_ahead(&self, position: usize) {
        if self.states[position].fetch_and(!AHEAD, Ordering::Relaxed) & AHEAD != 0 {
            self.ahead.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the program has not asked for it yet.
    pub fn is_open(&self, key: &Key) -> bool {
        let state = self.positions.get(key).map(|&position| &self.states[position as usize]);
        state.is_some_and(|state| state.load(Ordering::Relaxed) & ASKED == 0)
    }

    /// Returns no more keys, until it is gone through again.
    pub fn stop(&self) {
        let _turn = lock(&self.turn);
        self.stop_here();
    }

    fn stop_here(&self) {
        self.of_last_run.go_to(self.first());
        self.of_others.go_to(self.keys.len());
    }

    /// The program has asked for nothing for a while, and what was returned was destroyed. That was made in vain, and
    /// is returned again only as far as the program goes on with the plan, and after a few such lulls: while there is
    /// a plan, every request is described before the driver is asked. Calls without a request between them are one
    /// lull.
    pub fn rewind(&self) {
        let _turn = lock(&self.turn);
        let is_new =
            self.requests.swap(0, Ordering::Relaxed) != 0 || self.rewinds.load(Ordering::Relaxed) == 0;
        if is_new && self.rewinds.fetch_add(1, Ordering::Relaxed) >= Plan::REWINDS {
            return self.stop_here();
        }
        if self.rewinds.load(Ordering::Relaxed) > Plan::REWINDS {
            return;
        }
        self.first.store(0, Ordering::Relaxed);
        for state in &self.states {
            // Whoever clears the bit counts down, so a request at the same time is counted once.
            if state.fetch_and(ASKED | RELEASED | PASSED_OVER, Ordering::Relaxed) & AHEAD != 0 {
                self.ahead.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.goes_beyond.store(false, Ordering::Relaxed);
        self.of_last_run.go_to(0);
        self.of_others.go_to(0);
    }

    /// The program asks for this key. Work that lies behind the request goes on after it, because the program is
    /// further on than in the earlier run, and comes back at the end: threads may have asked in another order.
    pub fn note_request(&self, key: &Key) -> Met {
        let Some(&position) = self.positions.get(key) else { return Met::Unknown };
        let position = position as usize;
        let state = &self.states[position];
        // Most requests that are not new change nothing that threads share.
        if state.load(Ordering::Relaxed) & ASKED != 0 {
            return Met::Again;
        }
        let before = state.fetch_or(ASKED, Ordering::Relaxed);
        if before & ASKED != 0 {
            return Met::Again;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.be_no_more_ahead(position);
        let is_beyond = position >= self.first();
        self.is_beyond.store(is_beyond, Ordering::Relaxed);
        if is_beyond {
            self.goes_beyond.store(true, Ordering::Relaxed);
            self.of_others.go_behind(position);
        } else {
            self.of_last_run.go_behind(position);
        }
        match before {
            _ if before & RELEASED != 0 => Met::Released,
            _ if before & PASSED_OVER != 0 => Met::PassedOver,
            // After going back no key is one of the last run.
            _ if is_beyond && before & RETURNED == 0 && self.rewinds.load(Ordering::Relaxed) == 0 => {
                Met::OfOthers
            }
            _ => Met::NotMade,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u8) -> Vec<Key> {
        (0..count).map(|number| [number; 32]).collect()
    }

    /// The last run asked for all of it.
    fn plan() -> Plan {
        Plan::new(keys(10), 10)
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
        assert_eq!(plan.note_request(&[6; 32]), Met::NotMade);
        assert_eq!(plan.note_request(&[6; 32]), Met::Again);
        plan.note_request(&[8; 32]);
        assert_eq!(plan.note_request(&[77; 32]), Met::Unknown);
        assert_eq!(plan.next().map(|key| key[0]), Some(9));
        plan.note_request(&[3; 32]);
        assert_eq!(rest(&plan), [1, 2, 4, 5, 7], "what was left behind comes last");
        assert!(!plan.has_more() && !plan.is_open(&[3; 32]) && plan.is_open(&[4; 32]));
    }

    #[test]
    fn what_could_not_be_made_yet_comes_again() {
        for first in [10, 0] {
            let plan = Plan::new(keys(10), first);
            (0..10).for_each(|_| _ = plan.note_request(&[9; 32]));
            let taken = plan.next().copied().unwrap();
            plan.give_back(&taken);
            assert!(plan.has_more() && plan.ahead.load(Ordering::Relaxed) == 0);
            let mut all = Vec::new();
            while let Some(key) = plan.next() {
                all.push(key[0]);
                plan.pass_over(key);
            }
            all.sort_unstable();
            assert_eq!(all, (0..9).collect::<Vec<_>>(), "each once, {first}");
        }
    }

    #[test]
    fn a_small_job_has_as_much_made_as_the_last_run_asked_for() {
        let plan = Plan::new(keys(200), 2);
        assert!(plan.has_more() && plan.is_due() && plan.available() == 2);
        assert_eq!(rest(&plan), [0, 1]);
        assert!(!plan.has_more() && plan.available() == 0);
        // The same job again, with something that no run has asked for.
        for key in [0, 1, 222] {
            plan.note_request(&[key; 32]);
            assert!(!plan.has_more() && !plan.is_due() && plan.next().is_none(), "{key}");
        }
        // Another job, which an earlier run did.
        plan.note_request(&[100; 32]);
        assert!(plan.is_due() && plan.available() == 3);
        assert_eq!(rest(&plan), [101, 102, 103]);
        plan.note_request(&[150; 32]);
        assert_eq!(rest(&plan), [151], "as many as it has asked for, less those that were made in vain");
    }

    #[test]
    fn a_program_that_asks_for_everything_is_not_waited_for() {
        let plan = Plan::new(keys(250), 2);
        let mut ready = rest(&plan);
        let (mut late, mut woken) = (Vec::new(), 0);
        for key in 0..250 {
            if !ready.contains(&key) {
                late.push(key);
            }
            plan.note_request(&[key; 32]);
            if plan.is_due() {
                woken += 1;
                ready.extend(rest(&plan));
            }
        }
        assert_eq!(late, [2], "the first one that the last run did not ask for");
        assert!(woken < 16, "{woken}");
        assert_eq!(ready.len(), 249, "each once");
    }

    #[test]
    fn what_the_last_run_asked_for_is_made_whatever_else_the_program_asks_for() {
        let plan = Plan::new(keys(100), 5);
        plan.note_request(&[50; 32]);
        assert_eq!(rest(&plan), [51, 0, 1, 2, 3, 4], "first what follows the latest request");
        plan.note_request(&[0; 32]);
        plan.note_request(&[1; 32]);
        assert_eq!(rest(&plan), [52, 53]);
    }

    #[test]
    fn what_cannot_be_made_does_not_count() {
        let plan = Plan::new(keys(100), 1);
        plan.note_request(&[50; 32]);
        assert_eq!(plan.next(), Some(&[51; 32]));
        assert_eq!(plan.note_request(&[50; 32]), Met::Again);
        plan.pass_over(&[51; 32]);
        plan.pass_over(&[51; 32]);
        assert_eq!(rest(&plan), [52, 0]);
        assert_eq!(plan.note_request(&[51; 32]), Met::PassedOver);
        assert_eq!(plan.note_request(&[60; 32]), Met::OfOthers);
        assert_eq!(rest(&plan), [61, 62], "two were asked for, and one of those that are made was not");
    }

    #[test]
    fn what_was_destroyed_unasked_is_made_again_only_as_far_as_the_program_comes_to_it() {
        let plan = Plan::new(keys(100), 80);
        assert_eq!(rest(&plan).len(), 80);
        plan.note_request(&[0; 32]);
        for round in 0..Plan::REWINDS as u8 {
            plan.rewind();
            assert!(!plan.has_more() && plan.next().is_none());
            assert_eq!(plan.note_request(&[10 * round + 10; 32]), Met::NotMade);
            assert_eq!(rest(&plan), [10 * round + 11]);
            plan.note_request(&[10 * round + 11; 32]);
            assert_eq!(rest(&plan), [10 * round + 12, 10 * round + 13]);
        }
        plan.rewind();
        plan.note_request(&[70; 32]);
        assert!(!plan.has_more() && rest(&plan).is_empty(), "it has had its chances");
    }

    /// A worker or a request may stop between the bit of a key and the count.
    #[test]
    fn going_back_between_a_bit_and_its_count_counts_each_key_once() {
        let plan = Plan::new(keys(100), 0);
        assert!(plan.take(7, RETURNED | AHEAD));
        plan.rewind();
        plan.ahead.fetch_add(1, Ordering::Relaxed);
        assert_eq!(plan.ahead.load(Ordering::Relaxed), 0, "a worker that takes a key");

        assert!(plan.take(8, RETURNED | AHEAD));
        plan.ahead.fetch_add(1, Ordering::Relaxed);
        assert_ne!(plan.states[8].fetch_and(!AHEAD, Ordering::Relaxed) & AHEAD, 0);
        plan.rewind();
        plan.ahead.fetch_sub(1, Ordering::Relaxed);
        assert_eq!(plan.ahead.load(Ordering::Relaxed), 0, "a request for it");
    }

    #[test]
    fn a_plan_that_is_stopped_gives_nothing_until_it_starts_again() {
        for first in [10, 2] {
            let plan = Plan::new(keys(10), first);
            plan.note_request(&[4; 32]);
            plan.stop();
            assert!(!plan.has_more() && plan.next().is_none());
            plan.note_request(&[5; 32]);
            assert!(!plan.has_more() && plan.next().is_none());
            plan.rewind();
            plan.note_request(&[6; 32]);
            assert_eq!(rest(&plan), [7]);
        }
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
        let interleaved: Vec<Key> =
            (0..keys.len()).map(|at| keys[at % THREADS * 15 + at / THREADS]).collect();
        for first in [keys.len(), 30, 0] {
            let plan = Plan::new(interleaved.clone(), first);
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
}
