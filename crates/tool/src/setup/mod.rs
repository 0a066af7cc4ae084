//! The layer on this machine: commands that install it, and that find out why programs run without it.
//!
//! - [`install`] `vkstash install`, `vkstash uninstall`
//! - [`doctor`] `vkstash doctor`
//! - [`development`] the header and the file for pkg-config
//! - [`update_service`] the service that compiles again by itself after an update of a driver

pub(crate) mod development;
pub(crate) mod doctor;
pub(crate) mod install;
pub(crate) mod update_service;
