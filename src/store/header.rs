//! What a device part is bound to.

use serde::{Deserialize, Serialize};

/// Everything that must be equal before a driver is given an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHeader {
    /// VkPhysicalDeviceProperties::vendorID.
    pub vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    pub device_id: u32,
    /// VkPhysicalDeviceProperties::pipelineCacheUUID.
    pub pipeline_cache_uuid: [u8; 16],
    /// VkDriverId, 0 where the driver does not say.
    pub driver_id: u32,
    /// VkPhysicalDeviceProperties::driverVersion.
    pub driver_version: u32,
    /// Width of a pointer in this process, in bytes.
    pub pointer_width: u8,
    /// Version of the key's schema.
    pub schema: u32,
    /// SHA-256 over the enabled features and extensions that can change generated code.
    pub features_digest: [u8; 32],
}
