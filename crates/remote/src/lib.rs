//! Bases of vkstash in object stores: fetching what a store has for the programs of this machine, and publishing what
//! was recorded (docs/remote.md). For the program `vkstash-remote`; linked into neither the layer nor the tool.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - [`program`] the command line
//! - [`build`] from the inbox into a stash; [`push`] from a stash into a store
//! - `machine` what is known before a program runs; `in_use` whether programs look into the base
//! - [`pull`] from a store into a base; `gather` new segments of what a stash has
//! - [`accepted`] what was accepted before, and whether it still counts
//! - `withdrawn` what a store has no more
//! - [`home`] what this machine has of a store; [`fetch`] downloads; [`segment`] whether a segment is what it should be
//! - [`room`] what the limit of the stash leaves
//! - [`replace`] an object that others may write too
//! - [`bucket`] an object store; [`trust`] pinned signers; [`key`] keys that sign
//! - [`manifest`], [`revocations`], [`envelope`] what is signed, and how; [`progress`] what is told, and how fast it
//!   goes
//! - [`names`] names of objects; `start` how this process was started; `signals` how it is ended

pub mod accepted;
pub mod bucket;
pub mod build;
pub mod envelope;
pub mod fetch;
mod gather;
pub mod home;
mod in_use;
pub mod key;
mod machine;
pub mod manifest;
pub mod names;
pub mod program;
pub mod progress;
pub mod pull;
pub mod push;
pub mod replace;
pub mod revocations;
pub mod room;
pub mod segment;
mod signals;
mod start;
pub mod trust;
mod withdrawn;
