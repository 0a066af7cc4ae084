//! Recipes and Vulkan: how a recipe is read from create infos, and made into create infos again. What a recipe is
//! stands in the crate `vkstash-model`.
//!
//! - [`capture`] from Vulkan create infos to the model, reading only what contract 6 allows
//! - [`rebuild`] from the model back to Vulkan create infos
//! - [`chain`] walking and copying pNext chains by the table of structures

pub mod capture;
pub mod chain;
pub mod rebuild;
