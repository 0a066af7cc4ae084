//! The header of a device part. Also compiled into the tests of the tool and into the benchmarks.

use vkstash_store::format::device::DeviceHeader;

/// What the parts of RADV on a Navi 21 are bound to.
pub(crate) fn header() -> DeviceHeader {
    DeviceHeader {
        vendor_id: 0x1002,
        device_id: 0x73bf,
        pipeline_cache_uuid: [7; 16],
        driver_id: 3,
        driver_version: 0x0640_0007,
        pointer_width: 8,
        schema: 1,
        features_digest: [9; 32],
    }
}
