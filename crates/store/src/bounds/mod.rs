//! What a store keeps and how its segments are laid out: decisions from numbers alone, no file is touched.
//! docs/bounds.md states the rules, their defaults and where those come from.
//!
//! | file | what it knows |
//! |---|---|
//! | `limits` | the limits and their defaults |
//! | `inventory` | what is stored, as the decisions need to see it |
//! | `clock` | times that can be compared although clocks were wrong |
//! | `rank` | what goes before what |
//! | `plan` | what is evicted, and why |
//! | `modules` | which modules the module policy keeps |
//! | `reclaim` | how much compaction has to free for the files to fit |
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

pub use compaction::{Compaction, LARGEST_MERGED, Reason, Room, SETTLED, SegmentMeta, compaction};
pub use eviction::{Cause, Eviction, Target};
pub use inventory::{Application, Contents, Inventory, LastUse, Part, Record};
pub use layout::layout;
pub use limits::{Limits, ModulePolicy};
pub use plan::{Plan, Shortfall, plan};
pub use reclaim::Reclaim;

#[cfg(test)]
mod tests;
