//! Live devices, and what is decided about each.
//!
//! - [`live_devices`] live devices, found by dispatch key
//! - [`known_objects`] what capture is told of a device's objects; [`identifiers`] the identities of its modules
//! - [`kept`] what is recorded and served on a device; [`stash`] its stash
//! - [`device`] one of them; [`decided`] what vkCreateDevice has decided about it
//! - [`estimates`] what asking the sources of pipelines has brought; [`failures`] pipelines that the driver refuses
//! - [`deferred`] creation calls that the driver has not finished; [`compiling`] marks what it compiles
//! - [`width`] how many threads at a time enter a driver with served calls

pub mod compiling;
pub mod decided;
pub mod deferred;
pub mod device;
pub mod estimates;
pub mod failures;
mod identifiers;
mod kept;
mod known_objects;
pub mod live_devices;
mod stash;
pub mod width;
