//! Non-dispatchable objects: numbers that are not used twice unless the script says so, and what they stand for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ash::vk;

use crate::binary::Binary;
use crate::cache::Cache;
use crate::config;
use crate::hash::Digest;
use crate::operation::Operation;
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

/// What linking compares of a pipeline layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its contents.
    pub digest: Digest,
    /// INDEPENDENT_SETS.
    pub independent: bool,
}

/// What is known of a pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Compute, graphics or ray tracing.
    pub kind: &'static str,
    /// The key without code.
    pub shape: Digest,
    /// Stages, with those of linked libraries: it has so many binaries.
    pub stages: u32,
    /// A stage, here or in a linked library, has no code.
    pub by_identifier: bool,
    /// Graphics: its layout.
    pub layout: Option<Layout>,
    /// Graphics: a mesh stage is in it, here or in a linked library.
    pub mesh: bool,
    /// It came from a cache or from binaries.
    pub made_before: bool,
    /// It came from binaries, which hold nothing that could be optimized again.
    pub from_binaries: bool,
    /// Its data can be captured.
    pub captured: Arc<AtomicBool>,
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
    PipelineLayout(Layout),
    /// A render pass's contents, and its subpasses.
    RenderPass(Digest, Arc<[Subpass]>),
    /// A pipeline cache.
    Cache(Arc<Cache>),
    /// A pipeline.
    Pipeline(Pipeline),
    /// A pipeline binary.
    Binary(Arc<Binary>),
    /// A deferred operation.
    Operation(Arc<Operation>),
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
            Body::Binary(_) => "VkPipelineBinaryKHR",
            Body::Operation(_) => "VkDeferredOperationKHR",
        }
    }
}

#[derive(Debug)]
struct Object {
    device: u64,
    allocator: Allocator,
    body: Body,
    /// How often it was created and not destroyed: more than once with `equal_handles`.
    owners: u32,
}

static OBJECTS: LazyLock<Mutex<BTreeMap<u64, Object>>> = LazyLock::new(Mutex::default);
/// Handles that were destroyed while `reuse_handles` is on, the last at the end.
static FREE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0x1000);

fn objects() -> MutexGuard<'static, BTreeMap<u64, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two objects count by their contents alone, and those are equal.
fn same(one: &Body, other: &Body) -> bool {
    match (one, other) {
        (Body::Module(one), Body::Module(other))
        | (Body::Sampler(one), Body::Sampler(other))
        | (Body::SetLayout(one), Body::SetLayout(other)) => one == other,
        (Body::PipelineLayout(one), Body::PipelineLayout(other)) => one == other,
        _ => false,
    }
}

/// Makes an object.
pub fn insert(device: u64, allocator: Allocator, body: Body) -> u64 {
    let config = config::current();
    let mut objects = objects();
    if config.equal_handles {
        let equal = |object: &Object| {
            object.device == device && object.allocator == allocator && same(&object.body, &body)
        };
        if let Some((handle, object)) = objects.iter_mut().find(|(_, object)| equal(object)) {
            object.owners += 1;
            return *handle;
        }
    }
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let handle = free.unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
    objects.insert(handle, Object { device, allocator, body, owners: 1 });
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

/// What the live pipelines are, in hexadecimal digits and in the order of their handles.
pub fn live_pipelines() -> Vec<String> {
    let digits = |key: &Digest| key.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = |object: &Object| match &object.body {
        Body::Pipeline(pipeline) => Some(digits(&pipeline.key)),
        _ => None,
    };
    objects().values().filter_map(key).collect()
}

/// The contents of a sampler, layout, render pass or module; zeros (and a violation) if there is no such.
pub fn contents(command: &str, device: u64, kind: &str, handle: u64) -> Digest {
    match get(command, device, kind, handle) {
        Some(
            Body::Module(digest)
            | Body::Sampler(digest)
            | Body::SetLayout(digest)
            | Body::PipelineLayout(Layout { digest, .. })
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
    let object = {
        let mut objects = objects();
        let object = objects.get_mut(&handle)?;
        object.owners -= 1;
        if object.owners > 0 {
            return None;
        }
        objects.remove(&handle)?
    };
    if config::current().reuse_handles {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }
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
