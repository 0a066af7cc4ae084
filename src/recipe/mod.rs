//! Recipes: owned, driver-independent descriptions of everything that decides one pipeline.
//!
//! - [`model`] what a recipe holds
//! - [`structures`] the one table of pNext structures: hashed, ignored, or a reason to bypass
//! - [`newer`] structures that the bindings do not have yet
//! - [`chain`] walking and copying pNext chains by that table
//! - [`capture`] from Vulkan create infos to the model, reading only what the contract allows
//! - [`key`] encoding and hashing; `list` lists whose length is not believed

pub mod capture;
pub mod chain;
pub mod key;
mod list;
pub mod model;
pub mod newer;
pub mod structures;
