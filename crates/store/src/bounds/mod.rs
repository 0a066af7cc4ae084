//! Decisions about what a stash keeps, and how its segments are merged. They are made from numbers; no file is touched.
//! docs/process.md has the rules, docs/configuration.md the defaults.
//!
//! | file | what it knows |
//! |---|---|
//! | `limits` | the limits and their defaults |
//! | `inventory` | what is stored, as the decisions need to see it |
//! | `clock` | times that can be compared although clocks were wrong |
//! | `rank` | the order of eviction |
//! | `plan` | what is evicted, and why |
//! | `modules` | the modules that the module policy keeps |
//! | `reclaim` | how much compaction must free |
//! | `compaction` | which segments are merged, and when |
//! | `layout` | the order of records in a merged segment |

mod clock;
mod compaction;
pub mod eviction;
mod inventory;
mod layout;
mod limits;
mod modules;
mod plan;
mod rank;
mod reclaim;

pub(crate) use clock::Runs;
pub use clock::reference_of;
pub(crate) use compaction::FRAME;
pub use compaction::{Compaction, LARGEST_MERGED, Reason, Room, SETTLED, SegmentMeta, compaction};
pub use eviction::{Cause, Eviction, Target};
pub use inventory::{ApplicationInventory, Inventory, LastUse, Listing, PartInventory, Record};
pub use layout::layout;
pub use limits::{Limits, ModulePolicy};
pub use plan::{Plan, Shortfall, plan};
pub use reclaim::Reclaim;

#[cfg(test)]
mod tests;
