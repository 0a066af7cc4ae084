//! Microsoft's sample: one pipeline library in a memory-mapped file, or a memory-mapped file for each pipeline's blob.
//! Its first two pipelines are compiled at start, each of the others by a worker thread of its own.

use std::path::Path;
use std::thread;

use super::gpu::Gpu;
use super::mapped::MemoryMappedFile;

/// EffectPipelineTypeCount: no more workers exist at a time.
const EFFECTS: usize = 12;
/// BaseNormal3DRender and BaseUberShader.
const AT_START: usize = 2;

/// PSOLibrary: runs CompilePSO for each pipeline, with the thread's own data.
fn compile<Data: Send>(threads: Vec<Data>, compile_pso: impl Fn(Data) + Sync) {
    let mut effects = threads.into_iter();
    effects.by_ref().take(AT_START).for_each(&compile_pso);
    loop {
        let workers: Vec<Data> = effects.by_ref().take(EFFECTS - AT_START).collect();
        if workers.is_empty() {
            return;
        }
        // WaitForThreads is the end of the scope.
        thread::scope(|scope| {
            for worker in workers {
                scope.spawn(|| compile_pso(worker));
            }
        });
    }
}

/// The pipeline library method. MemoryMappedPipelineLibrary::Destroy writes the file at the end.
pub fn library(gpu: &Gpu, folder: &Path) {
    let mut file = MemoryMappedFile::init(&folder.join("pipelineLibrary.cache"));
    let library = gpu.device.cache(file.content());
    compile(gpu.names().collect(), |name| {
        gpu.load_or_store(name, library);
    });
    file.update(&gpu.device.cache_data(library));
    gpu.device.destroy_cache(library);
}

/// The cached blob method. The views stay mapped until the application terminates.
pub fn blobs(gpu: &Gpu, folder: &Path) {
    let map = |name| MemoryMappedFile::init(&folder.join(format!("{name}.cache")));
    let mut caches: Vec<_> = gpu.names().map(map).collect();
    compile(gpu.names().zip(&mut caches).collect(), |(name, cache)| match cache.content() {
        [] => cache.update(&gpu.create_with_blob(name, None).1),
        blob => _ = gpu.create_with_blob(name, Some(blob)),
    });
}
