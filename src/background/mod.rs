//! Work that nobody has asked for yet: pipelines that are finished before the program requests them.
//!
//! - [`objects`] modules, layouts and render passes of the layer's own, made of the stash's records
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod objects;
