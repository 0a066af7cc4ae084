//! Fossilize's archives (.foz): the container, and the JSON in it. For the command-line programs; not linked into the
//! layer.
//!
//! - [`archive`] the container: entries by tag and hash
//! - [`json`] its JSON, from and to Vulkan's create infos
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

pub mod archive;
pub mod json;
