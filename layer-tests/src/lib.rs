//! Test harness of the vkstash layer: programs that drive it through the real Vulkan loader.
//!
//! - [`paths`] the libraries under test
//! - [`env`] what a program is started with: driver, layer, folders
//! - [`child`] test steps in processes of their own, because the loader's environment is per process
//! - [`report`] what the layer says that it did
//! - [`vulkan`] a small Vulkan client that keeps every result
//! - [`suite`] what the suites have in common
//! - [`work`] the programs that the suites run: pipelines described by a value

//!
//! The suites stand in `tests/`, one concern a file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

pub mod child;
pub mod env;
pub mod paths;
pub mod report;
pub mod suite;
pub mod vulkan;
pub mod work;
