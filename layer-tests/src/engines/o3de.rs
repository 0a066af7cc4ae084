//! O3DE: a library for each shader, shared by all its users; a read-only set that all threads look into, and a pending
//! set and a library for each thread, which a compact step merges at the end of the frame.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use ash::vk;

use super::gpu::Gpu;

/// How many pipelines belong to one shader.
const PER_SHADER: u32 = 3;
const THREADS: u32 = 2;

/// What a thread has made and not merged yet.
struct Pending {
    library: vk::PipelineCache,
    pipelines: HashMap<u32, vk::Pipeline>,
}

pub fn run(gpu: &Gpu, folder: &Path) {
    let names: Vec<u32> = gpu.names().collect();
    for (shader, names) in names.chunks(PER_SHADER as usize).enumerate() {
        let file = folder.join(format!("shader-{shader}.library"));
        let data = fs::read(&file).unwrap_or_default();
        let global = gpu.device.cache(&data);
        let mut read_only: HashMap<u32, vk::Pipeline> = HashMap::new();
        // Two frames: the second one finds all in the read-only set.
        for _ in 0..2 {
            let pending: Vec<Pending> = std::thread::scope(|scope| {
                let start = |thread| {
                    let (read_only, data) = (&read_only, &data);
                    scope.spawn(move || acquire(gpu, names, thread, read_only, data))
                };
                let threads: Vec<_> = (0..THREADS).map(start).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            // The compact step.
            let libraries: Vec<_> = pending.iter().map(|pending| pending.library).collect();
            // SAFETY: live caches of this device, which no other thread uses; the target is none of the sources.
            unsafe { gpu.device.raw.merge_pipeline_caches(global, &libraries) }.unwrap();
            for pending in pending {
                gpu.device.destroy_cache(pending.library);
                read_only.extend(pending.pipelines);
            }
        }
        assert_eq!(read_only.len(), names.len());
        fs::write(&file, gpu.device.cache_data(global)).unwrap();
        gpu.device.destroy_cache(global);
    }
}

/// What a thread asks for: its share, first of the read-only set.
fn acquire(
    gpu: &Gpu,
    names: &[u32],
    thread: u32,
    read_only: &HashMap<u32, vk::Pipeline>,
    data: &[u8],
) -> Pending {
    let mut pending = Pending { library: gpu.device.cache(data), pipelines: HashMap::new() };
    for &name in names.iter().filter(|name| *name % THREADS == thread) {
        if !read_only.contains_key(&name) {
            let pipeline = gpu.create(name, pending.library, true).unwrap();
            pending.pipelines.insert(name, pipeline);
        }
    }
    pending
}
