//! VKSTASH_FAST_LINK: a graphics pipeline that would have to be compiled is linked fast of libraries of its parts
//! (VK_EXT_graphics_pipeline_library). Parts that the program has met in other pipelines are there already, so the call
//! takes as long as a link. The whole pipeline is compiled by the tool after the program's end, for the next run.

use std::ptr;

use ash::vk;
use smallvec::SmallVec;

use super::call::{Answer, Call};
use super::create_info::{CreateInfo, Creation};
use super::record;
use super::request::{DescribedPipeline, Request};
use crate::state::device::Device;
use crate::state::fast_links::FastLinks;
use crate::steps::Steps;
use vkstash_model::counters::Count;
use vkstash_model::steps::{OrderReason, StepAnswer, StepSource};
use vkstash_recipe::capture::flags::LIBRARY;
use vkstash_recipe::capture::graphics::subsets::Subsets;
use vkstash_recipe::capture::parsed::Parsed;
use vkstash_recipe::chain;

type Info<'a> = vk::GraphicsPipelineCreateInfo<'a>;
type Part = vk::GraphicsPipelineLibraryFlagsEXT;

const PARTS: [Part; 4] = [
    Part::VERTEX_INPUT_INTERFACE,
    Part::PRE_RASTERIZATION_SHADERS,
    Part::FRAGMENT_SHADER,
    Part::FRAGMENT_OUTPUT_INTERFACE,
];

/// Links a pipeline that was linked fast before in this run: no other source may have it then.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn link_again<I: CreateInfo>(request: &Request<'_, I>, steps: &mut Steps) -> Option<Answer> {
    request.call.device.fast_links().filter(|links| links.has_linked(&request.pipeline.key))?;
    steps.set_reason(OrderReason::PassedOn);
    // SAFETY: the request's create info is valid.
    unsafe { link(request, steps) }
}

/// The program makes a graphics pipeline library: it links fast itself where it wants to.
pub fn note_library<I: CreateInfo>(call: &Call<'_, I>) {
    if let Some(links) = call.device.fast_links().filter(|_| call.creation.info.as_graphics().is_some()) {
        links.leave_to_program();
    }
}

/// Links the pipeline of libraries, and makes those that are missing. None: it is no such pipeline, or the driver does
/// not do it.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn link<I: CreateInfo>(request: &Request<'_, I>, steps: &mut Steps) -> Option<Answer> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let links = device.fast_links().filter(|links| links.may_link(&pipeline.key))?;
    let info = call.creation.info.as_graphics()?;
    // SAFETY: a valid create info.
    if !unsafe { has_parts(info, call.parsed()) } {
        return None;
    }
    steps.asks(StepSource::Link);
    let mut libraries = SmallVec::<[vk::Pipeline; 4]>::new();
    for part in PARTS {
        // SAFETY: a valid create info, which has all parts.
        libraries.push(unsafe { library(device, links, info, part) }?);
    }
    let linked = vk::PipelineLibraryCreateInfoKHR::default().libraries(&libraries);
    let link = Info { p_next: ptr::from_ref(&linked).cast(), layout: info.layout, ..Info::default() };
    // SAFETY: a valid create info of a link, and what it points to outlives its use.
    let creation = unsafe { Creation::of(&link) };
    let (program_cache, allocator) = (call.program_cache, call.allocator);
    let call = Call { device, program_cache, allocator, creation: &creation };
    // SAFETY: the program's allocator; the libraries are alive, of this device, and have all parts of one pipeline.
    let answer = unsafe { call.create_with(vk::PipelineCache::null(), &link) };
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    device.count(Count::FastLinked);
    steps.add(StepSource::Link, StepAnswer::Had);
    if links.note_linked(&pipeline.key) {
        // SAFETY: the request's create info is valid.
        unsafe { record::record_linked(request) };
    }
    Some(answer)
}

/// Whether a create info is complete by itself, and can be taken apart: what says more than the parts' own state is
/// compiled as it is.
///
/// # Safety
/// `parsed` was read from the valid `info`.
unsafe fn has_parts(info: &Info<'_>, parsed: &Parsed<'_>) -> bool {
    let stages = parsed.stage_flags();
    let needed = vk::ShaderStageFlags::VERTEX | vk::ShaderStageFlags::FRAGMENT;
    let is_plain = parsed.flags == 0
        && !parsed.flags2
        && parsed.subsets == Subsets::ALL
        && !parsed.is_linked()
        && parsed.feedback.is_none()
        && stages.contains(needed);
    // SAFETY: the chain of a valid create info, and its rasterization state, which is valid or NULL (06601).
    is_plain
        && unsafe {
            let mut chain = chain::walk(info.p_next);
            chain.all(|node| (*node).s_type == vk::StructureType::PIPELINE_RENDERING_CREATE_INFO)
                && info
                    .p_rasterization_state
                    .as_ref()
                    .is_some_and(|state| state.rasterizer_discard_enable == vk::FALSE)
        }
}

/// The library of one part: the one that there is, or a new one.
///
/// # Safety
/// `info` is a valid create info that `has_parts`.
unsafe fn library(device: &Device, links: &FastLinks, info: &Info<'_>, part: Part) -> Option<vk::Pipeline> {
    // SAFETY: the chain of a valid create info has nothing but this structure (`has_parts`).
    let whole = unsafe { info.p_next.cast::<vk::PipelineRenderingCreateInfo<'_>>().as_ref() };
    // Shaders are compiled for the views alone, and one library serves all formats.
    let rendering = match (whole, part) {
        (Some(whole), Part::FRAGMENT_OUTPUT_INTERFACE) => {
            vk::PipelineRenderingCreateInfo { p_next: ptr::null(), ..*whole }
        }
        (Some(whole), _) => vk::PipelineRenderingCreateInfo::default().view_mask(whole.view_mask),
        (None, _) => vk::PipelineRenderingCreateInfo::default(),
    };
    let mut subset = vk::GraphicsPipelineLibraryCreateInfoEXT::default().flags(part);
    if whole.is_some() {
        subset.p_next = ptr::from_ref(&rendering).cast_mut().cast();
    }
    // A fragment shader library without a render pass must say which tests there are (VUID
    // VkGraphicsPipelineCreateInfo-renderPass-06590). A whole pipeline without attachments for them need not: its
    // pointer may be anything.
    let no_tests = vk::PipelineDepthStencilStateCreateInfo::default();
    let has_no_tests = whole.is_some_and(|whole| {
        whole.depth_attachment_format == vk::Format::UNDEFINED
            && whole.stencil_attachment_format == vk::Format::UNDEFINED
    });
    let tests = if has_no_tests { &no_tests } else { info.p_depth_stencil_state };
    // SAFETY: pStages has stageCount valid elements in a pipeline with shaders.
    let all = unsafe { std::slice::from_raw_parts(info.p_stages, info.stage_count as usize) };
    let wanted = |stage: &&vk::PipelineShaderStageCreateInfo<'_>| match part {
        Part::FRAGMENT_SHADER => stage.stage == vk::ShaderStageFlags::FRAGMENT,
        Part::PRE_RASTERIZATION_SHADERS => stage.stage != vk::ShaderStageFlags::FRAGMENT,
        _ => false,
    };
    let stages: SmallVec<[vk::PipelineShaderStageCreateInfo<'_>; 4]> =
        all.iter().filter(wanted).copied().collect();
    let info = Info {
        p_depth_stencil_state: tests,
        p_next: ptr::from_ref(&subset).cast(),
        flags: vk::PipelineCreateFlags::from_raw(LIBRARY as u32),
        stage_count: stages.len() as u32,
        p_stages: stages.as_ptr(),
        ..*info
    };
    // SAFETY: a valid create info of a library: the program's, with the stages of this part.
    let creation = unsafe { Creation::of(&info) };
    let mut recipe = Vec::new();
    // SAFETY: the same create info, whose objects are of this device.
    let key = unsafe { DescribedPipeline::of(device, &creation, &mut recipe) }.ok()?.key;
    if let Some(library) = links.library(&key) {
        return Some(library);
    }
    if links.is_full() {
        return None;
    }
    let mut library = vk::Pipeline::null();
    // SAFETY: a valid create info of this device; the library is the layer's, so it has no allocator of the program's.
    let result = unsafe { info.create(device, vk::PipelineCache::null(), ptr::null(), &mut library) };
    if result != vk::Result::SUCCESS {
        return None;
    }
    let (kept, spare) = links.keep(key, library);
    device.destroy_pipelines(spare.as_slice());
    Some(kept)
}
