//! What the driver understands of one create info of a pipeline.

use std::sync::Arc;

use ash::vk;

use crate::binary::Binary;
use crate::config::Config;
use crate::flags::{CAPTURE_DATA, EARLY_RETURN, FAIL_ON, LIBRARY};
use crate::handles::Device;
use crate::hash::{Digest, Hasher};
use crate::objects::Layout;

/// One create info, understood.
pub struct Element<'a> {
    /// What the driver caches it under.
    pub key: Digest,
    /// Effective flags.
    pub flags: u64,
    /// A stage is named by an identifier: it can't be compiled.
    pub by_identifier: bool,
    /// Where feedback goes.
    pub feedback: Option<&'a vk::PipelineCreationFeedbackCreateInfo<'a>>,
    /// basePipelineHandle and basePipelineIndex.
    pub base: (vk::Pipeline, i32),
    /// Graphics: its subsets, with those of linked libraries.
    pub subsets: u32,
    /// Graphics: static rasterizer discard.
    pub discard: bool,
    /// Compute, graphics or ray tracing.
    pub kind: &'static str,
    /// The key without code.
    pub shape: Digest,
    /// Stages, with those of linked libraries.
    pub stages: u32,
    /// Binaries that stand for all code.
    pub binaries: Option<Vec<Arc<Binary>>>,
    /// Graphics: the layout.
    pub layout: Option<Layout>,
    /// Graphics: a mesh stage is in it or in a linked library.
    pub mesh: bool,
    /// Graphics: it brings no shaders of its own and links libraries without optimization.
    pub fast_link: bool,
}

impl Element<'_> {
    /// Whether caches may hold it.
    pub fn cacheable(&self, config: &Config) -> bool {
        (config.caches_libraries || self.flags & LIBRARY == 0)
            && (config.caches_fast_links || !self.fast_link || !config.fast_linking)
    }
}

/// The hasher of a key, with what every kind of pipeline has: whose key it is, and the flags that count.
pub fn key(kind: &str, config: &Config, device: &Device, flags: u64) -> Hasher {
    let mut hasher = Hasher::new(kind);
    hasher.bytes(&config.uuid());
    hasher.word(config.device_id.wrapping_add(device.index));
    hasher.bytes(&device.robustness.map(u8::from));
    hasher.number(flags & !(FAIL_ON | EARLY_RETURN | CAPTURE_DATA));
    hasher
}
