//! The Vulkan loader's layer interface: negotiation, the link chains that the loader threads through create
//! infos, and dispatch keys.
//!
//! ash does not declare these structures; they follow vk_layer.h. The crate ash-layer (0.0.2) declares them and is not
//! used: its walk along a chain reads every structure at the length of the loader's own, so past the end of shorter
//! ones, and it has no tests. docs/architecture.md says the same of vk-layer-for-rust.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use ash::vk;

use vkstash_recipe::chain;

/// The layer's name, in every manifest and in VK_INSTANCE_LAYERS.
pub const LAYER_NAME: &str = "VK_LAYER_VKSTASH_pipeline_cache";

/// vk_layerGetPhysicalDeviceProcAddr.
pub type PhysicalDeviceProcAddr =
    unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;

/// The highest interface version that this layer speaks (contract 1.8).
const INTERFACE_VERSION: u32 = 2;
const LAYER_NEGOTIATE_INTERFACE_STRUCT: i32 = 1;
/// VK_LAYER_LINK_INFO.
const LAYER_LINK_INFO: i32 = 0;

/// VkNegotiateLayerInterface.
#[repr(C)]
pub struct NegotiateLayerInterface {
    s_type: i32,
    p_next: *mut c_void,
    loader_layer_interface_version: u32,
    get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    get_physical_device_proc_addr: Option<PhysicalDeviceProcAddr>,
}

/// Answers vkNegotiateLoaderLayerInterfaceVersion: the smaller of both versions, never chained.
///
/// # Safety
/// `interface` is NULL or what the loader passes to that command.
pub unsafe fn negotiate(
    interface: *mut NegotiateLayerInterface,
    instance: vk::PFN_vkGetInstanceProcAddr,
    device: vk::PFN_vkGetDeviceProcAddr,
    physical_device: PhysicalDeviceProcAddr,
) -> vk::Result {
    // SAFETY: NULL, or the loader's structure, which is valid during the call (contract 1.8).
    let Some(interface) = (unsafe { interface.as_mut() }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if interface.s_type != LAYER_NEGOTIATE_INTERFACE_STRUCT || interface.loader_layer_interface_version < 2 {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    OWN.store(instance as usize, Ordering::Release);
    interface.loader_layer_interface_version = INTERFACE_VERSION;
    interface.get_instance_proc_addr = Some(instance);
    interface.get_device_proc_addr = Some(device);
    interface.get_physical_device_proc_addr = Some(physical_device);
    vk::Result::SUCCESS
}

/// The address of the layer's vkGetInstanceProcAddr, as the loader was given it.
static OWN: AtomicUsize = AtomicUsize::new(0);

fn is_own(function: vk::PFN_vkGetInstanceProcAddr) -> bool {
    function as usize == OWN.load(Ordering::Acquire)
}

/// A link of a chain.
trait Link: Copy {
    fn following(&self) -> *mut Self;

    /// The next layer's vkGetInstanceProcAddr.
    fn next_layers(&self) -> vk::PFN_vkGetInstanceProcAddr;
}

/// VkLayerInstanceLink.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InstanceLink {
    next: *mut InstanceLink,
    /// The next layer's, or the loader's own.
    pub get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// NULL where the next layer has none.
    pub get_physical_device_proc_addr: Option<PhysicalDeviceProcAddr>,
}

impl Link for InstanceLink {
    fn following(&self) -> *mut InstanceLink {
        self.next
    }

    fn next_layers(&self) -> vk::PFN_vkGetInstanceProcAddr {
        self.get_instance_proc_addr
    }
}

/// VkLayerDeviceLink.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DeviceLink {
    next: *mut DeviceLink,
    /// The next layer's, or the loader's own.
    pub get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// The next layer's, or the driver's.
    pub get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr,
}

impl Link for DeviceLink {
    fn following(&self) -> *mut DeviceLink {
        self.next
    }

    fn next_layers(&self) -> vk::PFN_vkGetInstanceProcAddr {
        self.get_instance_proc_addr
    }
}

/// Takes this layer out of the rest of a chain: the loader finds one library in two manifests with different names, and
/// both have the same functions and the same instance, so the upper one would call itself. Whether it was there.
///
/// # Safety
/// `link` is NULL or the loader's, in a create call that has not returned.
unsafe fn leave_out_copies<T: Link>(mut link: *mut T) -> bool {
    let mut has_copies = false;
    // SAFETY: the loader's links are valid until the create call returns, and writable, as each layer advances them
    // (contract 1.10). Each leads from a layer to the next one; the last has none after it.
    unsafe {
        while let Some(here) = link.as_mut() {
            while let Some(following) = here.following().as_ref().filter(|_| is_own(here.next_layers())) {
                has_copies = true;
                *here = *following;
            }
            link = here.following();
        }
    }
    has_copies
}

/// VkLayerInstanceCreateInfo and VkLayerDeviceCreateInfo, as far as both agree.
#[repr(C)]
struct LinkInfo<T> {
    s_type: vk::StructureType,
    p_next: *const c_void,
    function: i32,
    link: *mut T,
}

/// A link that was advanced for the next layer.
pub struct Advanced<T> {
    link: *const T,
    slot: *mut *mut T,
    following: *mut T,
    /// The layer was enabled under several names.
    pub has_copies: bool,
}

impl<T> Advanced<T> {
    /// The next layer.
    ///
    /// # Safety
    /// The create call that the link came with has not returned.
    pub unsafe fn next<'a>(&self) -> &'a T {
        // SAFETY: the loader keeps its links alive until the create call returns (contract 1.10).
        unsafe { &*self.link }
    }

    /// Puts the chain back to where this layer found it advanced, for a second call down.
    ///
    /// # Safety
    /// As [`Advanced::next`].
    pub unsafe fn rewind(&self) {
        // SAFETY: the loader's structure is writable until the create call returns (contract 1.10).
        unsafe { *self.slot = self.following };
    }
}

/// Finds the loader's link in a chain and advances it for the next layer (contract 1.10).
///
/// # Safety
/// `p_next` is the valid chain of a create info that the loader passed.
unsafe fn advance<T: Link>(p_next: *const c_void, s_type: vk::StructureType) -> Option<Advanced<T>> {
    // SAFETY: the caller passes a valid chain; several structures of this sType may stand in it (contract 1.6).
    for node in unsafe { chain::walk(p_next) } {
        // SAFETY: a structure with this sType is the loader's own, valid during the call and writable (contract 1.10).
        unsafe {
            if (*node).s_type != s_type {
                continue;
            }
            let info = node.cast::<LinkInfo<T>>().cast_mut();
            if (*info).function == LAYER_LINK_INFO && !(*info).link.is_null() {
                let link = (*info).link;
                let has_copies = leave_out_copies(link);
                let following = (*link).following();
                (*info).link = following;
                return Some(Advanced { link, slot: &raw mut (*info).link, following, has_copies });
            }
        }
    }
    None
}

/// The link of vkCreateInstance.
///
/// # Safety
/// `info` is what the loader passed to vkCreateInstance.
pub unsafe fn instance_link(info: &vk::InstanceCreateInfo<'_>) -> Option<Advanced<InstanceLink>> {
    // SAFETY: the loader passed `info`, so its chain is valid.
    unsafe { advance(info.p_next, vk::StructureType::LOADER_INSTANCE_CREATE_INFO) }
}

/// The link of vkCreateDevice.
///
/// # Safety
/// `info` is what the loader passed to vkCreateDevice.
pub unsafe fn device_link(info: &vk::DeviceCreateInfo<'_>) -> Option<Advanced<DeviceLink>> {
    // SAFETY: the loader passed `info`, so its chain is valid.
    unsafe { advance(info.p_next, vk::StructureType::LOADER_DEVICE_CREATE_INFO) }
}

/// Size of the loader's own structures in a device's chain: they are passed on as they are.
pub fn link_info_size(s_type: vk::StructureType) -> Option<usize> {
    let is_loaders = s_type == vk::StructureType::LOADER_DEVICE_CREATE_INFO;
    is_loaders.then_some(size_of::<LinkInfo<DeviceLink>>())
}

/// What an instance and its physical devices, or a device and its queues, have in common: the pointer to the
/// loader's dispatch table that stands first in every dispatchable object (contract 1.10).
///
/// # Safety
/// `handle` is a live dispatchable handle.
pub unsafe fn dispatch_key<H: vk::Handle>(handle: H) -> usize {
    let object = handle.as_raw() as *const usize;
    // SAFETY: a live dispatchable object begins with the pointer to its dispatch table (contract 1.10).
    unsafe { *object }
}
