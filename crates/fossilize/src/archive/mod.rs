//! The container of Fossilize (.foz, its class `StreamArchive`): entries by tag and hash.
//!
//! - `reader` ([`Reader`]) payloads on request; `writer` ([`Writer`]) a new archive
//! - `scan` ([`Entry`]) the index of a file
//! - `inflate` compressed payloads
//! - `error` ([`OpenError`], [`Damage`], [`WriteError`]) what can go wrong
//! - [`layout`] the bytes of the container
//! - `tag` ([`Tag`]) what an entry describes
//! - [`payload`] the JSON and the binary part of a payload; [`varint`] SPIR-V words in the binary part
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
