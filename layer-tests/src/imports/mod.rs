//! The imports of a crate, file by file, drawn from its sources: which files name each other in a circle, and which
//! name one above them. Code that only tests compile is left out.
//!
//! - [`graph`] who imports from whom, circles, and imports upwards
//! - [`floors`] the order of a crate's modules, as its map lists it
//! - [`tree`] the modules of a crate, and what a path in one of them leads to
//! - [`source`] what a file says: modules, imports, paths

pub mod floors;
pub mod graph;
pub mod source;
#[cfg(test)]
mod tests;
pub mod tree;
