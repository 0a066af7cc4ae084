//! Pipelines that are made before the program asks for them.
//!
//! - [`of_device`] all of this for a device
//! - [`parked`] those that were finished; [`plan`] which ones are made, in which order
//! - [`driver_hits`] pipelines that the driver had, which wait to be recorded
//! - [`lending`] the program's layouts in the hands of workers
//! - [`background_work`] what a device tells its background work

pub mod background_work;
pub mod driver_hits;
pub mod lending;
pub mod of_device;
pub mod parked;
pub mod plan;
