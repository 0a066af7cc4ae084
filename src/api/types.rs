//! Structures, constants and results of `include/vkstash.h`. The header is made of this file: its comments are written
//! for C.

use std::ffi::c_char;

use vkstash_sessions::description::{Adapter, Description, Guid, Mode};
use vkstash_sessions::error::Error;

use crate::state::process::support;

/// What a call answers. docs/sessions.md has the values of D3D12 that correspond.
#[allow(non_camel_case_types, reason = "the names of the header")]
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VkstashResult {
    /// Done.
    VKSTASH_SUCCESS = 0,
    /// NULL where something must be, a size of 0, an unknown flag, or a key that is too long.
    VKSTASH_ERROR_INVALID_ARGUMENT = -1,
    /// Not the handle of a live session.
    VKSTASH_ERROR_INVALID_HANDLE = -2,
    /// There is no entry with this key.
    VKSTASH_ERROR_NOT_FOUND = -3,
    /// There is an entry with this key; or the cache is open with another mode, other flags or another version.
    VKSTASH_ERROR_ALREADY_EXISTS = -4,
    /// The entry would make the cache larger than its maximum.
    VKSTASH_ERROR_CACHE_FULL = -5,
    /// There is an entry whose key is another one with the same hash.
    VKSTASH_ERROR_HASH_COLLISION = -6,
    /// Disabled, busy, without a folder, or a session of the parent in a forked process.
    VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE = -7,
    /// The value is longer than the buffer. Its size is returned.
    VKSTASH_ERROR_BUFFER_TOO_SMALL = -8,
    /// The entry is damaged on disk. Storing it again replaces it.
    VKSTASH_ERROR_DAMAGED = -9,
    /// A file or folder is not the cache's, or others may write to it. It is left as it is.
    VKSTASH_ERROR_REFUSED = -10,
    /// The cache can be read only.
    VKSTASH_ERROR_READ_ONLY = -11,
    /// The file system is full, or a limit of the process is reached.
    VKSTASH_ERROR_DISK_FULL = -12,
    /// There is not enough memory.
    VKSTASH_ERROR_OUT_OF_MEMORY = -13,
    /// Another error of the system.
    VKSTASH_ERROR_IO = -14,
    /// This version does not do that.
    VKSTASH_ERROR_NOT_SUPPORTED = -15,
    /// A fault of the library. Nothing was changed that the program could see.
    VKSTASH_ERROR_INTERNAL = -16,
}

/// The entries are in memory, and end with the last session.
pub const VKSTASH_SESSION_MODE_MEMORY: u32 = 0;
/// The entries are in files.
pub const VKSTASH_SESSION_MODE_DISK: u32 = 1;

/// Each adapter has a cache of its own, and another driver wipes it.
pub const VKSTASH_SESSION_FLAG_DRIVER_VERSIONED: u32 = 0x1;
/// The files lie in the working directory.
pub const VKSTASH_SESSION_FLAG_USE_WORKING_DIR: u32 = 0x2;

/// The cache of what drivers compile.
pub const VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER: u32 = 0x1;
/// The cache of conversions between kinds of shaders.
pub const VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS: u32 = 0x2;
/// The driver's own cache.
pub const VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED: u32 = 0x4;
/// The caches of sessions.
pub const VKSTASH_CACHE_KIND_APPLICATION_MANAGED: u32 = 0x8;

/// Nothing is looked up or stored from now on.
pub const VKSTASH_CACHE_CONTROL_DISABLE: u32 = 0x1;
/// The end of VKSTASH_CACHE_CONTROL_DISABLE.
pub const VKSTASH_CACHE_CONTROL_ENABLE: u32 = 0x2;
/// All entries are deleted.
pub const VKSTASH_CACHE_CONTROL_CLEAR: u32 = 0x4;

/// Pipelines can be kept one by one.
pub const VKSTASH_CACHE_SUPPORT_SINGLE_PIPELINE: u32 = 0x1;
/// Pipelines can be kept in a VkPipelineCache.
pub const VKSTASH_CACHE_SUPPORT_LIBRARY: u32 = 0x2;
/// The stash finds again what this process has compiled.
pub const VKSTASH_CACHE_SUPPORT_AUTOMATIC_INPROC_CACHE: u32 = 0x4;
/// The stash finds again what earlier processes have compiled.
pub const VKSTASH_CACHE_SUPPORT_AUTOMATIC_DISK_CACHE: u32 = 0x8;
/// The driver has a cache of its own.
pub const VKSTASH_CACHE_SUPPORT_DRIVER_MANAGED_CACHE: u32 = 0x10;

/// Background work that does not slow the program down.
pub const VKSTASH_BACKGROUND_MODE_ALLOWED: u32 = 0;
/// Rich measurements matter more than a smooth run.
pub const VKSTASH_BACKGROUND_MODE_ALLOW_INTRUSIVE_MEASUREMENTS: u32 = 1;
/// No background work.
pub const VKSTASH_BACKGROUND_MODE_DISABLED: u32 = 2;
/// No background work, and nothing that adapts to measurements.
pub const VKSTASH_BACKGROUND_MODE_PROFILING: u32 = 3;

/// Measurements stay, and more are made.
pub const VKSTASH_MEASUREMENTS_ACTION_KEEP_ALL: u32 = 0;
/// The workload was shown completely: what is worth doing is done now.
pub const VKSTASH_MEASUREMENTS_ACTION_COMMIT: u32 = 1;
/// As COMMIT, by more threads, also while the machine is busy.
pub const VKSTASH_MEASUREMENTS_ACTION_COMMIT_HIGH_PRIORITY: u32 = 2;
/// Measurements so far are forgotten.
pub const VKSTASH_MEASUREMENTS_ACTION_DISCARD_PREVIOUS: u32 = 3;

/// A session. 0 is none.
pub type VkstashSession = u64;

/// A GUID, as Windows has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VkstashGuid {
    pub data1: u32,
    pub data2: u16,
    pub data3: u16,
    pub data4: [u8; 8],
}

/// What a program asks for. Sizes and numbers of 0 mean the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VkstashSessionDesc {
    /// The cache. Sessions with the same identifier share it.
    pub identifier: VkstashGuid,
    /// VKSTASH_SESSION_MODE_...
    pub mode: u32,
    /// VKSTASH_SESSION_FLAG_...
    pub flags: u32,
    /// Bytes of keys and values in memory; 0 means 1024.
    pub maximum_in_memory_cache_size_bytes: u32,
    /// Entries in memory; 0 means 128.
    pub maximum_in_memory_cache_entries: u32,
    /// Length of the value file; 0 means 134217728.
    pub maximum_value_file_size_bytes: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Another version than that of the files wipes the cache.
    pub version: u64,
}

/// The adapter and the driver of a driver-versioned cache, with the values that Vulkan gives them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VkstashAdapter {
    /// VkPhysicalDeviceProperties::vendorID
    pub vendor_id: u32,
    /// VkPhysicalDeviceProperties::deviceID
    pub device_id: u32,
    /// VkPhysicalDeviceDriverProperties::driverID, or 0
    pub driver_id: u32,
    /// VkPhysicalDeviceProperties::driverVersion
    pub driver_version: u32,
    /// VkPhysicalDeviceIDProperties::deviceUUID
    pub device_uuid: [u8; 16],
    /// VkPhysicalDeviceProperties::pipelineCacheUUID
    pub pipeline_cache_uuid: [u8; 16],
}

/// What was created, and what was missing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VkstashCacheStatistics {
    /// Pipelines and modules that were created, however that was done; of sessions, values that were asked for.
    pub created: u64,
    /// Those of `created` that the stash did not have.
    pub missed_in_stash: u64,
    /// Those of `created` that no cache had: a driver compiled them, or the program has to make them.
    pub missed_anywhere: u64,
}

/// What the layer calls a shader module.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VkstashModuleIdentifier {
    /// VkShaderModuleIdentifierEXT::identifier, of 32 bytes
    pub identifier: [u8; 32],
    /// VkPhysicalDeviceShaderModuleIdentifierPropertiesEXT::shaderModuleIdentifierAlgorithmUUID
    pub algorithm_uuid: [u8; 16],
}

/// The bits of the header are those of the settings.
const _: () = {
    use vkstash_store::settings::CacheKinds;
    assert!(VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER == CacheKinds::COMPILATIONS.0);
    assert!(VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS == CacheKinds::CONVERSIONS.0);
    assert!(VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED == CacheKinds::DRIVER_MANAGED.0);
    assert!(VKSTASH_CACHE_KIND_APPLICATION_MANAGED == CacheKinds::SESSIONS.0);
    assert!(VKSTASH_CACHE_SUPPORT_SINGLE_PIPELINE == support::SINGLE_PIPELINE);
    assert!(VKSTASH_CACHE_SUPPORT_LIBRARY == support::LIBRARY);
    assert!(VKSTASH_CACHE_SUPPORT_AUTOMATIC_INPROC_CACHE == support::AUTOMATIC_INPROC);
    assert!(VKSTASH_CACHE_SUPPORT_AUTOMATIC_DISK_CACHE == support::AUTOMATIC_DISK);
    assert!(VKSTASH_CACHE_SUPPORT_DRIVER_MANAGED_CACHE == support::DRIVER_MANAGED);
};

/// A C string, or NULL.
pub(super) type Text = *const c_char;

impl VkstashGuid {
    fn guid(&self) -> Guid {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.data1.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.data2.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.data3.to_le_bytes());
        bytes[8..].copy_from_slice(&self.data4);
        Guid(bytes)
    }

    fn of(guid: &Guid) -> VkstashGuid {
        let Guid([a0, a1, a2, a3, b0, b1, c0, c1, data4 @ ..]) = *guid;
        VkstashGuid {
            data1: u32::from_le_bytes([a0, a1, a2, a3]),
            data2: u16::from_le_bytes([b0, b1]),
            data3: u16::from_le_bytes([c0, c1]),
            data4,
        }
    }
}

impl VkstashSessionDesc {
    /// None: an unknown mode or flag.
    pub(super) fn description(&self) -> Option<Description> {
        const FLAGS: u32 = VKSTASH_SESSION_FLAG_DRIVER_VERSIONED | VKSTASH_SESSION_FLAG_USE_WORKING_DIR;
        if self.flags & !FLAGS != 0 || self.reserved != 0 {
            return None;
        }
        Some(Description {
            identifier: self.identifier.guid(),
            mode: match self.mode {
                VKSTASH_SESSION_MODE_MEMORY => Mode::Memory,
                VKSTASH_SESSION_MODE_DISK => Mode::Disk,
                _ => return None,
            },
            driver_versioned: self.flags & VKSTASH_SESSION_FLAG_DRIVER_VERSIONED != 0,
            working_directory: self.flags & VKSTASH_SESSION_FLAG_USE_WORKING_DIR != 0,
            maximum_in_memory_bytes: self.maximum_in_memory_cache_size_bytes,
            maximum_in_memory_entries: self.maximum_in_memory_cache_entries,
            maximum_value_file_bytes: self.maximum_value_file_size_bytes,
            version: self.version,
        })
    }

    pub(super) fn of(description: &Description) -> VkstashSessionDesc {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        VkstashSessionDesc {
            identifier: VkstashGuid::of(&description.identifier),
            mode: match description.mode {
                Mode::Memory => VKSTASH_SESSION_MODE_MEMORY,
                Mode::Disk => VKSTASH_SESSION_MODE_DISK,
            },
            flags: flag(description.driver_versioned, VKSTASH_SESSION_FLAG_DRIVER_VERSIONED)
                | flag(description.working_directory, VKSTASH_SESSION_FLAG_USE_WORKING_DIR),
            maximum_in_memory_cache_size_bytes: description.maximum_in_memory_bytes,
            maximum_in_memory_cache_entries: description.maximum_in_memory_entries,
            maximum_value_file_size_bytes: description.maximum_value_file_bytes,
            reserved: 0,
            version: description.version,
        }
    }
}

impl VkstashAdapter {
    pub(super) fn adapter(&self) -> Adapter {
        let join = |numbers: [u32; 2], uuid: &[u8; 16]| {
            numbers.iter().flat_map(|number| number.to_le_bytes()).chain(*uuid).collect()
        };
        Adapter {
            adapter: join([self.vendor_id, self.device_id], &self.device_uuid),
            driver: join([self.driver_id, self.driver_version], &self.pipeline_cache_uuid),
        }
    }
}

impl VkstashResult {
    pub(super) fn of(error: &Error) -> VkstashResult {
        match error {
            Error::InvalidArgument(_) => VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT,
            Error::NotFound => VkstashResult::VKSTASH_ERROR_NOT_FOUND,
            Error::AlreadyExists | Error::OpenWithOther(_) => VkstashResult::VKSTASH_ERROR_ALREADY_EXISTS,
            Error::CacheFull => VkstashResult::VKSTASH_ERROR_CACHE_FULL,
            Error::HashCollision => VkstashResult::VKSTASH_ERROR_HASH_COLLISION,
            Error::NotCurrentlyAvailable(_) => VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE,
            Error::BufferTooSmall { .. } => VkstashResult::VKSTASH_ERROR_BUFFER_TOO_SMALL,
            Error::Damaged(_) => VkstashResult::VKSTASH_ERROR_DAMAGED,
            Error::Refused { .. } | Error::Folder(_) => VkstashResult::VKSTASH_ERROR_REFUSED,
            Error::ReadOnly => VkstashResult::VKSTASH_ERROR_READ_ONLY,
            Error::DiskFull => VkstashResult::VKSTASH_ERROR_DISK_FULL,
            Error::NoMemory => VkstashResult::VKSTASH_ERROR_OUT_OF_MEMORY,
            Error::Io(_) => VkstashResult::VKSTASH_ERROR_IO,
        }
    }

    pub(super) fn from(result: Result<(), Error>) -> VkstashResult {
        result.map_or_else(|error| VkstashResult::of(&error), |()| VkstashResult::VKSTASH_SUCCESS)
    }
}
