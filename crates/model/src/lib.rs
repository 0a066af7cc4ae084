//! Model that layer, tool and servers of stashes share: recipes, their keys, and the words of reports.
//!
//! Nothing here calls Vulkan, or knows of a process or a file. The order of the files, from the top down:
//!
//! - [`check`] whether a record is what its key says
//! - [`shader_set`] which shaders a pipeline is made of, as one number
//! - [`failed`] the state of a key with which something has failed
//! - [`payload`] the bytes of modules, artifacts and small records; [`identifier`] module identities, and drivers' own
//!   identifiers
//! - [`recipe`] what a recipe holds
//! - [`key`] encoding and hashing; `list` lists whose length is not believed
//! - [`structures`] the one table of pNext structures: hashed, ignored, or a reason to bypass
//! - [`registry`] structures as the registry describes them, generated; [`newer`] those that the bindings do not have
//!   and that are read
//! - [`live`] the page that says what a process does now
//! - [`counters`] what is counted; [`steps`] what was tried for a pipeline
//! - [`variables`] the environment's names, and what layer and tool both read of it; [`driver_caches`] which drivers
//!   keep what they compile; [`driver_options`] what they read beside the program's calls; [`command`] which program a
//!   command runs; [`background_mode`] the modes of background work; [`app_name`] an application's name
//! - [`record`] keys and kinds of records, uses; [`same`] references to artifacts with equal data; [`crash_count`] how
//!   many processes died of an artifact, or while a pipeline was compiled; [`budgets`] what may be kept in memory

pub mod app_name;
pub mod background_mode;
pub mod budgets;
pub mod check;
pub mod command;
pub mod counters;
pub mod crash_count;
pub mod driver_caches;
pub mod driver_options;
pub mod failed;
pub mod identifier;
pub mod key;
mod list;
pub mod live;
pub mod newer;
pub mod payload;
pub mod recipe;
pub mod record;
pub mod registry;
pub mod same;
pub mod shader_set;
pub mod steps;
pub mod structures;
pub mod variables;
