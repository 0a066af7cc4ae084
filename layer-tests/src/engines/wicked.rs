//! Wicked Engine: one library, measured against the driver's own cache; the slower one is switched off.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ash::vk;

use super::gpu::Gpu;

pub fn run(gpu: &Gpu, folder: &Path) {
    let (file, choice) = (folder.join("library"), folder.join("without-library"));
    if choice.exists() {
        for name in gpu.names() {
            gpu.create(name, vk::PipelineCache::null(), true).unwrap();
        }
        return;
    }
    let library = gpu.device.cache(&fs::read(&file).unwrap_or_default());
    let is_first = !file.exists();
    // Half of the pipelines in each way.
    let mut spent = [Duration::ZERO; 2];
    for name in gpu.names() {
        let before = gpu.spent();
        let with_library = name % 2 == 0;
        let cache = if with_library { library } else { vk::PipelineCache::null() };
        gpu.create(name, cache, true).unwrap();
        spent[usize::from(with_library)] += gpu.spent() - before;
    }
    fs::write(&file, gpu.device.cache_data(library)).unwrap();
    gpu.device.destroy_cache(library);
    // In the first run the driver had to compile both ways, with and without the library.
    if !is_first && spent[1] > spent[0] {
        fs::write(choice, []).unwrap();
    }
}
