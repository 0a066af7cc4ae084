//! Plan of evictions, made from an inventory and the limits.

use crate::bounds::eviction::{Cause, Eviction, clamp};
use crate::bounds::inventory::{ApplicationInventory, Inventory, PartInventory};
use crate::bounds::limits::{Limits, low_water};
use crate::bounds::rank;
use crate::bounds::rank::Candidate;
use crate::bounds::reclaim::{Reclaim, reclaim};

/// A limit that stays exceeded because running processes use the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The limit: [`Cause::ApplicationLimit`] or [`Cause::TotalLimit`].
    pub limit: Cause,
    /// The application whose limit it is; None for the total.
    pub application: Option<usize>,
    /// Live bytes beyond the limit.
    pub bytes: u64,
}

/// What is to be evicted. Sizes are bytes, at most `u64::MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The evictions: first by age and policy, then for the applications' limits, then for the total.
    pub evictions: Vec<Eviction>,
    /// Applications that have nothing left and do not run, in ascending order: their folders can be removed.
    pub applications: Vec<usize>,
    /// Live bytes now.
    pub live_before: u64,
    /// Live bytes afterwards.
    pub live_after: u64,
    /// Bytes that compaction must free after whole parts and applications are deleted.
    pub reclaim: Vec<Reclaim>,
    /// Limits that stay exceeded.
    pub shortfalls: Vec<Shortfall>,
}

/// Decides what is evicted. `now_ms` is the Unix time. A full disk evicts nothing: others have filled it, and it is not
/// written to.
pub fn plan(inventory: &Inventory, limits: &Limits, now_ms: u64) -> Plan {
    let mut state = State::new(inventory, rank::candidates(inventory, limits, now_ms));
    let live_before = state.total;
    state.evict_unlimited();

    // Decided before the applications' limits are applied: a tighter one must not spare anything by bringing the total
    // just below its limit.
    let all = limits.total_bytes;
    let over = state.total > u128::from(all);
    for (index, app) in inventory.applications.iter().enumerate() {
        if let Some(limit) = app.limit.or(limits.per_app) {
            let target = u128::from(low_water(limit));
            if state.apps[index] > u128::from(limit) {
                state.evict(Cause::ApplicationLimit, Some(index), target);
            }
            state.report(Cause::ApplicationLimit, Some(index), state.apps[index], limit);
        }
    }
    if over {
        state.evict(Cause::TotalLimit, None, u128::from(low_water(all)));
    }
    state.report(Cause::TotalLimit, None, state.total, all);

    let mut plan = state.plan;
    plan.applications = emptied(inventory, &plan.evictions);
    plan.live_before = clamp(live_before);
    plan.live_after = clamp(state.total);
    let limit_of = |index: usize| inventory.applications[index].limit.or(limits.per_app);
    plan.reclaim = reclaim(inventory, &plan.evictions, &plan.applications, limit_of, all);
    plan
}

/// The sums while evictions are added.
struct State {
    candidates: Vec<Candidate>,
    gone: Vec<bool>,
    /// Live bytes, of all applications and of each.
    total: u128,
    apps: Vec<u128>,
    /// Of each part, the number of its records that are left, and what a file takes beside them.
    parts: Vec<Vec<(usize, u64)>>,
    plan: Plan,
}

impl State {
    fn new(inventory: &Inventory, candidates: Vec<Candidate>) -> State {
        State {
            gone: vec![false; candidates.len()],
            candidates,
            total: inventory.live(),
            apps: inventory.applications.iter().map(ApplicationInventory::live).collect(),
            parts: inventory
                .applications
                .iter()
                .map(|app| app.parts.iter().map(|part| (part.records().len(), part.frame)).collect())
                .collect(),
            plan: Plan::default(),
        }
    }

    /// Evicts what goes independently of limits.
    fn evict_unlimited(&mut self) {
        for at in 0..self.candidates.len() {
            if self.candidates[at].expired {
                self.take(at, Cause::Expired);
            } else if self.candidates[at].unwanted {
                self.take(at, Cause::ModulePolicy);
            }
        }
    }

    /// Evicts in order until at most `target` is left, of one application if it is given.
    fn evict(&mut self, cause: Cause, application: Option<usize>, target: u128) {
        for at in 0..self.candidates.len() {
            if application.map_or(self.total, |app| self.apps[app]) <= target {
                return;
            }
            let of = self.candidates[at].target.application;
            if !self.gone[at] && application.is_none_or(|app| app == of) {
                self.take(at, cause);
            }
        }
    }

    fn take(&mut self, at: usize, cause: Cause) {
        let Candidate { target, bytes, .. } = self.candidates[at];
        self.gone[at] = true;
        let mut freed = u128::from(bytes);
        if target.record.is_some() {
            let (left, frame) = &mut self.parts[target.application][target.part];
            *left -= 1;
            freed += if *left == 0 { u128::from(*frame) } else { 0 };
        }
        self.total -= freed;
        self.apps[target.application] -= freed;
        self.plan.evictions.push(Eviction { target, bytes, cause });
    }

    fn report(&mut self, limit: Cause, application: Option<usize>, left: u128, allowed: u64) {
        let bytes = clamp(left.saturating_sub(u128::from(allowed)));
        if bytes > 0 {
            self.plan.shortfalls.push(Shortfall { limit, application, bytes });
        }
    }
}

/// Applications that lose their last record or part.
fn emptied(inventory: &Inventory, evictions: &[Eviction]) -> Vec<usize> {
    let mut left: Vec<usize> =
        inventory.applications.iter().map(|app| app.parts.iter().map(PartInventory::units).sum()).collect();
    let before = left.clone();
    for eviction in evictions {
        left[eviction.target.application] -= 1;
    }
    let idle = |&index: &usize| {
        let app = &inventory.applications[index];
        left[index] == 0 && before[index] > 0 && !app.current && !app.parts.iter().any(|part| part.current)
    };
    (0..left.len()).filter(idle).collect()
}
