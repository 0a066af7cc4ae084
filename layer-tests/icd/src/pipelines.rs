//! Creating pipelines (hits, compiles, refusals, batches, feedback) and destroying them.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use ash::vk::{self, Handle as _};

use crate::cache::Cache;
use crate::command::{command, strike_compile};
use crate::config::{self, Config};
use crate::element::Element;
use crate::flags::{self, ALLOW_DERIVATIVES, CAPTURE_DATA, DERIVATIVE, EARLY_RETURN, FAIL_ON};
use crate::handles::Device;
use crate::objects::{self, Body, Pipeline};
use crate::record::{self, Call, plain, violation};
use crate::{caches, callbacks, chain, disk, handles, lifecycle, turn};

/// The record of a pipeline creation call.
pub fn begin(name: &'static str, cache: vk::PipelineCache, count: u32) -> Call {
    Call { cache: caches::name(cache), create_infos: Some(count), ..plain(name) }
}

/// The members that create infos of every kind of pipeline have.
pub trait Info {
    /// `flags`, and the chain.
    fn flags_and_chain(&self) -> (vk::PipelineCreateFlags, *const c_void);
}

impl Info for vk::ComputePipelineCreateInfo<'_> {
    fn flags_and_chain(&self) -> (vk::PipelineCreateFlags, *const c_void) {
        (self.flags, self.p_next)
    }
}

impl Info for vk::GraphicsPipelineCreateInfo<'_> {
    fn flags_and_chain(&self) -> (vk::PipelineCreateFlags, *const c_void) {
        (self.flags, self.p_next)
    }
}

impl Info for vk::RayTracingPipelineCreateInfoKHR<'_> {
    fn flags_and_chain(&self) -> (vk::PipelineCreateFlags, *const c_void) {
        (self.flags, self.p_next)
    }
}

/// A command that creates pipelines: records it, reads its create infos with `read`, and gives them to `make`.
///
/// # Safety
/// `read` may read the create infos, whose chains are valid, and `out` has room for a pipeline of each.
pub unsafe fn create<'a, I: Info>(
    name: &'static str,
    device: vk::Device,
    cache: vk::PipelineCache,
    infos: &[I],
    out: *mut vk::Pipeline,
    read: unsafe fn(&mut Call, &Device, &I) -> Element<'a>,
    make: impl FnOnce(&mut Call, &Arc<Device>, &[Element<'a>]) -> vk::Result,
) -> vk::Result {
    let mut call = begin(name, cache, infos.len() as u32);
    // SAFETY: the caller guarantees the chains, and room in `out`.
    unsafe {
        out.write_bytes(0, infos.len());
        for info in infos {
            let (plain, chain) = info.flags_and_chain();
            call.p_next.extend(chain::types(name, chain));
            call.flags.push(flags::written(plain.as_raw(), chain));
        }
    }
    command(call, |call| {
        let Some(device) = handles::device(name, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        // SAFETY: the caller guarantees what `read` needs.
        let elements: Vec<_> = infos.iter().map(|info| unsafe { read(call, &device, info) }).collect();
        make(call, &device, &elements)
    })
}

/// Creates the pipelines of one call.
///
/// # Safety
/// `out` has room for every element; `allocator` is the call's.
pub unsafe fn make(
    call: &mut Call,
    device: &Device,
    handle: vk::PipelineCache,
    elements: &[Element<'_>],
    allocator: objects::Allocator,
    out: *mut vk::Pipeline,
) -> vk::Result {
    call.flags = elements.iter().map(|element| element.flags).collect();
    let all = 0..elements.len();
    // SAFETY: the caller guarantees room in `out` for every element.
    unsafe { make_some(call, device, handle, elements, all, allocator, out) }
}

/// Creates some of the pipelines of one call.
///
/// # Safety
/// `out` has room for every element; `allocator` is the call's.
pub unsafe fn make_some(
    call: &mut Call,
    device: &Device,
    handle: vk::PipelineCache,
    elements: &[Element<'_>],
    which: std::ops::Range<usize>,
    allocator: objects::Allocator,
    out: *mut vk::Pipeline,
) -> vk::Result {
    callbacks::say_making();
    let config = config::current();
    let _turn = config.serialises.then(|| turn::take(call));
    let cache = if handle.is_null() { None } else { caches::find(call.command, device, handle) };
    let _use = cache.as_ref().map(|cache| cache.enter(call.command, cache.flags & 1 != 0));
    let mut result = vk::Result::SUCCESS;
    let mut stopped = false;
    if !handle.is_null() && elements.iter().any(|element| element.flags & CAPTURE_DATA != 0) {
        violation(format!("{}: CAPTURE_DATA with a pipeline cache (09617)", call.command));
    }
    for at in which {
        let element = &elements[at];
        check(call, device, elements, at);
        if stopped {
            call.hit.push(false);
            // SAFETY: the feedback structure belongs to a valid create info.
            unsafe { feedback(&config, element, None, Duration::ZERO) };
            continue;
        }
        let start = Instant::now();
        if !binaries_fit(call, element, !handle.is_null()) {
            call.hit.push(false);
            result = vk::Result::ERROR_UNKNOWN;
            continue;
        }
        let found = Found::look_up(&config, device, cache.as_deref(), element);
        let is_denied = config.denies && element.flags & FAIL_ON != 0;
        let hit = found.hit && !is_denied;
        call.hit.push(hit);
        let linked = element.fast_link && config.fast_linking;
        if !hit && !linked && (element.flags & FAIL_ON != 0 || element.by_identifier) {
            if result == vk::Result::SUCCESS {
                result = vk::Result::PIPELINE_COMPILE_REQUIRED_EXT;
            }
            stopped = element.flags & EARLY_RETURN != 0;
            // SAFETY: the feedback structure belongs to a valid create info.
            unsafe { feedback(&config, element, Some(false), start.elapsed()) };
            continue;
        }
        if hit {
            record::count_hit();
        } else if !linked {
            if let Some(struck) = strike_compile(call) {
                result = struck;
                continue;
            }
            compile(&config, element, found.internal);
        }
        if let Some(cache) = cache.as_ref().filter(|_| element.cacheable(&config)) {
            element.entries(&config).iter().for_each(|entry| cache.add(*entry));
        }
        let pipeline = objects::insert(device.handle, allocator, Body::Pipeline(pipeline(element, hit)));
        // SAFETY: the output array has room for every element, and the feedback structure belongs to a valid create
        // info.
        unsafe {
            out.add(at).write(vk::Pipeline::from_raw(pipeline));
            feedback(&config, element, Some(found.in_app), start.elapsed());
        }
    }
    result
}

/// Where the driver has found a pipeline.
struct Found {
    /// The application's cache has it.
    in_app: bool,
    /// It need not be compiled.
    hit: bool,
    /// The driver's own cache may have it, and takes it up.
    internal: bool,
}

impl Found {
    /// Looks the element up, which takes as long as the driver is configured to take.
    fn look_up(config: &Config, device: &Device, cache: Option<&Cache>, element: &Element<'_>) -> Found {
        let cacheable = element.cacheable(config);
        let entries = element.entries(config);
        let lacking = || entries.iter().filter(|entry| !cache.is_some_and(|cache| cache.has(entry)));
        let in_app = cacheable && lacking().next().is_none();
        if in_app && cache.is_some() {
            thread::sleep(Duration::from_micros(config.cache_hit_us));
        }
        // Pipelines that capture data do not use the internal cache (contract 5.5).
        let internal = cacheable && !device.internal_cache_off && element.flags & CAPTURE_DATA == 0;
        let on_disk = || lacking().all(|entry| disk::has(config, entry));
        let is_read = !in_app && element.binaries.is_none() && internal && on_disk();
        if is_read {
            disk::read(config, lacking().count(), cache.is_some());
        }
        Found { in_app, hit: element.binaries.is_some() || in_app || is_read, internal }
    }
}

/// Compiles the element; the driver's own cache takes it up if it is `internal`.
fn compile(config: &Config, element: &Element<'_>, internal: bool) {
    thread::sleep(Duration::from_micros(config.compile_us));
    record::count_compile();
    if internal {
        element.entries(config).iter().for_each(|entry| disk::add(config, entry));
    }
}

fn pipeline(element: &Element<'_>, made_before: bool) -> Pipeline {
    Pipeline {
        key: element.key,
        flags: element.flags,
        subsets: element.subsets,
        discard: element.discard,
        kind: element.kind,
        shape: element.shape,
        stages: element.stages,
        by_identifier: element.by_identifier,
        layout: element.layout,
        mesh: element.mesh,
        made_before,
        from_binaries: element.binaries.is_some(),
        captured: Arc::new(AtomicBool::new(element.flags & CAPTURE_DATA != 0)),
    }
}

/// Writes feedback; `outcome`: whether the application's cache had the pipeline, None if nothing was tried.
///
/// # Safety
/// The element's feedback has its pointers valid.
unsafe fn feedback(config: &Config, element: &Element<'_>, outcome: Option<bool>, took: Duration) {
    let Some(info) = element.feedback.filter(|_| config.creation_feedback) else { return };
    let valid = vk::PipelineCreationFeedbackFlags::VALID;
    let flags = match outcome {
        None => vk::PipelineCreationFeedbackFlags::empty(),
        Some(false) => valid,
        Some(true) => valid | vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT,
    };
    let duration = if outcome.is_some() { took.as_nanos() as u64 } else { 0 };
    let feedback = vk::PipelineCreationFeedback { flags, duration };
    // SAFETY: the feedback structure belongs to a valid create info, and its stage array has its count.
    unsafe {
        info.p_pipeline_creation_feedback.write(feedback);
        for at in 0..info.pipeline_stage_creation_feedback_count as usize {
            info.p_pipeline_stage_creation_feedbacks.add(at).write(feedback);
        }
    }
}

/// Whether the binaries of the element can create it, if it has any. Violations say why not.
fn binaries_fit(call: &Call, element: &Element<'_>, with_cache: bool) -> bool {
    let Some(binaries) = &element.binaries else { return true };
    let name = call.command;
    if with_cache {
        violation(format!("{name}: binaries with a pipeline cache (09616)"));
    }
    if element.flags & FAIL_ON != 0 {
        violation(format!("{name}: binaries with FAIL_ON (09622)"));
    }
    let in_order = binaries.iter().enumerate().all(|(at, binary)| binary.index as usize == at);
    if binaries.len() != element.stages as usize || !in_order {
        violation(format!("{name}: {} binaries for {} stages (09603)", binaries.len(), element.stages));
        return false;
    }
    let right = binaries.iter().all(|binary| binary.shape == element.shape);
    if !right {
        violation(format!("{name}: binaries of another pipeline (09603)"));
    }
    right
}

/// Checks the flags and the base of an element.
fn check(call: &Call, device: &Device, elements: &[Element<'_>], at: usize) {
    let element = &elements[at];
    let name = call.command;
    if element.flags & (FAIL_ON | EARLY_RETURN) != 0 && !device.cache_control {
        violation(format!("{name}: FAIL_ON or EARLY_RETURN without the feature"));
    }
    if element.by_identifier && element.flags & FAIL_ON == 0 {
        violation(format!("{name}: an identifier without FAIL_ON"));
    }
    if element.flags & CAPTURE_DATA != 0 && !device.binaries {
        violation(format!("{name}: CAPTURE_DATA without pipelineBinaries"));
    }
    if element.flags & DERIVATIVE == 0 {
        return;
    }
    let (base, index) = element.base;
    match (base.is_null(), index) {
        (false, -1) => {
            let parent = objects::get(name, device.handle, "VkPipeline", base.as_raw());
            if matches!(parent, Some(Body::Pipeline(parent)) if parent.flags & ALLOW_DERIVATIVES == 0) {
                violation(format!("{name}: the base pipeline does not allow derivatives"));
            }
        }
        (true, 0..) => {
            let parent = elements[..at].get(index as usize);
            if parent.is_none_or(|parent| parent.flags & ALLOW_DERIVATIVES == 0) {
                violation(format!("{name}: basePipelineIndex {index} of element {at} is no base"));
            }
        }
        _ => violation(format!("{name}: a derivative needs a base handle or a base index, and not both")),
    }
}

/// vkDestroyPipeline.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    handle: vk::Pipeline,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the command's own pointers.
    unsafe {
        lifecycle::destroy("vkDestroyPipeline", "VkPipeline", device, handle.as_raw(), callbacks, |_| {})
    };
}
