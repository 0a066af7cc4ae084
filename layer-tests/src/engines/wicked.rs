//! Wicked Engine: one library, and command lists on threads that merge what they made when they are submitted. Its
//! author measured the library to be slower than the driver's own cache, and switched it off.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread;

use ash::vk;

use super::gpu::Gpu;

const COMMAND_LISTS: usize = 2;

/// CommandList_DX12::pipelines_worker.
type Worker = Vec<(u32, vk::Pipeline)>;

/// The engine as it was before.
pub fn with_library(gpu: &Gpu, folder: &Path) {
    let file = folder.join("library");
    let library = gpu.device.cache(&fs::read(&file).unwrap_or_default());
    frames(gpu, &|name| gpu.load_or_store(name, library));
    // ~GraphicsDevice_DX12.
    fs::write(&file, gpu.device.cache_data(library)).unwrap();
    gpu.device.destroy_cache(library);
}

/// The engine as it is.
pub fn without_library(gpu: &Gpu, _: &Path) {
    frames(gpu, &|name| gpu.create(name, vk::PipelineCache::null()));
}

/// Two frames: the second one finds all in pipelines_global.
fn frames(gpu: &Gpu, create: &(dyn Fn(u32) -> vk::Pipeline + Sync)) {
    let names: Vec<u32> = gpu.names().collect();
    let mut global: HashMap<u32, vk::Pipeline> = HashMap::new();
    for _ in 0..2 {
        let recorded: Vec<Worker> = thread::scope(|scope| {
            let record = |names| {
                let global = &global;
                scope.spawn(move || command_list(names, global, create))
            };
            let lists: Vec<_> = names.chunks(names.len().div_ceil(COMMAND_LISTS)).map(record).collect();
            lists.into_iter().map(|list| list.join().unwrap()).collect()
        });
        // SubmitCommandLists.
        global.extend(recorded.into_iter().flatten());
    }
    assert_eq!(global.len(), names.len());
}

/// pso_validate for each draw: each pipeline is drawn twice.
fn command_list(
    names: &[u32],
    global: &HashMap<u32, vk::Pipeline>,
    create: &(dyn Fn(u32) -> vk::Pipeline + Sync),
) -> Worker {
    let mut worker = Worker::new();
    for &name in names.iter().chain(names) {
        if !global.contains_key(&name) && !worker.iter().any(|(known, _)| *known == name) {
            worker.push((name, create(name)));
        }
    }
    worker
}
