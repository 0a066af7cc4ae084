//! What the key separates and joins, and which pointers stay unread.

use std::ffi::c_void;
use std::ptr;

use ash::vk;

use super::compute::compute;
use super::graphics::graphics;
use super::stage::Steering;
use super::*;
use crate::recipe::chain::Refusal;
use crate::recipe::key;
use crate::recipe::model::Recipe;
use crate::stats::BypassReason;

/// A pointer that kills whoever reads it.
fn wild<T>() -> *const T {
    0xdead_0000_0001_usize as *const T
}

/// Objects that are named by their handles.
struct Known {
    subpass: SubpassUse,
    pair: Option<Key>,
    libraries: Vec<(vk::Pipeline, LibraryTraits)>,
    advanced_blend: bool,
}

const BOTH: SubpassUse = SubpassUse { color: true, depth_stencil: true };

impl Default for Known {
    fn default() -> Self {
        Known { subpass: BOTH, pair: None, libraries: Vec::new(), advanced_blend: false }
    }
}

fn named(handle: impl vk::Handle + Copy) -> Result<Key, Refusal> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&handle.as_raw().to_le_bytes());
    if handle.as_raw() == 0 { Err(Refusal::plain(BypassReason::UnknownObject)) } else { Ok(key) }
}

impl Objects for Known {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        named(module)
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        crate::identifier::module_identity(flags, code)
    }

    fn identified(&self, _: &NativeIdentifier) -> Option<Key> {
        self.pair
    }

    fn algorithm(&self) -> [u8; 16] {
        [9; 16]
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        named(layout)
    }

    fn render_pass(&self, pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        let mut key = named(pass)?;
        key[31] = subpass as u8;
        Ok((key, self.subpass))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        let traits = self.libraries.iter().find(|(known, _)| *known == library).map(|(_, traits)| *traits);
        Ok(Library { key: named(library)?, traits: traits.unwrap_or_default() })
    }

    fn advanced_blend(&self) -> bool {
        self.advanced_blend
    }
}

fn handle<H: vk::Handle>(raw: u64) -> H {
    H::from_raw(raw)
}

fn shader<'a>(stage: vk::ShaderStageFlags, module: u64) -> vk::PipelineShaderStageCreateInfo<'a> {
    vk::PipelineShaderStageCreateInfo::default().stage(stage).module(handle(module)).name(c"main")
}

fn compute_info<'a>() -> vk::ComputePipelineCreateInfo<'a> {
    vk::ComputePipelineCreateInfo::default().stage(shader(vk::ShaderStageFlags::COMPUTE, 1)).layout(handle(2))
}

fn encoded(recipe: &Recipe<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::encode(recipe, &mut bytes).unwrap();
    bytes
}

fn of_compute(info: &vk::ComputePipelineCreateInfo<'_>) -> Result<(Vec<u8>, Steering), Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: the tests pass create infos that are valid where the contract lets them be read.
    unsafe { compute(info, &Known::default(), &mut scratch) }
        .map(|(recipe, steering)| (encoded(&recipe), steering))
}

fn of_graphics(info: &vk::GraphicsPipelineCreateInfo<'_>, known: &Known) -> Result<Vec<u8>, Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: as above.
    unsafe { graphics(info, known, &mut scratch) }.map(|(recipe, _)| encoded(&recipe))
}

/// A pipeline with every piece of state, whose parts a test may change.
struct Full {
    stages: Vec<vk::PipelineShaderStageCreateInfo<'static>>,
    bindings: Vec<vk::VertexInputBindingDescription>,
    attributes: Vec<vk::VertexInputAttributeDescription>,
    vertex_input: vk::PipelineVertexInputStateCreateInfo<'static>,
    input_assembly: vk::PipelineInputAssemblyStateCreateInfo<'static>,
    tessellation: *const vk::PipelineTessellationStateCreateInfo<'static>,
    viewports: Vec<vk::Viewport>,
    scissors: Vec<vk::Rect2D>,
    viewport: vk::PipelineViewportStateCreateInfo<'static>,
    rasterization: vk::PipelineRasterizationStateCreateInfo<'static>,
    mask: Vec<u32>,
    multisample: vk::PipelineMultisampleStateCreateInfo<'static>,
    depth_stencil: vk::PipelineDepthStencilStateCreateInfo<'static>,
    blends: Vec<vk::PipelineColorBlendAttachmentState>,
    blend: vk::PipelineColorBlendStateCreateInfo<'static>,
    dynamic: Vec<vk::DynamicState>,
    info: vk::GraphicsPipelineCreateInfo<'static>,
    known: Known,
}

impl Default for Full {
    fn default() -> Self {
        Full {
            stages: vec![shader(vk::ShaderStageFlags::VERTEX, 1), shader(vk::ShaderStageFlags::FRAGMENT, 2)],
            bindings: vec![vk::VertexInputBindingDescription { stride: 16, ..Default::default() }],
            attributes: vec![
                vk::VertexInputAttributeDescription { location: 0, ..Default::default() },
                vk::VertexInputAttributeDescription { location: 1, offset: 8, ..Default::default() },
            ],
            vertex_input: Default::default(),
            input_assembly: Default::default(),
            tessellation: ptr::null(),
            viewports: vec![vk::Viewport { width: 1.0, ..Default::default() }],
            scissors: vec![vk::Rect2D::default()],
            viewport: Default::default(),
            rasterization: vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0),
            mask: vec![!0],
            multisample: vk::PipelineMultisampleStateCreateInfo::default()
                .rasterization_samples(vk::SampleCountFlags::TYPE_4),
            depth_stencil: Default::default(),
            blends: vec![Default::default()],
            blend: Default::default(),
            dynamic: Vec::new(),
            info: vk::GraphicsPipelineCreateInfo::default().layout(handle(5)).render_pass(handle(6)),
            known: Known::default(),
        }
    }
}

impl Full {
    /// Points everything at everything and captures; `change` sees the create info last.
    fn encoded_after(
        &mut self,
        change: impl FnOnce(&mut vk::GraphicsPipelineCreateInfo<'static>),
    ) -> Result<Vec<u8>, Refusal> {
        self.vertex_input.vertex_binding_description_count = self.bindings.len() as u32;
        self.vertex_input.p_vertex_binding_descriptions = self.bindings.as_ptr();
        self.vertex_input.vertex_attribute_description_count = self.attributes.len() as u32;
        self.vertex_input.p_vertex_attribute_descriptions = self.attributes.as_ptr();
        if self.viewport.p_viewports.is_null() {
            self.viewport.viewport_count = self.viewports.len() as u32;
            self.viewport.p_viewports = self.viewports.as_ptr();
        }
        if self.viewport.p_scissors.is_null() {
            self.viewport.scissor_count = self.scissors.len() as u32;
            self.viewport.p_scissors = self.scissors.as_ptr();
        }
        if self.multisample.p_sample_mask.is_null() {
            self.multisample.p_sample_mask = self.mask.as_ptr();
        }
        if self.blend.p_attachments.is_null() {
            self.blend.attachment_count = self.blends.len() as u32;
            self.blend.p_attachments = self.blends.as_ptr();
        }
        let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&self.dynamic);
        let mut info = self.info;
        info.stage_count = self.stages.len() as u32;
        info.p_stages = self.stages.as_ptr();
        info.p_vertex_input_state = &self.vertex_input;
        info.p_input_assembly_state = &self.input_assembly;
        info.p_tessellation_state = self.tessellation;
        info.p_viewport_state = &self.viewport;
        info.p_rasterization_state = &self.rasterization;
        info.p_multisample_state = &self.multisample;
        info.p_depth_stencil_state = &self.depth_stencil;
        info.p_color_blend_state = &self.blend;
        info.p_dynamic_state = (&raw const dynamic).cast();
        change(&mut info);
        of_graphics(&info, &self.known)
    }

    fn encoded(&mut self) -> Vec<u8> {
        self.encoded_after(|_| {}).unwrap()
    }
}

fn full_with(change: impl FnOnce(&mut Full)) -> Vec<u8> {
    let mut full = Full::default();
    change(&mut full);
    full.encoded()
}

#[test]
fn every_part_of_a_compute_pipeline_separates() {
    let base = of_compute(&compute_info()).unwrap().0;
    assert_eq!(base, of_compute(&compute_info()).unwrap().0);
    let mut others = vec![
        compute_info().layout(handle(3)),
        compute_info().flags(vk::PipelineCreateFlags::DISABLE_OPTIMIZATION),
        compute_info().stage(shader(vk::ShaderStageFlags::COMPUTE, 7)),
        compute_info().stage(shader(vk::ShaderStageFlags::COMPUTE, 1).name(c"other")),
        compute_info().stage(
            shader(vk::ShaderStageFlags::COMPUTE, 1)
                .flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS),
        ),
    ];
    let robust = vk::PipelineRobustnessCreateInfoEXT::default()
        .storage_buffers(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS_2);
    let mut with_robust = compute_info();
    with_robust.p_next = (&raw const robust).cast();
    others.push(with_robust);
    let size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo {
        required_subgroup_size: 64,
        ..Default::default()
    };
    let mut with_size = compute_info();
    with_size.stage.p_next = (&raw const size).cast();
    others.push(with_size);
    let mut seen = vec![base];
    for info in &others {
        let bytes = of_compute(info).unwrap().0;
        assert!(!seen.contains(&bytes));
        seen.push(bytes);
    }
}

#[test]
fn only_the_specialization_bytes_that_are_named_count_and_their_order_does_not() {
    let entry = |constant_id, offset| vk::SpecializationMapEntry { constant_id, offset, size: 4 };
    let of = |entries: &[vk::SpecializationMapEntry], data: &[u8]| {
        let info = vk::SpecializationInfo::default().map_entries(entries).data(data);
        let stage = shader(vk::ShaderStageFlags::COMPUTE, 1).specialization_info(&info);
        of_compute(&compute_info().stage(stage)).map(|(bytes, _)| bytes)
    };
    let base = of(&[entry(0, 0), entry(1, 4)], &[1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(base, of(&[entry(1, 4), entry(0, 0)], &[1, 0, 0, 0, 2, 0, 0, 0]));
    assert_eq!(base, of(&[entry(1, 0), entry(0, 4)], &[2, 0, 0, 0, 1, 0, 0, 0, 99]));
    assert_ne!(base, of(&[entry(0, 0), entry(1, 4)], &[1, 0, 0, 0, 3, 0, 0, 0]));
    assert_ne!(base, of(&[entry(0, 0), entry(2, 4)], &[1, 0, 0, 0, 2, 0, 0, 0]));
    assert!(of(&[entry(0, 8)], &[1, 0, 0, 0]).is_err());
}

#[test]
fn flags2_replaces_flags_and_steering_flags_do_not_separate() {
    let base = of_compute(&compute_info()).unwrap().0;
    let steering = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED
        | vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;
    let (bytes, steered) = of_compute(&compute_info().flags(steering)).unwrap();
    assert_eq!(bytes, base);
    assert!(steered.fail_on_compile_required && steered.early_return && !steered.flags2);

    let flags2 = vk::PipelineCreateFlags2CreateInfoKHR {
        flags: vk::PipelineCreateFlags2KHR::from_raw(steering.as_raw().into()),
        ..Default::default()
    };
    let mut info = compute_info().flags(vk::PipelineCreateFlags::DISABLE_OPTIMIZATION);
    info.p_next = (&raw const flags2).cast();
    let (bytes, steered) = of_compute(&info).unwrap();
    assert_eq!(bytes, base, "the old flags are ignored");
    assert!(steered.fail_on_compile_required && steered.flags2);
}

#[test]
fn what_may_not_be_cached_is_refused_with_its_reason() {
    let refused = |flags: u64| {
        let flags2 = vk::PipelineCreateFlags2CreateInfoKHR {
            flags: vk::PipelineCreateFlags2KHR::from_raw(flags),
            ..Default::default()
        };
        let mut info = compute_info();
        info.p_next = (&raw const flags2).cast();
        of_compute(&info).map(|_| ()).map_err(|refusal| refusal.reason)
    };
    assert_eq!(refused(1 << 31), Err(BypassReason::NotCacheable));
    assert_eq!(refused(1 << 60), Err(BypassReason::UnknownFlag));
    let mut info = compute_info();
    info.stage.module = vk::ShaderModule::null();
    assert_eq!(of_compute(&info).map(|_| ()).map_err(|r| r.reason), Err(BypassReason::UnknownObject));
    info = compute_info();
    info.s_type = vk::StructureType::APPLICATION_INFO;
    assert_eq!(of_compute(&info).map(|_| ()).map_err(|r| r.reason), Err(BypassReason::WrongStructure));
}

#[test]
fn an_identifier_is_a_name_where_it_is_known_and_stands_for_itself_where_not() {
    let identifier = [3_u8; 8];
    let structure = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(&identifier);
    let mut info = compute_info();
    info.stage.module = vk::ShaderModule::null();
    info.stage.p_next = (&raw const structure).cast();
    let of = |known: &Known| {
        let mut scratch = Scratch::default();
        // SAFETY: a valid create info.
        let captured = unsafe { compute(&info, known, &mut scratch) };
        captured.map(|(recipe, steering)| (encoded(&recipe), steering)).unwrap()
    };
    let (unknown, steering) = of(&Known::default());
    assert!(steering.identifier_only);
    let (known, _) =
        of(&Known { pair: Some(named(handle::<vk::ShaderModule>(1)).unwrap()), ..Known::default() });
    assert_ne!(unknown, known);
    assert_eq!(known, of_compute(&compute_info()).unwrap().0, "known by identifier or by module: one recipe");
}

#[test]
fn an_identifier_of_size_zero_beside_a_module_is_ignored_and_its_pointer_unread() {
    let mut structure =
        vk::PipelineShaderStageModuleIdentifierCreateInfoEXT { p_identifier: wild(), ..Default::default() };
    let mut info = compute_info();
    info.stage.p_next = (&raw const structure).cast();
    let (bytes, steering) = of_compute(&info).unwrap();
    assert_eq!(bytes, of_compute(&compute_info()).unwrap().0);
    assert!(!steering.identifier_only && steering.identifier_structure);
    // Too long: never read, and without a module there is no code.
    structure.identifier_size = 33;
    info.stage.module = vk::ShaderModule::null();
    info.stage.p_next = (&raw const structure).cast();
    assert!(of_compute(&info).is_err());
}

#[test]
fn inline_code_is_named_like_a_module_of_the_same_words() {
    let words = [vk::PipelineCreateFlags::empty().as_raw(), 7, 8];
    let module = vk::ShaderModuleCreateInfo::default().code(&words);
    let mut info = compute_info();
    info.stage.module = vk::ShaderModule::null();
    info.stage.p_next = (&raw const module).cast();
    let inline = of_compute(&info).unwrap().0;
    let other_words = [0, 7, 9];
    let other = vk::ShaderModuleCreateInfo::default().code(&other_words);
    info.stage.p_next = (&raw const other).cast();
    assert_ne!(inline, of_compute(&info).unwrap().0);
}

#[test]
fn every_part_of_a_graphics_pipeline_separates() {
    type Change = (&'static str, fn(&mut Full));
    let changes: &[Change] = &[
        ("stage module", |f| f.stages[1] = shader(vk::ShaderStageFlags::FRAGMENT, 9)),
        ("stage left out", |f| f.stages.truncate(1)),
        ("binding stride", |f| f.bindings[0].stride = 32),
        ("binding rate", |f| f.bindings[0].input_rate = vk::VertexInputRate::INSTANCE),
        ("attribute format", |f| f.attributes[0].format = vk::Format::R8_UNORM),
        ("attribute offset", |f| f.attributes[1].offset = 4),
        ("topology", |f| f.input_assembly.topology = vk::PrimitiveTopology::TRIANGLE_LIST),
        ("restart", |f| f.input_assembly.primitive_restart_enable = vk::TRUE),
        ("viewport", |f| f.viewports[0].width = 2.0),
        ("viewport count", |f| f.viewports.push(vk::Viewport::default())),
        ("scissor", |f| f.scissors[0].extent.width = 3),
        ("depth clamp", |f| f.rasterization.depth_clamp_enable = vk::TRUE),
        ("polygon mode", |f| f.rasterization.polygon_mode = vk::PolygonMode::LINE),
        ("cull mode", |f| f.rasterization.cull_mode = vk::CullModeFlags::BACK),
        ("front face", |f| f.rasterization.front_face = vk::FrontFace::CLOCKWISE),
        ("bias enable", |f| f.rasterization.depth_bias_enable = vk::TRUE),
        ("bias factor", |f| f.rasterization.depth_bias_constant_factor = 1.0),
        ("bias clamp", |f| f.rasterization.depth_bias_clamp = 1.0),
        ("bias slope", |f| f.rasterization.depth_bias_slope_factor = 1.0),
        ("line width", |f| f.rasterization.line_width = 2.0),
        ("samples", |f| f.multisample.rasterization_samples = vk::SampleCountFlags::TYPE_1),
        ("sample shading", |f| f.multisample.sample_shading_enable = vk::TRUE),
        ("min sample shading", |f| f.multisample.min_sample_shading = 0.5),
        ("sample mask", |f| f.mask[0] = 1),
        ("alpha to coverage", |f| f.multisample.alpha_to_coverage_enable = vk::TRUE),
        ("alpha to one", |f| f.multisample.alpha_to_one_enable = vk::TRUE),
        ("depth test", |f| f.depth_stencil.depth_test_enable = vk::TRUE),
        ("depth write", |f| f.depth_stencil.depth_write_enable = vk::TRUE),
        ("depth compare", |f| f.depth_stencil.depth_compare_op = vk::CompareOp::LESS),
        ("depth bounds test", |f| f.depth_stencil.depth_bounds_test_enable = vk::TRUE),
        ("stencil test", |f| f.depth_stencil.stencil_test_enable = vk::TRUE),
        ("stencil op", |f| f.depth_stencil.front.pass_op = vk::StencilOp::REPLACE),
        ("stencil back mask", |f| f.depth_stencil.back.compare_mask = 1),
        ("stencil reference", |f| f.depth_stencil.front.reference = 1),
        ("depth bounds", |f| f.depth_stencil.max_depth_bounds = 1.0),
        ("logic op enable", |f| f.blend.logic_op_enable = vk::TRUE),
        ("logic op", |f| f.blend.logic_op = vk::LogicOp::COPY),
        ("blend enable", |f| f.blends[0].blend_enable = vk::TRUE),
        ("write mask", |f| f.blends[0].color_write_mask = vk::ColorComponentFlags::R),
        ("blend count", |f| f.blends.push(Default::default())),
        ("blend constant", |f| f.blend.blend_constants[2] = 1.0),
        ("dynamic state", |f| f.dynamic.push(vk::DynamicState::DEPTH_TEST_ENABLE)),
        ("layout", |f| f.info.layout = handle(50)),
        ("render pass", |f| f.info.render_pass = handle(60)),
        ("subpass", |f| f.info.subpass = 1),
        ("flags", |f| f.info.flags = vk::PipelineCreateFlags::DISABLE_OPTIMIZATION),
    ];
    let mut seen = vec![("nothing", full_with(|_| {}))];
    for &(name, change) in changes {
        let bytes = full_with(change);
        let same = seen.iter().find(|(_, other)| *other == bytes).map(|(name, _)| name);
        assert_eq!(same, None, "{name}");
        seen.push((name, bytes));
    }
}

#[test]
fn state_that_is_dynamic_does_not_separate() {
    use vk::DynamicState as D;
    type Change = (D, fn(&mut Full));
    let changes: &[Change] = &[
        (D::VIEWPORT, |f| f.viewports[0].width = 2.0),
        (D::SCISSOR, |f| f.scissors[0].extent.width = 3),
        (D::LINE_WIDTH, |f| f.rasterization.line_width = 2.0),
        (D::DEPTH_BIAS, |f| f.rasterization.depth_bias_clamp = 2.0),
        (D::CULL_MODE, |f| f.rasterization.cull_mode = vk::CullModeFlags::BACK),
        (D::BLEND_CONSTANTS, |f| f.blend.blend_constants[0] = 1.0),
        (D::DEPTH_BOUNDS, |f| f.depth_stencil.min_depth_bounds = 1.0),
        (D::STENCIL_REFERENCE, |f| f.depth_stencil.front.reference = 1),
        (D::DEPTH_TEST_ENABLE, |f| f.depth_stencil.depth_test_enable = vk::TRUE),
        (D::SAMPLE_MASK_EXT, |f| f.mask[0] = 1),
        (D::LOGIC_OP_EXT, |f| f.blend.logic_op = vk::LogicOp::COPY),
    ];
    for &(state, change) in changes {
        let plain = full_with(|f| f.dynamic.push(state));
        let changed = full_with(|f| {
            f.dynamic.push(state);
            change(f);
        });
        assert_eq!(plain, changed, "{state:?}");
    }
    let one = full_with(|f| f.dynamic.extend([D::VIEWPORT, D::SCISSOR, D::VIEWPORT]));
    assert_eq!(one, full_with(|f| f.dynamic.extend([D::SCISSOR, D::VIEWPORT])), "the order means nothing");
}

#[test]
fn ignored_pointers_stay_unread() {
    use vk::DynamicState as D;
    // Static discard: everything behind rasterization is ignored.
    let mut full = Full::default();
    full.rasterization.rasterizer_discard_enable = vk::TRUE;
    let discarding = full.encoded_after(|info| {
        info.p_viewport_state = wild();
        info.p_multisample_state = wild();
        info.p_depth_stencil_state = wild();
        info.p_color_blend_state = wild();
    });
    assert!(discarding.is_ok());

    // Neither mesh pipelines nor dynamic vertex input read vertex input.
    let mut full = Full::default();
    full.stages[0].stage = vk::ShaderStageFlags::MESH_EXT;
    let mesh = full.encoded_after(|info| {
        info.p_vertex_input_state = wild();
        info.p_input_assembly_state = wild();
        info.p_tessellation_state = wild();
    });
    assert!(mesh.is_ok());
    let mut full = Full { dynamic: vec![D::VERTEX_INPUT_EXT], ..Full::default() };
    assert!(full.encoded_after(|info| info.p_vertex_input_state = wild()).is_ok());

    // A subpass without attachments of the kind.
    let known = Known { subpass: SubpassUse::default(), ..Known::default() };
    let mut full = Full { known, ..Full::default() };
    let unused = full.encoded_after(|info| {
        info.p_depth_stencil_state = wild();
        info.p_color_blend_state = wild();
    });
    assert!(unused.is_ok());

    // Arrays whose state is dynamic, and arrays of count 0.
    let mut full = Full {
        dynamic: vec![
            D::VIEWPORT_WITH_COUNT,
            D::SCISSOR,
            D::SAMPLE_MASK_EXT,
            D::COLOR_BLEND_ENABLE_EXT,
            D::COLOR_BLEND_EQUATION_EXT,
            D::COLOR_WRITE_MASK_EXT,
        ],
        ..Full::default()
    };
    full.viewport.p_viewports = wild();
    full.viewport.viewport_count = 3;
    full.viewport.p_scissors = wild();
    full.viewport.scissor_count = 1;
    full.multisample.p_sample_mask = wild();
    full.blend.p_attachments = wild();
    full.blend.attachment_count = 4;
    assert!(full.encoded_after(|_| {}).is_ok());
    let empty = vk::PipelineVertexInputStateCreateInfo {
        p_vertex_attribute_descriptions: wild(),
        p_vertex_binding_descriptions: wild(),
        ..Default::default()
    };
    assert!(Full::default().encoded_after(|info| info.p_vertex_input_state = &empty).is_ok());

    // Formats are ignored with a render pass, and with static discard.
    let rendering = vk::PipelineRenderingCreateInfo {
        color_attachment_count: 2,
        p_color_attachment_formats: wild(),
        ..Default::default()
    };
    let chain = (&raw const rendering).cast::<c_void>();
    assert!(Full::default().encoded_after(|info| info.p_next = chain).is_ok());
    let mut full = Full::default();
    full.rasterization.rasterizer_discard_enable = vk::TRUE;
    let discarding = full.encoded_after(|info| {
        info.render_pass = vk::RenderPass::null();
        info.p_next = chain;
    });
    assert!(discarding.is_ok());

    // Tessellation state without tessellation stages; something else where it is dynamic.
    assert!(Full::default().encoded_after(|info| info.p_tessellation_state = wild()).is_ok());
    let mut full = Full { dynamic: vec![D::PATCH_CONTROL_POINTS_EXT], ..Full::default() };
    full.stages.push(shader(vk::ShaderStageFlags::TESSELLATION_CONTROL, 3));
    let wrong = vk::PipelineViewportStateCreateInfo::default();
    let captured = full.encoded_after(|info| info.p_tessellation_state = (&raw const wrong).cast());
    assert!(captured.is_ok());
}

#[test]
fn discard_counts_only_where_it_is_static() {
    let mut full = Full { dynamic: vec![vk::DynamicState::RASTERIZER_DISCARD_ENABLE], ..Full::default() };
    full.rasterization.rasterizer_discard_enable = vk::TRUE;
    let discarding = full.encoded();
    full.rasterization.rasterizer_discard_enable = vk::FALSE;
    assert_eq!(discarding, full.encoded());
    full.blends[0].blend_enable = vk::TRUE;
    assert_ne!(discarding, full.encoded(), "blending is part of the pipeline");
}

#[test]
fn dynamic_rendering_separates_by_formats_and_views() {
    let of = |color: &[vk::Format], depth: vk::Format, view_mask: u32| {
        let rendering = vk::PipelineRenderingCreateInfo::default()
            .color_attachment_formats(color)
            .depth_attachment_format(depth)
            .view_mask(view_mask);
        Full::default()
            .encoded_after(|info| {
                info.render_pass = vk::RenderPass::null();
                info.p_next = (&raw const rendering).cast();
            })
            .unwrap()
    };
    let base = of(&[vk::Format::R8_UNORM], vk::Format::UNDEFINED, 0);
    assert_ne!(base, of(&[vk::Format::R8_SNORM], vk::Format::UNDEFINED, 0));
    assert_ne!(base, of(&[vk::Format::R8_UNORM; 2], vk::Format::UNDEFINED, 0));
    assert_ne!(base, of(&[vk::Format::R8_UNORM], vk::Format::D16_UNORM, 0));
    assert_ne!(base, of(&[vk::Format::R8_UNORM], vk::Format::UNDEFINED, 3));
}

#[test]
fn unknown_dynamic_states_are_refused() {
    let mut full = Full { dynamic: vec![vk::DynamicState::from_raw(1_999_999_999)], ..Full::default() };
    assert_eq!(
        full.encoded_after(|_| {}).map_err(|refusal| refusal.reason),
        Err(BypassReason::UnknownStructure)
    );
}

#[test]
fn set_layouts_read_samplers_only_where_there_are_some() {
    let binding = |number, kind, count| vk::DescriptorSetLayoutBinding {
        binding: number,
        descriptor_type: kind,
        descriptor_count: count,
        p_immutable_samplers: wild(),
        ..Default::default()
    };
    let bindings = [
        binding(1, vk::DescriptorType::UNIFORM_BUFFER, 4),
        binding(0, vk::DescriptorType::COMBINED_IMAGE_SAMPLER, 0),
    ];
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    let unknown = |_| Err(Refusal::plain(BypassReason::UnknownObject));
    // SAFETY: valid where it may be read.
    let layout = unsafe { objects::set_layout(&info, unknown) }.unwrap();
    let numbers: Vec<_> = layout.bindings.iter().map(|binding| binding.binding).collect();
    assert_eq!(numbers, [0, 1], "sorted: the order of bindings means nothing");

    let samplers = [handle::<vk::Sampler>(1), handle::<vk::Sampler>(2)];
    let sampled = [vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::SAMPLER)
        .immutable_samplers(&samplers)];
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&sampled);
    // SAFETY: valid.
    let described = unsafe {
        let linear = vk::SamplerCreateInfo::default().mag_filter(vk::Filter::LINEAR);
        objects::set_layout(&info, |_| {
            objects::sampler(&linear, |_| Err(Refusal::plain(BypassReason::UnknownObject)))
        })
    };
    assert_eq!(described.unwrap().bindings[0].immutable_samplers.len(), 2);
}

#[test]
fn both_forms_of_a_render_pass_are_described_alike() {
    let attachments = [vk::AttachmentDescription {
        format: vk::Format::R8G8B8A8_UNORM,
        samples: vk::SampleCountFlags::TYPE_1,
        ..Default::default()
    }];
    let colors = [vk::AttachmentReference { attachment: 0, layout: vk::ImageLayout::GENERAL }];
    let subpasses = [vk::SubpassDescription::default().color_attachments(&colors)];
    let one = vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpasses);

    let attachments2 = [vk::AttachmentDescription2 {
        format: vk::Format::R8G8B8A8_UNORM,
        samples: vk::SampleCountFlags::TYPE_1,
        ..Default::default()
    }];
    let colors2 = [vk::AttachmentReference2 { layout: vk::ImageLayout::GENERAL, ..Default::default() }];
    let subpasses2 = [vk::SubpassDescription2::default().color_attachments(&colors2)];
    let two = vk::RenderPassCreateInfo2::default().attachments(&attachments2).subpasses(&subpasses2);
    // SAFETY: both are valid.
    let (one, two) =
        unsafe { (render_pass::render_pass(&one).unwrap(), render_pass::render_pass2(&two).unwrap()) };
    assert_eq!(one, two);
    assert_eq!(render_pass::uses(&one), [SubpassUse { color: true, depth_stencil: false }]);
}

/// The schema's bytes never change: a new encoding is a new schema number and a new file.
#[test]
fn the_encoding_is_that_of_the_golden_file() {
    let mut hex = String::new();
    let graphics = full_with(|f| f.dynamic.push(vk::DynamicState::VIEWPORT));
    for bytes in [of_compute(&compute_info()).unwrap().0, graphics] {
        hex.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
        let digest = key::digest(key::RECIPE, &bytes);
        hex.push(' ');
        hex.extend(digest.iter().map(|byte| format!("{byte:02x}")));
        hex.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/recipes-2.txt");
    if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
        std::fs::write(path, &hex).unwrap();
    }
    assert_eq!(hex, std::fs::read_to_string(path).unwrap());
    let recipe = of_compute(&compute_info()).unwrap().0;
    let decoded: Recipe<'_> = key::decode(&recipe).unwrap();
    assert_eq!(encoded(&decoded), recipe, "decoding loses nothing");
}
