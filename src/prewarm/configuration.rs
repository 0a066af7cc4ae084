//! A recorded device, less what the driver does not have any more.

use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::ptr;

use ash::vk;

use vkstash_model::recipe::OwnedExtension;
use vkstash_model::registry;
use vkstash_recipe::device_configuration::DeviceConfiguration;

/// VkPhysicalDeviceMaintenance9FeaturesKHR, newer than the bindings.
const MAINTENANCE_9: i32 = 1_000_584_000;

/// Words of VkPhysicalDeviceFeatures.
const FEATURES: usize = size_of::<vk::PhysicalDeviceFeatures>() / 4;

/// One structure of switches, with room for its header.
struct Structure {
    /// As many words as the structure has, which start at the structure's alignment.
    memory: Vec<u64>,
    /// How many VkBool32 the structure has behind its header.
    switches: usize,
    s_type: vk::StructureType,
}

impl Structure {
    /// A structure without switches. None: no structure of switches has this type.
    fn empty(s_type: i32) -> Option<Structure> {
        let row = registry::of_device(vk::StructureType::from_raw(s_type))?;
        (row.switches > 0).then(|| Structure {
            memory: vec![0; row.size.div_ceil(8)],
            switches: row.switches,
            s_type: row.s_type,
        })
    }

    fn header(&mut self) -> *mut vk::BaseOutStructure<'static> {
        self.memory.as_mut_ptr().cast()
    }

    fn link(&mut self, next: *mut vk::BaseOutStructure<'static>) -> *mut vk::BaseOutStructure<'static> {
        let header = self.header();
        // SAFETY: the memory has the size of the structure, which begins with this header.
        unsafe {
            header.write(vk::BaseOutStructure { s_type: self.s_type, p_next: next, ..Default::default() })
        };
        header
    }

    fn members(&self) -> &[u32] {
        const HEADER: usize = size_of::<vk::BaseOutStructure<'_>>();
        // SAFETY: the table's size of a structure covers its header and its switches, and words of zeros are valid
        // VkBool32.
        unsafe {
            let first = self.memory.as_ptr().cast::<u8>().add(HEADER);
            std::slice::from_raw_parts(first.cast(), self.switches)
        }
    }

    fn members_mut(&mut self) -> &mut [u32] {
        const HEADER: usize = size_of::<vk::BaseOutStructure<'_>>();
        // SAFETY: as in `members`; nothing else refers to the memory.
        unsafe {
            let first = self.memory.as_mut_ptr().cast::<u8>().add(HEADER);
            std::slice::from_raw_parts_mut(first.cast(), self.switches)
        }
    }
}

/// Chains structures, the first one first.
fn chain(structures: &mut [Structure]) -> *mut c_void {
    let link = |next, structure: &mut Structure| structure.link(next);
    structures.iter_mut().rev().fold(ptr::null_mut(), link).cast()
}

/// What vkCreateDevice gets.
pub struct Wanted {
    features: Option<vk::PhysicalDeviceFeatures>,
    structures: Vec<Structure>,
    extensions: Vec<CString>,
}

impl Wanted {
    /// A recorded device as this physical device can make it. Programs enable what a driver offers, so that the
    /// program's own device will lack the same.
    ///
    /// # Safety
    /// `physical` is a live physical device of `instance`, and `get_features2` is a command of that instance.
    pub unsafe fn of(
        recorded: &DeviceConfiguration,
        instance: &ash::Instance,
        get_features2: Option<vk::PFN_vkGetPhysicalDeviceFeatures2>,
        physical: vk::PhysicalDevice,
    ) -> Result<Wanted, vk::Result> {
        // SAFETY: `physical` is a live physical device of `instance`.
        let listed = unsafe { instance.enumerate_device_extension_properties(physical) }?;
        let listed: BTreeSet<&[u8]> = listed
            .iter()
            .filter_map(|extension| extension.extension_name_as_c_str().ok())
            .map(|name| name.to_bytes())
            .collect();
        let kept = recorded.extensions.iter().filter(|name| listed.contains(name.as_slice()));
        let extensions = kept.filter_map(|name| CString::new(name.as_slice()).ok()).collect();

        // SAFETY: `physical` is a live physical device; the command writes a structure that ash provides.
        let had = unsafe { instance.get_physical_device_features(physical) };
        let features = (recorded.features.len() == FEATURES).then(|| {
            let mut wanted = [0; FEATURES];
            wanted.copy_from_slice(&recorded.features);
            // SAFETY: the structure consists of VkBool32 alone, and has as many as the array.
            let had: [u32; FEATURES] = unsafe { std::mem::transmute(had) };
            wanted.iter_mut().zip(had).for_each(|(wanted, had)| *wanted &= had);
            // SAFETY: VkBool32 is any 32-bit word.
            unsafe { std::mem::transmute::<[u32; FEATURES], vk::PhysicalDeviceFeatures>(wanted) }
        });
        // SAFETY: `get_features2` is a command of the live instance that `physical` belongs to.
        let structures = unsafe { structures(&recorded.structures, get_features2, physical) };
        Ok(Wanted { features, structures, extensions })
    }

    /// Whether the device may be made without queues: the program itself enabled VK_KHR_maintenance9. Enabled for a
    /// program that did not, the extension would be another device (the digest of the device header holds it).
    pub fn needs_no_queue(&self) -> bool {
        self.structures.iter().any(|s| s.s_type.as_raw() == MAINTENANCE_9 && s.members().contains(&vk::TRUE))
    }

    /// Calls `create` with a create info of these, with one queue of the first family or with none.
    pub fn create<R>(&mut self, queue: bool, create: impl FnOnce(&vk::DeviceCreateInfo<'_>) -> R) -> R {
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
        let names: Vec<_> = self.extensions.iter().map(|name| name.as_ptr()).collect();
        let mut info = vk::DeviceCreateInfo::default().enabled_extension_names(&names);
        if queue {
            info = info.queue_create_infos(&queues);
        }
        if let Some(features) = &self.features {
            info = info.enabled_features(features);
        }
        info.p_next = chain(&mut self.structures);
        create(&info)
    }
}

/// The switches of recorded structures that the driver has.
///
/// # Safety
/// `get_features2` is the command of a live instance that has this physical device.
unsafe fn structures(
    recorded: &[OwnedExtension],
    get_features2: Option<vk::PFN_vkGetPhysicalDeviceFeatures2>,
    physical: vk::PhysicalDevice,
) -> Vec<Structure> {
    let mut asked: Vec<Structure> = recorded.iter().filter_map(|s| Structure::empty(s.s_type)).collect();
    let mut features = vk::PhysicalDeviceFeatures2 { p_next: chain(&mut asked), ..Default::default() };
    let Some(ask) = get_features2.filter(|_| !asked.is_empty()) else { return Vec::new() };
    // SAFETY: `ask` is a command of the instance of `physical`; the chain consists of structures of the sizes
    // of their types, which nothing else refers to.
    unsafe { ask(physical, &mut features) };
    for structure in &mut asked {
        let Some(wanted) = recorded.iter().find(|wanted| wanted.s_type == structure.s_type.as_raw()) else {
            continue;
        };
        let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let words = wanted.members.chunks_exact(4).map(word);
        let had = structure.members_mut();
        if wanted.members.len() == 4 * had.len() {
            had.iter_mut().zip(words).for_each(|(had, wanted)| *had &= wanted);
        } else {
            had.fill(0);
        }
    }
    // One without switches is as good as none, and may be of an extension that is not enabled.
    asked.retain(|structure| structure.members().iter().any(|&switch| switch != 0));
    asked
}
