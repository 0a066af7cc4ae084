//! The caches that there are for a driver, in flags like D3D12_SHADER_CACHE_SUPPORT_FLAGS.

use ash::vk;

use super::policy;
use super::switches::{self, CacheKinds};
use crate::config::{self, Config};
use vkstash_model::driver_caches::DriverCache;

/// A pipeline's compiled state can be had and handed over. Always.
pub const SINGLE_PIPELINE: u32 = 0x1;
/// Pipelines can be kept together in a pipeline cache. Always.
pub const LIBRARY: u32 = 0x2;
/// What this process has compiled is found again in this process.
pub const AUTOMATIC_INPROC: u32 = 0x4;
/// What earlier processes have compiled is found again.
pub const AUTOMATIC_DISK: u32 = 0x8;
/// The driver has a cache of its own on disk.
pub const DRIVER_MANAGED: u32 = 0x10;

/// The flags for a driver, in an environment.
pub fn of(driver: u32, environment: &dyn Fn(&str) -> Option<String>) -> u32 {
    let mut flags = SINGLE_PIPELINE | LIBRARY;
    let has_stash = !config::inert()
        && policy::of(vk::DriverId::from_raw(driver as i32)).artifacts
        && !switches::is_off(CacheKinds::COMPILATIONS)
        && Config::from_environment().root.is_some();
    if has_stash {
        flags |= AUTOMATIC_INPROC | AUTOMATIC_DISK;
    }
    if DriverCache::of(driver, environment) == DriverCache::Enabled {
        flags |= DRIVER_MANAGED;
    }
    flags
}
