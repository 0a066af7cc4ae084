//! Fossilize's JSON, from and to Vulkan's create infos. Handles in them are hashes of other objects.
//!
//! From the top down:
//!
//! - [`read`] and [`mod@write`] documents
//! - `table` which structures may stand in pNext chains
//! - `structures` the description of each structure
//! - `structure` and `structure_form` how descriptions become code; `chain` pNext chains; `members` the kinds
//!   of members
//! - `scalars` numbers, flags and handles; `encodings` base64 and packed SPIR-V
//! - `form` what has a form in JSON
//! - `reader` and `writer` what reading and writing carry along; `arena` the memory of what was read
//! - `document` a document in memory
//! - [`error`] why a document was not read or written

mod arena;
mod chain;
mod document;
mod encodings;
pub mod error;
mod form;
mod members;
pub mod read;
mod reader;
#[cfg(test)]
mod samples;
mod scalars;
mod structure;
mod structure_form;
#[cfg(test)]
mod structure_samples;
mod structures;
mod table;
#[cfg(test)]
mod tests;
pub mod write;
mod writer;

pub use error::{ParseError, WriteError};
pub use read::{ParsedDocument, parse};
