//! vkstash: a Vulkan implicit layer that gives every program a persistent pipeline stash.
#![allow(non_snake_case, reason = "the library's file name follows the Vulkan loader's conventions")]

pub mod identifier;
pub mod recipe;
pub mod stats;
pub mod store;
