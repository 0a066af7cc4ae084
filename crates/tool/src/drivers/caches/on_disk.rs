//! Contents of the drivers' own caches now.

use std::env;
use std::path::{Path, PathBuf};

use ash::vk;
use walkdir::WalkDir;

use super::vendors::{VENDORS, Variable, Vendor};

/// A folder of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnDisk {
    pub(crate) vendor: &'static str,
    pub(crate) folder: PathBuf,
    /// The sum of the files' sizes.
    pub(crate) bytes: u64,
    /// What the driver removes the oldest entries at. None: its own limit, which is not known.
    pub(crate) limit: Option<u64>,
    /// The variable that would set another one.
    pub(crate) variable: &'static str,
}

/// The caches that exist in this environment. Folders that cannot be read count as empty.
pub(crate) fn all() -> Vec<OnDisk> {
    all_with(&|name| env::var_os(name))
}

/// The caches that exist with these variables in place of the environment's own.
pub(crate) fn all_with(variable: Variable<'_>) -> Vec<OnDisk> {
    VENDORS.iter().flat_map(|vendor| of_vendor(vendor, variable)).collect()
}

/// The vendor of the driver with this VkDriverId, where its cache is one of these.
pub(crate) fn vendor_of(driver: u32) -> Option<&'static str> {
    let id = vk::DriverId::from_raw(driver as i32);
    VENDORS.iter().find(|vendor| vendor.drivers.contains(&id)).map(|vendor| vendor.name)
}

fn of_vendor(vendor: &'static Vendor, variable: Variable<'_>) -> Vec<OnDisk> {
    let Some((parent, names)) = vendor.place(variable) else { return Vec::new() };
    let folders = names.iter().map(|name| parent.join(name)).filter(|folder| folder.is_dir());
    let chosen =
        vendor.sizes.first().and_then(|name| variable(name)).map(|text| text.to_string_lossy().into_owned());
    let limit = chosen.and_then(|text| (vendor.parse)(&text)).or(vendor.default);
    let variable = vendor.sizes.first().copied().unwrap_or_default();
    folders
        .map(|folder| OnDisk { vendor: vendor.name, bytes: bytes_in(&folder), folder, limit, variable })
        .collect()
}

fn bytes_in(folder: &Path) -> u64 {
    let files = WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn sizes_and_limits_are_those_of_the_environment() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("chosen/mesa_shader_cache_db");
        fs::create_dir_all(folder.join("part0")).unwrap();
        fs::write(folder.join("part0/mesa_cache.db"), [0; 1000]).unwrap();
        let own = home.path().join(".cache/nvidia/GLCache/1/2");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("x.bin"), [0; 30]).unwrap();
        let found = |chosen: bool| {
            all_with(&|name| match name {
                "HOME" => Some(home.path().into()),
                "MESA_SHADER_CACHE_DIR" if chosen => Some(home.path().join("chosen").into()),
                "MESA_SHADER_CACHE_MAX_SIZE" => Some("512M".into()),
                _ => None,
            })
        };
        let [mesa, nvidia] = found(true).try_into().unwrap();
        assert_eq!((mesa.vendor, mesa.bytes, mesa.limit), ("Mesa", 1000, Some(512 << 20)));
        assert_eq!(mesa.folder, folder);
        assert_eq!((nvidia.vendor, nvidia.bytes, nvidia.limit), ("NVIDIA", 30, None));
        assert_eq!(found(false).len(), 1);
    }

    #[test]
    fn a_driver_has_the_cache_of_its_vendor() {
        let of = |id: vk::DriverId| vendor_of(id.as_raw() as u32);
        assert_eq!(of(vk::DriverId::MESA_RADV), Some("Mesa"));
        assert_eq!(of(vk::DriverId::NVIDIA_PROPRIETARY), Some("NVIDIA"));
        assert_eq!(of(vk::DriverId::MOLTENVK), None);
    }
}
