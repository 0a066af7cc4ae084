//! Non-dispatchable objects: handles, which are not reused unless the script says so, and their contents.

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
use crate::shader::Shader;

/// Identity of an allocator: user data and the free callback. None is the driver's own.
pub type Allocator = Option<(usize, usize)>;

/// Reads an allocator's identity.
///
/// # Safety
/// `callbacks` is NULL or points to valid callbacks, as the pAllocator of each command does.
pub unsafe fn allocator(callbacks: *const vk::AllocationCallbacks<'_>) -> Allocator {
    // SAFETY: the caller passes NULL or a pointer to valid callbacks.
    unsafe { callbacks.as_ref() }
        .map(|callbacks| (callbacks.p_user_data as usize, callbacks.pfn_free.map_or(0, |free| free as usize)))
}

/// The attachments that a subpass uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subpass {
    /// A depth stencil attachment.
    pub depth: bool,
    /// A colour attachment.
    pub colour: bool,
}

/// The parts of a pipeline layout that linking compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The digest of the object's contents.
    pub digest: Digest,
    /// INDEPENDENT_SETS.
    pub independent: bool,
}

/// The properties of a pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Compute, graphics or ray tracing.
    pub kind: &'static str,
    /// The key without the code.
    pub shape: Digest,
    /// Number of stages, with those of linked libraries, and of its binaries.
    pub stages: u32,
    /// A stage, also of a linked library, has no code.
    pub by_identifier: bool,
    /// Graphics: its layout.
    pub layout: Option<Layout>,
    /// Graphics: it or a linked library has a mesh stage.
    pub mesh: bool,
    /// Whether the pipeline came from a cache or from binaries.
    pub made_before: bool,
    /// Whether the pipeline came from binaries, which hold no information for optimization.
    pub from_binaries: bool,
    /// Whether the pipeline's data can be captured.
    pub captured: Arc<AtomicBool>,
    /// The key in the driver's caches.
    pub key: Digest,
    /// Effective flags.
    pub flags: u64,
    /// Graphics: its subsets, with those of linked libraries.
    pub subsets: u32,
    /// Graphics: static rasterizer discard.
    pub discard: bool,
}

/// The content of an object.
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
    /// A shader object.
    Shader(Shader),
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
            Body::Shader(_) => "VkShaderEXT",
            Body::Operation(_) => "VkDeferredOperationKHR",
        }
    }
}

#[derive(Debug)]
struct Object {
    device: u64,
    allocator: Allocator,
    body: Body,
    /// Creations without destruction: several with `equal_handles`.
    owners: u32,
}

static OBJECTS: LazyLock<Mutex<BTreeMap<u64, Object>>> = LazyLock::new(Mutex::default);
/// Handles that were destroyed while `reuse_handles` is on, the latest at the end.
static FREE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0x1000);

fn objects() -> MutexGuard<'static, BTreeMap<u64, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two objects are of a kind that is compared by content, and are equal.
fn same(one: &Body, other: &Body) -> bool {
    match (one, other) {
        (Body::Module(one), Body::Module(other))
        | (Body::Sampler(one), Body::Sampler(other))
        | (Body::SetLayout(one), Body::SetLayout(other)) => one == other,
        (Body::PipelineLayout(one), Body::PipelineLayout(other)) => one == other,
        _ => false,
    }
}

/// Creates an object.
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

/// The content of a handle of `device`. A violation if there is no such object, if it is not of this `kind`, or
/// belongs to another device.
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

/// A violation if the object was not created with this allocator.
pub fn check_allocator(command: &str, handle: u64, allocator: Allocator) {
    if objects().get(&handle).is_some_and(|object| object.allocator != allocator) {
        record::violation(format!("{command}: {handle:#x} was created with another allocator"));
    }
}

/// The keys of the live pipelines, in hexadecimal, in the order of their handles.
pub fn live_pipelines() -> Vec<String> {
    let digits = |key: &Digest| key.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = |object: &Object| match &object.body {
        Body::Pipeline(pipeline) => Some(digits(&pipeline.key)),
        _ => None,
    };
    objects().values().filter_map(key).collect()
}

/// The content of a sampler, layout, render pass or module; zeros and a violation if there is none.
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

/// Destroys an object; NULL does nothing.
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

/// Destroys all remaining objects of a device, and names them.
pub fn take_left(device: u64) -> Vec<&'static str> {
    let mut left = Vec::new();
    objects().retain(|_, object| {
        if object.device == device {
            left.push(object.body.kind());
        }
        object.device != device
    });
    left
}
