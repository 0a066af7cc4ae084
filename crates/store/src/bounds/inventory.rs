//! Inventory of applications, parts and records, from which evictions are decided. Sizes are bytes, times Unix
//! milliseconds.

use crate::bounds::limits::ModulePolicy;
use vkstash_model::record::{Key, Kind};

/// The newest recorded use of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastUse {
    /// The time by the clock of that run; 0: no use is noted. The clock may have been wrong.
    pub unix_ms: u64,
    /// The number of the run; 0: unknown. It rises from run to run whatever the clock says. For a record without a use,
    /// the age of its segment, which is a number of the same kind.
    pub run: u64,
    /// The place among the first uses of that run.
    pub order: u32,
}

/// The newest record of its kind and key in its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kind.
    pub kind: Kind,
    /// The key.
    pub key: Key,
    /// Bytes of its header, payload, padding and index entry.
    pub bytes: u64,
    /// The newest use. For a module or an artifact that other records name: the newest use of these.
    pub last_use: LastUse,
    /// A running process uses or has written it: never evicted.
    pub current: bool,
}

/// The records of a part, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// A device part whose device or driver is gone. It stays or goes as a whole.
    Foreign,
    /// A part that was not read. It stays or goes as a whole, and ranks like an artifact.
    Unlisted,
    /// All live records.
    Listed(Vec<Record>),
}

/// One part of an application's stash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInventory {
    /// The size of its files, dead records included.
    pub bytes: u64,
    /// What a file takes beside its records, as long as one of them stays.
    pub frame: u64,
    /// The newest use; without a noted use the age of its newest segment. 0: unknown.
    pub last_use: u64,
    /// A running process has it open: not evicted as a whole.
    pub current: bool,
    /// The records.
    pub listing: Listing,
}

impl PartInventory {
    /// The records; none if they are not listed.
    pub(crate) fn records(&self) -> &[Record] {
        match &self.listing {
            Listing::Listed(records) => records,
            Listing::Foreign | Listing::Unlisted => &[],
        }
    }

    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.listing, Listing::Listed(_))
    }

    /// The number of things that stay or go on their own.
    pub(crate) fn units(&self) -> usize {
        if self.is_listed() { self.records().len() } else { 1 }
    }

    /// Live bytes. A part without a list counts as live.
    pub(crate) fn live(&self) -> u128 {
        match &self.listing {
            Listing::Listed(records) if records.is_empty() => 0,
            Listing::Listed(records) => {
                u128::from(self.frame) + records.iter().map(|record| u128::from(record.bytes)).sum::<u128>()
            }
            Listing::Foreign | Listing::Unlisted => u128::from(self.bytes),
        }
    }

    /// Bytes on disk, at least the sum of its records.
    pub(crate) fn disk(&self) -> u128 {
        self.live().max(u128::from(self.bytes))
    }
}

/// One application's stash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationInventory {
    /// The newest use; 0: unknown.
    pub last_use: u64,
    /// A process of the application is running.
    pub current: bool,
    /// The application's limit, in place of [`crate::bounds::Limits::per_app`].
    pub limit: Option<u64>,
    /// The application's policy, in place of [`crate::bounds::Limits::module_policy`].
    pub modules: Option<ModulePolicy>,
    /// The known runs, numbered as in [`LastUse::run`], in any order. The module policy counts them.
    pub runs: Vec<u64>,
    /// The parts.
    pub parts: Vec<PartInventory>,
}

impl ApplicationInventory {
    pub(crate) fn live(&self) -> u128 {
        self.parts.iter().map(PartInventory::live).sum()
    }
}

/// Everything below the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// All applications.
    pub applications: Vec<ApplicationInventory>,
}

impl Inventory {
    pub(crate) fn live(&self) -> u128 {
        self.applications.iter().map(ApplicationInventory::live).sum()
    }
}
