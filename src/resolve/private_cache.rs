//! A pipeline cache of our own that lives for one call.

use ash::vk;

use crate::state::device::Device;

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
        let mut handle = vk::PipelineCache::null();
        // SAFETY: a valid create info with data that this driver wrote (00768, 00769) and whose checksum was
        // verified; no allocator, so that none is needed to destroy it.
        let result = unsafe {
            (device.table.create_pipeline_cache?)(device.handle, &info, std::ptr::null(), &mut handle)
        };
        (result == vk::Result::SUCCESS).then_some(PrivateCache { device, handle })
    }

    /// The handle.
    pub fn handle(&self) -> vk::PipelineCache {
        self.handle
    }

    /// Everything in it, behind `prefix`. None where there is nothing but the header.
    pub fn data_behind(&self, prefix: &[u8]) -> Option<Vec<u8>> {
        // SAFETY: a live cache that only this thread uses.
        unsafe { data_behind(self.device, self.handle, prefix) }
    }
}

impl Drop for PrivateCache<'_> {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table.destroy_pipeline_cache {
            // SAFETY: our own cache, created without an allocator, used by nobody any more.
            unsafe { destroy(self.device.handle, self.handle, std::ptr::null()) };
        }
    }
}

/// A cache's data behind `prefix`, in one allocation. None where it holds no pipeline or cannot be read.
///
/// # Safety
/// `cache` is a live cache that this thread may read now.
pub unsafe fn data_behind(device: &Device, cache: vk::PipelineCache, prefix: &[u8]) -> Option<Vec<u8>> {
    let get = device.table.get_pipeline_cache_data?;
    // A cache that other threads fill may grow between the two calls.
    for _ in 0..4 {
        let mut size = 0;
        // SAFETY: the caller's contract; the two-call idiom, where a size that the driver leaves alone is 0.
        let result = unsafe { get(device.handle, cache, &mut size, std::ptr::null_mut()) };
        if result != vk::Result::SUCCESS || size <= HEADER_SIZE {
            return None;
        }
        let mut data = Vec::with_capacity(prefix.len() + size);
        data.extend_from_slice(prefix);
        data.resize(prefix.len() + size, 0);
        // SAFETY: as above; there are `size` bytes behind the prefix.
        let result =
            unsafe { get(device.handle, cache, &mut size, data[prefix.len()..].as_mut_ptr().cast()) };
        if result == vk::Result::SUCCESS && size > HEADER_SIZE {
            data.truncate(prefix.len() + size);
            return Some(data);
        }
        if result != vk::Result::INCOMPLETE {
            return None;
        }
    }
    None
}
