//! Device configuration: the part of a device's create info that can change code (it goes into the device header), and
//! everything that is needed to create an equal device later (a portable record).

use std::ffi::CStr;
use std::mem::offset_of;

use ash::vk;
use serde::{Deserialize, Serialize};

use crate::application::Application;
use crate::chain;
use vkstash_host::sort;
use vkstash_model::key::{self, CodecError};
use vkstash_model::recipe::{OwnedExtension, SCHEMA};
use vkstash_model::record::Key;
use vkstash_model::registry;

/// What is needed to create an equal device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceConfiguration {
    /// Schema of the encoding.
    pub schema: u32,
    /// The program.
    pub application: Application,
    /// VkPhysicalDeviceFeatures as its VkBool32 words; empty where none were enabled.
    pub features: Vec<u32>,
    /// Feature structures that switch something on, sorted by type.
    pub structures: Vec<OwnedExtension>,
    /// Enabled device extensions, sorted.
    pub extensions: Vec<Vec<u8>>,
}

/// Extensions that cannot change what a compiler makes of a shader. Leaving them out of the device header
/// keeps one device part for a program that presents, debugs or shares memory differently from run to run.
const WITHOUT_EFFECT: &[&[u8]] = &[
    b"VK_EXT_debug_",
    b"VK_EXT_external_memory_",
    b"VK_EXT_full_screen_exclusive",
    b"VK_EXT_hdr_metadata",
    b"VK_EXT_memory_budget",
    b"VK_EXT_memory_priority",
    b"VK_EXT_pageable_device_local_memory",
    b"VK_EXT_pipeline_creation_cache_control",
    b"VK_EXT_pipeline_creation_feedback",
    b"VK_EXT_shader_module_identifier",
    b"VK_EXT_swapchain_maintenance1",
    b"VK_EXT_tooling_info",
    b"VK_GOOGLE_display_timing",
    b"VK_KHR_display_swapchain",
    b"VK_KHR_external_",
    b"VK_KHR_incremental_present",
    b"VK_KHR_present_",
    b"VK_KHR_swapchain",
];

impl DeviceConfiguration {
    /// Reads a device's create info as the program passed it.
    ///
    /// # Safety
    /// `info` is a valid create info.
    pub unsafe fn read(info: &vk::DeviceCreateInfo<'_>, application: &Application) -> DeviceConfiguration {
        let mut features = Vec::new();
        let mut structures = Vec::new();
        // SAFETY: the chain of a valid create info.
        for node in unsafe { chain::walk(info.p_next) } {
            // SAFETY: `walk` yields valid structures; the cast follows the sType, and the table knows how
            // many VkBool32 a structure consists of.
            unsafe {
                let s_type = (*node).s_type;
                if s_type == vk::StructureType::PHYSICAL_DEVICE_FEATURES_2 {
                    features = switches(&(*node.cast::<vk::PhysicalDeviceFeatures2<'_>>()).features);
                } else if let Some(row) = registry::of_device(s_type).filter(|row| row.switches > 0) {
                    let first = node.cast::<u8>().add(size_of::<vk::BaseInStructure<'_>>());
                    let members = std::slice::from_raw_parts(first, 4 * row.switches).to_vec();
                    structures.push(OwnedExtension { s_type: s_type.as_raw(), members });
                }
            }
        }
        // SAFETY: pEnabledFeatures is NULL or valid.
        if let Some(enabled) = unsafe { info.p_enabled_features.as_ref() } {
            features = switches(enabled);
        }
        structures.retain(|structure| structure.members.iter().any(|&byte| byte != 0));
        sort::sort(&mut structures);
        // SAFETY: the names of a valid create info.
        let mut extensions: Vec<_> =
            unsafe { extension_names(info) }.map(|name| name.to_bytes().to_vec()).collect();
        sort::sort(&mut extensions);
        extensions.dedup();
        DeviceConfiguration {
            schema: SCHEMA,
            application: application.clone(),
            features,
            structures,
            extensions,
        }
    }

    /// Whether all structures in a device's chain go into the digest: each has a row in the table of structures, and
    /// holds nothing but switches. `is_loaders`: the Vulkan loader has put it there.
    ///
    /// # Safety
    /// `info` is a valid create info.
    pub unsafe fn is_hashed(
        info: &vk::DeviceCreateInfo<'_>,
        is_loaders: impl Fn(vk::StructureType) -> bool,
    ) -> bool {
        // SAFETY: the chain of a valid create info, whose structures are valid.
        unsafe { chain::walk(info.p_next) }.map(|node| unsafe { (*node).s_type }).all(|s_type| {
            s_type == vk::StructureType::PHYSICAL_DEVICE_FEATURES_2
                || is_loaders(s_type)
                || registry::of_device(s_type).is_some_and(|row| row.switches > 0)
        })
    }

    /// Whether a structure of this type is in the chain, with something switched on.
    pub fn switches_on(&self, s_type: i32) -> bool {
        self.structures.iter().any(|structure| structure.s_type == s_type)
    }

    /// Whether the program enabled an extension.
    pub fn enables(&self, name: &CStr) -> bool {
        self.extensions.iter().any(|enabled| enabled == name.to_bytes())
    }

    /// The encoding, and its digest, for the portable record.
    pub fn encoded(&self) -> Result<(Key, Vec<u8>), CodecError> {
        let mut bytes = Vec::new();
        key::encode(self, &mut bytes)?;
        Ok((key::digest(key::DEVICE_CONFIGURATION, &bytes), bytes))
    }

    /// SHA-256 over what can change code: part of the device header. Who the program is, and what this layer
    /// may switch on or strip by itself, stay out of it.
    pub fn features_digest(&self) -> Result<Key, CodecError> {
        let structures: Vec<_> = self.structures.iter().filter_map(without_own_switches).collect();
        let extensions: Vec<_> = self.extensions.iter().filter(|name| has_effect(name)).collect();
        let mut bytes = Vec::new();
        key::encode(&(&self.features, structures, extensions), &mut bytes)?;
        Ok(key::digest(key::DEVICE_CONFIGURATION, &bytes))
    }

    /// Whether another device enables all that this one does, in the same structures: what may be created on this one
    /// may be created on the other. What has no effect on code does not count, as in the digest.
    pub fn is_within(&self, other: &DeviceConfiguration) -> bool {
        let structures = |of: &DeviceConfiguration| -> Vec<OwnedExtension> {
            of.structures.iter().filter_map(without_own_switches).collect()
        };
        fn on(members: &[u8]) -> impl Iterator<Item = bool> {
            members.chunks(4).map(|switch| switch != [0; 4])
        }
        let others = structures(other);
        let is_there = |one: &OwnedExtension| {
            others
                .iter()
                .any(|other| other.s_type == one.s_type && are_within(on(&one.members), on(&other.members)))
        };
        are_within(self.features.iter().map(|on| *on != 0), other.features.iter().map(|on| *on != 0))
            && structures(self).iter().all(is_there)
            && self.extensions.iter().all(|name| !has_effect(name) || other.extensions.contains(name))
    }
}

/// Whether each switch that is on is also on in the other list.
fn are_within(mut switches: impl Iterator<Item = bool>, mut others: impl Iterator<Item = bool>) -> bool {
    switches.all(|is_on| others.next() == Some(true) || !is_on)
}

/// Whether an extension can change what a compiler makes of a shader.
fn has_effect(name: &[u8]) -> bool {
    !WITHOUT_EFFECT.iter().any(|prefix| name.starts_with(prefix))
}

/// The enabled extensions of a device's create info.
///
/// # Safety
/// `info` is a valid create info and outlives the iterator.
pub unsafe fn extension_names<'a>(info: &vk::DeviceCreateInfo<'a>) -> impl Iterator<Item = &'a CStr> {
    let count = if info.pp_enabled_extension_names.is_null() { 0 } else { info.enabled_extension_count };
    let names = info.pp_enabled_extension_names;
    // SAFETY: valid for its count; each is a NULL-terminated string.
    (0..count as usize).map(move |index| unsafe { CStr::from_ptr(*names.add(index)) })
}

fn switches(features: &vk::PhysicalDeviceFeatures) -> Vec<u32> {
    const COUNT: usize = size_of::<vk::PhysicalDeviceFeatures>() / 4;
    // SAFETY: the structure consists of VkBool32 alone.
    let words = unsafe { std::slice::from_raw_parts((&raw const *features).cast::<u32>(), COUNT) };
    words.to_vec()
}

/// A feature structure without the switches that this layer sets or strips; None where nothing is left.
fn without_own_switches(structure: &OwnedExtension) -> Option<OwnedExtension> {
    let mut structure = structure.clone();
    match vk::StructureType::from_raw(structure.s_type) {
        vk::StructureType::PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT
        | vk::StructureType::PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES => return None,
        vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES => {
            let start = offset_of!(vk::PhysicalDeviceVulkan13Features<'_>, pipeline_creation_cache_control)
                - size_of::<vk::BaseInStructure<'_>>();
            structure.members[start..start + 4].fill(0);
        }
        _ => {}
    }
    structure.members.iter().any(|&byte| byte != 0).then_some(structure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(info: &vk::DeviceCreateInfo<'_>) -> Option<Key> {
        // SAFETY: the tests pass valid create infos.
        unsafe { DeviceConfiguration::read(info, &Application::default()) }.features_digest().ok()
    }

    #[test]
    fn presenting_differently_keeps_the_device_part_and_robustness_does_not() {
        let plain = vk::DeviceCreateInfo::default();
        let names = [c"VK_KHR_swapchain".as_ptr(), c"VK_EXT_shader_module_identifier".as_ptr()];
        assert_eq!(digest(&plain), digest(&plain.enabled_extension_names(&names)));
        let names = [c"VK_EXT_robustness2".as_ptr()];
        assert_ne!(digest(&plain), digest(&plain.enabled_extension_names(&names)));
        let robust = vk::PhysicalDeviceFeatures { robust_buffer_access: vk::TRUE, ..Default::default() };
        assert_ne!(digest(&plain), digest(&plain.enabled_features(&robust)));
    }

    #[test]
    fn a_device_is_within_another_one_that_enables_as_much_or_more() {
        let read = |info: &vk::DeviceCreateInfo<'_>| {
            // SAFETY: valid create infos.
            unsafe { DeviceConfiguration::read(info, &Application::default()) }
        };
        let is_within = |one: &DeviceConfiguration, other: &DeviceConfiguration| {
            (one.is_within(other), other.is_within(one))
        };
        let plain = vk::DeviceCreateInfo::default();
        let (none, swapchain, mesh) = (
            read(&plain),
            read(&plain.enabled_extension_names(&[c"VK_KHR_swapchain".as_ptr()])),
            read(&plain.enabled_extension_names(&[c"VK_EXT_mesh_shader".as_ptr()])),
        );
        assert_eq!(is_within(&none, &swapchain), (true, true), "the same device");
        assert_eq!(is_within(&none, &mesh), (true, false));
        assert_eq!(is_within(&swapchain, &mesh), (true, false));
        let robust = vk::PhysicalDeviceFeatures { robust_buffer_access: vk::TRUE, ..Default::default() };
        let wide = vk::PhysicalDeviceFeatures { wide_lines: vk::TRUE, ..Default::default() };
        let (robust, wide) = (read(&plain.enabled_features(&robust)), read(&plain.enabled_features(&wide)));
        assert_eq!(is_within(&none, &robust), (true, false));
        assert_eq!(is_within(&robust, &wide), (false, false));
        let with = |features: vk::PhysicalDeviceVulkan12Features<'_>| {
            let mut features = features;
            read(&vk::DeviceCreateInfo::default().push_next(&mut features))
        };
        let nothing = vk::PhysicalDeviceVulkan12Features::default();
        let one = with(nothing.shader_float16(true));
        let both = with(nothing.shader_float16(true).shader_int8(true));
        assert_eq!(is_within(&one, &both), (true, false));
        assert_eq!(is_within(&with(nothing), &one), (true, false));
        let mut float16 = vk::PhysicalDeviceShaderFloat16Int8Features::default().shader_float16(true);
        let alone = read(&vk::DeviceCreateInfo::default().push_next(&mut float16));
        assert_eq!(is_within(&alone, &both), (false, false), "other structures are not understood");
        let mut own = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
            .pipeline_creation_cache_control(true);
        let own = read(&vk::DeviceCreateInfo::default().push_next(&mut own));
        assert_eq!(is_within(&own, &none), (true, true), "what the layer switches on");
    }

    #[test]
    fn every_core_feature_and_every_other_extension_moves_the_device_part() {
        let mut seen = vec![digest(&vk::DeviceCreateInfo::default())];
        for word in 0..size_of::<vk::PhysicalDeviceFeatures>() / 4 {
            let mut features = vk::PhysicalDeviceFeatures::default();
            // SAFETY: the structure consists of VkBool32 alone.
            unsafe { *(&raw mut features).cast::<u32>().add(word) = vk::TRUE };
            let other = digest(&vk::DeviceCreateInfo::default().enabled_features(&features));
            assert!(other.is_some() && !seen.contains(&other), "feature {word}");
            seen.push(other);
        }
        let names = [c"VK_EXT_robustness2".as_ptr(), c"VK_EXT_mesh_shader".as_ptr()];
        let both = digest(&vk::DeviceCreateInfo::default().enabled_extension_names(&names));
        assert!(!seen.contains(&both));
        let turned = [names[1], names[0]];
        assert_eq!(both, digest(&vk::DeviceCreateInfo::default().enabled_extension_names(&turned)));
    }

    #[test]
    fn the_feature_that_the_layer_switches_on_by_itself_does_not_move_the_device_part() {
        let plain = digest(&vk::DeviceCreateInfo::default());
        let mut own = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
            .pipeline_creation_cache_control(true);
        assert_eq!(plain, digest(&vk::DeviceCreateInfo::default().push_next(&mut own)));
        let mut all = vk::PhysicalDeviceVulkan13Features::default().pipeline_creation_cache_control(true);
        assert_eq!(plain, digest(&vk::DeviceCreateInfo::default().push_next(&mut all)));
        let mut other = vk::PhysicalDeviceVulkan13Features::default().robust_image_access(true);
        assert_ne!(plain, digest(&vk::DeviceCreateInfo::default().push_next(&mut other)));
    }
}
