//! The caches that drivers have on disk themselves: their size limits are hidden, and easily exceeded by a large game.
//!
//! - [`vendors`] how each vendor's drivers are told about their cache
//! - [`limits`] the limits that `vkstash run` raises
//! - [`on_disk`] what the caches hold now

pub(crate) mod limits;
pub(crate) mod on_disk;
mod vendors;
