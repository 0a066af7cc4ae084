//! VkPipelineCache objects: created empty or from data, read, destroyed.

use ash::vk;

use crate::failure::Failure;
use crate::vulkan::Gpu;

/// A VkPipelineCache that is destroyed with its owner.
pub(crate) struct Cache<'a> {
    gpu: &'a Gpu,
    handle: vk::PipelineCache,
}

impl<'a> Cache<'a> {
    /// Creates a cache from data that a driver returned earlier; empty data gives an empty cache.
    pub(crate) fn new(gpu: &'a Gpu, data: &[u8]) -> Result<Self, Failure> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: a live device; the data outlives the call. A driver refuses data of another driver by its header
        // (contract 4.3).
        let handle = unsafe { gpu.device.create_pipeline_cache(&info, None) }
            .map_err(|result| format!("vkCreatePipelineCache: {result:?}"))?;
        Ok(Self { gpu, handle })
    }

    /// The cache, to be passed to a creation call.
    pub(crate) fn handle(&self) -> vk::PipelineCache {
        self.handle
    }

    /// vkGetPipelineCacheData, called twice as programs do.
    pub(crate) fn data(&self) -> Result<Vec<u8>, Failure> {
        // SAFETY: a live cache that no other thread changes meanwhile.
        unsafe { self.gpu.device.get_pipeline_cache_data(self.handle) }
            .map_err(|result| format!("vkGetPipelineCacheData: {result:?}").into())
    }
}

impl Drop for Cache<'_> {
    fn drop(&mut self) {
        // SAFETY: created by this device, used by no call in flight.
        unsafe { self.gpu.device.destroy_pipeline_cache(self.handle, None) };
    }
}
