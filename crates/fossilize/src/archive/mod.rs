//! The container of Fossilize (.foz, its class `StreamArchive`): entries by tag and hash.
//!
//! - [`Reader`] (`reader.rs`, `scan.rs`) the index of a file, and payloads on request
//! - [`Writer`] (`writer.rs`) a new archive
//! - [`Tag`] (`tag.rs`) what an entry describes
//! - [`layout`] the bytes of the container
//! - `inflate.rs` compressed payloads
//! - [`payload`] the JSON and the binary part of a payload
//! - [`varint`] SPIR-V words in the binary part
//! - `error.rs` what can go wrong
//!
//! The format is described in Fossilize's `fossilize_db.cpp`. A file that another process is writing is read up to its
//! last complete entry. A damaged entry never makes the others unreadable, unless the size in its header is wrong: the
//! container has no marks from which a reader could find the next entry.

mod error;
mod inflate;
pub mod layout;
pub mod payload;
mod reader;
mod scan;
mod tag;
pub mod varint;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{Damage, OpenError, WriteError};
pub use layout::MAX_PAYLOAD;
pub use reader::{Payloads, Reader};
pub use scan::{Entry, MAX_ENTRIES, Skipped};
pub use tag::Tag;
pub use writer::Writer;
