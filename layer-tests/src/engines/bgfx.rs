//! bgfx: looks for a pipeline in memory, then for its cached blob on disk through callbacks of the application, then
//! creates it, and writes it back to both.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use ash::vk;

use super::gpu::Gpu;

/// bgfx_callback_vtbl_t, and bgfx_callback_interface_t with what the application's functions need.
struct CallbackInterface {
    cache_read_size: fn(&CallbackInterface, u64) -> u32,
    cache_read: fn(&CallbackInterface, u64, &mut [u8]) -> bool,
    cache_write: fn(&CallbackInterface, u64, &[u8]),
    folder: PathBuf,
}

impl CallbackInterface {
    fn file(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:016x}.bin"))
    }
}

/// RendererContextD3D12.
struct Renderer<'a> {
    gpu: &'a Gpu,
    /// m_pipelineStateCache.
    memory: HashMap<u64, vk::Pipeline>,
    callback: CallbackInterface,
}

impl Renderer<'_> {
    /// getPipelineState.
    fn pipeline_state(&mut self, name: u32) -> vk::Pipeline {
        let hash = u64::from(name).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if let Some(&pipeline) = self.memory.get(&hash) {
            return pipeline;
        }
        let callback = &self.callback;
        let mut blob = vec![0; (callback.cache_read_size)(callback, hash) as usize];
        let is_read = !blob.is_empty() && (callback.cache_read)(callback, hash, &mut blob);
        let (pipeline, blob) = self.gpu.create_with_blob(name, is_read.then_some(&blob));
        self.memory.insert(hash, pipeline);
        (callback.cache_write)(callback, hash, &blob);
        pipeline
    }
}

/// The application.
pub fn run(gpu: &Gpu, folder: &Path) {
    let callback = CallbackInterface {
        cache_read_size: |this, id| fs::metadata(this.file(id)).map_or(0, |file| file.len() as u32),
        cache_read: |this, id, data| match fs::read(this.file(id)) {
            Ok(bytes) if bytes.len() == data.len() => {
                data.copy_from_slice(&bytes);
                true
            }
            _ => false,
        },
        cache_write: |this, id, data| fs::write(this.file(id), data).unwrap(),
        folder: folder.to_owned(),
    };
    let mut renderer = Renderer { gpu, memory: HashMap::new(), callback };
    // Two frames: the second one finds everything in memory.
    let frames = [(); 2].map(|()| gpu.names().map(|name| renderer.pipeline_state(name)).collect::<Vec<_>>());
    assert_eq!(frames[0], frames[1]);
}
