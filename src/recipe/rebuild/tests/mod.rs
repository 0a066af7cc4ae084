//! The round trip from a recipe to Vulkan and back.
//!
//! - [`again`] rebuilds and captures again; the tests of capture pass everything that they describe through it
//! - `hostile` encodings that somebody has changed
//! - `parts` what a test of capture does not show

pub mod again;
mod hostile;
mod parts;
