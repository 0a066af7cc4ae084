//! Versions of a driver, compared by what they have compiled for an application.

use crate::format::device::DeviceHeader;
use crate::stash::inspect::PartInfo;
use vkstash_model::record::Kind;

/// A version with at least this share (in tenths) of another version's pipelines counts as complete: the program does
/// not use the other pipelines any more, or they could not be made.
const NEARLY_ALL: u64 = 9;

/// One version of a driver, on one device: a device header without the features that a program enabled. Many programs
/// enable every feature that a driver offers, so an update of the driver changes their features. Artifacts that were
/// made with the recorded features are of use to these programs all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverVersion {
    /// VkPhysicalDeviceProperties::vendorID.
    pub vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    pub device_id: u32,
    /// VkDriverId. 0: a program did not ask, because it uses Vulkan 1.0, or the driver does not tell.
    pub driver_id: u32,
    /// VkPhysicalDeviceProperties::driverVersion.
    pub driver_version: u32,
    /// VkPhysicalDeviceProperties::pipelineCacheUUID: two builds of one version differ in it alone.
    pub pipeline_cache_uuid: [u8; 16],
    /// Length of a pointer, in bytes.
    pub pointer_width: u8,
    /// Version of the schema of keys.
    pub schema: u32,
}

impl From<&DeviceHeader> for DriverVersion {
    fn from(header: &DeviceHeader) -> DriverVersion {
        DriverVersion {
            vendor_id: header.vendor_id,
            device_id: header.device_id,
            driver_id: header.driver_id,
            driver_version: header.driver_version,
            pipeline_cache_uuid: header.pipeline_cache_uuid,
            pointer_width: header.pointer_width,
            schema: header.schema,
        }
    }
}

impl DriverVersion {
    /// Whether both are versions of one driver, on the same device.
    pub fn is_of_the_driver_of(&self, other: &DriverVersion) -> bool {
        let of = |version: &DriverVersion| {
            (version.vendor_id, version.device_id, version.pointer_width, version.schema)
        };
        let is_one_driver = self.driver_id == other.driver_id || self.driver_id == 0 || other.driver_id == 0;
        of(self) == of(other) && is_one_driver
    }

    /// Whether both are the same version of one driver.
    fn is(&self, other: &DriverVersion) -> bool {
        let of = |version: &DriverVersion| (version.driver_version, version.pipeline_cache_uuid);
        of(self) == of(other)
    }
}

/// The pipelines that a version of a driver has compiled, beside those of a version that has compiled more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Pipelines that this version has compiled.
    pub now: u64,
    /// Pipelines that the version with the most pipelines has compiled.
    pub before: u64,
    /// VkPhysicalDeviceProperties::driverVersion of the version with the most pipelines.
    pub other_version: u32,
}

impl Behind {
    /// Pipelines that this version has yet to compile.
    pub fn missing(&self) -> u64 {
        self.before.saturating_sub(self.now)
    }
}

/// Whether another version of this driver has compiled many more pipelines of the application whose parts these are.
pub fn behind(parts: &[PartInfo], version: &DriverVersion) -> Option<Behind> {
    // A program with two sets of features has two parts, which have mostly the same pipelines.
    let most = |is_current: bool| {
        let of_version = |part: &PartInfo| {
            let by = part.device.as_ref().map(DriverVersion::from)?;
            let counts = by.is_of_the_driver_of(version) && by.is(version) == is_current;
            counts.then(|| (pipelines(part), by.driver_version))
        };
        parts.iter().filter_map(of_version).max().unwrap_or((0, 0))
    };
    let ((now, _), (before, other_version)) = (most(true), most(false));
    let is_behind = now.saturating_mul(10) < before.saturating_mul(NEARLY_ALL);
    is_behind.then_some(Behind { now, before, other_version })
}

/// The pipelines in a part.
fn pipelines(part: &PartInfo) -> u64 {
    let of = |kind: Kind| part.records.get(kind.name()).copied().unwrap_or(0);
    of(Kind::Artifact).saturating_add(of(Kind::Same))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn header(version: u32, features: u8) -> DeviceHeader {
        DeviceHeader {
            vendor_id: 1,
            device_id: 2,
            pipeline_cache_uuid: [version as u8; 16],
            driver_id: 3,
            driver_version: version,
            pointer_width: 8,
            schema: 2,
            features_digest: [features; 32],
        }
    }

    fn part(header: DeviceHeader, artifacts: u64, same: u64) -> PartInfo {
        let records = BTreeMap::from([("artifact".to_owned(), artifacts), ("same".to_owned(), same)]);
        PartInfo {
            name: String::new(),
            device: Some(header),
            segments: 1,
            sealed: 1,
            bytes: 0,
            records,
            payload_bytes: BTreeMap::new(),
            damaged: 0,
            refused: Vec::new(),
        }
    }

    #[test]
    fn only_another_version_of_the_same_driver_with_more_pipelines_counts() {
        let now = DriverVersion::from(&header(2, 0));
        let of = |parts: &[PartInfo]| behind(parts, &now).map(|behind| (behind.now, behind.before));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[part(header(2, 0), 100, 0)]), None);
        assert_eq!(of(&[part(header(1, 0), 0, 0)]), None);
        assert_eq!(of(&[part(header(1, 0), 100, 0)]), Some((0, 100)));
        assert_eq!(of(&[part(header(1, 0), 60, 40), part(header(2, 0), 89, 0)]), Some((89, 100)));
        assert_eq!(of(&[part(header(1, 0), 60, 40), part(header(2, 0), 50, 41)]), None);
        assert_eq!(of(&[part(header(1, 1), 100, 0)]), Some((0, 100)), "a driver that offers more");
        assert_eq!(of(&[part(header(1, 1), 100, 0), part(header(2, 1), 95, 0)]), None);
        let another_build = DeviceHeader { pipeline_cache_uuid: [9; 16], ..header(2, 0) };
        assert_eq!(of(&[part(another_build, 100, 0)]), Some((0, 100)));
        let of_vulkan_1_0 = DeviceHeader { driver_id: 0, ..header(1, 0) };
        assert_eq!(of(&[part(of_vulkan_1_0, 100, 0)]), Some((0, 100)));
        let of_another_device = DeviceHeader { device_id: 9, ..header(1, 0) };
        let of_another_driver = DeviceHeader { driver_id: 9, ..header(1, 0) };
        assert_eq!(of(&[part(of_another_device, 100, 0), part(of_another_driver, 100, 0)]), None);
    }
}
