//! The descriptions of all structures.
//!
//! - [`mappings`] where a stage finds its descriptors in a heap: a union, read and written by hand
//! - [`objects`] modules, samplers, layouts, and what stands in their chains
//! - [`render_pass`] render passes of both versions, and what stands in their chains
//! - [`state`] the state of graphics pipelines; [`state_links`] what stands in its chains
//! - [`pipelines`] stages and pipelines, and what stands in their chains
//! - [`device`] the application and its device
//! - [`flat`] structures whose inner structures have no object of their own, by hand
//! - [`newer`] structures that neither the bindings nor the layer's model have

pub mod device;
pub mod flat;
pub mod mappings;
pub mod newer;
pub mod objects;
pub mod pipelines;
pub mod render_pass;
pub mod state;
pub mod state_links;
