//! A pipeline cache of our own that lives for one call.

use std::cell::RefCell;

use ash::vk;

use crate::state::device::Device;
use vkstash_store::base::memory;

/// Size of VkPipelineCacheHeaderVersionOne: data that is no longer than this holds no pipeline (contract 4.1).
pub const HEADER_SIZE: usize = 32;

/// A cache that is destroyed when it goes out of scope.
pub struct PrivateCache<'a> {
    device: &'a Device,
    handle: vk::PipelineCache,
}

impl<'a> PrivateCache<'a> {
    /// Creates a cache from a driver's own data, or an empty one. None where the driver does not.
    pub fn new(device: &'a Device, data: &[u8]) -> Option<PrivateCache<'a>> {
        let mut info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        if device.cache_control {
            // One thread uses it, for one call: the driver may leave its lock alone (needs the feature).
            info = info.flags(vk::PipelineCacheCreateFlags::EXTERNALLY_SYNCHRONIZED);
        }
        PrivateCache::create(device, &info)
    }

    /// An empty cache that several threads of the driver may fill.
    pub fn for_threads(device: &'a Device) -> Option<PrivateCache<'a>> {
        PrivateCache::create(device, &vk::PipelineCacheCreateInfo::default())
    }

    fn create(device: &'a Device, info: &vk::PipelineCacheCreateInfo<'_>) -> Option<PrivateCache<'a>> {
        let mut handle = vk::PipelineCache::null();
        // SAFETY: a valid create info with data that this driver wrote (00768, 00769) and whose checksum was
        // verified; no allocator, so that none is needed to destroy it.
        let result = unsafe {
            (device.table.create_pipeline_cache?)(device.handle, info, std::ptr::null(), &mut handle)
        };
        (result == vk::Result::SUCCESS).then_some(PrivateCache { device, handle })
    }

    /// The handle, which the caller destroys from now on.
    pub fn into_handle(self) -> vk::PipelineCache {
        let handle = self.handle;
        std::mem::forget(self);
        handle
    }

    /// The handle.
    pub fn handle(&self) -> vk::PipelineCache {
        self.handle
    }

    /// Takes over what another cache holds. None where the driver does not.
    ///
    /// # Safety
    /// `source` is a live cache that this thread may read now.
    pub unsafe fn take_from(&self, source: vk::PipelineCache) -> Option<()> {
        // SAFETY: the caller's contract; the destination is ours alone and therefore not the source (00770).
        let result = unsafe {
            (self.device.table.merge_pipeline_caches?)(self.device.handle, self.handle, 1, &source)
        };
        (result == vk::Result::SUCCESS).then_some(())
    }

    /// Everything in it, behind `prefix`. None where there is nothing but the header.
    pub fn data_behind(&self, prefix: &[u8]) -> Option<Vec<u8>> {
        // SAFETY: a live cache that only this thread uses.
        unsafe { data_behind(self.device, self.handle, prefix) }
    }
}

impl Drop for PrivateCache<'_> {
    fn drop(&mut self) {
        // SAFETY: our own cache, used by nobody any more.
        unsafe { destroy(self.device, self.handle) };
    }
}

/// Destroys a cache of ours.
///
/// # Safety
/// NULL, or a cache that was created here and that nobody uses any more.
pub unsafe fn destroy(device: &Device, cache: vk::PipelineCache) {
    if let Some(destroy) = device.table.destroy_pipeline_cache {
        // SAFETY: the caller's contract; created without an allocator.
        unsafe { destroy(device.handle, cache, std::ptr::null()) };
    }
}

/// Most one-pipeline blobs fit: then they are read with one call. Drivers write their data out to answer how
/// long it is.
const GUESS: usize = 64 << 10;

thread_local!(static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

/// A cache's data behind `prefix`. None where it holds no pipeline, cannot be read, or is not data of this
/// device.
///
/// # Safety
/// `cache` is a live cache that this thread may read now.
pub unsafe fn data_behind(device: &Device, cache: vk::PipelineCache, prefix: &[u8]) -> Option<Vec<u8>> {
    let get = device.table.get_pipeline_cache_data?;
    let read = |buffer: &mut Vec<u8>| {
        if !memory::lengthen(buffer, GUESS) {
            return None;
        }
        // A cache that other threads fill may grow between two calls.
        for _ in 0..4 {
            // What a driver leaves alone must not look like data.
            buffer[..HEADER_SIZE].fill(0);
            let mut size = buffer.len();
            // SAFETY: the caller's contract; a buffer of that size.
            let result = unsafe { get(device.handle, cache, &mut size, buffer.as_mut_ptr().cast()) };
            match result {
                vk::Result::SUCCESS => {
                    let data = buffer.get(..size).filter(|data| holds_pipelines(device, data))?;
                    return memory::joined(&[prefix, data]);
                }
                vk::Result::INCOMPLETE => {}
                _ => return None,
            }
            let mut size = 0;
            // SAFETY: as above; NULL asks for the size, and one that the driver leaves alone is 0.
            let result = unsafe { get(device.handle, cache, &mut size, std::ptr::null_mut()) };
            if result != vk::Result::SUCCESS || size <= HEADER_SIZE {
                return None;
            }
            // No driver has that much to say: what it cannot be given it keeps.
            if !memory::lengthen(buffer, size) {
                return None;
            }
        }
        None
    };
    let kept = READ.try_with(|buffer| {
        let mut buffer = buffer.try_borrow_mut().ok()?;
        let data = read(&mut buffer);
        // One large cache must not be paid for by every thread for ever.
        buffer.truncate(GUESS);
        buffer.shrink_to(GUESS);
        Some(data)
    });
    // In use, or a thread that is past its local storage.
    kept.ok().flatten().unwrap_or_else(|| read(&mut Vec::new()))
}

/// Whether this is cache data of the device (contract 4.1) with something behind its header.
pub fn holds_pipelines(device: &Device, data: &[u8]) -> bool {
    let properties = &device.physical.properties;
    let expected = [HEADER_SIZE as u32, 1, properties.vendor_id, properties.device_id];
    let words = data.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    data.len() > HEADER_SIZE
        && words.take(4).eq(expected)
        && data[16..HEADER_SIZE] == properties.pipeline_cache_uuid
}
