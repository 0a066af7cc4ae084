//! Structures with pointers in the chains of graphics pipelines: written out as words. An array is read only
//! where its state is static (contract 6: 04056 to 04058 and their like).

use ash::vk::{self, DynamicState as D, StructureType as S};

use super::dynamic::Dynamic;
use super::subsets::Subsets;
use crate::capture::array;
use crate::chain::{self, Refusal, Special};
use vkstash_model::counters::BypassReason;
use vkstash_model::newer;
use vkstash_model::recipe::Words;

type Node<'a> = vk::BaseInStructure<'a>;

/// The structure that a node of its sType is.
///
/// # Safety
/// `T` belongs to the node's sType.
unsafe fn cast<'a, T>(node: &'a Node<'a>) -> &'a T {
    // SAFETY: `T` is the structure of the node's sType, so it begins where the node does and lives as long.
    unsafe { &*(&raw const *node).cast() }
}

/// A count and that many elements, each as its words.
fn list<T: Copy, const N: usize>(words: &mut Words, elements: &[T], to_words: impl Fn(T) -> [u32; N]) {
    words.push(elements.len() as u32);
    elements.iter().for_each(|&element| words.extend(to_words(element)));
}

fn rectangle(r: vk::Rect2D) -> [u32; 4] {
    [r.offset.x as u32, r.offset.y as u32, r.extent.width, r.extent.height]
}

/// Chained to VkPipelineViewportStateCreateInfo.
///
/// # Safety
/// A valid structure of a viewport state that may be read.
pub unsafe fn viewport(node: &Node<'_>, dynamic: &Dynamic) -> Result<Special, Refusal> {
    let mut words = Words::new();
    // SAFETY: the casts follow the sType; each array is valid for its count where its state is static.
    unsafe {
        match node.s_type {
            S::PIPELINE_VIEWPORT_W_SCALING_STATE_CREATE_INFO_NV => {
                let info = cast::<vk::PipelineViewportWScalingStateCreateInfoNV<'_>>(node);
                let enable_is_dynamic = dynamic.has(D::VIEWPORT_W_SCALING_ENABLE_NV);
                let counts = enable_is_dynamic || info.viewport_w_scaling_enable != 0;
                let read = counts && !dynamic.has(D::VIEWPORT_W_SCALING_NV);
                words.push(dynamic.unless(D::VIEWPORT_W_SCALING_ENABLE_NV, info.viewport_w_scaling_enable));
                words.push(info.viewport_count);
                let scalings = array(info.p_viewport_w_scalings, if read { info.viewport_count } else { 0 });
                list(&mut words, scalings, |s| [s.xcoeff.to_bits(), s.ycoeff.to_bits()]);
            }
            S::PIPELINE_VIEWPORT_SWIZZLE_STATE_CREATE_INFO_NV => {
                let info = cast::<vk::PipelineViewportSwizzleStateCreateInfoNV<'_>>(node);
                let count = dynamic.unless(D::VIEWPORT_SWIZZLE_NV, info.viewport_count);
                words.push(info.flags.as_raw());
                list(&mut words, array(info.p_viewport_swizzles, count), |s| {
                    [s.x, s.y, s.z, s.w].map(|swizzle| swizzle.as_raw() as u32)
                });
            }
            S::PIPELINE_VIEWPORT_EXCLUSIVE_SCISSOR_STATE_CREATE_INFO_NV => {
                let info = cast::<vk::PipelineViewportExclusiveScissorStateCreateInfoNV<'_>>(node);
                let count = dynamic.unless(D::EXCLUSIVE_SCISSOR_NV, info.exclusive_scissor_count);
                words.push(info.exclusive_scissor_count);
                list(&mut words, array(info.p_exclusive_scissors, count), rectangle);
            }
            S::PIPELINE_VIEWPORT_SHADING_RATE_IMAGE_STATE_CREATE_INFO_NV => {
                let info = cast::<vk::PipelineViewportShadingRateImageStateCreateInfoNV<'_>>(node);
                let count = dynamic.unless(D::VIEWPORT_SHADING_RATE_PALETTE_NV, info.viewport_count);
                words.push(dynamic.unless(D::SHADING_RATE_IMAGE_ENABLE_NV, info.shading_rate_image_enable));
                words.push(info.viewport_count);
                words.push(count);
                for palette in array(info.p_shading_rate_palettes, count) {
                    let entries = array(
                        palette.p_shading_rate_palette_entries,
                        palette.shading_rate_palette_entry_count,
                    );
                    list(&mut words, entries, |entry| [entry.as_raw() as u32]);
                }
            }
            S::PIPELINE_VIEWPORT_COARSE_SAMPLE_ORDER_STATE_CREATE_INFO_NV => {
                let info = cast::<vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV<'_>>(node);
                let count =
                    dynamic.unless(D::VIEWPORT_COARSE_SAMPLE_ORDER_NV, info.custom_sample_order_count);
                let order = info.sample_order_type.as_raw() as u32;
                words.push(dynamic.unless(D::VIEWPORT_COARSE_SAMPLE_ORDER_NV, order));
                words.push(count);
                for custom in array(info.p_custom_sample_orders, count) {
                    words.extend([custom.shading_rate.as_raw() as u32, custom.sample_count]);
                    let locations = array(custom.p_sample_locations, custom.sample_location_count);
                    list(&mut words, locations, |l| [l.pixel_x, l.pixel_y, l.sample]);
                }
            }
            newer::DEPTH_CLAMP_CONTROL => {
                let info = cast::<newer::PipelineViewportDepthClampControlCreateInfoEXT>(node);
                let is_static = !dynamic.has(newer::DEPTH_CLAMP_RANGE);
                words.push(if is_static { info.depth_clamp_mode as u32 } else { 0 });
                let read = is_static && info.depth_clamp_mode == newer::USER_DEFINED_RANGE;
                let range = array(info.p_depth_clamp_range, read.into());
                list(&mut words, range, |range| range.map(f32::to_bits));
            }
            _ => return Ok(Special::Foreign),
        }
    }
    Ok(Special::Words(words))
}

/// Chained to VkPipelineMultisampleStateCreateInfo.
///
/// # Safety
/// A valid structure of a multisample state that may be read.
pub unsafe fn multisample(node: &Node<'_>, dynamic: &Dynamic) -> Result<Special, Refusal> {
    let mut words = Words::new();
    // SAFETY: as in `viewport`.
    unsafe {
        match node.s_type {
            S::PIPELINE_SAMPLE_LOCATIONS_STATE_CREATE_INFO_EXT => {
                let info = cast::<vk::PipelineSampleLocationsStateCreateInfoEXT<'_>>(node);
                let enable_is_dynamic = dynamic.has(D::SAMPLE_LOCATIONS_ENABLE_EXT);
                let counts = enable_is_dynamic || info.sample_locations_enable != 0;
                words.push(dynamic.unless(D::SAMPLE_LOCATIONS_ENABLE_EXT, info.sample_locations_enable));
                if counts && !dynamic.has(D::SAMPLE_LOCATIONS_EXT) {
                    let locations = &info.sample_locations_info;
                    chain::scan_empty(locations.p_next)?;
                    let grid = locations.sample_location_grid_size;
                    words.extend([locations.sample_locations_per_pixel.as_raw(), grid.width, grid.height]);
                    let listed = array(locations.p_sample_locations, locations.sample_locations_count);
                    list(&mut words, listed, |l| [l.x.to_bits(), l.y.to_bits()]);
                }
            }
            S::PIPELINE_COVERAGE_MODULATION_STATE_CREATE_INFO_NV => {
                let info = cast::<vk::PipelineCoverageModulationStateCreateInfoNV<'_>>(node);
                let enable_is_dynamic = dynamic.has(D::COVERAGE_MODULATION_TABLE_ENABLE_NV);
                let enable = info.coverage_modulation_table_enable;
                let counts = enable_is_dynamic || enable != 0;
                let read = counts && !dynamic.has(D::COVERAGE_MODULATION_TABLE_NV);
                let count = if read { info.coverage_modulation_table_count } else { 0 };
                let mode = info.coverage_modulation_mode.as_raw() as u32;
                words.push(info.flags.as_raw());
                words.push(dynamic.unless(D::COVERAGE_MODULATION_MODE_NV, mode));
                words.push(dynamic.unless(D::COVERAGE_MODULATION_TABLE_ENABLE_NV, enable));
                let table = array(info.p_coverage_modulation_table, count);
                list(&mut words, table, |factor| [factor.to_bits()]);
            }
            _ => return Ok(Special::Foreign),
        }
    }
    Ok(Special::Words(words))
}

/// Chained to VkPipelineColorBlendStateCreateInfo.
///
/// # Safety
/// A valid structure of a blend state that may be read.
pub unsafe fn color_blend(node: &Node<'_>, dynamic: &Dynamic) -> Result<Special, Refusal> {
    if node.s_type != S::PIPELINE_COLOR_WRITE_CREATE_INFO_EXT {
        return Ok(Special::Foreign);
    }
    let mut words = Words::new();
    // SAFETY: as in `viewport`.
    unsafe {
        let info = cast::<vk::PipelineColorWriteCreateInfoEXT<'_>>(node);
        let count = dynamic.unless(D::COLOR_WRITE_ENABLE_EXT, info.attachment_count);
        words.push(info.attachment_count);
        list(&mut words, array(info.p_color_write_enables, count), |enable| [enable]);
    }
    Ok(Special::Words(words))
}

/// What decides which structures of a graphics create info's own chain are read.
#[derive(Clone, Copy)]
pub struct Reads {
    /// The subsets that the create info provides.
    pub subsets: Subsets,
    /// The pipeline does not discard: otherwise it has no fragment state (contract 6).
    pub shown: bool,
    /// The pipeline is made for a render pass, so that formats and sample counts beside it are ignored
    /// (contract 6).
    pub render_pass: bool,
}

/// Chained to VkGraphicsPipelineCreateInfo itself.
///
/// # Safety
/// A valid structure of a create info of which `reads` is true.
pub unsafe fn pipeline(node: &Node<'_>, reads: Reads, dynamic: &Dynamic) -> Result<Special, Refusal> {
    let Reads { subsets, shown, render_pass } = reads;
    let fragment_shader = shown && subsets.fragment_shader();
    let fragment_output = shown && subsets.fragment_output();
    let mut words = Words::new();
    // SAFETY: as in `viewport`; arrays that may be NULL are.
    unsafe {
        match node.s_type {
            S::PIPELINE_DISCARD_RECTANGLE_STATE_CREATE_INFO_EXT => {
                if !subsets.pre_rasterization() {
                    return Ok(Special::Read);
                }
                let info = cast::<vk::PipelineDiscardRectangleStateCreateInfoEXT<'_>>(node);
                let count = dynamic.unless(D::DISCARD_RECTANGLE_EXT, info.discard_rectangle_count);
                let mode = info.discard_rectangle_mode.as_raw() as u32;
                words.push(info.flags.as_raw());
                words.push(dynamic.unless(D::DISCARD_RECTANGLE_MODE_EXT, mode));
                words.push(info.discard_rectangle_count);
                list(&mut words, array(info.p_discard_rectangles, count), rectangle);
            }
            S::RENDERING_ATTACHMENT_LOCATION_INFO_KHR => {
                if !fragment_output {
                    return Ok(Special::Read);
                }
                let info = cast::<vk::RenderingAttachmentLocationInfoKHR<'_>>(node);
                words.push(info.color_attachment_count);
                let locations = array(info.p_color_attachment_locations, info.color_attachment_count);
                list(&mut words, locations, |location| [location]);
            }
            S::RENDERING_INPUT_ATTACHMENT_INDEX_INFO_KHR => {
                if !fragment_shader {
                    return Ok(Special::Read);
                }
                let info = cast::<vk::RenderingInputAttachmentIndexInfoKHR<'_>>(node);
                words.push(info.color_attachment_count);
                let indices = array(info.p_color_attachment_input_indices, info.color_attachment_count);
                list(&mut words, indices, |index| [index]);
                list(&mut words, array(info.p_depth_input_attachment_index, 1), |index| [index]);
                list(&mut words, array(info.p_stencil_input_attachment_index, 1), |index| [index]);
            }
            S::ATTACHMENT_SAMPLE_COUNT_INFO_AMD => {
                if !fragment_output || render_pass {
                    return Ok(Special::Read);
                }
                let info = cast::<vk::AttachmentSampleCountInfoAMD<'_>>(node);
                let samples = array(info.p_color_attachment_samples, info.color_attachment_count);
                list(&mut words, samples, |samples| [samples.as_raw()]);
                words.push(info.depth_stencil_attachment_samples.as_raw());
            }
            newer::CUSTOM_RESOLVE => {
                if render_pass || !(fragment_shader || fragment_output) {
                    return Ok(Special::Read);
                }
                let info = cast::<newer::CustomResolveCreateInfoEXT>(node);
                words.push(info.custom_resolve);
                // The fragment shader's subset ignores the formats (contract 6).
                if fragment_output {
                    let formats = array(info.p_color_attachment_formats, info.color_attachment_count);
                    list(&mut words, formats, |format| [format.as_raw() as u32]);
                    words.push(info.depth_attachment_format.as_raw() as u32);
                    words.push(info.stencil_attachment_format.as_raw() as u32);
                }
            }
            _ => return own_binaries(node),
        }
    }
    Ok(Special::Words(words))
}

/// VkPipelineBinaryInfoKHR in a pipeline's chain: with binaries the driver must use them, and the pipeline is the
/// program's own business (contract 5.5); a count of 0 means that the structure is not there (contract 5.4).
///
/// # Safety
/// A valid structure.
pub unsafe fn own_binaries(node: &Node<'_>) -> Result<Special, Refusal> {
    if node.s_type != newer::PIPELINE_BINARY_INFO {
        return Ok(Special::Foreign);
    }
    // SAFETY: the cast follows the sType.
    match unsafe { cast::<newer::PipelineBinaryInfoKHR>(node) }.binary_count {
        0 => Ok(Special::Read),
        _ => Err(Refusal { reason: BypassReason::OwnBinaries, s_type: node.s_type.as_raw() }),
    }
}
