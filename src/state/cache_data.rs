//! The data of a VkPipelineCache, as a driver gives it out.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::cell::RefCell;
use std::sync::OnceLock;

use ash::vk;

use super::dispatch::DeviceTable;
use vkstash_store::base::memory;

/// Size of VkPipelineCacheHeaderVersionOne: data that is no longer than this holds no pipeline (contract 4.1).
pub const HEADER_SIZE: usize = 32;

/// Most one-pipeline blobs fit: then they are read with one call. Drivers write their data out to answer how
/// long it is.
const GUESS: usize = 64 << 10;

thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

/// Why a cache gives no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoData {
    /// The cache holds no pipeline, or its data is not of this device.
    Empty,
    /// The cache's data could not be read.
    Unreadable,
}

/// The commands of one device that read and destroy caches, and the header that its cache data begins with.
pub struct CacheData {
    device: vk::Device,
    get: Option<vk::PFN_vkGetPipelineCacheData>,
    destroy: Option<vk::PFN_vkDestroyPipelineCache>,
    /// Length, version, vendor and device (contract 4.1).
    words: [u32; 4],
    uuid: [u8; vk::UUID_SIZE],
    /// Bytes of the data of an empty cache, which some drivers write more into than a header.
    pub empty: OnceLock<usize>,
}

impl CacheData {
    /// The commands and the header of this device's cache data.
    pub fn new(
        device: vk::Device,
        table: &DeviceTable,
        properties: &vk::PhysicalDeviceProperties,
    ) -> CacheData {
        CacheData {
            device,
            get: table.get_pipeline_cache_data,
            destroy: table.destroy_pipeline_cache,
            words: [HEADER_SIZE as u32, 1, properties.vendor_id, properties.device_id],
            uuid: properties.pipeline_cache_uuid,
            empty: OnceLock::new(),
        }
    }

    /// Whether a driver may take something from initial data: what has a header of another kind is the driver's to
    /// judge.
    pub fn may_load(&self, data: &[u8]) -> bool {
        data.len() > HEADER_SIZE && (data[4..8] != self.words[1].to_le_bytes() || self.holds_pipelines(data))
    }

    /// Bytes of a cache's data. None where the driver does not say.
    ///
    /// # Safety
    /// As [`CacheData::read`].
    pub unsafe fn size(&self, cache: vk::PipelineCache) -> Option<usize> {
        let mut size = 0;
        // SAFETY: the device and `cache` are alive, and this thread may read the cache; NULL asks for the
        // size, and one that the driver leaves alone is 0.
        let result = unsafe { self.get?(self.device, cache, &mut size, std::ptr::null_mut()) };
        (result == vk::Result::SUCCESS).then_some(size)
    }

    /// Whether this is cache data of the device (contract 4.1) with something behind its header.
    pub fn holds_pipelines(&self, data: &[u8]) -> bool {
        let words = data.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        data.len() > HEADER_SIZE && words.take(4).eq(self.words) && data[16..HEADER_SIZE] == self.uuid
    }

    /// A cache's data behind `prefix`.
    ///
    /// # Safety
    /// The device is alive, and `cache` is a live cache of it that this thread may read now.
    pub unsafe fn read(&self, cache: vk::PipelineCache, prefix: &[u8]) -> Result<Vec<u8>, NoData> {
        // SAFETY: the device and `cache` are alive, and this thread may read the cache until `read` returns.
        let read = |buffer: &mut Vec<u8>| unsafe { self.read_into(buffer, cache, prefix) };
        let kept = BUFFER.try_with(|buffer| {
            let mut buffer = buffer.try_borrow_mut().ok()?;
            let data = read(&mut buffer);
            // One large cache must not keep its memory in every thread.
            buffer.truncate(GUESS);
            buffer.shrink_to(GUESS);
            Some(data)
        });
        // The buffer is in use, or gone with the thread's local storage.
        kept.ok().flatten().unwrap_or_else(|| read(&mut Vec::new()))
    }

    /// # Safety
    /// As [`CacheData::read`].
    unsafe fn read_into(
        &self,
        buffer: &mut Vec<u8>,
        cache: vk::PipelineCache,
        prefix: &[u8],
    ) -> Result<Vec<u8>, NoData> {
        let get = self.get.ok_or(NoData::Unreadable)?;
        if !memory::lengthen(buffer, GUESS) {
            return Err(NoData::Unreadable);
        }
        // A cache that other threads fill may grow between two calls.
        for _ in 0..4 {
            // What a driver leaves alone must not look like data.
            buffer[..HEADER_SIZE].fill(0);
            let mut size = buffer.len();
            // SAFETY: this thread may read the live `cache`; the buffer has `size` bytes, of which the driver
            // writes no more.
            let result = unsafe { get(self.device, cache, &mut size, buffer.as_mut_ptr().cast()) };
            match result {
                vk::Result::SUCCESS => {
                    let data = buffer.get(..size).filter(|data| self.holds_pipelines(data));
                    return memory::joined(&[prefix, data.ok_or(NoData::Empty)?]).ok_or(NoData::Unreadable);
                }
                vk::Result::INCOMPLETE => {}
                _ => return Err(NoData::Unreadable),
            }
            // SAFETY: `cache` is still alive: this thread reads it until the call is over.
            let size = unsafe { self.size(cache) }.ok_or(NoData::Unreadable)?;
            if size <= HEADER_SIZE {
                return Err(NoData::Empty);
            }
            // A size that no memory can be had for is no data.
            if !memory::lengthen(buffer, size) {
                return Err(NoData::Unreadable);
            }
        }
        Err(NoData::Unreadable)
    }

    /// Destroys a cache of the layer's.
    ///
    /// # Safety
    /// The device is alive; `cache` is NULL, or was created on it by the layer, without an allocator, and is out of
    /// use.
    pub unsafe fn destroy(&self, cache: vk::PipelineCache) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the device is alive; `cache` is NULL, or was created without an allocator, and no call
            // uses it any more.
            unsafe { destroy(self.device, cache, std::ptr::null()) };
        }
    }
}
