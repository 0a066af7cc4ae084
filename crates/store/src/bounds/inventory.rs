//! What is stored, as the decisions need to see it. Sizes in bytes, times in Unix milliseconds.

use crate::bounds::limits::ModulePolicy;
use crate::format::record::{Key, Kind};

/// The newest recorded use of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastUse {
    /// When, by the clock of that run; 0: never noted. Believed with care.
    pub unix_ms: u64,
    /// Which run; 0: not known. Any number that is the same for all of a run and rises from run to run
    /// whatever the clock says: the age in the name of the segment that noted the use.
    pub run: u64,
    /// Its place among the first uses of that run.
    pub order: u32,
}

/// The newest record of its kind and key in its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// Its key.
    pub key: Key,
    /// What it takes up: head, payload, padding and its entry in the index.
    pub bytes: u64,
    /// The newest use. A module's is that of the recipe used last among those that name it.
    pub last_use: LastUse,
    /// Used or written by a run that is going on: never evicted.
    pub current: bool,
}

/// What is known of a part's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A device part for a driver or device that is not here. Stays or goes as a whole.
    Foreign,
    /// A part that nobody looked into. Stays or goes as a whole, ranked like artifacts.
    Unlisted,
    /// Every live record.
    Listed(Vec<Record>),
}

/// One part of an application's stash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What its files take up, dead records included.
    pub bytes: u64,
    /// Its newest use; where none was noted, the age of its newest segment. 0: not known.
    pub last_use: u64,
    /// Open in a run that is going on: not evicted as a whole.
    pub current: bool,
    /// Its contents.
    pub contents: Contents,
}

impl Part {
    /// Its records; none where it is not listed.
    pub(crate) fn records(&self) -> &[Record] {
        match &self.contents {
            Contents::Listed(records) => records,
            Contents::Foreign | Contents::Unlisted => &[],
        }
    }

    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.contents, Contents::Listed(_))
    }

    /// How many things it has that stay or go by themselves.
    pub(crate) fn units(&self) -> usize {
        if self.is_listed() { self.records().len() } else { 1 }
    }

    /// Live bytes; those of a part that is not listed are all taken for live.
    pub(crate) fn live(&self) -> u128 {
        match &self.contents {
            Contents::Listed(records) => records.iter().map(|record| u128::from(record.bytes)).sum(),
            Contents::Foreign | Contents::Unlisted => u128::from(self.bytes),
        }
    }

    /// Bytes on the disk, also where the caller's sum is smaller than that of the records.
    pub(crate) fn disk(&self) -> u128 {
        self.live().max(u128::from(self.bytes))
    }
}

/// One application's stash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// Its newest use; 0: not known.
    pub last_use: u64,
    /// A run of it is going on.
    pub current: bool,
    /// Its own limit, in place of [`crate::bounds::Limits::per_app`].
    pub limit: Option<u64>,
    /// Its own policy, in place of [`crate::bounds::Limits::module_policy`].
    pub modules: Option<ModulePolicy>,
    /// The runs known of, numbered as in [`LastUse::run`], in any order. What the module policy counts.
    pub runs: Vec<u64>,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl Application {
    pub(crate) fn live(&self) -> u128 {
        self.parts.iter().map(Part::live).sum()
    }
}

/// Everything below the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Every application.
    pub applications: Vec<Application>,
}

impl Inventory {
    pub(crate) fn live(&self) -> u128 {
        self.applications.iter().map(Application::live).sum()
    }

    pub(crate) fn disk(&self) -> u128 {
        self.applications.iter().flat_map(|app| &app.parts).map(Part::disk).sum()
    }
}
