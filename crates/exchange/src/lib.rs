//! Archives for other machines: those of stashes (docs/format.md, "Archives"), and Fossilize's. For the command-line
//! programs; not linked into the layer.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - [`export`] which files of a stash go into an archive; [`import`] which records of an archive are taken, and where
//!   they go
//! - [`foz`] recipes from and to the archives of Fossilize
//! - [`pulled`] bases that were fetched from stores, as they count towards the limit
//! - `entry` names of files in an archive
//! - `quarantine` what an archive says of artifacts that processes died of
//! - `sink` records on their way into a stash

mod entry;
pub mod export;
pub mod foz;
pub mod import;
pub mod pulled;
mod quarantine;
mod sink;

#[cfg(test)]
mod tests;

pub use sink::NotWritten;
