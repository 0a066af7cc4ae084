//! The imports of a crate, file by file, read from its sources: files that import each other in a circle, and files
//! that import one above them. Code that only tests compile is left out.
//!
//! - [`graph`] the graph of imports, its circles, and imports upwards
//! - [`floors`] the order of a crate's modules, as its map lists it
//! - [`tree`] the modules of a crate, and the target of a path in one of them
//! - [`source`] modules, imports and paths in a file

pub mod floors;
pub mod graph;
pub mod source;
#[cfg(test)]
mod tests;
pub mod tree;
