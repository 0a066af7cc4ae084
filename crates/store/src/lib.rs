//! The stash on disk: one folder an application, with a portable part and one part a device header. Nothing here knows
//! Vulkan. docs/format.md describes every byte of the files.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - [`stash`] one application's stash, open: what the layer and the tool hold; the thread that writes it
//! - [`part`] one part of it: reading and queueing records
//! - [`upkeep`] carrying out what [`bounds`] decides
//! - [`reports`] what processes did, and what that adds up to
//! - [`settings`] limits that the user sets
//! - `segment` segment files: opening, scanning, appending, cleaning up
//! - [`bounds`] what is kept, and which segments are merged
//! - [`codec`] how payloads are made small
//! - `disk` every file operation, and folders that are opened safely
//! - [`mod@format`] the bytes of the files
//! - [`forks`], [`base`] forked children; threads, memory, signals
// Allowed in `base` (signals, threads, descriptors), in `forks`, and in one function of `disk`.
#![deny(unsafe_code)]
pub mod base;
pub mod bounds;
pub mod codec;
mod disk;
pub mod forks;
pub mod format;
pub mod part;
pub mod reports;
mod segment;
pub mod settings;
pub mod stash;
pub mod upkeep;

// What other crates compile too names this one as they do.
#[cfg(test)]
extern crate self as vkstash_store;

#[cfg(test)]
#[path = "../../../layer-tests/src/skip.rs"]
mod skip;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#[allow(unsafe_code, reason = "children, descriptors and signals that a test makes itself")]
mod tests;
