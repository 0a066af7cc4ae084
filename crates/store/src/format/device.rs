//! The device header: what a device part is bound to.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::format::bytes::{Reader, put_u32};
use vkstash_host::text::hex;

/// Length of an encoded device header, in bytes.
pub const DEVICE_HEADER_BYTES: usize = 72;

/// Everything that must be equal before a driver gets an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceHeader {
    /// VkPhysicalDeviceProperties::vendorID.
    pub vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    pub device_id: u32,
    /// VkPhysicalDeviceProperties::pipelineCacheUUID.
    pub pipeline_cache_uuid: [u8; 16],
    /// VkDriverId; 0 if the driver does not tell it.
    pub driver_id: u32,
    /// VkPhysicalDeviceProperties::driverVersion.
    pub driver_version: u32,
    /// Length of a pointer in this process, in bytes.
    pub pointer_width: u8,
    /// Version of the schema of keys.
    pub schema: u32,
    /// SHA-256 over the enabled features and extensions that can change generated code.
    pub features_digest: [u8; 32],
}

/// The first field in which two device headers differ, with the value in the file and the expected one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderMismatch {
    /// The header names another vendor.
    #[error("made for vendor {found:#06x}, this is {expected:#06x}")]
    Vendor {
        /// In the file.
        found: u32,
        /// Of this device.
        expected: u32,
    },
    /// The header names another device of the same vendor.
    #[error("made for device {found:#06x}, this is {expected:#06x}")]
    Device {
        /// In the file.
        found: u32,
        /// Of this device.
        expected: u32,
    },
    /// The header names another driver for the same device.
    #[error("made by driver {found}, this is {expected}")]
    Driver {
        /// In the file.
        found: u32,
        /// Of this device.
        expected: u32,
    },
    /// The header names another version of the same driver.
    #[error("made by driver version {found:#x}, this is {expected:#x}")]
    DriverVersion {
        /// In the file.
        found: u32,
        /// Of this device.
        expected: u32,
    },
    /// The header names another build or configuration of the driver.
    #[error("made under another pipelineCacheUUID")]
    PipelineCacheUuid,
    /// A process of another pointer width.
    #[error("made by a process with {found}-byte pointers, this one has {expected}")]
    PointerWidth {
        /// In the file.
        found: u8,
        /// Of this process.
        expected: u8,
    },
    /// Keys of another schema.
    #[error("keys of schema {found}, this is schema {expected}")]
    Schema {
        /// In the file.
        found: u32,
        /// Of this process.
        expected: u32,
    },
    /// Other features or extensions were enabled.
    #[error("made with other features or extensions enabled")]
    Features,
}

impl HeaderMismatch {
    /// The reason's name in reports and in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            HeaderMismatch::Vendor { .. } => "other_vendor",
            HeaderMismatch::Device { .. } => "other_device",
            HeaderMismatch::Driver { .. } => "other_driver",
            HeaderMismatch::DriverVersion { .. } => "other_driver_version",
            HeaderMismatch::PipelineCacheUuid => "other_pipeline_cache_uuid",
            HeaderMismatch::PointerWidth { .. } => "other_pointer_width",
            HeaderMismatch::Schema { .. } => "other_schema",
            HeaderMismatch::Features => "other_features",
        }
    }
}

impl DeviceHeader {
    /// The fixed encoding of docs/format.md.
    pub fn encode(&self) -> [u8; DEVICE_HEADER_BYTES] {
        let mut bytes = [0; DEVICE_HEADER_BYTES];
        put_u32(&mut bytes, 0, u32::from(self.pointer_width));
        put_u32(&mut bytes, 4, self.vendor_id);
        put_u32(&mut bytes, 8, self.device_id);
        put_u32(&mut bytes, 12, self.driver_id);
        put_u32(&mut bytes, 16, self.driver_version);
        put_u32(&mut bytes, 20, self.schema);
        bytes[24..40].copy_from_slice(&self.pipeline_cache_uuid);
        bytes[40..72].copy_from_slice(&self.features_digest);
        bytes
    }

    /// Decodes [`DeviceHeader::encode`]. `None`: a pointer width that no process has.
    pub fn decode(bytes: &[u8; DEVICE_HEADER_BYTES]) -> Option<DeviceHeader> {
        let mut reader = Reader::new(bytes);
        let pointer_width = u8::try_from(reader.u32()?).ok()?;
        Some(DeviceHeader {
            pointer_width,
            vendor_id: reader.u32()?,
            device_id: reader.u32()?,
            driver_id: reader.u32()?,
            driver_version: reader.u32()?,
            schema: reader.u32()?,
            pipeline_cache_uuid: reader.array()?,
            features_digest: reader.array()?,
        })
    }

    /// SHA-256 over a tag and the encoding. Its first 8 bytes name the part's folder.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"vkstash device header 1");
        hash.update(self.encode());
        hash.finalize().into()
    }

    /// The first 16 hexadecimal digits of the digest: the part's name.
    pub fn short_digest(&self) -> String {
        hex(&self.digest()[..8])
    }

    /// Why a file with this header cannot serve a device with header `expected`. `None` if they are equal.
    pub fn mismatch(&self, expected: &DeviceHeader) -> Option<HeaderMismatch> {
        macro_rules! differ {
            ($field:ident, $reason:ident) => {
                if self.$field != expected.$field {
                    let (found, expected) = (self.$field, expected.$field);
                    return Some(HeaderMismatch::$reason { found, expected });
                }
            };
        }
        differ!(vendor_id, Vendor);
        differ!(device_id, Device);
        differ!(driver_id, Driver);
        differ!(driver_version, DriverVersion);
        if self.pipeline_cache_uuid != expected.pipeline_cache_uuid {
            return Some(HeaderMismatch::PipelineCacheUuid);
        }
        differ!(pointer_width, PointerWidth);
        differ!(schema, Schema);
        (self.features_digest != expected.features_digest).then_some(HeaderMismatch::Features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::header;

    #[test]
    fn every_field_separates_headers_and_is_named() {
        type Change = fn(&mut DeviceHeader);
        let changes: [(Change, &str); 8] = [
            (|h| h.vendor_id += 1, "other_vendor"),
            (|h| h.device_id += 1, "other_device"),
            (|h| h.driver_id += 1, "other_driver"),
            (|h| h.driver_version += 1, "other_driver_version"),
            (|h| h.pipeline_cache_uuid[15] += 1, "other_pipeline_cache_uuid"),
            (|h| h.pointer_width = 4, "other_pointer_width"),
            (|h| h.schema += 1, "other_schema"),
            (|h| h.features_digest[31] += 1, "other_features"),
        ];
        assert_eq!(header().mismatch(&header()), None);
        for (change, name) in changes {
            let mut other = header();
            change(&mut other);
            assert_eq!(other.mismatch(&header()).map(|mismatch| mismatch.name()), Some(name));
            assert_ne!(other.digest(), header().digest());
        }
    }

    #[test]
    fn the_encoding_keeps_every_field() {
        assert_eq!(DeviceHeader::decode(&header().encode()), Some(header()));
    }
}
