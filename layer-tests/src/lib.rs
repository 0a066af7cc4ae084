//! Test harness of the vkstash layer: programs that drive it through the real Vulkan loader.
//!
//! - [`paths`] the libraries under test
//! - [mod@env] what a program is started with: driver, layer, folders
//! - [`child`] test steps in processes of their own, because the loader's environment is per process
//! - [`vulkan`] a small Vulkan client that keeps every result
//! - [`work`] the programs that the suites run: pipelines described by a value
//! - [`programs`] real programs, with and without the layer
//! - [`report`] what the layer says that it did
//! - [`test_driver`] control of the programmable test driver
//! - [`khronos`] the Khronos loader's own test driver, and the layer's interface as the loader meets it
//! - [`skip`] what is said where a test cannot do its work
//! - [`suite`] what the suites have in common
//! - [`corpus`] real compute shaders
//! - [`translators`] clients with the habits of programs that translate shaders
//! - [mod@bench] what the client and the benchmark say to each other
//!
//! The suites stand in `tests/`, one concern a file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

pub mod bench;
pub mod child;
pub mod corpus;
pub mod env;
pub mod khronos;
pub mod paths;
pub mod programs;
pub mod report;
pub mod skip;
pub mod suite;
pub mod test_driver;
pub mod translators;
pub mod vulkan;
pub mod work;
