//! The Forge: a cache object for each file name that the application gives. It is loaded when it is added, and saved
//! when the application says so. Not every pipeline is created with one, though each cache makes a library.

use std::fs;
use std::path::{Path, PathBuf};

use ash::vk;

use super::gpu::Gpu;

/// PipelineCache, with the file name of its PipelineCacheLoadDesc.
struct PipelineCache {
    library: vk::PipelineCache,
    file: PathBuf,
}

/// loadPipelineCache, which calls addPipelineCache with the file's content.
fn load_pipeline_cache(gpu: &Gpu, file: PathBuf) -> PipelineCache {
    PipelineCache { library: gpu.device.cache(&fs::read(&file).unwrap_or_default()), file }
}

/// savePipelineCache, which calls getPipelineCacheData, then removePipelineCache.
fn save_and_remove(gpu: &Gpu, cache: PipelineCache) {
    fs::write(cache.file, gpu.device.cache_data(cache.library)).unwrap();
    gpu.device.destroy_cache(cache.library);
}

pub fn run(gpu: &Gpu, folder: &Path) {
    let files = ["Shadows.cache", "Forward.cache", "Unused.cache"];
    let caches = files.map(|file| load_pipeline_cache(gpu, folder.join(file)));
    // The last third asks without a cache.
    let passed = [caches[0].library, caches[1].library, vk::PipelineCache::null()];
    let names: Vec<u32> = gpu.names().collect();
    for (names, cache) in names.chunks(names.len().div_ceil(passed.len())).zip(passed) {
        names.iter().for_each(|&name| _ = gpu.create(name, cache));
    }
    caches.into_iter().for_each(|cache| save_and_remove(gpu, cache));
}
