//! Documents of each kind, written by hand after Fossilize's format (version 6 of its recorder).

use std::ffi::CStr;

use ash::vk::{self, Handle};

use super::text;
use crate::json::read::{Link, parse};
use crate::json::write;

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../golden/", $name, ".json"))
    };
}

/// All golden documents.
pub const ALL: [&[u8]; 11] = [
    golden!("module"),
    golden!("sampler"),
    golden!("set_layout"),
    golden!("pipeline_layout"),
    golden!("render_pass"),
    golden!("render_pass2"),
    golden!("compute"),
    golden!("graphics"),
    golden!("ray_tracing"),
    golden!("application"),
    golden!("link"),
];

/// Reads a document whose only object is in a list, and compares what is written for it with the document.
macro_rules! same {
    ($name:literal, $list:ident, $write:path) => {{
        let parsed = parse(golden!($name)).unwrap();
        let entry = &parsed.$list[0];
        // SAFETY: pointers lead into the memory of what was read.
        let written = unsafe { $write(entry.hash, &entry.info) }.unwrap();
        assert_eq!(text(&written), text(golden!($name)));
        parsed
    }};
}

#[test]
fn a_sampler() {
    let parsed = same!("sampler", samplers, write::sampler);
    let info = &parsed.samplers[0].info;
    assert_eq!(parsed.samplers[0].hash, 0xa1);
    assert_eq!((info.min_filter, info.mag_filter), (vk::Filter::LINEAR, vk::Filter::NEAREST));
    assert_eq!((info.max_anisotropy, info.mip_lod_bias, info.max_lod), (1.5, -0.25, 1000.0));
    assert_eq!(info.border_color, vk::BorderColor::FLOAT_CUSTOM_EXT);
    // SAFETY: the document has this structure first.
    let colour = unsafe { &*info.p_next.cast::<vk::SamplerCustomBorderColorCreateInfoEXT<'_>>() };
    // SAFETY: each four words are a colour.
    assert_eq!(unsafe { colour.custom_border_color.uint32 }, [1, 2, 3, u32::MAX]);
    // SAFETY: the document has this structure second.
    let conversion = unsafe { &*colour.p_next.cast::<vk::SamplerYcbcrConversionCreateInfo<'_>>() };
    assert_eq!(conversion.components.a, vk::ComponentSwizzle::A);
    assert_eq!(conversion.format, vk::Format::G8_B8R8_2PLANE_420_UNORM);
}

#[test]
fn a_set_layout() {
    let parsed = same!("set_layout", set_layouts, write::set_layout);
    let info = &parsed.set_layouts[0].info;
    assert_eq!(info.binding_count, 2);
    // SAFETY: the document has two bindings, of which the first has two samplers.
    let samplers = unsafe {
        let binding = &*info.p_bindings;
        [*binding.p_immutable_samplers, *binding.p_immutable_samplers.add(1)]
    };
    assert_eq!(samplers.map(Handle::as_raw), [0xa1, u64::MAX]);
    // SAFETY: the second has none.
    let second = unsafe { &*info.p_bindings.add(1) };
    assert!(second.p_immutable_samplers.is_null());
    assert_eq!((second.binding, second.descriptor_count), (7, 4096));
}

#[test]
fn a_pipeline_layout() {
    let parsed = same!("pipeline_layout", pipeline_layouts, write::pipeline_layout);
    let info = &parsed.pipeline_layouts[0].info;
    // SAFETY: the document has one range and two layouts.
    let (range, second) = unsafe { (*info.p_push_constant_ranges, *info.p_set_layouts.add(1)) };
    assert_eq!((range.offset, range.size), (128, 64));
    assert_eq!(second, vk::DescriptorSetLayout::null());
}

#[test]
fn render_passes() {
    let parsed = same!("render_pass", render_passes, write::render_pass);
    // SAFETY: the document has one subpass with attachments.
    unsafe {
        let subpass = &*parsed.render_passes[0].info.p_subpasses;
        assert_eq!((*subpass.p_resolve_attachments).attachment, vk::ATTACHMENT_UNUSED);
        assert_eq!((*subpass.p_depth_stencil_attachment).attachment, 1);
        assert_eq!(*subpass.p_preserve_attachments, 3);
    }
    let parsed = same!("render_pass2", render_passes2, write::render_pass2);
    // SAFETY: the document has one dependency.
    unsafe {
        let dependency = &*parsed.render_passes2[0].info.p_dependencies;
        assert_eq!(dependency.s_type, vk::StructureType::SUBPASS_DEPENDENCY_2);
        assert_eq!(dependency.view_offset, -3);
        let barrier = &*dependency.p_next.cast::<vk::MemoryBarrier2<'_>>();
        assert_eq!(barrier.src_stage_mask.as_raw(), 1 << 33);
    }
}

#[test]
fn a_compute_pipeline() {
    let parsed = same!("compute", compute, write::compute);
    let info = &parsed.compute[0].info;
    assert_eq!((info.layout.as_raw(), info.stage.module.as_raw()), (0xc1, 0xf1));
    // SAFETY: the document has a name, and five bytes of data.
    unsafe {
        assert_eq!(CStr::from_ptr(info.stage.p_name), c"main");
        let constants = &*info.stage.p_specialization_info;
        assert_eq!(*constants.p_data.cast::<[u8; 5]>(), [1, 2, 3, 4, 5]);
        assert_eq!((*constants.p_map_entries.add(1)).constant_id, 8);
    }
}

#[test]
fn a_graphics_pipeline() {
    let parsed = same!("graphics", graphics, write::graphics);
    let info = &parsed.graphics[0].info;
    assert_eq!((info.render_pass.as_raw(), info.subpass), (0xd1, 1));
    // SAFETY: the document has these states.
    unsafe {
        assert_eq!(*(*info.p_multisample_state).p_sample_mask.add(1), 1);
        assert_eq!((*info.p_rasterization_state).depth_bias_constant_factor, 0.1);
        let viewports = &*info.p_viewport_state;
        assert!(viewports.p_viewports.is_null());
        assert_eq!((viewports.viewport_count, (*viewports.p_scissors).offset.x), (1, -1));
        assert_eq!((*info.p_color_blend_state).blend_constants, [0.0, 0.25, 0.5, 1.0]);
        assert_eq!((*info.p_depth_stencil_state).back.reference, 2);
    }
}

#[test]
fn a_ray_tracing_pipeline() {
    let parsed = same!("ray_tracing", ray_tracing, write::ray_tracing);
    let info = &parsed.ray_tracing[0].info;
    // SAFETY: the document has a group and a library.
    unsafe {
        assert_eq!((*info.p_groups).any_hit_shader, vk::SHADER_UNUSED_KHR);
        assert_eq!((*(*info.p_library_info).p_libraries).as_raw(), 0xe4);
    }
}

#[test]
fn a_module_in_base64_and_packed() {
    let parsed = parse(golden!("module")).unwrap();
    let entry = &parsed.modules[0];
    // SAFETY: the document has two words.
    let words = unsafe { *entry.info.p_code.cast::<[u32; 2]>() };
    assert_eq!(words, [0x0723_0203, 0x0001_0000]);
    // SAFETY: what was read.
    let written = unsafe { write::module(entry.hash, &entry.info) }.unwrap();
    let packed = b"{\"version\":6,\"shaderModules\":{\"00000000000000f1\":\
        {\"varintOffset\":0,\"varintSize\":7,\"codeSize\":8,\"flags\":0}}}\0\x83\x84\x8c\x39\x80\x80\x04";
    assert_eq!(written, packed);
    assert_eq!(parse(&written).unwrap().modules[0].info.code_size, 8);
}

#[test]
fn the_application() {
    let parsed = parse(golden!("application")).unwrap();
    let application = parsed.application.unwrap();
    // SAFETY: the document has a name, and one structure in the chain.
    unsafe {
        assert_eq!(CStr::from_ptr(application.info.p_application_name), c"game");
        let features = &*application.features.p_next.cast::<vk::PhysicalDeviceRobustness2FeaturesEXT<'_>>();
        assert_eq!((features.robust_buffer_access2, features.null_descriptor), (1, 1));
        let written = write::application(&application.info, &application.features).unwrap();
        assert_eq!(text(&written), text(golden!("application")));
    }
    let nothing = parse(br#"{"version":6,"applicationInfo":{},"physicalDeviceFeatures":{}}"#).unwrap();
    assert!(nothing.application.is_none());
}

#[test]
fn a_link() {
    let link = parse(golden!("link")).unwrap().link.unwrap();
    assert_eq!(link, Link { application: 0xaa, tag: 6, hash: 0xe2 });
    assert_eq!(text(&write::link(&link)), text(golden!("link")));
}
