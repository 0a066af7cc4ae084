//! vkCreateDevice, vkDestroyDevice.
//!
//! Of device features only pipelineCreationCacheControl may be switched on for a program that did not ask (and
//! pipelineBinaries, if the user wants that),
//! and what the layer emulates is taken out again before the driver sees it. The program's structures are
//! never written to: what must change is copied.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use ash::vk;
use smallvec::SmallVec;

use crate::config::Config;
use crate::guard::guard;
use crate::loader::{self, DeviceLink};
use crate::log;
use crate::pipeline_binary;
use crate::recipe::chain::{self, Arena, Edit};
use crate::state::device::{self, Decided, Device, Entry, IdentifierMode};
use crate::state::device_structures;
use crate::state::dispatch::{DeviceTable, device_resolver, instance_resolver};
use crate::state::instance::{self, CacheControl, Instance, PhysicalDevice};
use crate::state::policy;
use crate::state::setup::{Setup, extension_names};

/// vkCreateDevice.
pub unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the loader passes the program's valid create info with its own link in the chain.
    let create = || unsafe { create(physical, &*info, allocator, device) };
    guard("vkCreateDevice", create, || vk::Result::ERROR_INITIALIZATION_FAILED)
}

/// # Safety
/// As vkCreateDevice, called by the loader.
unsafe fn create(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the caller's contract; the link is advanced before the next layer sees it (contract 1.10), and
    // *pDevice is left to the layers below.
    unsafe {
        let Some(instance) = instance::find(physical) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let Some(link) = loader::device_link(info) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let resolve = instance_resolver(link.next().get_instance_proc_addr, instance.handle);
        let Some(next) = resolve(c"vkCreateDevice") else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next: vk::PFN_vkCreateDevice = std::mem::transmute(next);
        if instance.inert {
            let result = next(physical, info, allocator, device);
            if result == vk::Result::SUCCESS {
                device::insert(*device, Entry::Inert { next: link.next().get_device_proc_addr });
            }
            return result;
        }
        let known = instance.physical_device(physical);
        let wanted = Wanted::read(info, &known, &instance.config);
        let mut arena = Arena::default();
        let mut changed = Changed::new(info);
        let mut enabled = changed.apply(&wanted, &known, &mut arena);
        let mut result = next(physical, &changed.info, allocator, device);
        let added = (enabled.cache_control && !wanted.enabled.cache_control)
            || (enabled.binaries && !wanted.enabled.binaries);
        if result != vk::Result::SUCCESS && added {
            // A feature that the program did not ask for may be to blame: once more without any.
            link.rewind();
            changed = Changed::new(info);
            let bare = Wanted { add_cache_control: false, add_binaries: false, ..wanted };
            enabled = changed.apply(&bare, &known, &mut arena);
            result = next(physical, &changed.info, allocator, device);
        }
        if result == vk::Result::SUCCESS {
            let decided = Decided {
                cache_control: enabled.cache_control,
                identifiers: wanted.identifiers,
                binaries: enabled.binaries
                    && (instance.config.binaries || policy::of(known.driver).prefers_binaries),
                setup: Setup::read(info, &instance.application),
            };
            register(*device, link.next(), instance, known, decided);
        }
        result
    }
}

/// # Safety
/// `handle` was just created through `link`.
unsafe fn register(
    handle: vk::Device,
    link: &DeviceLink,
    instance: Arc<Instance>,
    physical: Arc<PhysicalDevice>,
    decided: Decided,
) {
    let next = link.get_device_proc_addr;
    // SAFETY: the caller's contract.
    unsafe {
        let table = DeviceTable::load(device_resolver(next, handle));
        let device = Device::new(handle, next, table, instance, physical, decided);
        device::insert(handle, Entry::Active(Arc::new(device)));
    }
}

/// The features that the layer may switch on.
#[derive(Clone, Copy)]
struct Enabled {
    /// pipelineCreationCacheControl.
    cache_control: bool,
    /// pipelineBinaries.
    binaries: bool,
}

/// What the program asks for, as far as the layer has to know.
#[derive(Clone, Copy)]
struct Wanted {
    /// What it switched on itself.
    enabled: Enabled,
    /// The layer may switch cache control on.
    add_cache_control: bool,
    /// The user has asked the layer to switch pipeline binaries on.
    add_binaries: bool,
    identifiers: IdentifierMode,
}

impl Wanted {
    /// # Safety
    /// A valid create info.
    unsafe fn read(info: &vk::DeviceCreateInfo<'_>, physical: &PhysicalDevice, config: &Config) -> Wanted {
        // SAFETY: the caller's contract.
        let asked =
            unsafe { extension_names(info) }.any(|name| name == ash::ext::shader_module_identifier::NAME);
        let identifiers = match (asked, physical.emulates) {
            (false, _) => IdentifierMode::Off,
            (true, true) => IdentifierMode::Emulated,
            (true, false) => IdentifierMode::Native,
        };
        let mut cache_control = false;
        let mut binaries = None;
        // SAFETY: the caller's contract; the casts follow the sType.
        unsafe {
            for node in chain::walk(info.p_next) {
                if (*node).s_type == pipeline_binary::FEATURES {
                    binaries = Some((*node.cast::<pipeline_binary::Features>()).pipeline_binaries != 0);
                }
                cache_control |= match (*node).s_type {
                    CACHE_CONTROL_FEATURES => {
                        let features =
                            node.cast::<vk::PhysicalDevicePipelineCreationCacheControlFeatures<'_>>();
                        (*features).pipeline_creation_cache_control != 0
                    }
                    VULKAN_1_3_FEATURES => {
                        let features = node.cast::<vk::PhysicalDeviceVulkan13Features<'_>>();
                        (*features).pipeline_creation_cache_control != 0
                    }
                    _ => false,
                };
            }
        }
        Wanted {
            enabled: Enabled { cache_control, binaries: binaries == Some(true) },
            add_cache_control: !cache_control,
            add_binaries: binaries.is_none() && config.binaries && physical.pipeline_binaries,
            identifiers,
        }
    }
}

const CACHE_CONTROL_FEATURES: vk::StructureType =
    vk::StructureType::PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES;
const VULKAN_1_3_FEATURES: vk::StructureType = vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
const IDENTIFIER_FEATURES: vk::StructureType =
    vk::StructureType::PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT;

/// The create info that goes down.
struct Changed<'a> {
    info: vk::DeviceCreateInfo<'a>,
    names: SmallVec<[*const c_char; 64]>,
}

impl<'a> Changed<'a> {
    fn new(info: &vk::DeviceCreateInfo<'a>) -> Changed<'a> {
        Changed { info: *info, names: SmallVec::new() }
    }

    /// Takes out what the layer emulates and switches on what it may. Says what is on in what goes down.
    ///
    /// # Safety
    /// A valid create info; `self` and `arena` stay where they are while `self.info` is used.
    unsafe fn apply(&mut self, wanted: &Wanted, physical: &PhysicalDevice, arena: &mut Arena) -> Enabled {
        let emulated = wanted.identifiers == IdentifierMode::Emulated;
        let lacks_control = physical.emulates_cache_control;
        let add = wanted.add_cache_control && physical.cache_control != CacheControl::None;
        let mut found = false;
        // SAFETY: the caller's contract.
        let must_copy = unsafe {
            chain::walk(self.info.p_next).any(|node| {
                let s_type = (*node).s_type;
                (emulated && s_type == IDENTIFIER_FEATURES)
                    || ((add || lacks_control)
                        && matches!(s_type, CACHE_CONTROL_FEATURES | VULKAN_1_3_FEATURES))
            })
        };
        let mut on = wanted.enabled;
        on.cache_control &= !lacks_control;
        if must_copy {
            // SAFETY: the caller's contract; the sizes are the bindings' and the loader's own; the casts follow
            // the sType and change our copy.
            let copied = unsafe {
                chain::copy_chain(arena, self.info.p_next, size_in_device_chain, |node| {
                    match (*node).s_type {
                        IDENTIFIER_FEATURES if emulated => return Edit::Drop,
                        CACHE_CONTROL_FEATURES if lacks_control => return Edit::Drop,
                        VULKAN_1_3_FEATURES if lacks_control => {
                            let features = node.cast::<vk::PhysicalDeviceVulkan13Features<'_>>();
                            (*features).pipeline_creation_cache_control = vk::FALSE;
                        }
                        CACHE_CONTROL_FEATURES if add => {
                            let features =
                                node.cast::<vk::PhysicalDevicePipelineCreationCacheControlFeatures<'_>>();
                            (*features).pipeline_creation_cache_control = vk::TRUE;
                            found = true;
                        }
                        VULKAN_1_3_FEATURES if add => {
                            let features = node.cast::<vk::PhysicalDeviceVulkan13Features<'_>>();
                            (*features).pipeline_creation_cache_control = vk::TRUE;
                            found = true;
                        }
                        _ => {}
                    }
                    Edit::Keep
                })
            };
            match copied {
                Some(head) => {
                    self.info.p_next = head;
                    on.cache_control |= found;
                }
                None => {
                    log::init();
                    tracing::warn!("a device is created with an unknown structure; its chain stays as it is");
                    // What the driver lacks must not be asked for by name either way; a structure that it does
                    // not know is skipped (contract 2.6).
                    if emulated || lacks_control {
                        self.change_names(emulated, lacks_control, false, false);
                    }
                    return on;
                }
            }
        }
        if add && !found {
            let mut features = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
                .pipeline_creation_cache_control(true);
            features.p_next = self.info.p_next.cast_mut();
            let size = size_of_val(&features);
            // SAFETY: a structure of that size, copied to where it lives as long as the chain does.
            self.info.p_next = unsafe { arena.copy((&raw const features).cast::<c_void>(), size) };
            on.cache_control = true;
        }
        if wanted.add_binaries {
            on.binaries = true;
            let mut features =
                pipeline_binary::Features { pipeline_binaries: vk::TRUE, ..Default::default() };
            features.p_next = self.info.p_next.cast_mut();
            let size = size_of_val(&features);
            // SAFETY: as above.
            self.info.p_next = unsafe { arena.copy((&raw const features).cast::<c_void>(), size) };
        }
        let add_name = add && physical.cache_control == CacheControl::Extension;
        if emulated || lacks_control || add_name || wanted.add_binaries {
            self.change_names(emulated, lacks_control, add_name, wanted.add_binaries);
        }
        on
    }

    /// Takes emulated extensions out of the list, and adds the one that cache control needs below 1.3.
    fn change_names(
        &mut self,
        emulated: bool,
        lacks_control: bool,
        add_cache_control: bool,
        add_binaries: bool,
    ) {
        let own = ash::ext::shader_module_identifier::NAME;
        let control = ash::ext::pipeline_creation_cache_control::NAME;
        // SAFETY: the extension names of a valid create info.
        let given: SmallVec<[&CStr; 64]> = unsafe { extension_names(&self.info) }.collect();
        let stripped = |name: &CStr| (emulated && name == own) || (lacks_control && name == control);
        let kept = given.iter().filter(|&&name| !stripped(name));
        self.names = kept.map(|name| name.as_ptr()).collect();
        if add_cache_control && !given.contains(&control) {
            self.names.push(control.as_ptr());
        }
        if add_binaries {
            // The second is what the first needs; it is part of 1.4.
            for name in [pipeline_binary::NAME, ash::khr::maintenance5::NAME] {
                if !given.contains(&name) {
                    self.names.push(name.as_ptr());
                }
            }
        }
        self.info.enabled_extension_count = self.names.len() as u32;
        self.info.pp_enabled_extension_names = self.names.as_ptr();
    }
}

fn size_in_device_chain(s_type: vk::StructureType) -> Option<usize> {
    loader::link_info_size(s_type).or_else(|| device_structures::find(s_type).map(|row| row.size))
}

/// vkDestroyDevice.
pub unsafe extern "system" fn destroy_device(
    handle: vk::Device,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let destroy = || {
        if handle == vk::Device::null() {
            return;
        }
        // SAFETY: the program destroys a live device, once; its dispatch key is read before it is gone.
        // Threads are joined with the last reference to the stash, before the call goes down (contract 1.11).
        unsafe {
            let next = match device::remove(handle) {
                Some(Entry::Active(device)) => {
                    let next = device.table.destroy_device;
                    drop(device);
                    next
                }
                Some(Entry::Inert { next }) => {
                    let pointer = next(handle, c"vkDestroyDevice".as_ptr());
                    pointer.map(|pointer| {
                        std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyDevice>(pointer)
                    })
                }
                None => None,
            };
            if let Some(next) = next {
                next(handle, allocator);
            }
        }
    };
    guard("vkDestroyDevice", destroy, || ());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loader drops names that no driver has, so no suite can see what becomes of them.
    #[test]
    fn what_the_layer_emulates_is_gone_from_the_copy_and_stays_in_the_original() {
        let physical = PhysicalDevice {
            properties: vk::PhysicalDeviceProperties::default(),
            driver: vk::DriverId::default(),
            native_identifiers: false,
            algorithm: [0; 16],
            emulates: true,
            pipeline_binaries: false,
            cache_control: CacheControl::None,
            emulates_cache_control: true,
        };
        let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
            .pipeline_creation_cache_control(true);
        let mut identifier =
            vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
        let mut thirteen =
            vk::PhysicalDeviceVulkan13Features::default().pipeline_creation_cache_control(true);
        let names = [
            ash::ext::pipeline_creation_cache_control::NAME.as_ptr(),
            ash::ext::robustness2::NAME.as_ptr(),
            ash::ext::shader_module_identifier::NAME.as_ptr(),
        ];
        let info = vk::DeviceCreateInfo::default()
            .enabled_extension_names(&names)
            .push_next(&mut control)
            .push_next(&mut thirteen)
            .push_next(&mut identifier);
        let mut arena = Arena::default();
        let mut changed = Changed::new(&info);
        // SAFETY: a valid create info; the copy is looked at while everything lives on this stack frame.
        let (on, kept, chain) = unsafe {
            let wanted = Wanted::read(&info, &physical, &Config::default());
            assert_eq!((wanted.enabled.cache_control, wanted.identifiers), (true, IdentifierMode::Emulated));
            let on = changed.apply(&wanted, &physical, &mut arena);
            let kept: Vec<_> = extension_names(&changed.info).collect();
            let chain: Vec<_> = chain::walk(changed.info.p_next).collect();
            (on, kept, chain)
        };
        assert!(!on.cache_control, "the driver has no such feature");
        assert_eq!(kept, [ash::ext::robustness2::NAME]);
        let [node] = chain[..] else { panic!("{} structures are left", chain.len()) };
        // SAFETY: the only structure left; the cast follows the sType.
        unsafe {
            assert_eq!((*node).s_type, VULKAN_1_3_FEATURES);
            let copy = node.cast::<vk::PhysicalDeviceVulkan13Features<'_>>();
            assert_eq!((*copy).pipeline_creation_cache_control, vk::FALSE);
        }
        assert_eq!(info.enabled_extension_count, 3);
        assert_eq!(thirteen.pipeline_creation_cache_control, vk::TRUE);
    }
}
