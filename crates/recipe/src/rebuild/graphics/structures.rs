//! Structures with pointers in the chains of graphics pipelines, made of the words that capture wrote. Every
//! array is as long as its count.

use ash::vk::{self, DynamicState as D, StructureType as S, TaggedStructure};

use crate::capture::graphics::Dynamic;
use crate::rebuild::arena::{Arena, Chain, List};
use crate::rebuild::words::Words;
use crate::rebuild::{Limits, RebuildError, within};
use vkstash_model::newer;
use vkstash_model::recipe::Flattened;

type Built = Result<(), RebuildError>;

fn rectangle([x, y, width, height]: [u32; 4]) -> vk::Rect2D {
    vk::Rect2D { offset: vk::Offset2D { x: x as i32, y: y as i32 }, extent: vk::Extent2D { width, height } }
}

/// Rebuilds one structure from its words, and puts it into a chain.
pub struct StructureBuilder<'a> {
    arena: &'a mut Arena,
    chain: &'a mut Chain,
    s_type: S,
    words: Words<'a>,
    dynamic: &'a Dynamic,
    limits: Limits,
}

impl<'a> StructureBuilder<'a> {
    /// For the structure that `flattened` describes.
    pub fn of(
        arena: &'a mut Arena,
        chain: &'a mut Chain,
        flattened: &'a Flattened,
        dynamic: &'a Dynamic,
        limits: Limits,
    ) -> StructureBuilder<'a> {
        let (s_type, words) = (S::from_raw(flattened.s_type), Words::of(flattened));
        StructureBuilder { arena, chain, s_type, words, dynamic, limits }
    }

    fn push<T: TaggedStructure + Copy>(&mut self, structure: T) -> Built {
        self.chain.push(self.arena, structure)
    }

    /// An array that is as long as its count. Where the state is dynamic, or switched off, capture has not read the
    /// array. Then its elements are placeholders: the specification wants a valid pointer even to some arrays that
    /// nobody reads.
    fn whole<T: Copy>(
        &mut self,
        list: List<T>,
        is_read: bool,
        count: u32,
        placeholder: T,
    ) -> Result<List<T>, RebuildError> {
        self.words.ensure(list.count == if is_read { count } else { 0 })?;
        if is_read { Ok(list) } else { self.arena.repeat(placeholder, count) }
    }

    /// A structure that is chained to VkPipelineViewportStateCreateInfo.
    pub fn viewport(mut self) -> Built {
        match self.s_type {
            S::PIPELINE_VIEWPORT_W_SCALING_STATE_CREATE_INFO_NV => self.w_scaling()?,
            S::PIPELINE_VIEWPORT_SWIZZLE_STATE_CREATE_INFO_NV => self.swizzles()?,
            S::PIPELINE_VIEWPORT_EXCLUSIVE_SCISSOR_STATE_CREATE_INFO_NV => self.exclusive_scissors()?,
            S::PIPELINE_VIEWPORT_SHADING_RATE_IMAGE_STATE_CREATE_INFO_NV => self.shading_rate_palettes()?,
            S::PIPELINE_VIEWPORT_COARSE_SAMPLE_ORDER_STATE_CREATE_INFO_NV => self.coarse_sample_orders()?,
            newer::DEPTH_CLAMP_CONTROL => self.depth_clamp_control()?,
            _ => return Err(self.words.damaged()),
        }
        self.words.end()
    }

    fn w_scaling(&mut self) -> Built {
        let [enable, count] = self.words.words()?;
        within(count, self.limits.viewports, "viewports")?;
        let scalings = self.words.list(self.arena, |[x, y]| vk::ViewportWScalingNV {
            xcoeff: f32::from_bits(x),
            ycoeff: f32::from_bits(y),
        })?;
        let counts = enable != 0 || self.dynamic.has(D::VIEWPORT_W_SCALING_ENABLE_NV);
        let is_read = counts && !self.dynamic.has(D::VIEWPORT_W_SCALING_NV);
        let scalings = self.whole(scalings, is_read, count, Default::default())?;
        self.push(vk::PipelineViewportWScalingStateCreateInfoNV {
            viewport_w_scaling_enable: enable,
            viewport_count: count,
            p_viewport_w_scalings: scalings.pointer,
            ..Default::default()
        })
    }

    fn swizzles(&mut self) -> Built {
        let flags = self.words.word()?;
        let swizzles = self.words.list(self.arena, |swizzle: [u32; 4]| {
            let [x, y, z, w] = swizzle.map(|s| vk::ViewportCoordinateSwizzleNV::from_raw(s as i32));
            vk::ViewportSwizzleNV { x, y, z, w }
        })?;
        within(swizzles.count, self.limits.viewports, "viewports")?;
        // The recipe does not have the number of swizzles that are dynamic.
        let is_read = !self.dynamic.has(D::VIEWPORT_SWIZZLE_NV);
        let count = if is_read { swizzles.count } else { 1 };
        let swizzles = self.whole(swizzles, is_read, count, Default::default())?;
        self.push(vk::PipelineViewportSwizzleStateCreateInfoNV {
            flags: vk::PipelineViewportSwizzleStateCreateFlagsNV::from_raw(flags),
            viewport_count: swizzles.count,
            p_viewport_swizzles: swizzles.pointer,
            ..Default::default()
        })
    }

    fn exclusive_scissors(&mut self) -> Built {
        let count = self.words.word()?;
        within(count, self.limits.viewports, "viewports")?;
        let scissors = self.words.list(self.arena, rectangle)?;
        let is_read = !self.dynamic.has(D::EXCLUSIVE_SCISSOR_NV);
        let scissors = self.whole(scissors, is_read, count, Default::default())?;
        self.push(vk::PipelineViewportExclusiveScissorStateCreateInfoNV {
            exclusive_scissor_count: count,
            p_exclusive_scissors: scissors.pointer,
            ..Default::default()
        })
    }

    fn shading_rate_palettes(&mut self) -> Built {
        let [enable, count] = self.words.words()?;
        within(count, self.limits.viewports, "viewports")?;
        let palettes = self.words.nested(self.arena, |words, arena| {
            let entries =
                words.list(arena, |[entry]| vk::ShadingRatePaletteEntryNV::from_raw(entry as i32))?;
            Ok(vk::ShadingRatePaletteNV {
                shading_rate_palette_entry_count: entries.count,
                p_shading_rate_palette_entries: entries.pointer,
                ..Default::default()
            })
        })?;
        let is_read = !self.dynamic.has(D::VIEWPORT_SHADING_RATE_PALETTE_NV);
        let one = self.arena.repeat(vk::ShadingRatePaletteEntryNV::default(), 1)?;
        let palette = vk::ShadingRatePaletteNV {
            shading_rate_palette_entry_count: one.count,
            p_shading_rate_palette_entries: one.pointer,
            ..Default::default()
        };
        let palettes = self.whole(palettes, is_read, count, palette)?;
        self.push(vk::PipelineViewportShadingRateImageStateCreateInfoNV {
            shading_rate_image_enable: enable,
            viewport_count: count,
            p_shading_rate_palettes: palettes.pointer,
            ..Default::default()
        })
    }

    fn coarse_sample_orders(&mut self) -> Built {
        let order = self.words.word()?;
        let orders =
            self.words.nested(self.arena, |words, arena| {
                let [rate, samples] = words.words()?;
                let locations = words.list(arena, |[pixel_x, pixel_y, sample]| {
                    vk::CoarseSampleLocationNV { pixel_x, pixel_y, sample }
                })?;
                Ok(vk::CoarseSampleOrderCustomNV {
                    shading_rate: vk::ShadingRatePaletteEntryNV::from_raw(rate as i32),
                    sample_count: samples,
                    sample_location_count: locations.count,
                    p_sample_locations: locations.pointer,
                    ..Default::default()
                })
            })?;
        self.push(vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV {
            sample_order_type: vk::CoarseSampleOrderTypeNV::from_raw(order as i32),
            custom_sample_order_count: orders.count,
            p_custom_sample_orders: orders.pointer,
            ..Default::default()
        })
    }

    fn depth_clamp_control(&mut self) -> Built {
        let mode = self.words.word()? as i32;
        let range = self.words.list(self.arena, |range: [u32; 2]| range.map(f32::from_bits))?;
        let is_read = mode == newer::USER_DEFINED_RANGE && !self.dynamic.has(newer::DEPTH_CLAMP_RANGE);
        self.words.ensure(range.count == u32::from(is_read))?;
        self.push(newer::PipelineViewportDepthClampControlCreateInfoEXT {
            s_type: newer::DEPTH_CLAMP_CONTROL,
            p_next: std::ptr::null(),
            depth_clamp_mode: mode,
            p_depth_clamp_range: range.pointer,
        })
    }

    /// A structure that is chained to VkPipelineMultisampleStateCreateInfo.
    pub fn multisample(mut self) -> Built {
        match self.s_type {
            S::PIPELINE_SAMPLE_LOCATIONS_STATE_CREATE_INFO_EXT => self.sample_locations()?,
            S::PIPELINE_COVERAGE_MODULATION_STATE_CREATE_INFO_NV => self.coverage_modulation()?,
            _ => return Err(self.words.damaged()),
        }
        self.words.end()
    }

    fn sample_locations(&mut self) -> Built {
        let enable = self.words.word()?;
        let mut info = vk::PipelineSampleLocationsStateCreateInfoEXT {
            sample_locations_enable: enable,
            ..Default::default()
        };
        let counts = enable != 0 || self.dynamic.has(D::SAMPLE_LOCATIONS_ENABLE_EXT);
        if counts && !self.dynamic.has(D::SAMPLE_LOCATIONS_EXT) {
            let [samples, width, height] = self.words.words()?;
            let locations = self.words.list(self.arena, |location: [u32; 2]| {
                let [x, y] = location.map(f32::from_bits);
                vk::SampleLocationEXT { x, y }
            })?;
            within(locations.count, self.limits.sample_locations, "sample locations")?;
            info.sample_locations_info = vk::SampleLocationsInfoEXT {
                sample_locations_per_pixel: vk::SampleCountFlags::from_raw(samples),
                sample_location_grid_size: vk::Extent2D { width, height },
                sample_locations_count: locations.count,
                p_sample_locations: locations.pointer,
                ..Default::default()
            };
        }
        self.push(info)
    }

    fn coverage_modulation(&mut self) -> Built {
        let [flags, mode, enable] = self.words.words()?;
        let table = self.words.list(self.arena, |[factor]| f32::from_bits(factor))?;
        self.push(vk::PipelineCoverageModulationStateCreateInfoNV {
            flags: vk::PipelineCoverageModulationStateCreateFlagsNV::from_raw(flags),
            coverage_modulation_mode: vk::CoverageModulationModeNV::from_raw(mode as i32),
            coverage_modulation_table_enable: enable,
            coverage_modulation_table_count: table.count,
            p_coverage_modulation_table: table.pointer,
            ..Default::default()
        })
    }

    /// A structure that is chained to VkPipelineColorBlendStateCreateInfo.
    pub fn color_blend(mut self) -> Built {
        self.words.ensure(self.s_type == S::PIPELINE_COLOR_WRITE_CREATE_INFO_EXT)?;
        let count = self.words.word()?;
        within(count, self.limits.color_attachments, "colour attachments")?;
        let enables = self.words.list(self.arena, |[enable]| enable)?;
        let is_read = !self.dynamic.has(D::COLOR_WRITE_ENABLE_EXT);
        let enables = self.whole(enables, is_read, count, vk::TRUE)?;
        let info = vk::PipelineColorWriteCreateInfoEXT {
            attachment_count: count,
            p_color_write_enables: enables.pointer,
            ..Default::default()
        };
        self.push(info)?;
        self.words.end()
    }

    /// A structure that is chained to VkGraphicsPipelineCreateInfo itself.
    pub fn pipeline(mut self) -> Built {
        match self.s_type {
            S::PIPELINE_DISCARD_RECTANGLE_STATE_CREATE_INFO_EXT => self.discard_rectangles()?,
            S::RENDERING_ATTACHMENT_LOCATION_INFO_KHR => self.attachment_locations()?,
            S::RENDERING_INPUT_ATTACHMENT_INDEX_INFO_KHR => self.input_attachment_indices()?,
            S::ATTACHMENT_SAMPLE_COUNT_INFO_AMD => self.attachment_samples()?,
            newer::CUSTOM_RESOLVE => self.custom_resolve()?,
            _ => return Err(self.words.damaged()),
        }
        self.words.end()
    }

    fn discard_rectangles(&mut self) -> Built {
        let [flags, mode, count] = self.words.words()?;
        within(count, self.limits.discard_rectangles, "discard rectangles")?;
        let rectangles = self.words.list(self.arena, rectangle)?;
        let is_read = !self.dynamic.has(D::DISCARD_RECTANGLE_EXT);
        let rectangles = self.whole(rectangles, is_read, count, Default::default())?;
        self.push(vk::PipelineDiscardRectangleStateCreateInfoEXT {
            flags: vk::PipelineDiscardRectangleStateCreateFlagsEXT::from_raw(flags),
            discard_rectangle_mode: vk::DiscardRectangleModeEXT::from_raw(mode as i32),
            discard_rectangle_count: count,
            p_discard_rectangles: rectangles.pointer,
            ..Default::default()
        })
    }

    fn attachment_locations(&mut self) -> Built {
        let count = self.words.word()?;
        within(count, self.limits.color_attachments, "colour attachments")?;
        let locations = self.words.list(self.arena, |[location]| location)?;
        self.words.ensure(locations.count == 0 || locations.count == count)?;
        self.push(vk::RenderingAttachmentLocationInfoKHR {
            color_attachment_count: count,
            p_color_attachment_locations: locations.pointer,
            ..Default::default()
        })
    }

    fn input_attachment_indices(&mut self) -> Built {
        let count = self.words.word()?;
        within(count, self.limits.color_attachments, "colour attachments")?;
        let [colors, depth, stencil] =
            [(); 3].map(|()| self.words.list(self.arena, |[index]| index)).map(Result::ok);
        let (Some(colors), Some(depth), Some(stencil)) = (colors, depth, stencil) else {
            return Err(self.words.damaged());
        };
        self.words.ensure(colors.count == 0 || colors.count == count)?;
        self.words.ensure(depth.count <= 1 && stencil.count <= 1)?;
        self.push(vk::RenderingInputAttachmentIndexInfoKHR {
            color_attachment_count: count,
            p_color_attachment_input_indices: colors.pointer,
            p_depth_input_attachment_index: depth.pointer,
            p_stencil_input_attachment_index: stencil.pointer,
            ..Default::default()
        })
    }

    fn attachment_samples(&mut self) -> Built {
        let samples = self.words.list(self.arena, |[samples]| vk::SampleCountFlags::from_raw(samples))?;
        within(samples.count, self.limits.color_attachments, "colour attachments")?;
        let depth_stencil = self.words.word()?;
        self.push(vk::AttachmentSampleCountInfoAMD {
            color_attachment_count: samples.count,
            p_color_attachment_samples: samples.pointer,
            depth_stencil_attachment_samples: vk::SampleCountFlags::from_raw(depth_stencil),
            ..Default::default()
        })
    }

    fn custom_resolve(&mut self) -> Built {
        let mut info = newer::CustomResolveCreateInfoEXT {
            s_type: newer::CUSTOM_RESOLVE,
            p_next: std::ptr::null(),
            custom_resolve: self.words.word()?,
            color_attachment_count: 0,
            p_color_attachment_formats: std::ptr::null(),
            depth_attachment_format: vk::Format::UNDEFINED,
            stencil_attachment_format: vk::Format::UNDEFINED,
        };
        // A fragment shader by itself ignores the formats (contract 6).
        if self.words.are_left() {
            let formats = self.words.list(self.arena, |[format]| vk::Format::from_raw(format as i32))?;
            within(formats.count, self.limits.color_attachments, "colour attachments")?;
            info.color_attachment_count = formats.count;
            info.p_color_attachment_formats = formats.pointer;
            let [depth, stencil] = self.words.words::<2>()?.map(|format| vk::Format::from_raw(format as i32));
            (info.depth_attachment_format, info.stencil_attachment_format) = (depth, stencil);
        }
        self.push(info)
    }
}
