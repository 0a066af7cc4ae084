//! The stash on disk: one folder an application, a portable part and one part a device header.
//! docs/format.md describes every byte of it.

pub mod header;
pub mod name;
pub mod part;
pub mod runs;
pub mod stash;
