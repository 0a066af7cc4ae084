//! Every chain that capture walks: what becomes of a description when a structure stands in it.

use std::ffi::c_void;
use std::ptr;

use ash::vk;

use super::full::Full;
use super::guard_page::{place, place_one};
use super::helpers::{compute_info, of_compute};
use super::ray_tracing::Rays;
use crate::capture::{objects, render_pass};
use crate::chain::Refusal;
use crate::rebuild::tests::round_trip::Described;
use vkstash_model::counters::BypassReason;
use vkstash_model::newer;
use vkstash_model::recipe::YcbcrConversion;

/// A chain: captures what it belongs to.
pub type Host = fn(*const c_void) -> Result<Vec<u8>, Refusal>;

/// All structures that capture reads a chain of.
pub const HOSTS: &[(&str, Host)] = &[
    ("compute", |chain| {
        of_compute(&vk::ComputePipelineCreateInfo { p_next: chain, ..compute_info() }).map(|c| c.0)
    }),
    ("stage", stage),
    ("graphics", |chain| Full { extra: nodes(chain), ..Full::default() }.bytes_after(|_| {})),
    ("rendering", |chain| Full { extra: nodes(chain), ..Full::dynamic_rendering() }.bytes_after(|_| {})),
    ("vertex input", |chain| graphics(|full| full.vertex_input.p_next = chain)),
    ("input assembly", |chain| graphics(|full| full.input_assembly.p_next = chain)),
    ("tessellation", |chain| {
        graphics(|full| {
            full.tessellate();
            full.tessellation.p_next = chain;
        })
    }),
    ("viewport", |chain| graphics(|full| full.viewport.p_next = chain)),
    ("rasterization", |chain| graphics(|full| full.rasterization.p_next = chain)),
    ("multisample", |chain| graphics(|full| full.multisample.p_next = chain)),
    ("depth", |chain| graphics(|full| full.depth_stencil.p_next = chain)),
    ("blend", |chain| graphics(|full| full.blend.p_next = chain)),
    ("dynamic state", |chain| {
        let dynamic = vk::PipelineDynamicStateCreateInfo { p_next: chain, ..Default::default() };
        Full::default().bytes_after(|info| info.p_dynamic_state = place_one(dynamic))
    }),
    ("rays", |chain| Rays::default().bytes_after(|info| info.p_next = chain)),
    ("group", |chain| {
        let mut rays = Rays::default();
        rays.groups[0].p_next = chain;
        rays.bytes_after(|_| {})
    }),
    ("interface", |chain| {
        let interface = vk::RayTracingPipelineInterfaceCreateInfoKHR { p_next: chain, ..Default::default() };
        Rays { interface: Some(interface), ..Rays::default() }.bytes_after(|_| {})
    }),
    ("libraries of rays", |chain| {
        let libraries = vk::PipelineLibraryCreateInfoKHR { p_next: chain, ..Default::default() };
        Rays::default().bytes_after(|info| info.p_library_info = place_one(libraries))
    }),
    ("mapping", |chain| mapping(chain, ptr::null())),
    ("embedded sampler", |chain| {
        mapping(ptr::null(), place_one(vk::SamplerCreateInfo { p_next: chain, ..Default::default() }))
    }),
    ("sample locations", |chain| {
        let mut locations =
            vk::PipelineSampleLocationsStateCreateInfoEXT::default().sample_locations_enable(true);
        locations.sample_locations_info.p_next = chain;
        graphics(|full| full.multisample.p_next = place_one(locations).cast())
    }),
    ("sampler", |chain| {
        let info = vk::SamplerCreateInfo { p_next: chain, ..Default::default() };
        // SAFETY: `info` is on this stack, and the test passes a chain that is valid until it ends.
        unsafe { objects::sampler(&info, converted) }.map(|sampler| sampler.bytes())
    }),
    ("conversion", |chain| {
        let info = vk::SamplerYcbcrConversionCreateInfo { p_next: chain, ..Default::default() };
        // SAFETY: `info` is on this stack, and the test passes a chain that is valid until it ends.
        unsafe { objects::conversion(&info) }.map(|conversion| conversion.bytes())
    }),
    ("set layout", |chain| set_layout(chain, vk::DescriptorType::MUTABLE_EXT)),
    ("pipeline layout", |chain| {
        let info = vk::PipelineLayoutCreateInfo { p_next: chain, ..Default::default() };
        // SAFETY: `info` is on this stack, and the test passes a chain that is valid until it ends.
        unsafe { objects::pipeline_layout(&info, |_| Err(UNKNOWN)) }.map(|layout| layout.bytes())
    }),
    ("old render pass", old_render_pass),
    ("render pass", |chain| pass(|info, _| info.p_next = chain)),
    ("attachment", |chain| {
        let attachment = vk::AttachmentDescription2 { p_next: chain, ..Default::default() };
        pass(|info, _| {
            info.attachment_count = 1;
            info.p_attachments = place_one(attachment);
        })
    }),
    ("subpass", |chain| pass(|_, subpass| subpass.p_next = chain)),
    ("reference", |chain| {
        let reference = vk::AttachmentReference2 { p_next: chain, ..Default::default() };
        pass(|_, subpass| {
            subpass.input_attachment_count = 1;
            subpass.p_input_attachments = place_one(reference);
        })
    }),
    ("dependency", |chain| {
        let dependency = vk::SubpassDependency2 { p_next: chain, ..Default::default() };
        pass(|info, _| {
            info.dependency_count = 1;
            info.p_dependencies = place_one(dependency);
        })
    }),
];

/// A chain by its name.
pub fn host(name: &str) -> Host {
    HOSTS.iter().find(|(known, _)| *known == name).unwrap().1
}

const UNKNOWN: Refusal = Refusal::plain(BypassReason::UnknownObject);

fn nodes(chain: *const c_void) -> Vec<*const c_void> {
    if chain.is_null() { Vec::new() } else { vec![chain] }
}

fn stage(chain: *const c_void) -> Result<Vec<u8>, Refusal> {
    let mut info = compute_info();
    info.stage.p_next = chain;
    of_compute(&info).map(|captured| captured.0)
}

fn graphics(change: impl FnOnce(&mut Full)) -> Result<Vec<u8>, Refusal> {
    let mut full = Full::default();
    change(&mut full);
    full.bytes_after(|_| {})
}

fn mapping(chain: *const c_void, sampler: newer::EmbeddedSampler) -> Result<Vec<u8>, Refusal> {
    let mut mapping = super::special::mapping();
    mapping.p_next = chain;
    mapping.source_data.constant_offset.sampler = sampler;
    stage(super::special::mappings(&[mapping]))
}

/// A conversion that is named by its handle.
pub fn converted(conversion: vk::SamplerYcbcrConversion) -> Result<YcbcrConversion, Refusal> {
    use vk::Handle;
    Ok(YcbcrConversion { members: [conversion.as_raw() as u32; 11], extensions: Vec::new() })
}

pub fn set_layout(chain: *const c_void, kind: vk::DescriptorType) -> Result<Vec<u8>, Refusal> {
    let binding =
        |binding| vk::DescriptorSetLayoutBinding { binding, descriptor_type: kind, ..Default::default() };
    let bindings = [binding(0), binding(1)];
    let info = vk::DescriptorSetLayoutCreateInfo { p_next: chain, ..Default::default() }.bindings(&bindings);
    // SAFETY: `info` and its bindings are on this stack, and the test passes a chain that is valid until it ends.
    unsafe { objects::set_layout(&info, |_, _| Err(UNKNOWN)) }.map(|layout| layout.bytes())
}

/// A VkRenderPassCreateInfo with two subpasses, each with an input attachment, and two dependencies.
fn old_render_pass(chain: *const c_void) -> Result<Vec<u8>, Refusal> {
    let inputs = [vk::AttachmentReference::default()];
    let subpasses = [vk::SubpassDescription::default().input_attachments(&inputs); 2];
    let dependencies = [vk::SubpassDependency::default(); 2];
    let info = vk::RenderPassCreateInfo::default().subpasses(&subpasses).dependencies(&dependencies);
    let info = vk::RenderPassCreateInfo { p_next: chain, ..info };
    // SAFETY: `info` and its arrays are on this stack, and the test passes a chain that is valid until it ends.
    unsafe { render_pass::render_pass(&info) }.map(|pass| pass.bytes())
}

fn pass(
    change: impl FnOnce(&mut vk::RenderPassCreateInfo2<'static>, &mut vk::SubpassDescription2<'static>),
) -> Result<Vec<u8>, Refusal> {
    let (mut info, mut subpass) = (vk::RenderPassCreateInfo2::default(), vk::SubpassDescription2::default());
    change(&mut info, &mut subpass);
    info.subpass_count = 1;
    info.p_subpasses = place(&[subpass]);
    // SAFETY: `info` and its arrays are on this stack, and `change` adds chains that are valid until the test ends.
    unsafe { render_pass::render_pass2(&info) }.map(|pass| pass.bytes())
}
