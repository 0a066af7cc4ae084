//! A pipeline cache of the layer's that lives for one call.

use ash::vk;

use crate::state::cache_data::NoData;
use crate::state::device::Device;

/// A cache that is destroyed when it goes out of scope.
pub struct PrivateCache<'a> {
    device: &'a Device,
    handle: vk::PipelineCache,
}

impl<'a> PrivateCache<'a> {
    /// Creates a cache from a driver's data, or an empty one. None where the driver does not.
    pub fn new(device: &'a Device, data: &[u8]) -> Option<PrivateCache<'a>> {
        let mut info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        if device.cache_control() {
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
        // SAFETY: `source` is a live cache that this thread may read now; only this thread uses the
        // destination, which is therefore not the source (00770).
        let result = unsafe {
            (self.device.table.merge_pipeline_caches?)(self.device.handle, self.handle, 1, &source)
        };
        (result == vk::Result::SUCCESS).then_some(())
    }

    /// The cache's data, behind `prefix`.
    pub fn data_behind(&self, prefix: &[u8]) -> Result<Vec<u8>, NoData> {
        // SAFETY: a live cache that only this thread uses.
        unsafe { self.device.caches.data.read(self.handle, prefix) }
    }
}

impl Drop for PrivateCache<'_> {
    fn drop(&mut self) {
        // SAFETY: the cache is the layer's, was created without an allocator, and no call uses it any more.
        unsafe { self.device.caches.data.destroy(self.handle) };
    }
}
