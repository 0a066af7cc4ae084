//! Recipes and Vulkan: how a recipe is read from create infos, and made into create infos again. What a recipe is
//! stands in the crate `vkstash-model`. No driver is called here.
//!
//! - [`capture`] from Vulkan create infos to the model, reading only what contract 6 allows
//! - [`rebuild`] from the model back to Vulkan create infos
//! - [`device_configuration`] how a device was created, and what of it changes code; [`application`] what the program
//!   says of itself
//! - [`chain`] walking and copying pNext chains by the table of structures

pub mod application;
pub mod capture;
pub mod chain;
pub mod device_configuration;
pub mod rebuild;
