//! Structures with pointers, counts or handles: for each row of the table, every member of it separates.

use std::ffi::c_void;
use std::ptr;

use ash::vk::{self, TaggedStructure};

use super::guard_page::{place, place_one};
use super::helpers::{assert_all_differ, handle};
use super::hosts::{HOSTS, host};
use super::special_graphics;
use vkstash_model::counters::BypassReason;
use vkstash_model::newer;
use vkstash_model::structures::{Handling, TABLE};

/// A structure, one of the chains that it belongs in, and variants of it that must all make a difference.
pub struct Case {
    pub s_type: vk::StructureType,
    pub host: &'static str,
    pub variants: Vec<*const c_void>,
}

/// A case: a structure, and changes to it of which each is made by itself.
pub fn case<T: TaggedStructure + Copy>(host: &'static str, base: T, changes: &[fn(&mut T)]) -> Case {
    let changed = |change: &fn(&mut T)| {
        let mut structure = base;
        change(&mut structure);
        place_one(structure).cast()
    };
    let mut variants = vec![place_one(base).cast()];
    variants.extend(changes.iter().map(changed));
    Case { s_type: T::STRUCTURE_TYPE, host, variants }
}

pub fn mapping() -> newer::DescriptorSetAndBindingMappingEXT {
    newer::DescriptorSetAndBindingMappingEXT {
        s_type: newer::DescriptorSetAndBindingMappingEXT::STRUCTURE_TYPE,
        p_next: ptr::null(),
        descriptor_set: 0,
        first_binding: 1,
        binding_count: 2,
        resource_mask: 3,
        source: 0,
        // SAFETY: numbers and pointers, which may all be zero; with the padding, which others call members.
        source_data: unsafe { std::mem::zeroed() },
    }
}

pub fn mappings(mappings: &[newer::DescriptorSetAndBindingMappingEXT]) -> *const c_void {
    let info = newer::ShaderDescriptorSetAndBindingMappingInfoEXT {
        s_type: newer::BINDING_MAPPINGS,
        p_next: ptr::null(),
        mapping_count: mappings.len() as u32,
        p_mappings: place(mappings),
    };
    place_one(info).cast()
}

/// Every number of a mapping, and of the data of every source.
fn mapping_case() -> Case {
    type Make = fn(&mut newer::DescriptorSetAndBindingMappingEXT);
    let changes: &[Make] = &[
        |_| {},
        |m| m.descriptor_set ^= 8,
        |m| m.first_binding ^= 8,
        |m| m.binding_count ^= 8,
        |m| m.resource_mask ^= 8,
        |m| m.source_data.constant_offset.sampler = place_one(vk::SamplerCreateInfo::default()),
        |m| {
            let sampler = vk::SamplerCreateInfo::default().mag_filter(vk::Filter::LINEAR);
            m.source_data.constant_offset.sampler = place_one(sampler);
        },
    ];
    let mut variants = vec![mappings(&[]), mappings(&[mapping(), mapping()])];
    for change in changes {
        let mut mapping = mapping();
        change(&mut mapping);
        variants.push(mappings(&[mapping]));
    }
    // (source, words before the sampler, words behind it)
    let sources = [(0, 2, 2), (1, 4, 5), (2, 5, 6), (3, 4, 5), (8, 4, 5)];
    let flat = [(4, 2), (7, 2), (5, 1), (6, 1), (9, 1), (10, 1)];
    let mut add = |source: i32, word: usize| {
        let mut mapping = mapping();
        mapping.source = source;
        // SAFETY: within the union, whose largest member is all numbers and one pointer that stays NULL.
        unsafe { *(&raw mut mapping.source_data).cast::<u32>().add(word) = 7 };
        variants.push(mappings(&[mapping]));
    };
    for (source, before, behind) in sources {
        // On machines with 64-bit pointers the sampler is aligned to two words.
        let sampler = (before * 4_usize).next_multiple_of(align_of::<usize>()) / 4;
        (0..before).for_each(|word| add(source, word));
        (0..behind).for_each(|word| add(source, sampler + size_of::<usize>() / 4 + word));
    }
    for (source, words) in flat {
        (0..words).for_each(|word| add(source, word));
    }
    Case { s_type: newer::BINDING_MAPPINGS, host: "stage", variants }
}

fn binding_flags(count: u32, masks: &[u32]) -> *const c_void {
    let flags: Vec<_> = masks.iter().map(|&mask| vk::DescriptorBindingFlags::from_raw(mask)).collect();
    let info = vk::DescriptorSetLayoutBindingFlagsCreateInfo {
        binding_count: count,
        p_binding_flags: place(&flags),
        ..Default::default()
    };
    place_one(info).cast()
}

fn mutable_types(lists: &[&[i32]]) -> *const c_void {
    let list = |types: &&[i32]| {
        let types: Vec<_> = types.iter().map(|&kind| vk::DescriptorType::from_raw(kind)).collect();
        vk::MutableDescriptorTypeListEXT {
            descriptor_type_count: types.len() as u32,
            p_descriptor_types: place(&types),
            ..Default::default()
        }
    };
    let lists: Vec<_> = lists.iter().map(list).collect();
    let info = vk::MutableDescriptorTypeCreateInfoEXT {
        mutable_descriptor_type_list_count: lists.len() as u32,
        p_mutable_descriptor_type_lists: place(&lists),
        ..Default::default()
    };
    place_one(info).cast()
}

fn multiview(views: [u32; 2], offsets: [i32; 2], correlated: &[u32]) -> *const c_void {
    let info = vk::RenderPassMultiviewCreateInfo {
        subpass_count: 2,
        p_view_masks: place(&views),
        dependency_count: 2,
        p_view_offsets: place(&offsets),
        correlation_mask_count: correlated.len() as u32,
        p_correlation_masks: place(correlated),
        ..Default::default()
    };
    place_one(info).cast()
}

/// The aspects of input attachments: (subpass, input attachment, aspects).
fn aspects(references: &[(u32, u32, u32)]) -> *const c_void {
    let references: Vec<_> = references
        .iter()
        .map(|&(subpass, input_attachment_index, mask)| vk::InputAttachmentAspectReference {
            subpass,
            input_attachment_index,
            aspect_mask: vk::ImageAspectFlags::from_raw(mask),
        })
        .collect();
    let info = vk::RenderPassInputAttachmentAspectCreateInfo {
        aspect_reference_count: references.len() as u32,
        p_aspect_references: place(&references),
        ..Default::default()
    };
    place_one(info).cast()
}

/// What is chained to the subpasses of the second form of render passes.
fn subpass_cases() -> [Case; 2] {
    let resolve = vk::SubpassDescriptionDepthStencilResolve::default();
    let mut resolves = case(
        "subpass",
        resolve,
        &[
            |r| r.depth_resolve_mode = vk::ResolveModeFlags::MAX,
            |r| r.stencil_resolve_mode = vk::ResolveModeFlags::MAX,
        ],
    );
    let mut rates = case(
        "subpass",
        vk::FragmentShadingRateAttachmentInfoKHR::default(),
        &[
            |r| r.shading_rate_attachment_texel_size.width = 8,
            |r| r.shading_rate_attachment_texel_size.height = 8,
        ],
    );
    for attachment in [1, 2] {
        let attachment = place_one(vk::AttachmentReference2 { attachment, ..Default::default() });
        let resolve = vk::SubpassDescriptionDepthStencilResolve {
            p_depth_stencil_resolve_attachment: attachment,
            ..resolve
        };
        resolves.variants.push(place_one(resolve).cast());
        let rate = vk::FragmentShadingRateAttachmentInfoKHR {
            p_fragment_shading_rate_attachment: attachment,
            ..Default::default()
        };
        rates.variants.push(place_one(rate).cast());
    }
    [resolves, rates]
}

/// What is chained to set layouts, samplers and render passes.
fn others() -> Vec<Case> {
    let listed = |s_type, host, variants| Case { s_type, host, variants };
    let mut cases = vec![
        listed(
            vk::StructureType::DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO,
            "set layout",
            vec![
                binding_flags(0, &[]),
                binding_flags(2, &[1, 0]),
                binding_flags(2, &[0, 1]),
                binding_flags(2, &[1, 1]),
            ],
        ),
        listed(
            vk::StructureType::MUTABLE_DESCRIPTOR_TYPE_CREATE_INFO_EXT,
            "set layout",
            vec![
                mutable_types(&[]),
                mutable_types(&[&[1], &[]]),
                mutable_types(&[&[], &[1]]),
                mutable_types(&[&[1, 2]]),
            ],
        ),
        listed(
            vk::StructureType::RENDER_PASS_MULTIVIEW_CREATE_INFO,
            "old render pass",
            vec![
                multiview([0, 0], [0, 0], &[]),
                multiview([1, 0], [0, 0], &[]),
                multiview([0, 1], [0, 0], &[]),
                multiview([0, 0], [1, 0], &[]),
                multiview([0, 0], [0, 1], &[]),
                multiview([0, 0], [0, 0], &[1]),
                multiview([0, 0], [0, 0], &[1, 2]),
            ],
        ),
        listed(
            vk::StructureType::RENDER_PASS_INPUT_ATTACHMENT_ASPECT_CREATE_INFO,
            "old render pass",
            vec![aspects(&[]), aspects(&[(0, 0, 1)]), aspects(&[(1, 0, 1)]), aspects(&[(0, 0, 2)])],
        ),
        case(
            "sampler",
            vk::SamplerYcbcrConversionInfo::default().conversion(handle(1)),
            &[|i| i.conversion = handle(2)],
        ),
    ];
    cases.extend(subpass_cases());
    cases
}

fn cases() -> Vec<Case> {
    let mut cases = special_graphics::cases();
    cases.extend(others());
    cases.push(mapping_case());
    cases
}

/// Their members are the subject of the tests of stages, libraries and binaries.
const ELSEWHERE: &[vk::StructureType] = &[
    vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
    vk::StructureType::PIPELINE_RENDERING_CREATE_INFO,
    vk::StructureType::GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
    vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR,
    vk::StructureType::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT,
    vk::StructureType::SHADER_MODULE_CREATE_INFO,
    vk::StructureType::PIPELINE_VERTEX_INPUT_DIVISOR_STATE_CREATE_INFO_KHR,
    newer::PIPELINE_BINARY_INFO,
];

#[test]
fn every_member_of_every_special_structure_separates() {
    let cases = cases();
    for row in TABLE.iter().filter(|row| row.handling == Handling::Special) {
        let found = cases.iter().any(|case| case.s_type == row.structure.s_type)
            || ELSEWHERE.contains(&row.structure.s_type);
        assert!(found, "{} has no case", row.structure.name);
    }
}

/// Each variant is made anew: the fence holds a few hundred copies at most.
#[test]
fn variants_all_differ() {
    for make in [special_graphics::cases, others, || vec![mapping_case()]] {
        for index in 0..make().len() {
            let captured = |variant: usize| {
                let case = make().swap_remove(index);
                (format!("{:?}, variant {variant}", case.s_type), host(case.host)(case.variants[variant]))
            };
            let variants = make()[index].variants.len();
            assert!(variants > 1);
            assert_all_differ((0..variants).map(captured).collect());
        }
    }
}

#[test]
fn a_special_structure_in_a_chain_where_it_does_not_belong_refuses() {
    let size = |row: &vkstash_model::structures::Row| row.structure.size;
    for row in TABLE.iter().filter(|row| row.handling == Handling::Special) {
        let mut words = vec![0_u64; size(row).div_ceil(8)];
        words[0] = row.structure.s_type.as_raw() as u64;
        let foreign = HOSTS.iter().filter(|(_, host)| {
            let captured = host(place(&words).cast());
            captured.is_err_and(|refusal| refusal.reason == BypassReason::UnknownStructure)
        });
        assert!(foreign.count() >= 20, "{}", row.structure.name);
    }
}

#[test]
fn binaries_of_the_program_s_own_refuse_and_none_are_nothing() {
    let of = |binary_count| {
        let info = newer::PipelineBinaryInfoKHR {
            s_type: newer::PIPELINE_BINARY_INFO,
            p_next: ptr::null(),
            binary_count,
            p_pipeline_binaries: super::guard_page::forbidden(),
        };
        ["compute", "graphics", "rays"].map(|name| host(name)(place_one(info).cast()))
    };
    let nothing = ["compute", "graphics", "rays"].map(|name| host(name)(ptr::null()));
    assert_eq!(of(0), nothing);
    for captured in of(1) {
        assert_eq!(captured.map_err(|refusal| refusal.reason), Err(BypassReason::OwnBinaries));
    }
}
