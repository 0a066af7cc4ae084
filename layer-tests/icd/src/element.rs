//! The driver's reading of one create info of a pipeline.

use std::ffi::c_void;
use std::sync::Arc;

use ash::vk;

use crate::binary::Binary;
use crate::chain;
use crate::config::Config;
use crate::flags::{CAPTURE_DATA, EARLY_RETURN, FAIL_ON, LIBRARY};
use crate::handles::Device;
use crate::hash::{Digest, Hasher};
use crate::objects::Layout;

/// A create info that was read.
pub struct Element<'a> {
    /// The key in the driver's caches.
    pub key: Digest,
    /// Its shaders: one digest for each stage, and one for each linked library.
    pub shaders: Vec<Digest>,
    /// Effective flags.
    pub flags: u64,
    /// A stage is named by an identifier, so it cannot be compiled.
    pub by_identifier: bool,
    /// The feedback structure to fill in.
    pub feedback: Option<&'a vk::PipelineCreationFeedbackCreateInfo<'a>>,
    /// basePipelineHandle and basePipelineIndex.
    pub base: (vk::Pipeline, i32),
    /// Graphics: its subsets, with those of linked libraries.
    pub subsets: u32,
    /// Graphics: static rasterizer discard.
    pub discard: bool,
    /// Compute, graphics or ray tracing.
    pub kind: &'static str,
    /// The key without the code.
    pub shape: Digest,
    /// Number of stages, with those of linked libraries.
    pub stages: u32,
    /// Binaries that replace all code.
    pub binaries: Option<Vec<Arc<Binary>>>,
    /// Graphics: the layout.
    pub layout: Option<Layout>,
    /// Graphics: it or a linked library has a mesh stage.
    pub mesh: bool,
    /// Graphics: it has no shaders of its own, and links libraries without optimization.
    pub fast_link: bool,
}

impl<'a> Element<'a> {
    /// A create info of this key, without shaders, and without what only some kinds of pipelines have.
    ///
    /// # Safety
    /// The chain of a valid create info.
    pub unsafe fn new(kind: &'static str, key: Hasher, flags: u64, p_next: *const c_void) -> Element<'a> {
        Element {
            kind,
            shape: key.shape(),
            key: key.finish(),
            shaders: Vec::new(),
            flags,
            by_identifier: false,
            // SAFETY: the caller passes a valid chain.
            feedback: unsafe { chain::find(p_next) },
            base: (vk::Pipeline::null(), 0),
            subsets: 0,
            discard: false,
            stages: 0,
            binaries: None,
            layout: None,
            mesh: false,
            fast_link: false,
        }
    }

    /// Whether caches may hold the pipeline.
    pub fn cacheable(&self, config: &Config) -> bool {
        (config.caches_libraries || self.flags & LIBRARY == 0)
            && (config.caches_fast_links || !self.fast_link || !config.fast_linking)
    }

    /// The entries that caches keep of the pipeline.
    pub fn entries(&self, config: &Config) -> &[Digest] {
        if config.shader_entries && !self.shaders.is_empty() {
            &self.shaders
        } else {
            std::slice::from_ref(&self.key)
        }
    }
}

/// A key's hasher with the content that every kind of pipeline has: kind, device, and the flags that matter.
pub fn key(kind: &str, config: &Config, device: &Device, flags: u64) -> Hasher {
    let mut hasher = Hasher::new(kind);
    hasher.bytes(&config.uuid());
    hasher.word(config.device_id.wrapping_add(device.index));
    hasher.bytes(&device.robustness.map(u8::from));
    hasher.number(flags & !(FAIL_ON | EARLY_RETURN | CAPTURE_DATA));
    hasher
}
