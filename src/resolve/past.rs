//! What became of the artifact that the stash has for a request.

use std::cell::Cell;
use std::time::Duration;

use super::private_cache::PrivateCache;

/// Filled in by the rung that offers the artifact, looked at by the one that compiles.
#[derive(Default)]
pub struct Past<'a> {
    refusals: Cell<u8>,
    left_alone: Cell<bool>,
    refused: Cell<Option<Refused<'a>>>,
    lacks_module: Cell<bool>,
    fails: Cell<bool>,
    recorded_failure: Cell<bool>,
    asked_itself: Cell<bool>,
}

/// What came of asking the driver before anything was hashed.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    /// The program's own call and cache were asked.
    pub itself: bool,
    /// The driver answers this call with an error.
    pub fails: bool,
}

/// A cache with an artifact for which the driver has said COMPILE_REQUIRED.
pub struct Refused<'a> {
    /// The cache.
    pub cache: PrivateCache<'a>,
    /// Time that the driver needed to compile this artifact.
    pub cost: Duration,
}

impl<'a> Past<'a> {
    /// The driver has refused it, for this many times in a row.
    pub fn refused(&self, refusals: u8, cache: PrivateCache<'a>, cost: Duration) {
        self.refusals.set(refusals);
        self.refused.set(Some(Refused { cache, cost }));
    }

    /// How often in a row the driver has refused this recipe's artifacts, this time included.
    pub fn refusals(&self) -> u8 {
        self.refusals.get()
    }

    /// It has refused them often enough: nothing is offered and nothing recorded any more.
    pub fn leave_alone(&self) {
        self.left_alone.set(true);
    }

    /// Whether it is.
    pub fn left_alone(&self) -> bool {
        self.left_alone.get()
    }

    /// The refused artifact, for one call.
    pub fn take_refused(&self) -> Option<Refused<'a>> {
        self.refused.take()
    }

    /// The stash has the artifact, and no longer the code that the driver needs with it.
    pub fn lack_module(&self) {
        self.lacks_module.set(true);
    }

    /// Whether that is so.
    pub fn lacks_module(&self) -> bool {
        self.lacks_module.get()
    }

    /// The driver answers this call with an error: it goes down as the program made it.
    pub fn fail(&self) {
        self.fails.set(true);
    }

    /// Whether it does.
    pub fn fails(&self) -> bool {
        self.fails.get()
    }

    /// It did so in an earlier call, and the stash knows it.
    pub fn failed_before(&self) {
        self.fail();
        self.recorded_failure.set(true);
    }

    /// Whether the stash knows it.
    pub fn recorded_failure(&self) -> bool {
        self.recorded_failure.get()
    }

    /// The program's own call and cache are asked, with FAIL_ON_COMPILE_REQUIRED.
    pub fn ask_itself(&self) {
        self.asked_itself.set(true);
    }

    /// Whether they have been.
    pub fn asked_itself(&self) -> bool {
        self.asked_itself.get()
    }

    /// What has come of asking, without what belongs to one request.
    pub fn asked(&self) -> Asked {
        Asked { itself: self.asked_itself(), fails: self.fails() }
    }

    /// Starts from what the early question to the driver has shown.
    pub fn after(asked: Asked) -> Past<'a> {
        let past = Past::default();
        past.asked_itself.set(asked.itself);
        past.fails.set(asked.fails);
        past
    }

    /// All of it, for a request that takes this one's place.
    pub fn take(&self) -> Past<'a> {
        let refusals = Cell::new(self.refusals.get());
        let left_alone = Cell::new(self.left_alone.get());
        let lacks_module = Cell::new(self.lacks_module.get());
        let (fails, recorded_failure) = (self.fails.clone(), self.recorded_failure.clone());
        let refused = Cell::new(self.refused.take());
        let asked_itself = self.asked_itself.clone();
        Past { refusals, left_alone, refused, lacks_module, fails, recorded_failure, asked_itself }
    }
}
