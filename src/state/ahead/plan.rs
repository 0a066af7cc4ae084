//! Plan of what background work makes ahead of the program's requests, in the order in which earlier runs asked for it.
//!
//! At first only what the last run asked for: of many pipelines that all runs together have used, a small job asks for
//! few. Of what only an earlier run asked for, the more is made ahead the more of it the program has asked for: one
//! request may be chance, and after ten it is that run's job again.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};

use rustc_hash::FxBuildHasher;

use vkstash_host::sync::Mutex;
use vkstash_model::record::Key;

/// The keys in that order, and how far it has been gone through.
pub struct Plan {
    keys: Vec<Key>,
    positions: HashMap<Key, u32, FxBuildHasher>,
    /// By position: [`ASKED`], [`RETURNED`], [`AHEAD`], [`RELEASED`], [`PASSED_OVER`] and [`NEVER`].
    states: Vec<AtomicU8>,
    /// The keys before this position are those of the last run. They are returned without a request.
    first: usize,
    /// The runs of the other keys, in the order of their positions. The first one begins at [`Plan::first`].
    others: Vec<OtherRun>,
    /// The place in [`Plan::others`] of the run that the latest request for one of these keys was for.
    latest: AtomicUsize,
    /// The position that [`Plan::next`] looks at next.
    next: AtomicUsize,
    /// Before that position there are keys that were not returned: the program has gone on to a place behind them, or
    /// they are to be returned again.
    skipped: AtomicBool,
    /// [`Plan::next`] has found nothing to return, and no request has changed that since: each request of the program
    /// asks, and must not look at all runs.
    is_exhausted: AtomicBool,
    /// No more keys are returned. Held by the worker that takes a key or gives one back; requests never wait for it.
    is_over: Mutex<bool>,
    /// The same, for those who do not wait: what a request changes afterwards makes no key due.
    has_ended: AtomicBool,
}

/// What an earlier run than the last one has used last.
struct OtherRun {
    /// The position of its first key.
    start: usize,
    /// How many of its keys the program has asked for.
    asked: AtomicI64,
    /// How many of its keys were returned, and not asked for. A request may be counted before the return, so it is
    /// negative at times.
    ahead: AtomicI64,
}

impl OtherRun {
    fn new(start: usize) -> OtherRun {
        OtherRun { start, asked: AtomicI64::new(0), ahead: AtomicI64::new(0) }
    }

    /// How many more of its keys may be returned, if so many times as many may be ahead as are: as many may be ahead as
    /// the square of what the program has asked for.
    fn allowed(&self, times: i64) -> i64 {
        let asked = self.asked.load(Ordering::Relaxed);
        asked.saturating_mul(asked) - times * self.ahead.load(Ordering::Relaxed)
    }
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
/// The key counts in [`OtherRun::ahead`].
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

    /// A plan of these keys; each is in it once. The first so many are those of the last run. At each of the positions
    /// `runs`, which ascend, those of another run begin.
    pub fn new(mut keys: Vec<Key>, first: usize, runs: &[usize]) -> Plan {
        keys.truncate(Plan::MOST);
        let first = first.min(keys.len());
        let later = runs.iter().copied().filter(|start| *start > first && *start < keys.len());
        let positions = keys.iter().zip(0..).map(|(key, position)| (*key, position)).collect();
        let states = keys.iter().map(|_| AtomicU8::new(0)).collect();
        Plan {
            first,
            others: std::iter::once(first).chain(later).map(OtherRun::new).collect(),
            latest: AtomicUsize::new(0),
            keys,
            positions,
            states,
            next: AtomicUsize::new(0),
            skipped: AtomicBool::new(false),
            is_exhausted: AtomicBool::new(false),
            is_over: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// The next key that the program has not asked for yet: first what follows its latest request, then what it has
    /// left behind, because its threads may have asked in another order. Each is returned once. None: there is no more,
    /// or the program has to ask for more first.
    pub fn next(&self) -> Option<&Key> {
        let is_over = self.is_over.lock();
        loop {
            let position = self.next.load(Ordering::Relaxed);
            let place = self.place_from(position).filter(|_| !*is_over);
            if place.is_none() && (*is_over || !self.skipped.swap(false, Ordering::Relaxed)) {
                // After the note once more: a request before it has not taken it back.
                if *is_over || self.is_exhausted.swap(true, Ordering::SeqCst) {
                    return None;
                }
                continue;
            }
            let goes_to = place.map_or(0, |place| place + 1);
            // A request may go on to another place meanwhile.
            let goes = self.next.compare_exchange(position, goes_to, Ordering::Relaxed, Ordering::Relaxed);
            match (goes, place) {
                (Ok(_), Some(place)) if self.take(place) => {
                    self.is_exhausted.store(false, Ordering::SeqCst);
                    return self.keys.get(place);
                }
                // What was left behind is still to be looked for.
                (Err(_), None) => self.leave_behind(),
                _ => {}
            }
        }
    }

    /// The first position from this one on that may be returned, if that was not done.
    fn place_from(&self, position: usize) -> Option<usize> {
        if position < self.first {
            return Some(position);
        }
        let at = self.run_at(position);
        if position < self.keys.len() && self.others[at].allowed(1) > 0 {
            return Some(position);
        }
        let later = self.others.get(at + 1..).unwrap_or_default();
        later.iter().find(|run| run.allowed(1) > 0).map(|run| run.start)
    }

    /// The place in [`Plan::others`] of the run that the key at this position belongs to, which is none of the last
    /// run's.
    fn run_at(&self, position: usize) -> usize {
        self.others.partition_point(|run| run.start <= position).saturating_sub(1)
    }

    /// The position behind the last key of this run.
    fn end_of(&self, run: usize) -> usize {
        self.others.get(run + 1).map_or(self.keys.len(), |next| next.start)
    }

    /// Takes a key that is wanted and was not returned.
    fn take(&self, position: usize) -> bool {
        let is_of_others = position >= self.first;
        let returned = if is_of_others { RETURNED | AHEAD } else { RETURNED };
        let take = |state: u8| (state & (ASKED | RETURNED) == 0).then_some(state | returned);
        let taken = self.states[position].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if taken && is_of_others {
            self.others[self.run_at(position)].ahead.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Whether [`Plan::next`] may return another key now.
    pub fn has_more(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && !self.is_exhausted.load(Ordering::Relaxed)
    }

    /// Before the next position there are keys that were not returned.
    fn leave_behind(&self) {
        self.skipped.store(true, Ordering::Relaxed);
        self.is_exhausted.store(false, Ordering::SeqCst);
    }

    /// Whether so much may be returned that it is worth waking a worker: for a request, which looks at no other run
    /// than its own.
    pub fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let latest = self.latest.load(Ordering::Relaxed);
        let run = &self.others[latest];
        let is_left = || (run.start..self.end_of(latest)).contains(&next) && run.allowed(2) > 0;
        !self.has_ended.load(Ordering::Relaxed)
            && (next < self.first || self.skipped.load(Ordering::Relaxed) || is_left())
    }

    /// How many keys [`Plan::next`] may return now, about.
    pub fn available(&self) -> usize {
        let of_last_run = self.first.saturating_sub(self.next.load(Ordering::Relaxed));
        let of_others = self.others[self.latest.load(Ordering::Relaxed)].allowed(1);
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
        if first != usize::MAX {
            self.next.fetch_min(first, Ordering::Relaxed);
            self.is_exhausted.store(false, Ordering::SeqCst);
        }
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
        if !*is_over {
            self.leave_behind();
        }
    }

    fn be_no_more_ahead(&self, position: usize) {
        if self.states[position].fetch_and(!AHEAD, Ordering::Relaxed) & AHEAD != 0 {
            self.others[self.run_at(position)].ahead.fetch_sub(1, Ordering::Relaxed);
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
        self.has_ended.store(true, Ordering::Relaxed);
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
        let left = match is_of_others {
            true => self.go_on_in_other(position),
            false => self.next.fetch_max(position + 1, Ordering::Relaxed),
        };
        if left < position {
            self.leave_behind();
        }
        match before {
            _ if before & RELEASED != 0 => PlanState::Released,
            _ if before & NEVER != 0 => PlanState::Never,
            _ if before & PASSED_OVER != 0 => PlanState::PassedOver,
            _ if is_of_others && before & RETURNED == 0 => PlanState::OfOthers,
            _ => PlanState::NotMade,
        }
    }

    /// The program asks for the key at this position, which is none of the last run's: the work goes on behind it,
    /// unless it is there already. Returns the position where the work was.
    fn go_on_in_other(&self, position: usize) -> usize {
        let run = self.run_at(position);
        self.others[run].asked.fetch_add(1, Ordering::Relaxed);
        self.latest.store(run, Ordering::Relaxed);
        let end = self.end_of(run);
        let go_on = |next| (!(position + 1..=end).contains(&next)).then_some(position + 1);
        let left =
            self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, go_on).unwrap_or_else(|next| next);
        if left != end {
            self.is_exhausted.store(false, Ordering::SeqCst);
        }
        left
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
        Plan::new(keys(10), 10, &[])
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
            let plan = Plan::new(keys(10), first, &[]);
            plan.note_request(&[9; 32]);
            let taken = plan.next().copied().unwrap();
            plan.give_back(&taken);
            assert!(plan.has_more() && plan.others[0].ahead.load(Ordering::Relaxed) == 0);
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
        let plan = Plan::new(keys(200), 2, &[]);
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
        assert_eq!(rest(&plan), [151, 152, 153], "2 x 2, less one that was made in vain");
    }

    #[test]
    fn a_program_that_asks_for_everything_is_not_waited_for() {
        let plan = Plan::new(keys(250), 2, &[]);
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
        let plan = Plan::new(keys(100), 5, &[]);
        plan.note_request(&[50; 32]);
        assert_eq!(rest(&plan), [51, 0, 1, 2, 3, 4], "first what follows the latest request");
        plan.note_request(&[0; 32]);
        assert_eq!(rest(&plan), []);
        plan.note_request(&[60; 32]);
        assert_eq!(rest(&plan), [61, 62, 63]);
    }

    #[test]
    fn few_requests_tell_which_job_it_is_of_those_that_earlier_runs_did() {
        // The last run asked for 0 to 9; others for 10 to 99, 100 to 109, and 110 to 199.
        let plan = Plan::new(keys(200), 10, &[10, 100, 110]);
        assert_eq!(rest(&plan), (0..10).collect::<Vec<_>>());
        plan.note_request(&[10; 32]);
        plan.note_request(&[110; 32]);
        assert!(plan.is_due());
        assert_eq!(rest(&plan), [111, 11], "one each: nobody knows yet");
        for key in 111..=119 {
            plan.note_request(&[key; 32]);
        }
        assert!(plan.is_due() && plan.available() == 100);
        assert_eq!(rest(&plan), (120..200).collect::<Vec<_>>(), "all of its job, and nothing of the others");
        plan.note_request(&[105; 32]);
        assert!(plan.has_more(), "a request has changed what may be returned");
        assert_eq!(rest(&plan), [106], "of a run that the work has gone past");
        plan.note_request(&[11; 32]);
        assert_eq!(rest(&plan), [12, 13, 14, 15]);
        assert!(!plan.has_more() && !plan.is_due());
    }

    #[test]
    fn what_cannot_be_made_does_not_count() {
        let plan = Plan::new(keys(100), 1, &[]);
        plan.note_request(&[50; 32]);
        assert_eq!(plan.next(), Some(&[51; 32]));
        assert_eq!(plan.note_request(&[50; 32]), PlanState::Repeated);
        plan.pass_over(&[51; 32]);
        plan.pass_over(&[51; 32]);
        assert_eq!(rest(&plan), [52, 0]);
        assert_eq!(plan.note_request(&[51; 32]), PlanState::PassedOver);
        assert_eq!(plan.note_request(&[60; 32]), PlanState::OfOthers);
        assert_eq!(rest(&plan).len(), 8, "three were asked for, and one of those that are made was not");
        plan.pass_over_for_ever(&[61; 32]);
        assert_eq!(plan.note_request(&[61; 32]), PlanState::Never);
    }

    #[test]
    fn a_plan_that_is_stopped_gives_nothing() {
        for first in [10, 2] {
            let plan = Plan::new(keys(10), first, &[]);
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
            let plan = Plan::new(interleaved.clone(), first, &[]);
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
