//! Non-dispatchable objects: numbers that are never used twice, and what they stand for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ash::vk;

use crate::cache::Cache;
use crate::hash::Digest;
use crate::record;

/// What tells one allocator from another: user data and the free callback. None is the driver's own.
pub type Allocator = Option<(usize, usize)>;

/// Reads an allocator's identity.
///
/// # Safety
/// NULL or valid callbacks, as every command's pAllocator is.
pub unsafe fn allocator(callbacks: *const vk::AllocationCallbacks<'_>) -> Allocator {
    // SAFETY: the caller vouches for the pointer.
    unsafe { callbacks.as_ref() }
        .map(|callbacks| (callbacks.p_user_data as usize, callbacks.pfn_free.map_or(0, |free| free as usize)))
}

/// What a subpass uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subpass {
    /// A depth stencil attachment.
    pub depth: bool,
    /// A colour attachment.
    pub colour: bool,
}

/// What is known of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    /// What the driver caches it under.
    pub key: Digest,
    /// Effective flags.
    pub flags: u64,
    /// Graphics: its subsets, with those of linked libraries.
    pub subsets: u32,
    /// Graphics: static rasterizer discard.
    pub discard: bool,
}

/// What an object stands for.
#[derive(Clone, Debug)]
pub enum Body {
    /// A shader module: the digest of its code.
    Module(Digest),
    /// A sampler's contents.
    Sampler(Digest),
    /// A set layout's contents.
    SetLayout(Digest),
    /// A pipeline layout's contents.
    PipelineLayout(Digest),
    /// A render pass's contents, and its subpasses.
    RenderPass(Digest, Arc<[Subpass]>),
    /// A pipeline cache.
    Cache(Arc<Cache>),
    /// A pipeline.
    Pipeline(Pipeline),
}

impl Body {
    fn kind(&self) -> &'static str {
        match self {
            Body::Module(_) => "VkShaderModule",
            Body::Sampler(_) => "VkSampler",
            Body::SetLayout(_) => "VkDescriptorSetLayout",
            Body::PipelineLayout(_) => "VkPipelineLayout",
            Body::RenderPass(..) => "VkRenderPass",
            Body::Cache(_) => "VkPipelineCache",
            Body::Pipeline(..) => "VkPipeline",
        }
    }
}

#[derive(Debug)]
struct Object {
    device: u64,
    allocator: Allocator,
    body: Body,
}

static OBJECTS: LazyLock<Mutex<BTreeMap<u64, Object>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(0x1000);

fn objects() -> MutexGuard<'static, BTreeMap<u64, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an object.
pub fn insert(device: u64, allocator: Allocator, body: Body) -> u64 {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    objects().insert(handle, Object { device, allocator, body });
    handle
}

/// What a handle of `device` stands for. A violation if it is nothing, something else than `kind`, or another
/// device's.
pub fn get(command: &str, device: u64, kind: &str, handle: u64) -> Option<Body> {
    let fault = match objects().get(&handle) {
        Some(object) if object.body.kind() != kind => format!("is a {}", object.body.kind()),
        Some(object) if object.device != device => "belongs to another device".into(),
        Some(object) => return Some(object.body.clone()),
        None => "is unknown or destroyed".into(),
    };
    record::violation(format!("{command}: {kind} {handle:#x} {fault}"));
    None
}

/// The contents of a sampler, layout, render pass or module; zeros (and a violation) if there is no such.
pub fn contents(command: &str, device: u64, kind: &str, handle: u64) -> Digest {
    match get(command, device, kind, handle) {
        Some(
            Body::Module(digest)
            | Body::Sampler(digest)
            | Body::SetLayout(digest)
            | Body::PipelineLayout(digest)
            | Body::RenderPass(digest, _)
            | Body::Pipeline(Pipeline { key: digest, .. }),
        ) => digest,
        _ => [0; 32],
    }
}

/// Ends an object; NULL is fine.
pub fn remove(command: &str, device: u64, kind: &str, handle: u64, allocator: Allocator) -> Option<Body> {
    if handle == 0 {
        return None;
    }
    get(command, device, kind, handle)?;
    let object = objects().remove(&handle)?;
    if object.allocator != allocator {
        record::violation(format!("{command}: {kind} {handle:#x} was created with another allocator"));
    }
    Some(object.body)
}

/// Ends everything that a device left behind, and says what that was.
pub fn sweep(device: u64) -> Vec<&'static str> {
    let mut left = Vec::new();
    objects().retain(|_, object| {
        if object.device == device {
            left.push(object.body.kind());
        }
        object.device != device
    });
    left
}
