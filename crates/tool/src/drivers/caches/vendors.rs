//! Table of vendors: the variables by which their drivers are told about their caches, and the folders of these.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ash::vk;

/// The value of an environment variable.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// One vendor's drivers.
pub(super) struct Vendor {
    pub(super) name: &'static str,
    pub(super) drivers: &'static [vk::DriverId],
    /// The variable for the size, first; what else says that the user chose a size.
    pub(super) sizes: &'static [&'static str],
    /// Variables that name the folder in which the cache is, in place of the user's cache folder.
    folders: &'static [&'static str],
    /// The cache's folders in the folder that a variable names, and in the user's cache folder.
    names: (&'static [&'static str], &'static [&'static str]),
    /// The value of the variable for the size.
    pub(super) value: fn(u64) -> String,
    /// The size that a value of that variable means, in bytes.
    pub(super) parse: fn(&str) -> Option<u64>,
    /// The limit where no variable says one. None: it is not documented.
    pub(super) default: Option<u64>,
}

/// Mesa has one of these folders, by the kind of cache that it was built with or is told to use.
const MESA: &[&str] = &["mesa_shader_cache", "mesa_shader_cache_sf", "mesa_shader_cache_db"];

pub(super) const VENDORS: [Vendor; 2] = [
    // docs.mesa3d.org/envvars.html
    Vendor {
        name: "Mesa",
        drivers: &[
            vk::DriverId::MESA_RADV,
            vk::DriverId::INTEL_OPEN_SOURCE_MESA,
            vk::DriverId::MESA_LLVMPIPE,
            vk::DriverId::MESA_TURNIP,
            vk::DriverId::MESA_V3DV,
            vk::DriverId::MESA_PANVK,
            vk::DriverId::MESA_VENUS,
            vk::DriverId::MESA_DOZEN,
            vk::DriverId::MESA_NVK,
        ],
        sizes: &["MESA_SHADER_CACHE_MAX_SIZE", "MESA_GLSL_CACHE_MAX_SIZE"],
        folders: &["MESA_SHADER_CACHE_DIR", "MESA_GLSL_CACHE_DIR"],
        names: (MESA, MESA),
        value: |bytes| format!("{}G", bytes >> 30),
        parse: mesa_size,
        default: Some(1 << 30),
    },
    // The driver's README, "Shader disk cache".
    Vendor {
        name: "NVIDIA",
        drivers: &[vk::DriverId::NVIDIA_PROPRIETARY],
        // With the second variable the driver removes nothing.
        sizes: &["__GL_SHADER_DISK_CACHE_SIZE", "__GL_SHADER_DISK_CACHE_SKIP_CLEANUP"],
        folders: &["__GL_SHADER_DISK_CACHE_PATH"],
        names: (&["GLCache"], &["nvidia/GLCache"]),
        value: |bytes| bytes.to_string(),
        parse: |text| text.parse().ok(),
        default: None,
    },
];

impl Vendor {
    /// The folder in which the cache is, which need not exist, and the cache's folders in it.
    pub(super) fn place(&self, variable: Variable<'_>) -> Option<(PathBuf, &'static [&'static str])> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(chosen) = self.folders.iter().find_map(|name| set(name)) {
            return Some((chosen, self.names.0));
        }
        let of_user = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        of_user.map(|folder| (folder, self.names.1))
    }
}

/// What an ordinary user may still write to the disk of this path, or of the closest folder above it that exists.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let found = path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// A number with K, M or G behind it; G without one.
fn mesa_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.bytes().next() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        _ => 30,
    };
    number.parse::<u64>().ok().filter(|&number| number > 0)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_drivers_read_them() {
        let sizes = ["512M", "10G", "3", "64K", "0", "", "x", "99999999999G"].map(mesa_size);
        let known = [Some(512 << 20), Some(10 << 30), Some(3 << 30), Some(64 << 10)];
        assert_eq!(sizes[..4], known);
        assert_eq!(sizes[4..], [None; 4]);
        for vendor in VENDORS {
            assert_eq!((vendor.parse)(&(vendor.value)(10 << 30)), Some(10 << 30), "{}", vendor.name);
        }
    }

    #[test]
    fn the_free_space_of_a_folder_to_be_is_that_of_its_disk() {
        assert_eq!(free_bytes(Path::new("/no/such/folder")).is_some(), free_bytes(Path::new("/")).is_some());
        assert!(free_bytes(Path::new("/")).is_some());
    }
}
