//! Keeping a store within its bounds: files are looked at, [`crate::bounds`] decides, and the decisions are carried out.
//!
//! | file | what it knows |
//! |---|---|
//! | `survey` | which applications, parts and files there are |
//! | `contents` | what is in one part, and which of it is live |
//! | `uses` | when what was used last |
//! | `inventory` | the same as the decisions need to see it |
//! | `duplicates` | artifacts with equal data, while segments are merged |
//! | `merge` | how segments become one |
//! | `remove` | how whole parts, applications and empty folders go |
//! | `work`, `outcome` | what is to be done, and what was |
//! | `run` | all of it, in order |

pub mod contents;
pub(crate) mod duplicates;
pub mod inventory;
pub mod merge;
pub mod outcome;
pub mod remove;
pub mod run;
pub mod survey;
pub mod uses;
pub mod work;

pub use run::run;
