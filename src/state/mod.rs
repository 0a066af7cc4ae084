//! State of live instances, devices and their objects, in rooms from the top down:
//!
//! - [`devices`] live devices, and what is decided about each
//! - [`ahead`] pipelines that are made before the program asks for them
//! - [`caches`] pipeline caches: the program's, and the layer's own beside them
//! - [`objects`] live objects that pipelines are created from
//! - [`process`] the process and its instances: its stash, its reports, its drivers

pub mod ahead;
pub mod caches;
pub mod devices;
pub mod objects;
pub mod process;
