//! The caches that drivers have on disk themselves.

use ash::vk;

/// What a driver does with what it has compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverCache {
    /// The driver is not known to keep anything on disk.
    Unknown,
    /// The environment switches the driver's cache off.
    Disabled,
    /// The driver keeps what it has compiled on disk.
    Enabled,
}

impl DriverCache {
    /// The cache of the driver with this VkDriverId, in an environment.
    pub fn of(driver: u32, environment: &dyn Fn(&str) -> Option<String>) -> DriverCache {
        let says = |name, values: &[&str]| {
            environment(name).is_some_and(|value| values.contains(&value.to_ascii_lowercase().as_str()))
        };
        let disabled = match vk::DriverId::from_raw(driver as i32) {
            // docs.mesa3d.org/envvars.html: the cache is on unless one of these variables says otherwise.
            vk::DriverId::MESA_RADV
            | vk::DriverId::INTEL_OPEN_SOURCE_MESA
            | vk::DriverId::MESA_TURNIP
            | vk::DriverId::MESA_V3DV
            | vk::DriverId::MESA_PANVK
            | vk::DriverId::MESA_VENUS
            | vk::DriverId::MESA_DOZEN
            | vk::DriverId::MESA_NVK => {
                says("MESA_SHADER_CACHE_DISABLE", &["1", "true", "yes", "y"])
                    || says("MESA_GLSL_CACHE_DISABLE", &["1", "true", "yes", "y"])
            }
            // docs/evidence/measurements.md measures with it.
            vk::DriverId::NVIDIA_PROPRIETARY => says("__GL_SHADER_DISK_CACHE", &["0"]),
            vk::DriverId::AMD_PROPRIETARY | vk::DriverId::AMD_OPEN_SOURCE => false,
            _ => return DriverCache::Unknown,
        };
        if disabled { DriverCache::Disabled } else { DriverCache::Enabled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_own_cache_is_there_unless_the_environment_switches_it_off() {
        let of = |driver: vk::DriverId, (variable, value): (&str, &str)| {
            DriverCache::of(driver.as_raw() as u32, &|name| (name == variable).then(|| value.to_owned()))
        };
        let (radv, nvidia) = (vk::DriverId::MESA_RADV, vk::DriverId::NVIDIA_PROPRIETARY);
        let nothing = ("", "");
        assert_eq!(of(radv, nothing), DriverCache::Enabled);
        assert_eq!(of(radv, ("MESA_SHADER_CACHE_DISABLE", "True")), DriverCache::Disabled);
        assert_eq!(of(radv, ("__GL_SHADER_DISK_CACHE", "0")), DriverCache::Enabled);
        assert_eq!(of(nvidia, ("__GL_SHADER_DISK_CACHE", "1")), DriverCache::Enabled);
        assert_eq!(of(nvidia, ("__GL_SHADER_DISK_CACHE", "0")), DriverCache::Disabled);
        assert_eq!(of(vk::DriverId::MESA_LLVMPIPE, nothing), DriverCache::Unknown);
        assert_eq!(of(vk::DriverId::default(), nothing), DriverCache::Unknown);
    }
}
