//! Maintenance: enforcing limits and merging segments. Files are examined, [`crate::bounds`] decides, and the decisions
//! are carried out.
//!
//! | file | what it knows |
//! |---|---|
//! | `survey` | the applications, parts and files below a root |
//! | `contents` | the segments of one part and their live records |
//! | `uses` | the last use of each key |
//! | `inventory` | everything as the decisions need to see it |
//! | `duplicates` | artifacts with equal data in merged segments |
//! | `merge` | merging segments |
//! | `remove` | removing parts, applications and empty folders |
//! | `work`, `outcome` | what is to be done, and what was done |
//! | `run` | all of it, in order |
//! | `clear` | clearing kinds of records |
//! | `pack` | merging everything |
//! | `prune` | removing what was not used for a while |
//! | `verify` | reading everything, and writing damaged segments again |

pub mod clear;
pub mod contents;
pub(crate) mod duplicates;
pub mod inventory;
pub mod merge;
pub mod outcome;
pub mod pack;
pub mod prune;
pub mod remove;
pub mod run;
pub mod survey;
pub mod uses;
pub mod verify;
pub mod work;

pub use run::{run, run_with};
