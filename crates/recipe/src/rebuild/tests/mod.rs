//! The round trip from a recipe to Vulkan and back.
//!
//! - [`round_trip`] rebuilds and captures again; the tests of capture pass everything that they describe through it
//! - `hostile` encodings that somebody has changed
//! - `parts` what a test of capture does not show
//! - `shaders` shader objects

mod hostile;
mod parts;
pub mod round_trip;
mod shaders;
