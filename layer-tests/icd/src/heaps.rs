//! VK_EXT_descriptor_heap, which is newer than the bindings: pipelines without a layout, whose stages say where in the
//! heap their descriptors are, and which samplers are part of the code.

use std::ffi::c_void;

use ash::vk::{self, TaggedStructure};

use crate::content::{sampler, slice};
use crate::handles::Device;
use crate::hash::Hasher;
use crate::record::{Call, violation};
use crate::{chain, flags};

/// VkShaderDescriptorSetAndBindingMappingInfoEXT.
#[repr(C)]
struct Mappings {
    s_type: vk::StructureType,
    p_next: *const c_void,
    count: u32,
    mappings: *const Mapping,
}

// SAFETY: the structure starts with sType and pNext, and the registry gives it this value.
unsafe impl TaggedStructure for Mappings {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_135_006);
}

/// VkDescriptorSetAndBindingMappingEXT with the union's longest member.
#[repr(C)]
struct Mapping {
    s_type: vk::StructureType,
    p_next: *const c_void,
    set: u32,
    first: u32,
    count: u32,
    mask: u32,
    source: i32,
    data: Data,
}

/// VkDescriptorMappingSourceDataEXT, as far as tests use it.
#[repr(C)]
union Data {
    constant: Constant,
    offset: u32,
    words: [u64; 8],
}

/// VkDescriptorMappingSourceConstantOffsetEXT.
#[repr(C)]
#[derive(Clone, Copy)]
struct Constant {
    heap: [u32; 2],
    sampler: *const vk::SamplerCreateInfo<'static>,
    sampler_heap: [u32; 2],
}

/// HEAP_WITH_CONSTANT_OFFSET.
const CONSTANT_OFFSET: i32 = 0;
/// PUSH_DATA and PUSH_ADDRESS.
const PUSHED: [i32; 2] = [5, 6];

/// Whether a pipeline has no layout. A layout beside the flag and the flag without the feature are violations.
pub fn has_no_layout(call: &Call, device: &Device, effective: u64, layout: bool) -> bool {
    let heap = effective & flags::DESCRIPTOR_HEAP != 0;
    if heap && !device.descriptor_heap {
        violation(format!("{}: DESCRIPTOR_HEAP without the feature", call.command));
    }
    if heap && layout {
        violation(format!("{}: a layout beside DESCRIPTOR_HEAP", call.command));
    }
    heap
}

/// Adds the mappings of a stage to the key.
///
/// # Safety
/// `p_next` is NULL or the valid chain of a stage.
pub unsafe fn add(hasher: &mut Hasher, call: &Call, device: &Device, p_next: *const c_void) {
    // SAFETY: the caller passes NULL or the valid chain of a stage; which member of the union is read follows from the
    // mapping's source.
    unsafe {
        let Some(mappings) = chain::find::<Mappings>(p_next) else { return };
        if !device.descriptor_heap {
            violation(format!("{}: descriptor mappings without the feature", call.command));
        }
        for mapping in slice(mappings.mappings, mappings.count) {
            if !mapping.p_next.is_null() {
                violation(format!("{}: a descriptor mapping with a chain", call.command));
            }
            for number in [mapping.set, mapping.first, mapping.count, mapping.mask, mapping.source as u32] {
                hasher.word(number);
            }
            if mapping.source == CONSTANT_OFFSET {
                let constant = mapping.data.constant;
                constant.heap.iter().chain(&constant.sampler_heap).for_each(|&number| hasher.word(number));
                if let Some(embedded) = constant.sampler.as_ref() {
                    hasher.bytes(&sampler(embedded));
                }
            } else if PUSHED.contains(&mapping.source) {
                hasher.word(mapping.data.offset);
            } else {
                violation(format!("{}: the source {} is not implemented", call.command, mapping.source));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The registry's structures: the longest member of the union has an embedded sampler between 5 and 6 numbers.
    #[test]
    fn a_mapping_has_the_size_of_the_registry() {
        assert_eq!(size_of::<Data>(), 5 * 4 + 4 + 8 + 6 * 4 + 8);
        assert_eq!(size_of::<Mapping>(), 16 + 5 * 4 + 4 + size_of::<Data>());
    }
}
