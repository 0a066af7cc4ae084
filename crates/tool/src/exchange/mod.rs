//! Commands that take recordings to other machines and from them, and the archives that they read and write.
//!
//! - [`base`] `vkstash base`: stashes that programs only read
//! - [`export`] `vkstash export`: writing an archive
//! - [`import`] `vkstash import`: reading one
//! - [`foz`] archives of Fossilize
//! - [`steam`] the archives of Fossilize that Steam keeps
//! - [`remote`] the program for object stores

pub(crate) mod base;
pub(crate) mod export;
pub(crate) mod foz;
pub(crate) mod import;
pub(crate) mod remote;
pub(crate) mod steam;
