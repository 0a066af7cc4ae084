//! LLGL: a cache object holds one pipeline's blob. The library of the engine loads and saves nothing: its user hands
//! the blob over, and asks for it after the pipeline was created.

use std::fs;
use std::path::Path;

use ash::vk;

use super::gpu::Gpu;

/// D3D12PipelineCache. RenderSystem::CreatePipelineCache gives one with the user's blob.
struct PipelineCache {
    initial: Vec<u8>,
    native: Option<Vec<u8>>,
}

impl PipelineCache {
    /// GetBlob: what the user may keep.
    fn blob(&self) -> &[u8] {
        self.native.as_ref().unwrap_or(&self.initial)
    }
}

/// RenderSystem::CreatePipelineState with CreateNativePSO and SetNativeAndUpdateCache.
fn create_pipeline_state(gpu: &Gpu, name: u32, cache: Option<&mut PipelineCache>) -> vk::Pipeline {
    let Some(cache) = cache else { return gpu.create(name, vk::PipelineCache::null()) };
    let (pipeline, blob) = gpu.create_with_blob(name, Some(cache.blob()));
    // An empty cache is filled; another one stays as it was.
    if cache.blob().is_empty() {
        cache.native = Some(blob);
    }
    pipeline
}

/// The user, who passes caches for all pipelines but the last.
pub fn run(gpu: &Gpu, folder: &Path) {
    let last = gpu.names().next_back();
    for name in gpu.names() {
        if Some(name) == last {
            create_pipeline_state(gpu, name, None);
            continue;
        }
        let file = folder.join(format!("user-{name}"));
        let mut cache = PipelineCache { initial: fs::read(&file).unwrap_or_default(), native: None };
        create_pipeline_state(gpu, name, Some(&mut cache));
        if cache.initial.is_empty() {
            fs::write(&file, cache.blob()).unwrap();
        }
    }
}
