//! The creation calls: batches are taken apart, each create info is served, and the results are put
//! together as the specification wants them (contract 3).

use std::time::Instant;

use ash::vk::{self, Handle};

use crate::background::gate::{self, ProgramCall};
use crate::faults;
use crate::hooks::inert::pass;
use crate::live;
use crate::serve::call::{self, Answer, Call};
use crate::serve::create_info::{CreateInfo, Creation};
use crate::serve::{ask, failed, own, settle};
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use crate::state::process::waits::Wait;
use crate::trace::spans::{self, Span};
use vkstash_host::guard::{guard, guard_within, tls_destroyed};
use vkstash_host::signals::Uncancelled;
use vkstash_model::counters::Count;
use vkstash_model::live::Activity;
use vkstash_recipe::chain::Arena;

/// vkCreateComputePipelines.
pub unsafe extern "system" fn create_compute(
    handle: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let uncancelled = Uncancelled::begin();
    // SAFETY: `handle` is a live device, as the command demands of its caller.
    let Some(device) = (unsafe { live_devices::find_within(&uncancelled, handle) }) else {
        pass!(handle, create_compute_pipelines(cache, count, infos, allocator, pipelines));
    };
    let Some(next) = device.table.create_compute_pipelines else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the next layer's command gets the arguments of this one, which are valid for both.
    let untouched = || unsafe {
        let below = || next(handle, cache, count, infos, allocator, pipelines);
        untouched(&device, count, infos, pipelines, below)
    };
    // SAFETY: the arguments are those of the command: `count` valid create infos, and room for as many handles.
    let batch = || unsafe {
        let _begun = begin(&device, "vkCreateComputePipelines", count);
        create(&uncancelled, &device, cache, count, infos, allocator, pipelines, untouched)
    };
    guard_within(&uncancelled, "vkCreateComputePipelines", batch, || {
        device.count(Count::InternalFailures);
        untouched()
    })
}

/// vkCreateGraphicsPipelines.
pub unsafe extern "system" fn create_graphics(
    handle: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::GraphicsPipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let uncancelled = Uncancelled::begin();
    // SAFETY: `handle` is a live device, as the command demands of its caller.
    let Some(device) = (unsafe { live_devices::find_within(&uncancelled, handle) }) else {
        pass!(handle, create_graphics_pipelines(cache, count, infos, allocator, pipelines));
    };
    let Some(next) = device.table.create_graphics_pipelines else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the next layer's command gets the arguments of this one, which are valid for both.
    let untouched = || unsafe {
        let below = || next(handle, cache, count, infos, allocator, pipelines);
        untouched(&device, count, infos, pipelines, below)
    };
    // SAFETY: the arguments are those of the command: `count` valid create infos, and room for as many handles.
    let batch = || unsafe {
        let _begun = begin(&device, "vkCreateGraphicsPipelines", count);
        create(&uncancelled, &device, cache, count, infos, allocator, pipelines, untouched)
    };
    guard_within(&uncancelled, "vkCreateGraphicsPipelines", batch, || {
        device.count(Count::InternalFailures);
        untouched()
    })
}

/// What lasts as long as a creation call: workers do not begin driver calls meanwhile, a trace shows slow calls, and
/// the report says how long the program waited.
pub(super) fn begin<'a>(
    device: &'a Device,
    command: &'static str,
    count: u32,
) -> Option<(ProgramCall<'static>, Span, Wait<'a>)> {
    let waits = device.waits();
    (!tls_destroyed()).then(|| (gate::program_call(), spans::creation(command, count), waits.begin()))
}

/// The driver gets the call as the program made it, unless it must not: also where everything else has failed.
///
/// # Safety
/// `infos` and `pipelines` are the program's arrays of `count` elements
/// (VUID-vkCreateGraphicsPipelines-pCreateInfos-parameter, -pPipelines-parameter; the same for the other kinds), and
/// `below` passes them on.
pub(super) unsafe fn untouched<I: CreateInfo>(
    device: &Device,
    count: u32,
    infos: *const I,
    pipelines: *mut vk::Pipeline,
    below: impl FnOnce() -> vk::Result,
) -> vk::Result {
    let refuse = || {
        faults::here("call judged");
        // SAFETY: `infos` and `pipelines` are the program's arrays of `count` elements (the caller's # Safety section).
        unsafe { own::refuse_impossible(device, count, infos, pipelines) }
    };
    // Whether the driver may see it cannot be told then.
    let unknown = || {
        // SAFETY: valid for its count.
        (0..count as usize).for_each(|index| unsafe { *pipelines.add(index) = vk::Pipeline::null() });
        Some(vk::Result::ERROR_UNKNOWN)
    };
    guard("vkCreate*Pipelines", refuse, unknown).unwrap_or_else(below)
}

/// Takes a batch apart.
///
/// # Safety
/// `infos` and `pipelines` are the program's arrays of `count` elements, `cache` is NULL or a live cache of the
/// device, and `allocator` is NULL or valid.
#[allow(clippy::too_many_arguments, reason = "those of the command, and what its hook has begun with")]
pub(super) unsafe fn create<I: CreateInfo>(
    uncancelled: &Uncancelled,
    device: &Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const I,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
    untouched: impl FnOnce() -> vk::Result,
) -> vk::Result {
    if tls_destroyed() {
        return untouched();
    }
    // The session, so that the report knows a device that the layer only watches.
    device.session();
    let program_cache = ProgramCache::of(&device.caches, cache);
    if !device.describes() {
        // SAFETY: `pipelines` has `count` elements (the # Safety section), which `untouched` has the driver write.
        return unsafe { watch(device, &program_cache, count, pipelines, untouched) };
    }
    device.work.listeners.note_creation();
    let later = (count > 1).then(|| program_cache.after_the_first());
    let mut overall = vk::Result::SUCCESS;
    for index in 0..count as usize {
        let mut arena = Arena::default();
        // SAFETY: `infos` and `pipelines` have `count` elements (the # Safety section), and the loop has
        // written those of `pipelines` before `index`. The arena stays on this stack frame.
        let creation = unsafe {
            let made = |from| if from < index { *pipelines.add(from) } else { vk::Pipeline::null() };
            let mut creation = Creation::of(&*infos.add(index));
            creation.stand_alone(&mut arena, made);
            creation
        };
        let program_cache = later.as_ref().filter(|_| index > 0).unwrap_or(&program_cache);
        let call = Call { device, program_cache, allocator, creation: &creation };
        // What stands before it in the batch is made: what fails here fails for this one alone.
        // SAFETY: the create info is valid (the caller's contract), and its base pipeline is named by handle.
        let (serve, after) = (|| unsafe { element(&call) }, || unsafe { after_failure(&call) });
        let answer = guard_within(uncancelled, "vkCreate*Pipelines", serve, after);
        // SAFETY: valid for `count`, which `index` is below.
        unsafe { *pipelines.add(index) = answer.pipeline };
        if answer.result == vk::Result::SUCCESS {
            continue;
        }
        // An error outweighs COMPILE_REQUIRED, which says that the program may try again; among errors the
        // specification sets no order (contract 3.2).
        if overall.as_raw() >= 0 {
            overall = answer.result;
        }
        if creation.parsed.returns_early() {
            for rest in index + 1..count as usize {
                // SAFETY: valid for `count`, which `rest` is below.
                unsafe { *pipelines.add(rest) = vk::Pipeline::null() };
            }
            break;
        }
    }
    overall
}

/// A batch on a device that the layer only watches: the driver makes it, and what it did is counted.
///
/// # Safety
/// `pipelines` is the program's array of `count` elements, which the driver writes in `untouched`.
unsafe fn watch(
    device: &Device,
    program_cache: &ProgramCache,
    count: u32,
    pipelines: *const vk::Pipeline,
    untouched: impl FnOnce() -> vk::Result,
) -> vk::Result {
    program_cache.mark_filled(&device.caches);
    let started = Instant::now();
    let _live = live::call::Call::begin(started, Activity::Own, vk::ShaderStageFlags::empty());
    let result = untouched();
    let spent = started.elapsed();
    let missing = match result {
        vk::Result::SUCCESS => 0,
        vk::Result::PIPELINE_COMPILE_REQUIRED => {
            // SAFETY: the driver has written a handle to each of the `count` elements (contract 3.2).
            let is_missing = |&index: &usize| unsafe { (*pipelines.add(index)).is_null() };
            (0..count as usize).filter(is_missing).count() as u64
        }
        // After an error it may not have: nothing there is read.
        _ => count.into(),
    };
    settle::watched(device, result, missing, count.into(), spent);
    result
}

/// One create info; a base pipeline of the same batch is named by its handle (contract 3.3).
///
/// # Safety
/// The call's create info is valid.
unsafe fn element<I: CreateInfo>(call: &Call<'_, I>) -> Answer {
    call::take_made();
    faults::here("pipeline asked for");
    // SAFETY: the call's create info is valid, and `stand_alone` has put a handle in place of a base
    // pipeline's index.
    let answer = unsafe { ask::serve(call) };
    // A driver's callback may create pipelines inside another creation call, which must not take them for its own.
    call::take_made();
    answer
}

/// What the program gets where the layer has failed: the pipeline, if the driver has made it by then, or else what the
/// driver makes of the program's own create info.
///
/// # Safety
/// As [`element`].
unsafe fn after_failure<I: CreateInfo>(call: &Call<'_, I>) -> Answer {
    call.device.count(Count::InternalFailures);
    // SAFETY: the call's create info is valid (the # Safety section of `element`), and `take_made` gives the
    // answer of the driver to this call.
    unsafe { failed::serve(call, call::take_made()) }
}

/// vkDestroyPipeline, on devices that can have libraries.
pub unsafe extern "system" fn destroy(
    handle: vk::Device,
    pipeline: vk::Pipeline,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let uncancelled = Uncancelled::begin();
    // SAFETY: `handle` is a live device, as the command demands of its caller.
    let Some(device) = (unsafe { live_devices::find_within(&uncancelled, handle) }) else {
        pass!(handle, destroy_pipeline(pipeline, allocator));
    };
    // Forgotten first: the driver may give the handle to another thread at once.
    guard_within(&uncancelled, "vkDestroyPipeline", || device.objects.libraries.remove(pipeline), || ());
    if let Some(next) = device.table.destroy_pipeline {
        // SAFETY: the program destroys a pipeline of this device that no call uses any more.
        unsafe { next(handle, pipeline, allocator) };
    }
}
