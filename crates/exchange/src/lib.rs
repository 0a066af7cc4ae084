//! Archives of stashes, for other machines (docs/format.md, "Archives"). For the command-line programs; not linked
//! into the layer.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - [`export`] which files of a stash go into an archive; [`import`] which records of an archive are taken, and where
//!   they go
//! - `entry` names of files in an archive

mod entry;
pub mod export;
pub mod import;

#[cfg(test)]
mod tests;
