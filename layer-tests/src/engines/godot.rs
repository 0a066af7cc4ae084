//! Godot 4: one cache for all pipelines, loaded from a file. The size of its data is asked for after each pipeline; the
//! file is written anew once it has grown enough, and at the end if it has grown at all.

use std::fs;
use std::path::Path;

use super::gpu::Gpu;

/// rendering/rendering_device/pipeline_cache/save_chunk_size_mb, for a program with fewer pipelines.
const SAVE_CHUNK_SIZE: usize = 16 << 10;

pub fn run(gpu: &Gpu, folder: &Path) {
    let file = folder.join("pipelines.cache");
    let cache = gpu.device.cache(&fs::read(&file).unwrap_or_default());
    let mut saved = gpu.device.cache_size(cache);
    // RenderingDevice::update_pipeline_cache. Sizes are unsigned there: one that shrinks is a large growth.
    let mut update = |closing: bool| {
        let size = gpu.device.cache_size(cache);
        let grown = size.wrapping_sub(saved);
        if grown > 0 && (closing || grown >= SAVE_CHUNK_SIZE) {
            fs::write(&file, gpu.device.cache_data(cache)).unwrap();
            saved = size;
        }
    };
    for name in gpu.names() {
        gpu.create(name, cache);
        update(false);
    }
    update(true);
    gpu.device.destroy_cache(cache);
}
