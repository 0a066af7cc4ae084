//! Pipeline caches of the layer's, and the commands of a device that make, read and destroy pipeline caches.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::ffi::c_void;

use ash::vk;

use super::sized_data::{self, Buffer, NoData};
use crate::state::process::dispatch::DeviceTable;
use vkstash_host::once::OnceLock;

/// Size of VkPipelineCacheHeaderVersionOne: data that is no longer than this holds no pipeline (contract 4.1).
pub const HEADER_SIZE: usize = 32;

/// Bytes by which the sizes of two caches differ that have the same entries, and those of one before and after its
/// entries were used: Mesa aligns the entries, whose order depends on how they came in. No entry is so small.
pub const PADDING: usize = 64;

/// The commands of one device, and the header that its cache data begins with.
pub struct CacheCommands {
    device: vk::Device,
    create: Option<vk::PFN_vkCreatePipelineCache>,
    get_data: Option<vk::PFN_vkGetPipelineCacheData>,
    merge: Option<vk::PFN_vkMergePipelineCaches>,
    destroy: Option<vk::PFN_vkDestroyPipelineCache>,
    /// A cache that one thread uses for one call may do without the driver's lock.
    cache_control: bool,
    /// Length, version, vendor and device (contract 4.1).
    words: [u32; 4],
    uuid: [u8; vk::UUID_SIZE],
    empty_size: OnceLock<usize>,
}

impl CacheCommands {
    /// The commands and the header of this device.
    pub fn new(
        device: vk::Device,
        table: &DeviceTable,
        properties: &vk::PhysicalDeviceProperties,
        cache_control: bool,
    ) -> CacheCommands {
        CacheCommands {
            device,
            create: table.create_pipeline_cache,
            get_data: table.get_pipeline_cache_data,
            merge: table.merge_pipeline_caches,
            destroy: table.destroy_pipeline_cache,
            cache_control,
            words: [HEADER_SIZE as u32, 1, properties.vendor_id, properties.device_id],
            uuid: properties.pipeline_cache_uuid,
            empty_size: OnceLock::new(),
        }
    }

    /// Whether a driver may take something from initial data: what has a header of another kind is the driver's to
    /// judge.
    pub fn may_load(&self, data: &[u8]) -> bool {
        data.len() > HEADER_SIZE && (data[4..8] != self.words[1].to_le_bytes() || self.holds_pipelines(data))
    }

    /// Whether this is cache data of the device (contract 4.1), and more than that of an empty cache.
    fn holds_pipelines(&self, data: &[u8]) -> bool {
        let words = data.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        data.len() > HEADER_SIZE
            && words.take(4).eq(self.words)
            && data[16..HEADER_SIZE] == self.uuid
            && self.empty_size().is_none_or(|empty| data.len() > empty)
    }

    /// Bytes of the data of an empty cache: some drivers write more than a header (contract 4.8).
    pub fn empty_size(&self) -> Option<usize> {
        if let Some(known) = self.empty_size.get() {
            return Some(*known);
        }
        let size = self.private(&[])?.size()?;
        // Not within a lock: the driver may call the program.
        Some(*self.empty_size.get_or_init(|| size))
    }

    /// A cache from a driver's data, or an empty one, for one thread at a time. None where the driver makes none.
    pub fn private(&self, data: &[u8]) -> Option<PrivateCache<'_>> {
        let mut info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        if self.cache_control {
            // The driver may leave its lock alone (needs the feature).
            info = info.flags(vk::PipelineCacheCreateFlags::EXTERNALLY_SYNCHRONIZED);
        }
        self.create(&info)
    }

    /// An empty cache that several threads of the driver may fill.
    pub fn for_threads(&self) -> Option<PrivateCache<'_>> {
        self.create(&vk::PipelineCacheCreateInfo::default())
    }

    /// A cache with what another one holds now, to which nobody adds.
    ///
    /// # Safety
    /// The device is alive, and `source` is a live cache of it that this thread may read now.
    pub unsafe fn snapshot(&self, source: vk::PipelineCache) -> Option<PrivateCache<'_>> {
        let copy = self.private(&[])?;
        // SAFETY: as this function.
        unsafe { copy.take_from(source)? };
        Some(copy)
    }

    fn create(&self, info: &vk::PipelineCacheCreateInfo<'_>) -> Option<PrivateCache<'_>> {
        let mut handle = vk::PipelineCache::null();
        // SAFETY: a live device, and a valid create info with data that this driver wrote (00768, 00769) and whose
        // checksum was verified; no allocator, so that none is needed to destroy it.
        let result = unsafe { self.create?(self.device, info, std::ptr::null(), &mut handle) };
        (result == vk::Result::SUCCESS).then(|| PrivateCache { commands: self, handle })
    }

    /// A cache that was made [`for_threads`](CacheCommands::for_threads) and given away as a handle. None: it is NULL.
    ///
    /// # Safety
    /// The device is alive; `handle` is NULL, or of [`PrivateCache::into_handle`], and no call uses it any more.
    pub unsafe fn taken_back(&self, handle: vk::PipelineCache) -> Option<PrivateCache<'_>> {
        (handle != vk::PipelineCache::null()).then(|| PrivateCache { commands: self, handle })
    }

    /// vkMergePipelineCaches. None: the driver does not.
    ///
    /// # Safety
    /// The device is alive, the caches are live ones of it; `sources`, of which there is at least one, are ones that
    /// this thread may read now, and only this thread uses `into`, which is therefore no source (00770).
    pub unsafe fn merge(&self, into: vk::PipelineCache, sources: &[vk::PipelineCache]) -> Option<()> {
        // SAFETY: as this function.
        let result = unsafe { self.merge?(self.device, into, sources.len() as u32, sources.as_ptr()) };
        (result == vk::Result::SUCCESS).then_some(())
    }

    /// The one place that calls vkGetPipelineCacheData.
    ///
    /// # Safety
    /// The device is alive, and `cache` is a live cache of it that this thread may read now; `data` is NULL, or has
    /// room for all data of the cache, whatever `size` is (contract 4.8).
    unsafe fn get(&self, cache: vk::PipelineCache, size: &mut usize, data: *mut c_void) -> vk::Result {
        let Some(get) = self.get_data else { return vk::Result::ERROR_UNKNOWN };
        // SAFETY: as this function.
        unsafe { get(self.device, cache, size, data) }
    }

    /// Bytes of a cache's data. None where the driver does not say.
    ///
    /// # Safety
    /// The device is alive, and `cache` is a live cache of it that this thread may read now.
    pub unsafe fn size(&self, cache: vk::PipelineCache) -> Option<usize> {
        // SAFETY: as this function; the pointer is NULL.
        sized_data::size(|size, data| unsafe { self.get(cache, size, data) })
    }

    /// vkGetPipelineCacheData for a program, whose memory gets no more than it has room for: of a cache that has more,
    /// the driver writes everything into memory of the layer's, because its data cannot be cut anywhere (contract 4.2).
    /// `known`: the bytes of the cache's data, where the driver was asked for them before.
    ///
    /// # Safety
    /// The device is alive, and `cache` is a live cache of it that this thread may read now, and to which nobody adds;
    /// `data` is NULL, or valid for writes of `size` bytes.
    pub unsafe fn copy_out(
        &self,
        cache: vk::PipelineCache,
        known: Option<usize>,
        size: &mut usize,
        data: *mut u8,
    ) -> vk::Result {
        let has_room = data.is_null() || known.is_some_and(|known| known <= *size);
        // SAFETY: as this function.
        let all = if has_room { None } else { unsafe { self.size(cache) } };
        let Some(all) = all.filter(|all| *all > *size) else {
            // SAFETY: as this function: there is room for everything, or the driver does not say what there is.
            return unsafe { self.get(cache, size, data.cast()) };
        };
        let mut written = *size;
        let Some(mut buffer) = Buffer::<u8>::new(&[], all) else {
            *size = 0;
            return vk::Result::INCOMPLETE;
        };
        // SAFETY: as this function; the buffer has room for everything.
        let result = buffer.fill(0, |to| unsafe { self.get(cache, &mut written, to) });
        if result.as_raw() < 0 {
            return result;
        }
        // A driver that claims to have written more than it was allowed is not believed.
        *size = if written <= *size { written } else { 0 };
        // SAFETY: `data` has room for as many bytes, and the buffer holds more.
        unsafe { std::ptr::copy_nonoverlapping(buffer.into_words().as_ptr(), data, *size) };
        result
    }
}

/// A pipeline cache of the layer's that one thread uses. It is destroyed when it goes out of scope.
pub struct PrivateCache<'a> {
    commands: &'a CacheCommands,
    handle: vk::PipelineCache,
}

impl PrivateCache<'_> {
    /// The handle, which the caller destroys from now on.
    pub fn into_handle(self) -> vk::PipelineCache {
        let handle = self.handle;
        std::mem::forget(self);
        handle
    }

    /// The same cache, which lives for as long as somebody has it.
    pub fn shared(self) -> SharedCache {
        let CacheCommands { device, destroy, .. } = *self.commands;
        SharedCache { device, destroy, handle: self.into_handle() }
    }

    /// The handle.
    pub fn handle(&self) -> vk::PipelineCache {
        self.handle
    }

    /// Takes over what another cache holds. None where the driver does not.
    ///
    /// # Safety
    /// `source` is a live cache of the device that this thread may read now.
    pub unsafe fn take_from(&self, source: vk::PipelineCache) -> Option<()> {
        // SAFETY: `source` is a live cache that this thread may read now; only this thread uses the destination, which
        // is therefore not the source.
        unsafe { self.commands.merge(self.handle, &[source]) }
    }

    /// The cache's data, behind `prefix`.
    pub fn data_behind(&self, prefix: &[u8]) -> Result<Vec<u8>, NoData> {
        // SAFETY: a live cache that only this thread uses; `read` passes NULL, or a buffer for everything.
        let ask = |size: &mut usize, to| unsafe { self.commands.get(self.handle, size, to) };
        let (data, _) = sized_data::read(prefix, ask)?;
        self.commands.holds_pipelines(&data[prefix.len()..]).then_some(data).ok_or(NoData::Empty)
    }

    /// Bytes of the cache's data. None where the driver does not say.
    pub fn size(&self) -> Option<usize> {
        // SAFETY: a live cache that only this thread uses.
        unsafe { self.commands.size(self.handle) }
    }

    /// Whether a call may have added an entry since its data had so many bytes.
    pub fn has_grown(&self, before: usize) -> bool {
        self.size().is_none_or(|after| after > before + PADDING)
    }

    /// Answers as a driver would whose cache this is. `known`: the bytes of its data, if the driver was asked.
    ///
    /// # Safety
    /// `data` is valid for writes of `size` bytes.
    pub unsafe fn copy_out(&self, known: Option<usize>, size: &mut usize, data: *mut u8) -> vk::Result {
        // SAFETY: a live cache that only this thread uses.
        unsafe { self.commands.copy_out(self.handle, known, size, data) }
    }
}

impl Drop for PrivateCache<'_> {
    fn drop(&mut self) {
        if let Some(destroy) = self.commands.destroy {
            // SAFETY: the device is alive; the cache is the layer's, was created without an allocator, and no call uses
            // it any more.
            unsafe { destroy(self.commands.device, self.handle, std::ptr::null()) };
        }
    }
}

/// A pipeline cache of the layer's that outlives the call that has made it. Whoever has one makes sure that the device
/// is alive for as long.
pub struct SharedCache {
    device: vk::Device,
    destroy: Option<vk::PFN_vkDestroyPipelineCache>,
    handle: vk::PipelineCache,
}

impl SharedCache {
    /// The handle.
    pub fn handle(&self) -> vk::PipelineCache {
        self.handle
    }
}

impl Drop for SharedCache {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the device is alive (the type's contract); the cache is the layer's, was created without an
            // allocator, and no call uses it any more.
            unsafe { destroy(self.device, self.handle, std::ptr::null()) };
        }
    }
}
