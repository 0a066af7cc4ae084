//! Shader cache sessions: caches of keys and values that a program manages itself. The crate knows nothing of Vulkan.
//! docs/sessions.md says what sessions promise, and describes the bytes of the files.
//!
//! The floors, from the top down; no floor imports a higher one:
//!
//! - [`upkeep`] what the caches of an application take, and removing them
//! - [`control`] switching sessions off, and clearing them
//! - [`session`] sessions: what a program holds
//! - `cache` one cache, which sessions share
//! - `disk` its files; `front` its entries in memory
//! - `format` the bytes of the files; `locks` locks between processes; `scratch` buffers of threads; `switch` whether
//!   caches are disabled
//! - [`counts`] how many values were asked for
//! - `patience` how long to wait for another process; `pin` what keeps entries in memory while they are read
//! - `clock` the time
//! - [`description`] what a program asks for; [`error`] why it does not get it
#![cfg_attr(not(test), deny(clippy::disallowed_types))]
#![deny(unsafe_code)]

mod cache;
mod clock;
pub mod control;
pub mod counts;
pub mod description;
mod disk;
pub mod error;
mod format;
mod front;
mod locks;
mod patience;
mod pin;
mod scratch;
pub mod session;
mod switch;
pub mod upkeep;

#[cfg(test)]
#[path = "../../../layer-tests/src/skip.rs"]
mod skip;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#[allow(unsafe_code, reason = "children, descriptors and limits that a test makes itself")]
mod tests;
