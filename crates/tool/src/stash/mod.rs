//! The stash as all commands see it: its place, and what they find in it.
//!
//! - [`pulled_bases`] bases that were fetched, and what they take of the limits
//! - [`session_caches`] the caches of sessions, and what they take of the limits
//! - [`choice`] the application that a name means
//! - [`pipeline_choice`] the pipeline that the digits of a key mean
//! - [`deaths`] pipelines at which programs ended, in words
//! - [`root`] the place of the stash

pub(crate) mod choice;
pub(crate) mod deaths;
pub(crate) mod pipeline_choice;
pub(crate) mod pulled_bases;
pub(crate) mod root;
pub(crate) mod session_caches;
