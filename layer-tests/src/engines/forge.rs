//! The Forge: a cache object for each file name that the application gives. It is loaded when it is added, and saved
//! when the application says so.

use std::fs;
use std::path::Path;

use super::gpu::Gpu;

pub fn run(gpu: &Gpu, folder: &Path) {
    let names: Vec<u32> = gpu.names().collect();
    for (file, names) in ["Shadows.cache", "Forward.cache"].iter().zip(names.chunks(names.len() / 2)) {
        let path = folder.join(file);
        let cache = gpu.device.cache(&fs::read(&path).unwrap_or_default());
        for &name in names {
            gpu.create(name, cache, true).unwrap();
        }
        fs::write(&path, gpu.device.cache_data(cache)).unwrap();
        gpu.device.destroy_cache(cache);
    }
}
