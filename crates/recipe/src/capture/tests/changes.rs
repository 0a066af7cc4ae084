//! Every part of a graphics pipeline: how to change it, and when the change matters (contract 6, said once more).

use ash::vk::{self, DynamicState as D, GraphicsPipelineLibraryFlagsEXT as Subset};

use super::full::Full;
use super::helpers::handle;

/// What of a pipeline there is to read.
impl Full {
    fn provides(&self, subset: Subset) -> bool {
        let library = self.info.flags.contains(vk::PipelineCreateFlags::LIBRARY_KHR);
        match self.subsets {
            Some(subsets) => subsets.contains(subset),
            None => self.libraries.is_empty() && !library,
        }
    }

    pub fn pre_rasterization(&self) -> bool {
        self.provides(Subset::PRE_RASTERIZATION_SHADERS)
    }

    pub fn fragment_shader(&self) -> bool {
        self.provides(Subset::FRAGMENT_SHADER)
    }

    pub fn fragment_output(&self) -> bool {
        self.provides(Subset::FRAGMENT_OUTPUT_INTERFACE)
    }

    fn shaders(&self) -> bool {
        self.pre_rasterization() || self.fragment_shader()
    }

    fn has_stage(&self, stages: vk::ShaderStageFlags) -> bool {
        self.shaders() && self.stages.iter().any(|info| info.stage.intersects(stages))
    }

    pub fn tessellates(&self) -> bool {
        self.has_stage(vk::ShaderStageFlags::TESSELLATION_CONTROL)
    }

    fn is_dynamic(&self, state: D) -> bool {
        self.dynamic.contains(&state)
    }

    fn vertices(&self) -> bool {
        self.provides(Subset::VERTEX_INPUT_INTERFACE) && !self.has_stage(vk::ShaderStageFlags::MESH_EXT)
    }

    fn attributes_count(&self) -> bool {
        self.vertices() && !self.is_dynamic(D::VERTEX_INPUT_EXT)
    }

    fn shown(&self) -> bool {
        let own = self.pre_rasterization()
            && self.rasterization.rasterizer_discard_enable != 0
            && !self.is_dynamic(D::RASTERIZER_DISCARD_ENABLE);
        let linked = self.libraries.iter().any(|library| {
            self.known.libraries.iter().any(|(known, traits)| known == library && traits.discards)
        });
        !own && !linked
    }

    fn views(&self) -> bool {
        self.info.render_pass != vk::RenderPass::null() && (self.shaders() || self.fragment_output())
    }

    fn formats(&self) -> bool {
        self.rendering.is_some()
            && self.info.render_pass == vk::RenderPass::null()
            && self.fragment_output()
            && self.shown()
    }

    fn viewports_count(&self) -> bool {
        self.pre_rasterization() && self.shown()
    }

    fn samples(&self) -> bool {
        (self.fragment_shader() || self.fragment_output()) && self.shown()
    }

    fn depth(&self) -> bool {
        let used = match &self.rendering {
            _ if self.info.render_pass != vk::RenderPass::null() => self.known.subpass.depth_stencil,
            Some(rendering) if self.formats() => {
                rendering.depth != vk::Format::UNDEFINED || rendering.stencil != vk::Format::UNDEFINED
            }
            _ => !self.fragment_output(),
        };
        self.fragment_shader() && self.shown() && used
    }

    fn colors(&self) -> bool {
        let used = match &self.rendering {
            _ if self.info.render_pass != vk::RenderPass::null() => self.known.subpass.color,
            Some(rendering) => rendering.colors.iter().any(|&format| format != vk::Format::UNDEFINED),
            None => false,
        };
        self.fragment_output() && self.shown() && used
    }

    fn equations_count(&self) -> bool {
        let set = self.is_dynamic(D::COLOR_BLEND_EQUATION_EXT);
        let advanced = self.known.advanced_blend && !self.is_dynamic(D::COLOR_BLEND_ADVANCED_EXT);
        self.colors() && !self.blends.is_empty() && (!set || advanced)
    }
}

/// A change of one member of a create info.
pub struct Change {
    pub name: &'static str,
    /// Another value, whatever it was.
    pub make: fn(&mut Full),
    /// Whether the change makes another pipeline of this one.
    pub matters: fn(&Full) -> bool,
}

fn flip(number: &mut f32) {
    *number = f32::from_bits(number.to_bits() ^ 1);
}

macro_rules! changes {
    ($($name:literal: |$full:ident| $make:expr, if $matters:expr;)*) => {
        &[$(Change { name: $name, make: |$full| { $make; }, matters: |$full| { let _ = $full; $matters } },)*]
    };
}

/// Changes an enumeration's or a set of flags' value.
macro_rules! toggle {
    ($place:expr, $type:ident) => {
        $place = vk::$type::from_raw($place.as_raw() ^ 1)
    };
}

/// Changes the first element, if there is one.
macro_rules! first {
    ($list:expr, |$element:ident| $change:expr) => {
        if let Some($element) = $list.first_mut() {
            $change;
        }
    };
}

/// The changes.
pub const CHANGES: &[Change] = changes! {
    "flags": |f| match &mut f.flags2 {
        Some(flags) => *flags ^= 1,
        None => toggle!(f.info.flags, PipelineCreateFlags),
    }, if true;
    "flags that flags2 replaces": |f| toggle!(f.info.flags, PipelineCreateFlags), if f.flags2.is_none();
    "fail on compile required": |f| f.info.flags ^= vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED,
        if false;
    "early return": |f| f.info.flags ^= vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE, if false;
    "subset": |f| f.subsets = Some(f.subsets.map_or(Subset::VERTEX_INPUT_INTERFACE, |s|
        s ^ Subset::VERTEX_INPUT_INTERFACE)), if true;
    "library": |f| f.libraries.push(handle(99)), if true;
    "base pipeline": |f| f.info.base_pipeline_index ^= 1, if false;
    "base pipeline's handle": |f| f.info.base_pipeline_handle = handle(77), if false;
    "order of the chain": |f| f.backwards = !f.backwards, if false;
    "layout": |f| f.info.layout = handle(50), if f.shaders() || !f.libraries.is_empty();
    "render pass": |f| f.info.render_pass = handle(60), if f.shaders() || f.fragment_output();
    "subpass": |f| f.info.subpass ^= 1, if f.views();
    "view mask": |f| if let Some(r) = &mut f.rendering { r.view_mask ^= 1 },
        if f.rendering.is_some() && !f.views() && (f.shaders() || f.fragment_output());
    "color format": |f| if let Some(r) = &mut f.rendering { first!(r.colors, |c| toggle!(*c, Format)) },
        if f.formats() && f.rendering.as_ref().is_some_and(|r| !r.colors.is_empty());
    "color format count": |f| if let Some(r) = &mut f.rendering { r.colors.push(vk::Format::UNDEFINED) },
        if f.formats();
    "depth format": |f| if let Some(r) = &mut f.rendering { toggle!(r.depth, Format) }, if f.formats();
    "stencil format": |f| if let Some(r) = &mut f.rendering { toggle!(r.stencil, Format) }, if f.formats();
    "dynamic state": |f| f.dynamic.push(D::COVERAGE_TO_COLOR_LOCATION_NV),
        if !f.is_dynamic(D::COVERAGE_TO_COLOR_LOCATION_NV);
    "dynamic states' order": |f| f.dynamic.reverse(), if false;
    "dynamic state twice": |f| f.dynamic.extend_from_within(..), if false;
    "base of libraries' order": |f| f.libraries.reverse(), if false;

    "stage flags": |f| first!(f.stages, |s| toggle!(s.flags, PipelineShaderStageCreateFlags)), if f.shaders();
    "stage module": |f| first!(f.stages, |s| s.module = handle(70)), if f.shaders();
    "stage name": |f| first!(f.stages, |s| s.p_name = c"other".as_ptr()), if f.shaders();

    "vertex input flags": |f| toggle!(f.vertex_input.flags, PipelineVertexInputStateCreateFlags),
        if f.attributes_count();
    "binding": |f| first!(f.bindings, |b| b.binding ^= 64), if f.attributes_count() && !f.bindings.is_empty();
    "binding stride": |f| first!(f.bindings, |b| b.stride ^= 1), if f.attributes_count()
        && !f.bindings.is_empty() && !f.is_dynamic(D::VERTEX_INPUT_BINDING_STRIDE);
    "binding rate": |f| first!(f.bindings, |b| toggle!(b.input_rate, VertexInputRate)),
        if f.attributes_count() && !f.bindings.is_empty();
    "binding count": |f| f.bindings.push(vk::VertexInputBindingDescription { binding: 99, ..Default::default() }),
        if f.attributes_count();
    "order of bindings": |f| f.bindings.reverse(), if false;
    "attribute location": |f| first!(f.attributes, |a| a.location ^= 64),
        if f.attributes_count() && !f.attributes.is_empty();
    "attribute binding": |f| first!(f.attributes, |a| a.binding ^= 64),
        if f.attributes_count() && !f.attributes.is_empty();
    "attribute format": |f| first!(f.attributes, |a| toggle!(a.format, Format)),
        if f.attributes_count() && !f.attributes.is_empty();
    "attribute offset": |f| first!(f.attributes, |a| a.offset ^= 1),
        if f.attributes_count() && !f.attributes.is_empty();
    "order of attributes": |f| f.attributes.reverse(), if false;
    "divisor": |f| first!(f.divisors, |d| d.divisor ^= 1), if f.attributes_count() && !f.divisors.is_empty();
    "divisor binding": |f| first!(f.divisors, |d| d.binding ^= 64),
        if f.attributes_count() && !f.divisors.is_empty();
    "order of divisors": |f| f.divisors.reverse(), if false;

    "input assembly flags": |f| toggle!(f.input_assembly.flags, PipelineInputAssemblyStateCreateFlags),
        if f.vertices();
    "topology": |f| toggle!(f.input_assembly.topology, PrimitiveTopology), if f.vertices();
    "restart": |f| f.input_assembly.primitive_restart_enable ^= 1,
        if f.vertices() && !f.is_dynamic(D::PRIMITIVE_RESTART_ENABLE);
    "tessellation flags": |f| toggle!(f.tessellation.flags, PipelineTessellationStateCreateFlags),
        if f.tessellates();
    "patch control points": |f| f.tessellation.patch_control_points ^= 1,
        if f.tessellates() && !f.is_dynamic(D::PATCH_CONTROL_POINTS_EXT);

    "viewport flags": |f| toggle!(f.viewport.flags, PipelineViewportStateCreateFlags), if f.viewports_count();
    "viewport x": |f| first!(f.viewports, |v| flip(&mut v.x)), if f.static_viewports();
    "viewport y": |f| first!(f.viewports, |v| flip(&mut v.y)), if f.static_viewports();
    "viewport width": |f| first!(f.viewports, |v| flip(&mut v.width)), if f.static_viewports();
    "viewport height": |f| first!(f.viewports, |v| flip(&mut v.height)), if f.static_viewports();
    "viewport near": |f| first!(f.viewports, |v| flip(&mut v.min_depth)), if f.static_viewports();
    "viewport far": |f| first!(f.viewports, |v| flip(&mut v.max_depth)), if f.static_viewports();
    "viewport count": |f| f.viewports.push(vk::Viewport::default()),
        if f.viewports_count() && !f.is_dynamic(D::VIEWPORT_WITH_COUNT);
    "scissor x": |f| first!(f.scissors, |s| s.offset.x ^= 1), if f.static_scissors();
    "scissor y": |f| first!(f.scissors, |s| s.offset.y ^= 1), if f.static_scissors();
    "scissor width": |f| first!(f.scissors, |s| s.extent.width ^= 1), if f.static_scissors();
    "scissor height": |f| first!(f.scissors, |s| s.extent.height ^= 1), if f.static_scissors();
    "scissor count": |f| f.scissors.push(vk::Rect2D::default()),
        if f.viewports_count() && !f.is_dynamic(D::SCISSOR_WITH_COUNT);

    "rasterization flags": |f| toggle!(f.rasterization.flags, PipelineRasterizationStateCreateFlags),
        if f.pre_rasterization();
    "depth clamp": |f| f.rasterization.depth_clamp_enable ^= 1,
        if f.pre_rasterization() && !f.is_dynamic(D::DEPTH_CLAMP_ENABLE_EXT);
    "discard": |f| f.rasterization.rasterizer_discard_enable ^= 1,
        if f.pre_rasterization() && !f.is_dynamic(D::RASTERIZER_DISCARD_ENABLE);
    "polygon mode": |f| toggle!(f.rasterization.polygon_mode, PolygonMode),
        if f.pre_rasterization() && !f.is_dynamic(D::POLYGON_MODE_EXT);
    "cull mode": |f| toggle!(f.rasterization.cull_mode, CullModeFlags),
        if f.pre_rasterization() && !f.is_dynamic(D::CULL_MODE);
    "front face": |f| toggle!(f.rasterization.front_face, FrontFace),
        if f.pre_rasterization() && !f.is_dynamic(D::FRONT_FACE);
    "bias enable": |f| f.rasterization.depth_bias_enable ^= 1,
        if f.pre_rasterization() && !f.is_dynamic(D::DEPTH_BIAS_ENABLE);
    "bias factor": |f| flip(&mut f.rasterization.depth_bias_constant_factor),
        if f.pre_rasterization() && !f.is_dynamic(D::DEPTH_BIAS);
    "bias clamp": |f| flip(&mut f.rasterization.depth_bias_clamp),
        if f.pre_rasterization() && !f.is_dynamic(D::DEPTH_BIAS);
    "bias slope": |f| flip(&mut f.rasterization.depth_bias_slope_factor),
        if f.pre_rasterization() && !f.is_dynamic(D::DEPTH_BIAS);
    "line width": |f| flip(&mut f.rasterization.line_width),
        if f.pre_rasterization() && !f.is_dynamic(D::LINE_WIDTH);

    "multisample flags": |f| toggle!(f.multisample.flags, PipelineMultisampleStateCreateFlags), if f.samples();
    "samples": |f| f.multisample.rasterization_samples = vk::SampleCountFlags::from_raw(
        f.multisample.rasterization_samples.as_raw() % 8 + 1),
        if f.samples() && !f.is_dynamic(D::RASTERIZATION_SAMPLES_EXT);
    "sample shading": |f| f.multisample.sample_shading_enable ^= 1, if f.samples();
    "least sample shading": |f| flip(&mut f.multisample.min_sample_shading), if f.samples();
    "sample mask": |f| first!(f.mask, |m| *m ^= 1),
        if f.samples() && !f.mask.is_empty() && !f.is_dynamic(D::SAMPLE_MASK_EXT);
    "alpha to coverage": |f| f.multisample.alpha_to_coverage_enable ^= 1,
        if f.samples() && !f.is_dynamic(D::ALPHA_TO_COVERAGE_ENABLE_EXT);
    "alpha to one": |f| f.multisample.alpha_to_one_enable ^= 1,
        if f.samples() && !f.is_dynamic(D::ALPHA_TO_ONE_ENABLE_EXT);

    "depth flags": |f| toggle!(f.depth_stencil.flags, PipelineDepthStencilStateCreateFlags), if f.depth();
    "depth test": |f| f.depth_stencil.depth_test_enable ^= 1,
        if f.depth() && !f.is_dynamic(D::DEPTH_TEST_ENABLE);
    "depth write": |f| f.depth_stencil.depth_write_enable ^= 1,
        if f.depth() && !f.is_dynamic(D::DEPTH_WRITE_ENABLE);
    "depth compare": |f| toggle!(f.depth_stencil.depth_compare_op, CompareOp),
        if f.depth() && !f.is_dynamic(D::DEPTH_COMPARE_OP);
    "depth bounds test": |f| f.depth_stencil.depth_bounds_test_enable ^= 1,
        if f.depth() && !f.is_dynamic(D::DEPTH_BOUNDS_TEST_ENABLE);
    "stencil test": |f| f.depth_stencil.stencil_test_enable ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_TEST_ENABLE);
    "front fail": |f| toggle!(f.depth_stencil.front.fail_op, StencilOp), if f.stencil_op();
    "front pass": |f| toggle!(f.depth_stencil.front.pass_op, StencilOp), if f.stencil_op();
    "front depth fail": |f| toggle!(f.depth_stencil.front.depth_fail_op, StencilOp), if f.stencil_op();
    "front compare": |f| toggle!(f.depth_stencil.front.compare_op, CompareOp), if f.stencil_op();
    "front compare mask": |f| f.depth_stencil.front.compare_mask ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_COMPARE_MASK);
    "front write mask": |f| f.depth_stencil.front.write_mask ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_WRITE_MASK);
    "front reference": |f| f.depth_stencil.front.reference ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_REFERENCE);
    "back fail": |f| toggle!(f.depth_stencil.back.fail_op, StencilOp), if f.stencil_op();
    "back pass": |f| toggle!(f.depth_stencil.back.pass_op, StencilOp), if f.stencil_op();
    "back depth fail": |f| toggle!(f.depth_stencil.back.depth_fail_op, StencilOp), if f.stencil_op();
    "back compare": |f| toggle!(f.depth_stencil.back.compare_op, CompareOp), if f.stencil_op();
    "back compare mask": |f| f.depth_stencil.back.compare_mask ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_COMPARE_MASK);
    "back write mask": |f| f.depth_stencil.back.write_mask ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_WRITE_MASK);
    "back reference": |f| f.depth_stencil.back.reference ^= 1,
        if f.depth() && !f.is_dynamic(D::STENCIL_REFERENCE);
    "least depth": |f| flip(&mut f.depth_stencil.min_depth_bounds),
        if f.depth() && !f.is_dynamic(D::DEPTH_BOUNDS);
    "most depth": |f| flip(&mut f.depth_stencil.max_depth_bounds),
        if f.depth() && !f.is_dynamic(D::DEPTH_BOUNDS);

    "blend flags": |f| toggle!(f.blend.flags, PipelineColorBlendStateCreateFlags), if f.colors();
    "logic op enable": |f| f.blend.logic_op_enable ^= 1, if f.colors() && !f.is_dynamic(D::LOGIC_OP_ENABLE_EXT);
    "logic op": |f| toggle!(f.blend.logic_op, LogicOp), if f.colors() && !f.is_dynamic(D::LOGIC_OP_EXT);
    // Where all of it is dynamic the count is ignored, but drivers look at it all the same.
    "blend count": |f| f.blends.push(Default::default()), if f.colors();
    "blend enable": |f| first!(f.blends, |b| b.blend_enable ^= 1),
        if f.colors() && !f.blends.is_empty() && !f.is_dynamic(D::COLOR_BLEND_ENABLE_EXT);
    "source factor": |f| first!(f.blends, |b| toggle!(b.src_color_blend_factor, BlendFactor)),
        if f.equations_count();
    "target factor": |f| first!(f.blends, |b| toggle!(b.dst_color_blend_factor, BlendFactor)),
        if f.equations_count();
    "blend op": |f| first!(f.blends, |b| toggle!(b.color_blend_op, BlendOp)), if f.equations_count();
    "source alpha": |f| first!(f.blends, |b| toggle!(b.src_alpha_blend_factor, BlendFactor)),
        if f.equations_count();
    "target alpha": |f| first!(f.blends, |b| toggle!(b.dst_alpha_blend_factor, BlendFactor)),
        if f.equations_count();
    "alpha op": |f| first!(f.blends, |b| toggle!(b.alpha_blend_op, BlendOp)), if f.equations_count();
    "write mask": |f| first!(f.blends, |b| toggle!(b.color_write_mask, ColorComponentFlags)),
        if f.colors() && !f.blends.is_empty() && !f.is_dynamic(D::COLOR_WRITE_MASK_EXT);
    "red": |f| flip(&mut f.blend.blend_constants[0]), if f.blend_constants();
    "green": |f| flip(&mut f.blend.blend_constants[1]), if f.blend_constants();
    "blue": |f| flip(&mut f.blend.blend_constants[2]), if f.blend_constants();
    "alpha": |f| flip(&mut f.blend.blend_constants[3]), if f.blend_constants();
};

impl Full {
    fn static_viewports(&self) -> bool {
        let set = self.is_dynamic(D::VIEWPORT) || self.is_dynamic(D::VIEWPORT_WITH_COUNT);
        self.viewports_count() && !self.viewports.is_empty() && !set
    }

    fn static_scissors(&self) -> bool {
        let set = self.is_dynamic(D::SCISSOR) || self.is_dynamic(D::SCISSOR_WITH_COUNT);
        self.viewports_count() && !self.scissors.is_empty() && !set
    }

    fn stencil_op(&self) -> bool {
        self.depth() && !self.is_dynamic(D::STENCIL_OP)
    }

    fn blend_constants(&self) -> bool {
        self.colors() && !self.is_dynamic(D::BLEND_CONSTANTS)
    }
}

/// Makes each change to a pipeline and looks whether it came out as it should; how many mattered.
pub fn assert_changes(full: &Full) -> usize {
    let before = full.bytes();
    let mut mattered = 0;
    for change in CHANGES {
        let mut changed = full.clone();
        (change.make)(&mut changed);
        let after =
            changed.bytes_after(|_| {}).unwrap_or_else(|refusal| panic!("{}: {refusal:?}", change.name));
        let matters = (change.matters)(full);
        assert_eq!(before != after, matters, "{}, matters: {matters}, of {full:?}", change.name);
        mattered += usize::from(matters);
    }
    mattered
}
