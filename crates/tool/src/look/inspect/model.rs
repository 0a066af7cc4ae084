//! A segment file for programs. The field names are those of the JSON and do not change. Their documentation is that of
//! docs/schema/inspect.json.

use serde::Serialize;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::one_file::{self, RecordInfo, SegmentInfo};

/// A segment file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Output<'a> {
    /// The file's length.
    bytes: u64,
    /// Version of the format.
    version: u32,
    /// When the file was created, in Unix milliseconds.
    created_unix_ms: u64,
    /// The random number of the file, in hexadecimal digits.
    serial: &'a str,
    /// What artifacts in it are bound to. Null: it belongs to a portable part.
    device: Option<Header>,
    /// Who may still write to the file.
    state: State,
    /// Number of places that are no record.
    damaged_places: u64,
    /// Number of records that the file had when it was complete. Null: it is not cut.
    complete_records: Option<u32>,
    /// Its records, superseded ones included, in the order of the file.
    records: Vec<Record<'a>>,
}

/// A device header: what must be equal before a driver gets an artifact.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Header {
    /// VkPhysicalDeviceProperties::vendorID.
    vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID.
    device_id: u32,
    /// VkPhysicalDeviceProperties::pipelineCacheUUID, byte by byte.
    pipeline_cache_uuid: [u8; 16],
    /// VkDriverId; 0 if the driver does not tell it.
    driver_id: u32,
    /// VkPhysicalDeviceProperties::driverVersion.
    driver_version: u32,
    /// Length of a pointer in the program, in bytes.
    pointer_width: u8,
    /// Version of the way in which keys are computed.
    schema: u32,
    /// SHA-256 over the enabled features and extensions that can change generated code, byte by byte.
    features_digest: [u8; 32],
}

/// Who may still write to a segment file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum State {
    /// Nobody: it is complete, with an index.
    Sealed,
    /// Nobody, but its writer has died before it was complete.
    Orphaned,
    /// Nobody: it was complete, and its end is missing now or damaged.
    Cut,
    /// A running program.
    Written,
    /// Nobody, and some of it cannot be read now.
    Unreadable,
}

/// One record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Record<'a> {
    /// The place of the record's header: bytes from the start of the file.
    offset: u64,
    /// Its kind, or the number of a newer version's kind.
    kind: &'a str,
    /// Its key, in hexadecimal digits.
    key: &'a str,
    /// Length of what is stored.
    stored_bytes: u64,
    /// Length of the payload.
    payload_bytes: u64,
    /// `plain`, `zstd`, `spirv` or `dictionary` (docs/format.md), or the number of a newer version's codec.
    codec: &'a str,
    /// The checksum is right, and the payload can be decompressed. Null: it cannot be read now, or its kind or codec is
    /// not known.
    is_whole: Option<bool>,
}

impl Output<'_> {
    pub(super) fn of(info: &SegmentInfo) -> Output<'_> {
        Output {
            bytes: info.bytes,
            version: info.version,
            created_unix_ms: info.created_unix_ms,
            serial: &info.serial,
            device: info.device.as_ref().map(Header::of),
            state: match info.state {
                one_file::SegmentState::Sealed => State::Sealed,
                one_file::SegmentState::Orphaned => State::Orphaned,
                one_file::SegmentState::Cut => State::Cut,
                one_file::SegmentState::Written => State::Written,
                one_file::SegmentState::Unreadable => State::Unreadable,
            },
            damaged_places: info.damaged_places,
            complete_records: info.complete_records,
            records: info.records.iter().map(Record::of).collect(),
        }
    }
}

impl Header {
    fn of(header: &DeviceHeader) -> Header {
        Header {
            vendor_id: header.vendor_id,
            device_id: header.device_id,
            pipeline_cache_uuid: header.pipeline_cache_uuid,
            driver_id: header.driver_id,
            driver_version: header.driver_version,
            pointer_width: header.pointer_width,
            schema: header.schema,
            features_digest: header.features_digest,
        }
    }
}

impl Record<'_> {
    fn of(info: &RecordInfo) -> Record<'_> {
        Record {
            offset: info.offset,
            kind: &info.kind,
            key: &info.key,
            stored_bytes: info.stored_bytes,
            payload_bytes: info.payload_bytes,
            codec: &info.codec,
            is_whole: info.is_whole,
        }
    }
}
