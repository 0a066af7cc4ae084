//! Claiming: of several processes that need the same artifact at the same time, one compiles, and the others wait for
//! it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::format::record::{Key, Kind};
use crate::part::claims::Claims;
use crate::part::open::Part;
use crate::part::recent_records::Source;
use crate::segment::append::RecordId;

/// The shortest time between two looks.
const FIRST_STEP: Duration = Duration::from_micros(50);
/// The longest time between two looks, ...
const LAST_STEP: Duration = Duration::from_millis(1);
/// ... which are as many as double the time that was waited.
const STEPS_IN_WAIT: u32 = 16;
/// How often a view that another thread refreshes is refreshed again.
const REFRESHES: u32 = 4;

/// What has come of claiming a key.
pub enum Claim<'a> {
    /// This process compiles. Others wait until this is dropped, and until what was queued by then is written.
    Taken(Taken<'a>),
    /// This process compiles: nobody else is there, or nobody can tell.
    Unclaimed,
    /// Another process has recorded the artifact.
    Recorded,
    /// This process compiles: it has waited for another one as long as it may.
    InVain,
}

/// A claim of this process.
pub struct Taken<'a> {
    part: &'a Part,
    claims: &'a Claims,
    key: Key,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.part.shared.is_inert() {
            // A forked child: the claim is its parent's.
            return;
        }
        let held = self.claims.held();
        let id = RecordId { kind: Kind::Artifact, key: self.key };
        // Asked while the writer cannot release it: what is queued will be written, and is released then.
        let is_queued = |source: &Source| matches!(source, Source::Queued(_));
        if self.part.recent.with(&id, |entry| is_queued(&entry.source)).unwrap_or(false) {
            drop(held);
            // The others wait for it.
            self.part.shared.wake_from_sleep();
        } else {
            self.claims.release(held, &self.key);
        }
    }
}

impl Part {
    /// Claims a key whose artifact is missing, before it is compiled. `limit`: the longest wait, asked if another
    /// process has the claim.
    pub fn claim(&self, key: &Key, limit: impl FnOnce() -> Duration) -> Claim<'_> {
        let Some(claims) = self.claims_if_shared() else { return Claim::Unclaimed };
        match claims.take(key) {
            None => Claim::Unclaimed,
            Some(true) => self.with_claim(claims, key),
            Some(false) if !claims.may_wait() => Claim::Unclaimed,
            Some(false) => self.await_claim(claims, key, limit()),
        }
    }

    fn await_claim<'a>(&'a self, claims: &'a Claims, key: &Key, limit: Duration) -> Claim<'a> {
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            if waited >= limit {
                claims.note_wait(true);
                return Claim::InVain;
            }
            let step = (waited / STEPS_IN_WAIT).clamp(FIRST_STEP, LAST_STEP);
            std::thread::sleep(step.min(limit - waited));
            match claims.take(key) {
                None => return Claim::Unclaimed,
                Some(false) => {}
                Some(true) => {
                    claims.note_wait(false);
                    return self.with_claim(claims, key);
                }
            }
        }
    }

    /// Looks once more: whoever had the claim before may have recorded the artifact.
    fn with_claim<'a>(&'a self, claims: &'a Claims, key: &Key) -> Claim<'a> {
        let taken = Taken { part: self, claims, key: *key };
        for _ in 0..REFRESHES {
            if self.refresh_now() {
                break;
            }
            std::thread::sleep(FIRST_STEP);
        }
        if self.is_there(Kind::Artifact, key) { Claim::Recorded } else { Claim::Taken(taken) }
    }

    /// None: no other process may claim something in this part, as far as this one knows.
    fn claims_if_shared(&self) -> Option<&Claims> {
        if !self.shared.is_open() || self.is_incomplete() || !self.accepts() {
            return None;
        }
        match self.claims.get() {
            Some(claims) => claims.as_ref().filter(|claims| claims.has_others()),
            None => {
                if !self.wants_claims.swap(true, Ordering::AcqRel) {
                    self.shared.ask_for_guards();
                }
                None
            }
        }
    }

    /// For the writer: opens the file if somebody wants to claim something.
    pub(crate) fn serve_claims(&self) {
        let Some(folder) = self.open_folder().filter(|_| self.wants_claims.load(Ordering::Acquire)) else {
            return;
        };
        if self.claims.get().is_none() {
            // Only then: what another process sees, this one acts upon.
            self.claims.get_or_init(|| Claims::open(folder)).iter().for_each(Claims::announce);
        }
    }

    /// For the writer, which has written these artifacts, or has failed to.
    pub(crate) fn release_claims<'a>(&self, ids: impl Iterator<Item = &'a RecordId>) {
        let Some(Some(claims)) = self.claims.get() else { return };
        if claims.are_none() {
            return;
        }
        for id in ids.filter(|id| id.kind == Kind::Artifact) {
            claims.release(claims.held(), &id.key);
        }
    }
}
