//! Live objects that pipelines are created from.
//!
//! - [`of_device`] those of a device
//! - [`described`] modules, layouts, render passes and samplers, described when they were created
//! - [`shader_code`] what live shader objects were made of
//! - [`by_handle`] tables of live objects

pub mod by_handle;
pub mod described;
pub mod of_device;
pub mod shader_code;
