//! LLGL: a cache object holds one pipeline's blob. The library of the engine loads and saves nothing: its user hands
//! the blob over, and asks for it after the pipeline was created.

use std::fs;
use std::path::Path;

use super::gpu::Gpu;

/// The engine's object.
struct PipelineCache {
    initial: Vec<u8>,
    native: Vec<u8>,
}

impl PipelineCache {
    fn new(initial: Vec<u8>) -> PipelineCache {
        PipelineCache { initial, native: Vec::new() }
    }

    /// What the user may keep.
    fn blob(&self) -> &[u8] {
        if self.initial.is_empty() { &self.native } else { &self.initial }
    }
}

fn create_pipeline_state(gpu: &Gpu, name: u32, cache: &mut PipelineCache) {
    let initial = (!cache.initial.is_empty()).then_some(&cache.initial[..]);
    let (_, blob) = gpu.create_with_blob(name, initial);
    // An empty cache is filled; another one stays as it was.
    if cache.initial.is_empty() {
        cache.native = blob;
    }
}

/// The user.
pub fn run(gpu: &Gpu, folder: &Path) {
    for name in gpu.names() {
        let file = folder.join(format!("user-{name}"));
        let mut cache = PipelineCache::new(fs::read(&file).unwrap_or_default());
        create_pipeline_state(gpu, name, &mut cache);
        fs::write(&file, cache.blob()).unwrap();
    }
}
