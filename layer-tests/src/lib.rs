//! Test harness of the vkstash layer: programs that drive it through the real Vulkan loader.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - [`suite`] helpers that all suites use
//! - [`work`] the programs that the suites run: pipelines described by a value
//! - [`khronos`] the Khronos loader's own test driver, and the layer's interface to the loader
//! - [`programs`] real programs, with and without the layer
//! - [`child`] test steps in processes of their own, because the loader's environment belongs to the process
//! - [`observed`] what programs see in each step, to compare two builds
//! - [mod@env] the environment of a program: driver, layer, folders
//! - [`test_driver`] control of the programmable test driver
//! - [`engines`] the habits of engines that cache their pipelines
//! - [`translators`] clients with the habits of programs that translate shaders
//! - [`vulkan`] a small Vulkan client that keeps every result
//! - [`api`] the C API of the layer in this process
//! - [`folder`] copies of stashes; [`paths`] the libraries under test; [`waiting`] waiting for threads of the layer;
//!   [`corpus`] real compute shaders; [mod@bench] the reports of the client to the benchmark; [`report`] the layer's
//!   run reports; [`skip`] reports of skipped tests
//! - [`imports`] the imports of a crate, circles among them, and imports upwards
//!
//! The suites are in `tests/`, one concern in a file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

pub mod api;
pub mod bench;
pub mod child;
pub mod corpus;
pub mod engines;
pub mod env;
pub mod folder;
pub mod imports;
pub mod khronos;
pub mod observed;
pub mod paths;
pub mod programs;
pub mod report;
pub mod skip;
pub mod suite;
pub mod test_driver;
pub mod translators;
pub mod updates;
pub mod vulkan;
pub mod waiting;
pub mod work;
