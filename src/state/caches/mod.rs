//! Pipeline caches: the program's, and the layer's own beside them.
//!
//! - [`program_cache`] the cache that a call passes
//! - [`of_device`] the pipeline caches of a device
//! - [`cache_state`] what is known of each pipeline cache of the program; [`cache_answer`] what was made beside one
//! - [`pending`] what was made beside them, or beside VK_NULL_HANDLE; [`blob_digests`] tells which of it is equal
//! - [`companion`] caches of the layer's with what the program's would hold without it
//! - [`private_cache`] pipeline caches of the layer's; [`sized_data`] how drivers are asked for data
//! - [`cache_data_probe`] which classes of pipelines a driver's caches hold; [`pipeline_class`] the classes

pub mod blob_digests;
pub mod cache_answer;
pub mod cache_data_probe;
pub mod cache_state;
pub mod companion;
pub mod of_device;
pub mod pending;
pub mod pipeline_class;
pub mod private_cache;
pub mod program_cache;
pub mod sized_data;
