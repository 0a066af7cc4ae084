//! Words of programs about themselves: reports when they end, and live pages while they run.
//!
//! - [`played`] sessions of programs as their users see them
//! - [`tally`] sums of counters
//! - [`names`] Vulkan's names for numbers
//! - [`live_pages`] the live pages of processes
//! - `schema` the JSON Schemas of counters

pub(crate) mod live_pages;
pub(crate) mod names;
pub(crate) mod played;
#[cfg(test)]
pub(crate) mod schema;
pub(crate) mod tally;
