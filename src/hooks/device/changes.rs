//! Create info that goes down in vkCreateDevice: a copy of the program's create info, less what the layer emulates and
//! with the features that it may switch on.

use std::ffi::{CStr, c_char};
use std::ptr;

use ash::vk;
use smallvec::SmallVec;

use crate::loader;
use crate::log;
use crate::pipeline_binary;
use crate::state::devices::decided::IdentifierMode;
use crate::state::process::instance::{CacheControl, PhysicalDevice};
use vkstash_model::{registry, structures};
use vkstash_recipe::chain::{self, Arena, Edit};
use vkstash_recipe::device_configuration::{DeviceConfiguration, extension_names};

/// The features that the layer may switch on.
#[derive(Clone, Copy)]
pub struct Enabled {
    /// pipelineCreationCacheControl.
    pub cache_control: bool,
}

/// What the program asks for, as far as the layer has to know.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// What the program switched on itself.
    pub enabled: Enabled,
    /// The layer may switch cache control on.
    pub add_cache_control: bool,
    /// The driver is told to do without its own cache: that kind of caches is disabled, the driver can be told, and the
    /// program says nothing about it. A program that uses pipeline binaries may have the driver look for them in that
    /// cache, which it must not if the cache is disabled (contract 5.3).
    pub disable_internal_cache: bool,
    /// The device's digest holds all that its chain says. The binaries of shader objects are not checked against the
    /// rest.
    pub hashed: bool,
    /// Whether the driver or the layer answers for shader module identifiers, if the program enabled them.
    pub identifiers: IdentifierMode,
}

/// Whether the program's chain has a callback that drivers call when they allocate memory
/// (VkDeviceDeviceMemoryReportCreateInfoEXT), or asks for messages of where they do
/// (VkPhysicalDeviceAddressBindingReportFeaturesEXT), which it wants of all threads.
///
/// # Safety
/// `info` is a valid VkDeviceCreateInfo.
pub unsafe fn calls_back(info: &vk::DeviceCreateInfo<'_>) -> bool {
    type Bindings<'a> = vk::PhysicalDeviceAddressBindingReportFeaturesEXT<'a>;
    let reports = |node: *const vk::BaseInStructure<'_>| {
        // SAFETY: `walk` yields valid structures, whose types their sTypes name.
        unsafe {
            match (*node).s_type {
                vk::StructureType::DEVICE_DEVICE_MEMORY_REPORT_CREATE_INFO_EXT => true,
                <Bindings<'_> as vk::TaggedStructure>::STRUCTURE_TYPE => {
                    (*node.cast::<Bindings<'_>>()).report_address_binding == vk::TRUE
                }
                _ => false,
            }
        }
    };
    // SAFETY: `info` is a valid VkDeviceCreateInfo, whose chain is valid while it is borrowed.
    unsafe { chain::walk(info.p_next) }.any(reports)
}

impl Wanted {
    /// Reads what the create info asks for.
    ///
    /// # Safety
    /// `info` is a valid VkDeviceCreateInfo.
    pub unsafe fn read(
        info: &vk::DeviceCreateInfo<'_>,
        physical: &PhysicalDevice,
        disables_driver_cache: impl FnOnce() -> bool,
    ) -> Wanted {
        // SAFETY: ppEnabledExtensionNames of the valid `info` has enabledExtensionCount NULL-terminated strings.
        let asked =
            unsafe { extension_names(info) }.any(|name| name == ash::ext::shader_module_identifier::NAME);
        let identifiers = match (asked, physical.emulates) {
            (false, _) => IdentifierMode::Off,
            (true, true) => IdentifierMode::Emulated,
            (true, false) => IdentifierMode::Native,
        };
        let mut cache_control = false;
        let mut says_of_binaries = false;
        let mut controls_internal_cache = false;
        // SAFETY: the chain of the valid `info` consists of valid structures; each cast follows the sType.
        unsafe {
            for node in chain::walk(info.p_next) {
                says_of_binaries |= (*node).s_type == pipeline_binary::FEATURES;
                controls_internal_cache |= (*node).s_type == pipeline_binary::INTERNAL_CACHE_CONTROL;
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
        // SAFETY: `info` is a valid VkDeviceCreateInfo, which `is_hashed` reads with its chain.
        let hashed = unsafe {
            DeviceConfiguration::is_hashed(info, |s_type| loader::link_info_size(s_type).is_some())
        };
        Wanted {
            enabled: Enabled { cache_control },
            add_cache_control: !cache_control,
            disable_internal_cache: !says_of_binaries && !controls_internal_cache && disables_driver_cache(),
            hashed,
            identifiers,
        }
    }

    /// Whether the driver, with these features enabled, was given more than the program asked for.
    pub fn adds(&self, enabled: &Enabled) -> bool {
        self.disable_internal_cache || self.add_cache_control && enabled.cache_control
    }
}

const CACHE_CONTROL_FEATURES: vk::StructureType =
    vk::StructureType::PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES;
const VULKAN_1_3_FEATURES: vk::StructureType = vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
const IDENTIFIER_FEATURES: vk::StructureType =
    vk::StructureType::PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT;

/// What is changed in the structures of the program's own chain.
#[derive(Clone, Copy)]
struct Edits {
    /// The identifier feature is taken out: the layer emulates it.
    emulated: bool,
    /// The cache control feature is taken out: the driver lacks it.
    lacks_control: bool,
    /// The cache control feature is switched on.
    add_control: bool,
}

impl Edits {
    /// Whether a structure of this type has to be changed.
    fn concern(self, s_type: vk::StructureType) -> bool {
        match s_type {
            IDENTIFIER_FEATURES => self.emulated,
            CACHE_CONTROL_FEATURES | VULKAN_1_3_FEATURES => self.add_control || self.lacks_control,
            _ => false,
        }
    }

    /// Changes a structure; `found` becomes true if it now has cache control switched on.
    ///
    /// # Safety
    /// `node` is a valid structure that may be written to.
    unsafe fn edit(self, node: *mut vk::BaseOutStructure<'_>, found: &mut bool) -> Edit {
        // SAFETY: `node` is a valid structure that may be written to, and the casts follow its sType.
        unsafe {
            match (*node).s_type {
                IDENTIFIER_FEATURES if self.emulated => return Edit::Drop,
                CACHE_CONTROL_FEATURES if self.lacks_control => return Edit::Drop,
                VULKAN_1_3_FEATURES if self.lacks_control => {
                    let features = node.cast::<vk::PhysicalDeviceVulkan13Features<'_>>();
                    (*features).pipeline_creation_cache_control = vk::FALSE;
                }
                CACHE_CONTROL_FEATURES if self.add_control => {
                    let features = node.cast::<vk::PhysicalDevicePipelineCreationCacheControlFeatures<'_>>();
                    (*features).pipeline_creation_cache_control = vk::TRUE;
                    *found = true;
                }
                VULKAN_1_3_FEATURES if self.add_control => {
                    let features = node.cast::<vk::PhysicalDeviceVulkan13Features<'_>>();
                    (*features).pipeline_creation_cache_control = vk::TRUE;
                    *found = true;
                }
                _ => {}
            }
        }
        Edit::Keep
    }
}

/// The create info that goes down.
pub struct Changed<'a> {
    /// The changed copy of the create info.
    pub info: vk::DeviceCreateInfo<'a>,
    names: SmallVec<[*const c_char; 64]>,
}

impl<'a> Changed<'a> {
    /// A copy of the create info, in which nothing is changed yet.
    pub fn new(info: &vk::DeviceCreateInfo<'a>) -> Changed<'a> {
        Changed { info: *info, names: SmallVec::new() }
    }

    /// Takes out what the layer emulates and switches on what it may. Says what is on in what goes down.
    ///
    /// # Safety
    /// `self.info` is a valid VkDeviceCreateInfo; `self` and `arena` stay where they are while `self.info` is used.
    pub unsafe fn apply(&mut self, wanted: &Wanted, physical: &PhysicalDevice, arena: &mut Arena) -> Enabled {
        let edits = Edits {
            emulated: wanted.identifiers == IdentifierMode::Emulated,
            lacks_control: physical.emulates_cache_control,
            add_control: wanted.add_cache_control && physical.cache_control != CacheControl::None,
        };
        let mut on = wanted.enabled;
        on.cache_control &= !edits.lacks_control;
        // SAFETY: the chain of `self.info` is the valid one that the program passed: nothing was changed in it yet; and
        // `arena` stays where it is while `self.info` is used.
        let Some(found) = (unsafe { self.edit_chain(edits, arena) }) else {
            // What the driver lacks must not be asked for by name either way; a structure that it does
            // not know is skipped (contract 1.6).
            if edits.emulated || edits.lacks_control {
                self.change_names(edits, false, false);
            }
            return on;
        };
        on.cache_control |= found;
        if edits.add_control && !found {
            let mut features = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
                .pipeline_creation_cache_control(true);
            features.p_next = self.info.p_next.cast_mut();
            self.push(arena, &features);
            on.cache_control = true;
        }
        if wanted.disable_internal_cache {
            self.push(arena, &pipeline_binary::InternalCacheControl::disabled(self.info.p_next));
        }
        let add_name = edits.add_control && physical.cache_control == CacheControl::Extension;
        if edits.emulated || edits.lacks_control || add_name || wanted.disable_internal_cache {
            self.change_names(edits, add_name, wanted.disable_internal_cache);
        }
        on
    }

    /// Puts a copy of the structure, which points to the chain as it is, at the head of the chain.
    fn push<T: Copy>(&mut self, arena: &mut Arena, structure: &T) {
        // SAFETY: `structure` is a reference, so its whole size is readable.
        self.info.p_next = unsafe { arena.copy(ptr::from_ref(structure).cast(), size_of::<T>()) };
    }

    /// Edits the feature structures of the program's chain, in a copy if there is anything to change. Says whether it
    /// has switched cache control on in one of them; None where the chain has to stay as it is.
    ///
    /// # Safety
    /// `self.info` is a valid VkDeviceCreateInfo, and `arena` stays where it is while `self.info` is used.
    unsafe fn edit_chain(&mut self, edits: Edits, arena: &mut Arena) -> Option<bool> {
        // SAFETY: the chain of the valid `self.info` consists of structures that start with a readable sType.
        let must_copy = unsafe { chain::walk(self.info.p_next).any(|node| edits.concern((*node).s_type)) };
        if !must_copy {
            return Some(false);
        }
        let mut found = false;
        // SAFETY: `size_in_device_chain` gives the sizes of the bindings and of the loader's structures;
        // the nodes are those of the copy, which lives in `arena` for as long as `self.info` is used.
        let copied = unsafe {
            chain::copy_chain(arena, self.info.p_next, size_in_device_chain, |node| {
                edits.edit(node, &mut found)
            })
        };
        let Some(head) = copied else {
            log::init();
            // SAFETY: the copy failed, so `self.info` still has the program's own valid chain.
            let unknown = unsafe { unknown_structure(&self.info) };
            tracing::warn!(
                "a device is created with an unknown structure ({unknown}); its chain stays as it is"
            );
            return None;
        };
        self.info.p_next = head;
        Some(found)
    }

    /// Takes emulated extensions out of the list, and adds what is needed for cache control below 1.3, and for the
    /// structure of pipeline binaries that disables the driver's own cache.
    fn change_names(&mut self, edits: Edits, add_cache_control: bool, add_internal_cache: bool) {
        let Edits { emulated, lacks_control, .. } = edits;
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
        if add_internal_cache {
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

/// The first structure in a device's chain that cannot be copied, by its name.
///
/// # Safety
/// `info` is a valid VkDeviceCreateInfo.
unsafe fn unknown_structure(info: &vk::DeviceCreateInfo<'_>) -> String {
    // SAFETY: `info` has a valid chain, and every structure that `walk` yields starts with a readable sType.
    let types = unsafe { chain::walk(info.p_next) }.map(|node| unsafe { (*node).s_type });
    types
        .filter(|&s_type| size_in_device_chain(s_type).is_none())
        .map(structures::name)
        .next()
        .unwrap_or_default()
}

fn size_in_device_chain(s_type: vk::StructureType) -> Option<usize> {
    loader::link_info_size(s_type).or_else(|| registry::of_device(s_type).map(|row| row.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loader drops names that no driver has, so no suite can see what becomes of them.
    #[test]
    fn what_the_layer_emulates_is_gone_from_the_copy_and_stays_in_the_original() {
        let physical = PhysicalDevice {
            listed: None,
            properties: vk::PhysicalDeviceProperties::default(),
            driver: vk::DriverId::default(),
            native_identifiers: false,
            algorithm: [0; 16],
            emulates: true,
            lists_binaries: false,
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
            let wanted = Wanted::read(&info, &physical, || false);
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

    #[test]
    fn who_wants_to_hear_of_all_memory_is_called_back() {
        let none = vk::DeviceCreateInfo::default();
        let mut reports = vk::DeviceDeviceMemoryReportCreateInfoEXT::default();
        let reports = vk::DeviceCreateInfo::default().push_next(&mut reports);
        let asked = |on: bool| {
            vk::PhysicalDeviceAddressBindingReportFeaturesEXT::default().report_address_binding(on)
        };
        let (mut on, mut off) = (asked(true), asked(false));
        let on = vk::DeviceCreateInfo::default().push_next(&mut on);
        let off = vk::DeviceCreateInfo::default().push_next(&mut off);
        // SAFETY: valid create infos.
        let calls_back = [none, off, on, reports].map(|info| unsafe { calls_back(&info) });
        assert_eq!(calls_back, [false, false, true, true]);
    }
}
