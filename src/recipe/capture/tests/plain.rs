//! Structures of numbers, structures that are ignored, and structures that bypass: every row of the table, in every
//! chain.

use std::ffi::c_void;
use std::mem::offset_of;

use ash::vk;

use super::fence::place;
use super::hosts::HOSTS;
use vkstash_model::counters::BypassReason;
use vkstash_model::newer;
use vkstash_model::structures::{Handling, Row, TABLE};

const HEADER: usize = size_of::<vk::BaseInStructure<'_>>();

/// A structure of a row with these bytes behind pNext, ending at the fence.
fn structure(row: &Row, members: &[u8]) -> *const c_void {
    const WORD: usize = size_of::<usize>();
    let mut words = vec![0_usize; row.size / WORD];
    assert_eq!(row.size % WORD, 0);
    words[0] = row.s_type.as_raw() as usize;
    for (index, &byte) in members.iter().enumerate() {
        words[(HEADER + index) / WORD] |= usize::from(byte) << (8 * (index % WORD));
    }
    place(&words).cast()
}

fn rows(wanted: impl Fn(Handling) -> bool) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| wanted(row.handling))
}

#[test]
fn every_byte_of_a_plain_structure_separates_or_the_chain_refuses() {
    for row in rows(|handling| matches!(handling, Handling::Plain(_))) {
        let Handling::Plain(length) = row.handling else { unreachable!() };
        let mut read = 0;
        for (name, host) in HOSTS {
            let without = host(std::ptr::null()).unwrap();
            let mut members = vec![0; row.size - HEADER];
            let Ok(zero) = host(structure(row, &members)) else { continue };
            assert_ne!(zero, without, "{} is lost in {name}", row.name());
            read += 1;
            for index in 0..members.len() {
                members[index] = 0x5a;
                let changed = host(structure(row, &members)).unwrap();
                assert_eq!(changed != zero, index < length, "byte {index} of {} in {name}", row.name());
                members[index] = 0;
            }
        }
        assert!(read >= 10, "{} is read in {read} chains", row.name());
    }
}

#[test]
fn an_ignored_structure_changes_nothing_anywhere() {
    for row in rows(|handling| handling == Handling::Ignored) {
        for (name, host) in HOSTS {
            let garbage = structure(row, &vec![0xdd; row.size - HEADER]);
            assert_eq!(host(garbage), host(std::ptr::null()), "{} in {name}", row.name());
        }
    }
}

#[test]
fn a_structure_that_bypasses_does_so_everywhere_and_is_named() {
    for row in rows(|handling| matches!(handling, Handling::Bypass(_))) {
        let Handling::Bypass(reason) = row.handling else { unreachable!() };
        for (name, host) in HOSTS {
            let refusal = host(structure(row, &vec![0xdd; row.size - HEADER])).unwrap_err();
            assert_eq!((refusal.reason, refusal.s_type), (reason, row.s_type.as_raw()), "in {name}");
        }
    }
}

#[test]
fn a_structure_without_a_row_refuses_everywhere_and_is_named() {
    for (name, host) in HOSTS {
        let stranger = vk::BaseInStructure { s_type: vk::StructureType::from_raw(123), ..Default::default() };
        let refusal = host(super::fence::place_one(stranger).cast()).unwrap_err();
        assert_eq!((refusal.reason, refusal.s_type), (BypassReason::UnknownStructure, 123), "in {name}");
    }
}

/// A structure's type, and offset, size and type of each member behind pNext.
type Layout = (vk::StructureType, Vec<(usize, usize, &'static str)>);

fn member<T, F>(offset: usize, _: fn(&T) -> &F) -> (usize, usize, &'static str) {
    (offset, size_of::<F>(), std::any::type_name::<F>())
}

macro_rules! layouts {
    ($($structure:ty { $($field:ident),* })*) => {
        vec![$((
            <$structure as vk::TaggedStructure>::STRUCTURE_TYPE,
            vec![$(member(offset_of!($structure, $field), |s: &$structure| &s.$field)),*],
        )),*]
    };
}

fn layouts() -> Vec<Layout> {
    layouts! {
        vk::PipelineRobustnessCreateInfoEXT<'static> { storage_buffers, uniform_buffers, vertex_inputs, images }
        vk::PipelineFragmentShadingRateStateCreateInfoKHR<'static> { fragment_size, combiner_ops }
        vk::PipelineFragmentShadingRateEnumStateCreateInfoNV<'static> {
            shading_rate_type, shading_rate, combiner_ops
        }
        vk::PipelineCompilerControlCreateInfoAMD<'static> { compiler_control_flags }
        vk::PipelineRepresentativeFragmentTestStateCreateInfoNV<'static> { representative_fragment_test_enable }
        vk::MultiviewPerViewAttributesInfoNVX<'static> {
            per_view_attributes, per_view_attributes_position_x_only
        }
        vk::ExternalFormatANDROID<'static> { external_format }
        newer::ExternalFormatOHOS { external_format }
        newer::PipelineFragmentDensityMapLayeredCreateInfoVALVE { max_fragment_density_map_layers }
        newer::RayTracingPipelineClusterAccelerationStructureCreateInfoNV { allow_cluster_acceleration_structure }
        vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'static> { required_subgroup_size }
        vk::PipelineTessellationDomainOriginStateCreateInfo<'static> { domain_origin }
        vk::PipelineViewportDepthClipControlCreateInfoEXT<'static> { negative_one_to_one }
        vk::PipelineRasterizationStateRasterizationOrderAMD<'static> { rasterization_order }
        vk::PipelineRasterizationConservativeStateCreateInfoEXT<'static> {
            flags, conservative_rasterization_mode, extra_primitive_overestimation_size
        }
        vk::PipelineRasterizationStateStreamCreateInfoEXT<'static> { flags, rasterization_stream }
        vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'static> { flags, depth_clip_enable }
        vk::PipelineRasterizationLineStateCreateInfoKHR<'static> {
            line_rasterization_mode, stippled_line_enable, line_stipple_factor, line_stipple_pattern
        }
        vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'static> { provoking_vertex_mode }
        vk::DepthBiasRepresentationInfoEXT<'static> { depth_bias_representation, depth_bias_exact }
        vk::PipelineCoverageToColorStateCreateInfoNV<'static> {
            flags, coverage_to_color_enable, coverage_to_color_location
        }
        vk::PipelineCoverageReductionStateCreateInfoNV<'static> { flags, coverage_reduction_mode }
        vk::PipelineColorBlendAdvancedStateCreateInfoEXT<'static> {
            src_premultiplied, dst_premultiplied, blend_overlap
        }
        vk::SamplerReductionModeCreateInfo<'static> { reduction_mode }
        vk::SamplerCustomBorderColorCreateInfoEXT<'static> { custom_border_color, format }
        newer::SamplerCustomBorderColorIndexCreateInfoEXT { index }
        vk::SamplerBorderColorComponentMappingCreateInfoEXT<'static> { components, srgb }
        vk::SamplerBlockMatchWindowCreateInfoQCOM<'static> { window_extent, window_compare_mode }
        vk::SamplerCubicWeightsCreateInfoQCOM<'static> { cubic_weights }
        vk::SamplerYcbcrConversionYcbcrDegammaCreateInfoQCOM<'static> { enable_y_degamma, enable_cb_cr_degamma }
        vk::ExternalFormatQNX<'static> { external_format }
        vk::RenderPassFragmentDensityMapCreateInfoEXT<'static> { fragment_density_map_attachment }
        vk::RenderPassCreationControlEXT<'static> { disallow_merging }
        newer::RenderPassTileShadingCreateInfoQCOM { flags, tile_apron_size }
        newer::TileMemorySizeInfoQCOM { size }
        vk::MultisampledRenderToSingleSampledInfoEXT<'static> {
            multisampled_render_to_single_sampled_enable, rasterization_samples
        }
        vk::AttachmentDescriptionStencilLayout<'static> { stencil_initial_layout, stencil_final_layout }
        vk::AttachmentReferenceStencilLayout<'static> { stencil_layout }
        vk::MemoryBarrier2<'static> { src_stage_mask, src_access_mask, dst_stage_mask, dst_access_mask }
        newer::MemoryBarrierAccessFlags3KHR { src_access_mask3, dst_access_mask3 }
    }
}

/// The members of every plain row follow each other without a hole and none is as wide as a pointer, so that their
/// bytes are the same whatever the width of one.
#[test]
fn plain_structures_have_no_padding_and_no_pointers() {
    let layouts = layouts();
    for row in rows(|handling| matches!(handling, Handling::Plain(_))) {
        let Handling::Plain(length) = row.handling else { unreachable!() };
        let Some((_, members)) = layouts.iter().find(|(s_type, _)| *s_type == row.s_type) else {
            panic!("{} has no layout here", row.name());
        };
        let mut end = HEADER;
        for &(offset, size, type_name) in members {
            assert_eq!(offset, end, "a hole in {}", row.name());
            end += size;
            let wide = ["usize", "isize", "*const", "*mut", "PhantomData"];
            assert!(wide.iter().all(|word| !type_name.contains(word)), "{type_name} in {}", row.name());
        }
        assert_eq!(end - HEADER, length, "{}", row.name());
    }
    assert_eq!(layouts.len(), rows(|handling| matches!(handling, Handling::Plain(_))).count());
}
