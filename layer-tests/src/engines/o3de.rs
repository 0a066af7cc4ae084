//! O3DE: a shader is a complete set of stages with variants, and has a library file of its own. A read-only set is
//! looked into by all threads, a pending set behind a lock has what is not merged yet, and each thread has a set and a
//! library for each shader.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use ash::vk;

use super::gpu::Gpu;

/// How many pipelines belong to one shader.
const PER_SHADER: usize = 3;
const THREADS: usize = 2;

/// PipelineState: allocated in a set before it is compiled.
type PipelineState = Arc<OnceLock<vk::Pipeline>>;
type PipelineStateSet = HashMap<u32, PipelineState>;

/// PipelineStateCache::GlobalLibraryEntry, with what the RPI's Shader knows: its variants and its library's path.
struct Shader {
    variants: Vec<u32>,
    path: PathBuf,
    serialized: Vec<u8>,
    read_only: PipelineStateSet,
    pending: Mutex<PipelineStateSet>,
}

/// PipelineStateCache::ThreadLibraryEntry.
#[derive(Default)]
struct ThreadLibrary {
    local: PipelineStateSet,
    library: Option<vk::PipelineCache>,
}

impl Shader {
    /// Shader::Init with LoadPipelineLibrary.
    fn init(variants: &[u32], path: PathBuf) -> Shader {
        Shader {
            variants: variants.to_vec(),
            serialized: fs::read(&path).unwrap_or_default(),
            path,
            read_only: HashMap::new(),
            pending: Mutex::default(),
        }
    }

    /// Shader::AcquirePipelineState, which PipelineStateCache::AcquirePipelineState answers.
    fn acquire(&self, gpu: &Gpu, name: u32, thread: &mut ThreadLibrary) {
        if !self.read_only.contains_key(&name) && !thread.local.contains_key(&name) {
            let library = *thread.library.get_or_insert_with(|| gpu.device.cache(&self.serialized));
            thread.local.insert(name, self.compile(gpu, name, library));
        }
    }

    /// CompilePipelineState: another thread may have the pipeline already, or be at it.
    fn compile(&self, gpu: &Gpu, name: u32, library: vk::PipelineCache) -> PipelineState {
        let mut pending = self.pending.lock().unwrap();
        if let Some(state) = pending.get(&name) {
            return state.clone();
        }
        let state = pending.entry(name).or_default().clone();
        drop(pending);
        // PipelineLibrary::CreateGraphicsPipelineState and CreateComputePipelineState.
        state.set(gpu.load_or_store(name, library)).unwrap();
        state
    }

    /// Compact, at the end of a frame.
    fn compact(&mut self, threads: &mut [Vec<ThreadLibrary>], index: usize) {
        self.read_only.extend(self.pending.get_mut().unwrap().drain());
        threads.iter_mut().for_each(|libraries| libraries[index].local.clear());
    }

    /// Shader::Shutdown with SavePipelineLibrary: the libraries of all threads in one file.
    fn shutdown(self, gpu: &Gpu, libraries: &[vk::PipelineCache]) {
        let merged = gpu.device.cache(&[]);
        // SAFETY: live caches of this device, which no other thread uses; the target is none of the sources.
        unsafe { gpu.device.raw.merge_pipeline_caches(merged, libraries) }.unwrap();
        fs::write(self.path, gpu.device.cache_data(merged)).unwrap();
        libraries.iter().chain([&merged]).for_each(|&cache| gpu.device.destroy_cache(cache));
        assert!(self.variants.iter().all(|name| self.read_only[name].get().is_some()));
    }
}

pub fn run(gpu: &Gpu, folder: &Path) {
    let names: Vec<u32> = gpu.names().collect();
    let path = |index: usize| folder.join(format!("shader-{index}.library"));
    let mut shaders: Vec<Shader> = names
        .chunks(PER_SHADER)
        .enumerate()
        .map(|(index, variants)| Shader::init(variants, path(index)))
        .collect();
    let mut threads: Vec<Vec<ThreadLibrary>> =
        (0..THREADS).map(|_| shaders.iter().map(|_| ThreadLibrary::default()).collect()).collect();
    // Two frames: the second one finds all in the read-only sets.
    for _ in 0..2 {
        thread::scope(|scope| {
            for (number, libraries) in threads.iter_mut().enumerate() {
                let shaders = &shaders;
                scope.spawn(move || frame(gpu, shaders, libraries, number));
            }
        });
        for (index, shader) in shaders.iter_mut().enumerate() {
            shader.compact(&mut threads, index);
        }
    }
    for (index, shader) in shaders.into_iter().enumerate() {
        let libraries: Vec<_> = threads.iter().filter_map(|libraries| libraries[index].library).collect();
        shader.shutdown(gpu, &libraries);
    }
}

/// What a thread asks for in a frame: all variants of all shaders, each thread from a variant of its own on.
fn frame(gpu: &Gpu, shaders: &[Shader], libraries: &mut [ThreadLibrary], number: usize) {
    for (shader, library) in shaders.iter().zip(libraries) {
        let (behind, first) = shader.variants.split_at(number.min(shader.variants.len()));
        first.iter().chain(behind).for_each(|&name| shader.acquire(gpu, name, library));
    }
}
