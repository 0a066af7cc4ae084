//! What background work makes ahead of the program's requests, in the order in which earlier runs asked for it.
//!
//! At first only what the last run asked for: of many pipelines that all runs together have used, a small job asks for
//! few. Of what only earlier runs asked for, no more is made ahead than the program has asked for so far.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};

use rustc_hash::FxBuildHasher;

use vkstash_store::base::sync::Mutex;
use vkstash_store::format::record::Key;

/// The keys in that order, and how far it has been gone through.
pub struct Plan {
    keys: Vec<Key>,
    positions: HashMap<Key, u32, FxBuildHasher>,
    /// By position: [`ASKED`], [`RETURNED`], [`AHEAD`], [`RELEASED`], [`PASSED_OVER`] and [`NEVER`].
    states: Vec<AtomicU8>,
    /// The keys before this position are those of the last run. They are returned without a request.
    first: usize,
    /// The position that [`Plan::next`] looks at next.
    next: AtomicUsize,
    /// Before that position there are keys that were not returned: the program has gone on to a place behind them, or
    /// they are to be returned again.
    skipped: AtomicBool,
    /// How many keys of other runs than the last one the program has asked for.
    beyond: AtomicI64,
    /// How many of these keys were returned, and not asked for. A request may be counted before the return, so it is
    /// negative at times.
    ahead: AtomicI64,
    /// No more keys are returned. Held by the worker that takes a key or gives one back; requests never wait for it.
    is_over: Mutex<bool>,
}

/// What [`Plan::note_request`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// The key is not in the plan.
    Unknown,
    /// The key is one of other runs than the last one, and was not returned.
    OfOthers,
    /// No pipeline is made of the key yet.
    NotMade,
    /// No pipeline could be made of the key.
    PassedOver,
    /// Pipelines of this kind are never made ahead.
    Never,
    /// The key was given up, its pipeline made or not, because memory was scarce.
    Released,
    /// The program has asked for the key before.
    Repeated,
}

impl PlanState {
    /// Whether this is a key of the plan that the program has not asked for before.
    pub fn is_new(self) -> bool {
        !matches!(self, PlanState::Unknown | PlanState::Repeated)
    }
}

/// The program has asked for the key.
const ASKED: u8 = 1;
/// [`Plan::next`] has returned the key.
const RETURNED: u8 = 2;
/// The key counts in [`Plan::ahead`].
const AHEAD: u8 = 4;
/// The key was given up while memory was scarce, and the program had not asked for it.
const RELEASED: u8 = 8;
/// No pipeline could be made of the key.
const PASSED_OVER: u8 = 16;
/// With [`PASSED_OVER`]: pipelines of this kind are never made ahead.
const NEVER: u8 = 32;

impl Plan {
    /// The most keys of a plan, which takes about 100 bytes for each. Large games use tens of thousands in a run.
    pub const MOST: usize = if cfg!(target_pointer_width = "32") { 16_384 } else { 65_536 };

    /// A plan of these keys; each is in it once. The first so many are those of the last run.
    pub fn new(mut keys: Vec<Key>, first: usize) -> Plan {
        keys.truncate(Plan::MOST);
        let positions = keys.iter().zip(0..).map(|(key, position)| (*key, position)).collect();
        let states = keys.iter().map(|_| AtomicU8::new(0)).collect();
        Plan {
            first: first.min(keys.len()),
            keys,
            positions,
            states,
            next: AtomicUsize::new(0),
            skipped: AtomicBool::new(false),
            beyond: AtomicI64::new(0),
            ahead: AtomicI64::new(0),
            is_over: Mutex::default(),
        }
    }

    /// The next key that the program has not asked for yet: first what follows its latest request, then what it has
    /// left behind, because its threads may have asked in another order. Each is returned once. None: there is no more,
    /// or the program has to ask for more first.
    pub fn next(&self) -> Option<&Key> {
        let is_over = self.is_over.lock();
        loop {
            let position = self.next.load(Ordering::Relaxed);
            let is_there = position < self.end(1) && !*is_over;
            let is_left = !is_there && self.skipped.swap(false, Ordering::Relaxed);
            if *is_over || !(is_there || is_left) {
                return None;
            }
            let goes_to = if is_there { position + 1 } else { 0 };
            // A request may go on to another place meanwhile.
            let goes = self.next.compare_exchange(position, goes_to, Ordering::Relaxed, Ordering::Relaxed);
            if goes.is_ok() && is_there && self.take(position) {
                return self.keys.get(position);
            }
        }
    }

    /// Takes a key that is wanted and was not returned.
    fn take(&self, position: usize) -> bool {
        let is_of_others = position >= self.first;
        let returned = if is_of_others { RETURNED | AHEAD } else { RETURNED };
        let take = |state: u8| (state & (ASKED | RETURNED) == 0).then_some(state | returned);
        let taken = self.states[position].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if taken && is_of_others {
            self.ahead.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// The position behind what may be returned, if the program has to have asked for so many times as much of what the
    /// last run did not ask for as is made ahead of it.
    fn end(&self, times: i64) -> usize {
        let ahead = times * self.ahead.load(Ordering::Relaxed);
        if ahead < self.beyond.load(Ordering::Relaxed) { self.keys.len() } else { self.first }
    }

    /// Whether [`Plan::next`] may return another key now.
    pub fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.end(1) || self.skipped.load(Ordering::Relaxed)
    }

    /// Whether so much may be returned that it is worth waking a worker.
    pub fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        next < self.end(2) || next < self.first || self.skipped.load(Ordering::Relaxed)
    }

    /// How many keys [`Plan::next`] may return now, about.
    pub fn available(&self) -> usize {
        let of_last_run = self.first.saturating_sub(self.next.load(Ordering::Relaxed));
        let of_others = self.beyond.load(Ordering::Relaxed) - self.ahead.load(Ordering::Relaxed);
        of_last_run.saturating_add(usize::try_from(of_others).unwrap_or_default())
    }

    /// Nothing is made of this key, which [`Plan::next`] has returned: another one may be made in its place.
    pub fn pass_over(&self, key: &Key) {
        self.leave_out(key, PASSED_OVER);
    }

    /// [`Plan::pass_over`], because pipelines of this kind are never made ahead.
    pub fn pass_over_for_ever(&self, key: &Key) {
        self.leave_out(key, PASSED_OVER | NEVER);
    }

    /// Nothing is made of this key, which [`Plan::next`] has returned, until [`Plan::come_again`].
    pub fn put_off(&self, key: &Key) {
        self.leave_out(key, 0);
    }

    /// These keys, which were put off, may be made now. The work goes on with the first of them.
    pub fn come_again<'a>(&self, keys: impl Iterator<Item = &'a Key>) {
        let is_over = self.is_over.lock();
        let positions = keys.filter_map(|key| self.positions.get(key)).map(|at| *at as usize);
        let mut first = usize::MAX;
        for position in positions.filter(|_| !*is_over) {
            self.states[position].fetch_and(!RETURNED, Ordering::Relaxed);
            first = first.min(position);
        }
        self.next.fetch_min(first, Ordering::Relaxed);
    }

    fn leave_out(&self, key: &Key, why: u8) {
        if let Some(&position) = self.positions.get(key) {
            self.states[position as usize].fetch_or(why, Ordering::Relaxed);
            self.be_no_more_ahead(position as usize);
        }
    }

    /// This key, which [`Plan::next`] has returned, could not be made yet: it is returned again.
    pub fn give_back(&self, key: &Key) {
        let Some(&position) = self.positions.get(key) else { return };
        let position = position as usize;
        let is_over = self.is_over.lock();
        self.be_no_more_ahead(position);
        self.states[position].fetch_and(!RETURNED, Ordering::Relaxed);
        self.skipped.store(!*is_over, Ordering::Relaxed);
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

    /// Returns no more keys.
    pub fn stop(&self) {
        let mut is_over = self.is_over.lock();
        *is_over = true;
        self.skipped.store(false, Ordering::Relaxed);
        self.next.store(self.keys.len(), Ordering::Relaxed);
    }

    /// Memory is scarce: what the program has not asked for is given up, and no more keys are returned.
    pub fn give_up(&self) {
        self.stop();
        for state in &self.states {
            state.fetch_or(RELEASED, Ordering::Relaxed);
        }
    }

    /// The program asks for this key. Work that lies behind the request goes on after it, because the program is
    /// further on than in the earlier run.
    pub fn note_request(&self, key: &Key) -> PlanState {
        let Some(&position) = self.positions.get(key) else { return PlanState::Unknown };
        let position = position as usize;
        let state = &self.states[position];
        // Most requests that are not new change nothing that threads share.
        if state.load(Ordering::Relaxed) & ASKED != 0 {
            return PlanState::Repeated;
        }
        let before = state.fetch_or(ASKED, Ordering::Relaxed);
        if before & ASKED != 0 {
            return PlanState::Repeated;
        }
        self.be_no_more_ahead(position);
        let is_of_others = position >= self.first;
        if is_of_others {
            self.beyond.fetch_add(1, Ordering::Relaxed);
        }
        if self.next.fetch_max(position + 1, Ordering::Relaxed) < position {
            self.skipped.store(true, Ordering::Relaxed);
        }
        match before {
            _ if before & RELEASED != 0 => PlanState::Released,
            _ if before & NEVER != 0 => PlanState::Never,
            _ if before & PASSED_OVER != 0 => PlanState::PassedOver,
            _ if is_of_others && before & RETURNED == 0 => PlanState::OfOthers,
            _ => PlanState::NotMade,
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
        assert_eq!(plan.note_request(&[6; 32]), PlanState::NotMade);
        assert_eq!(plan.note_request(&[6; 32]), PlanState::Repeated);
        plan.note_request(&[8; 32]);
        assert_eq!(plan.note_request(&[77; 32]), PlanState::Unknown);
        assert_eq!(plan.next().map(|key| key[0]), Some(9));
        plan.note_request(&[3; 32]);
        assert_eq!(rest(&plan), [1, 2, 4, 5, 7], "what was left behind comes last");
        assert!(!plan.has_more() && !plan.is_open(&[3; 32]) && plan.is_open(&[4; 32]));
    }

    #[test]
    fn what_could_not_be_made_yet_comes_again() {
        for first in [10, 0] {
            let plan = Plan::new(keys(10), first);
            plan.note_request(&[9; 32]);
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
    fn what_was_put_off_comes_again_before_what_follows() {
        let plan = plan();
        for expected in 0..4 {
            assert_eq!(plan.next().map(|key| key[0]), Some(expected));
        }
        [2, 1].iter().for_each(|key| plan.put_off(&[*key; 32]));
        assert_eq!(plan.next().map(|key| key[0]), Some(4), "not before it may be made");
        plan.come_again([[2; 32], [1; 32], [77; 32]].iter());
        plan.note_request(&[6; 32]);
        assert_eq!(rest(&plan), [7, 8, 9, 1, 2, 5], "behind the latest request, as always");
        plan.come_again([[1; 32]].iter());
        assert!(plan.is_due());
        assert_eq!(rest(&plan), [1]);
        plan.stop();
        plan.come_again([[1; 32]].iter());
        assert!(rest(&plan).is_empty(), "nothing more is made");
    }

    #[test]
    fn a_small_job_has_as_much_made_as_the_last_run_asked_for() {
        let plan = Plan::new(keys(200), 2);
        assert!(plan.has_more() && plan.is_due() && plan.available() == 2);
        assert_eq!(rest(&plan), [0, 1]);
        assert!(!plan.has_more() && plan.available() == 0);
        // The last run's job again, with something that no run has asked for.
        for key in [0, 1, 222] {
            plan.note_request(&[key; 32]);
            assert!(!plan.has_more() && !plan.is_due() && plan.next().is_none(), "{key}");
        }
        // Another job, which an earlier run did.
        plan.note_request(&[100; 32]);
        assert!(plan.is_due() && plan.available() == 1);
        assert_eq!(rest(&plan), [101]);
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
        assert_eq!(rest(&plan), []);
        plan.note_request(&[60; 32]);
        assert_eq!(rest(&plan), [61]);
    }

    #[test]
    fn what_cannot_be_made_does_not_count() {
        let plan = Plan::new(keys(100), 1);
        plan.note_request(&[50; 32]);
        assert_eq!(plan.next(), Some(&[51; 32]));
        assert_eq!(plan.note_request(&[50; 32]), PlanState::Repeated);
        plan.pass_over(&[51; 32]);
        plan.pass_over(&[51; 32]);
        assert_eq!(rest(&plan), [52, 0]);
        assert_eq!(plan.note_request(&[51; 32]), PlanState::PassedOver);
        assert_eq!(plan.note_request(&[60; 32]), PlanState::OfOthers);
        assert_eq!(rest(&plan), [61, 62], "two were asked for, and one of those that are made was not");
        plan.pass_over_for_ever(&[61; 32]);
        assert_eq!(plan.note_request(&[61; 32]), PlanState::Never);
    }

    #[test]
    fn a_plan_that_is_stopped_gives_nothing() {
        for first in [10, 2] {
            let plan = Plan::new(keys(10), first);
            let taken = plan.next().copied().unwrap();
            plan.note_request(&[4; 32]);
            plan.stop();
            assert!(!plan.has_more() && plan.next().is_none());
            plan.give_back(&taken);
            assert_eq!(
                plan.note_request(&[5; 32]),
                if first == 2 { PlanState::OfOthers } else { PlanState::NotMade }
            );
            assert!(!plan.has_more() && !plan.is_due() && plan.next().is_none());
            plan.give_up();
            assert_eq!(plan.note_request(&[6; 32]), PlanState::Released);
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
