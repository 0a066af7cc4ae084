//! Recipes from and to the archives of Fossilize.
//!
//! An archive has create infos, whose handles are hashes of other objects. They are read by the same code that reads
//! those of a program (`vkstash-recipe`), so that a pipeline has the key under which the program will ask for it.
//!
//! - [`import`] from an archive; [`export`] to one
//! - `objects` what pipelines of an archive name
//! - `chain` structures that Fossilize keeps in other chains than Vulkan

mod chain;
pub mod export;
pub mod import;
mod objects;
