//! Dispatchable handles. Their memory is never freed, so a destroyed one never becomes another live one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ash::vk::{self, Handle as _};

use crate::objects::Allocator;
use crate::record;

/// The first word of a dispatchable handle, until the loader replaces it by its own pointer.
const ICD_LOADER_MAGIC: usize = 0x01CD_C0DE;

/// An instance.
#[derive(Debug)]
pub struct Instance {
    /// Its physical devices.
    pub physical: Vec<u64>,
    /// The allocator at its creation.
    pub allocator: Allocator,
}

/// A device.
#[derive(Debug)]
pub struct Device {
    /// Its own handle.
    pub handle: u64,
    /// The index of its physical device.
    pub index: u32,
    /// The allocator at its creation.
    pub allocator: Allocator,
    /// Enabled extensions.
    pub extensions: HashSet<String>,
    /// pipelineCreationCacheControl is enabled.
    pub cache_control: bool,
    /// shaderModuleIdentifier is enabled.
    pub identifiers: bool,
    /// maintenance5 is enabled.
    pub maintenance5: bool,
    /// graphicsPipelineLibrary is enabled.
    pub libraries: bool,
    /// pipelineBinaries is enabled.
    pub binaries: bool,
    /// shaderObject is enabled.
    pub shader_object: bool,
    /// descriptorHeap is enabled.
    pub descriptor_heap: bool,
    /// disableInternalCache was requested.
    pub internal_cache_off: bool,
    /// Enabled robustness, which drivers compile into code: buffers, images, then the three of VK_EXT_robustness2.
    pub robustness: [bool; 5],
    /// Queues by family and index.
    pub queues: Mutex<HashMap<(u32, u32), u64>>,
}

/// What a dispatchable handle refers to.
#[derive(Clone, Debug)]
pub enum Dispatchable {
    /// VkInstance.
    Instance(Arc<Instance>),
    /// VkPhysicalDevice, by its index.
    Physical(u32),
    /// VkDevice.
    Device(Arc<Device>),
    /// VkQueue.
    Queue,
}

static TABLE: LazyLock<Mutex<HashMap<u64, Dispatchable>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<u64, Dispatchable>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new handle that refers to nothing yet.
pub fn allocate() -> u64 {
    let words: &'static mut [usize; 8] = Box::leak(Box::new([0; 8]));
    words[0] = ICD_LOADER_MAGIC;
    (&raw mut *words).expose_provenance() as u64
}

/// Makes a handle refer to something.
pub fn insert(handle: u64, what: Dispatchable) {
    table().insert(handle, what);
}

/// Ends a handle.
pub fn remove(handle: u64) -> Option<Dispatchable> {
    table().remove(&handle)
}

/// The instance of a handle; a violation if there is none.
pub fn instance(command: &str, handle: vk::Instance) -> Option<Arc<Instance>> {
    if let Some(Dispatchable::Instance(instance)) = table().get(&handle.as_raw()) {
        return Some(instance.clone());
    }
    record::violation(format!("{command}: unknown or destroyed VkInstance"));
    None
}

/// The index of a physical device; a violation and 0 if there is none.
pub fn physical(command: &str, handle: vk::PhysicalDevice) -> u32 {
    if let Some(Dispatchable::Physical(index)) = table().get(&handle.as_raw()) {
        return *index;
    }
    record::violation(format!("{command}: unknown or destroyed VkPhysicalDevice"));
    0
}

/// The device of a handle; a violation if there is none.
pub fn device(command: &str, handle: vk::Device) -> Option<Arc<Device>> {
    if let Some(Dispatchable::Device(device)) = table().get(&handle.as_raw()) {
        return Some(device.clone());
    }
    record::violation(format!("{command}: unknown or destroyed VkDevice"));
    None
}
