//! Which caches there are for a driver, as the flags that D3D12 has for that.

use ash::vk;

use super::policy;
use super::switches::{self, CacheKinds};
use crate::config::{self, Config};

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
    let driver = vk::DriverId::from_raw(driver as i32);
    let mut flags = SINGLE_PIPELINE | LIBRARY;
    let has_stash = !config::inert()
        && policy::of(driver).artifacts
        && !switches::is_off(CacheKinds::COMPILATIONS)
        && Config::from_environment().root.is_some();
    if has_stash {
        flags |= AUTOMATIC_INPROC | AUTOMATIC_DISK;
    }
    if has_own_cache(driver, environment) {
        flags |= DRIVER_MANAGED;
    }
    flags
}

/// Whether the driver keeps what it compiles on disk.
fn has_own_cache(driver: vk::DriverId, environment: &dyn Fn(&str) -> Option<String>) -> bool {
    let says = |name, values: &[&str]| {
        environment(name).is_some_and(|value| values.contains(&value.to_ascii_lowercase().as_str()))
    };
    match driver {
        // docs.mesa3d.org/envvars.html: the cache is on unless this variable says otherwise.
        vk::DriverId::MESA_RADV
        | vk::DriverId::INTEL_OPEN_SOURCE_MESA
        | vk::DriverId::MESA_TURNIP
        | vk::DriverId::MESA_V3DV
        | vk::DriverId::MESA_PANVK
        | vk::DriverId::MESA_VENUS
        | vk::DriverId::MESA_DOZEN
        | vk::DriverId::MESA_NVK => {
            !says("MESA_SHADER_CACHE_DISABLE", &["1", "true", "yes", "y"])
                && !says("MESA_GLSL_CACHE_DISABLE", &["1", "true", "yes", "y"])
        }
        // docs/measurements.md measures with it.
        vk::DriverId::NVIDIA_PROPRIETARY => !says("__GL_SHADER_DISK_CACHE", &["0"]),
        vk::DriverId::AMD_PROPRIETARY | vk::DriverId::AMD_OPEN_SOURCE => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_own_cache_is_there_unless_the_environment_switches_it_off() {
        let of = |driver: vk::DriverId, variable: (&str, &str)| {
            of(driver.as_raw() as u32, &|name| (name == variable.0).then(|| variable.1.to_owned()))
                & DRIVER_MANAGED
        };
        let nothing = ("", "");
        assert_eq!(of(vk::DriverId::MESA_RADV, nothing), DRIVER_MANAGED);
        assert_eq!(of(vk::DriverId::MESA_RADV, ("MESA_SHADER_CACHE_DISABLE", "True")), 0);
        assert_eq!(of(vk::DriverId::NVIDIA_PROPRIETARY, ("__GL_SHADER_DISK_CACHE", "1")), DRIVER_MANAGED);
        assert_eq!(of(vk::DriverId::NVIDIA_PROPRIETARY, ("__GL_SHADER_DISK_CACHE", "0")), 0);
        assert_eq!(of(vk::DriverId::MESA_LLVMPIPE, nothing), 0);
        assert_eq!(of(vk::DriverId::default(), nothing), 0);
    }
}
