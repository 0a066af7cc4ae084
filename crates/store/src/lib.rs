//! The stash on disk: one folder for each application, with a portable part and one part for each device header. The
//! crate calls no Vulkan: what identifies a device or a driver is a number to it, and what the layer keeps of it are
//! records of some kind. docs/format.md describes the bytes of the files.
//!
//! The floors, from the top down; no floor imports a higher one:
//!
//! - [`stash`] one application's stash: what the layer and the tool hold, and its threads
//! - [`part`] one part of it: reading and queueing records
//! - [`maintenance`] enforcing limits and merging segments
//! - [`reports`] the reports of processes, and their sums
//! - [`settings`] limits that the user sets
//! - `segment` segment files: opening, scanning, appending, cleaning up
//! - [`bounds`] decisions: what is kept, and which segments are merged
//! - [`codec`] compression of payloads
//! - [`home`] the folders of an application
//! - [`mod@format`] the bytes of the files
#![cfg_attr(not(test), deny(clippy::disallowed_types))]
#![deny(unsafe_code)]
pub mod bounds;
pub mod codec;
pub mod format;
pub mod home;
pub mod maintenance;
pub mod part;
pub mod reports;
mod segment;
pub mod settings;
pub mod stash;

// Files of tests that other crates compile too (`#[path]`) call this crate by its name.
#[cfg(test)]
extern crate self as vkstash_store;

#[cfg(test)]
#[path = "../../../layer-tests/src/skip.rs"]
mod skip;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#[allow(unsafe_code, reason = "children, descriptors and signals that a test makes itself")]
mod tests;
