//! Ray tracing pipelines that the driver makes in a deferred operation (contract 3.6).
//!
//! What can be had without compiling is had at once, and the program is told that nothing was deferred. Only
//! where every pipeline of the call is had: else the driver gets the call as the program made it, whose own
//! structures it may read until the operation is complete, and at most another cache. Recipes are recorded
//! before the call, because the program's structures may be gone when it is complete; artifacts afterwards.

use std::time::Instant;

use ash::vk::{self, Handle};

use super::call::{self, Answer, CreateInfo};
use super::past::Past;
use super::private_cache::{self, PrivateCache};
use super::{Described, Passed, Request, artifact, bypass_counted, describe, driver, record, refuse_all};
use crate::recipe::capture::stage::LIBRARY;
use crate::recipe::capture::{Library, Scratch};
use crate::recipe::chain::Refusal;
use crate::state::deferred::Pending;
use crate::state::device::{Device, IdentifierMode};
use crate::state::family::Family;
use crate::stats::Count;
use crate::store::part::{Key, Kind};

type Info<'a> = vk::RayTracingPipelineCreateInfoKHR<'a>;

const FAIL_ON: u64 = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED.as_raw() as u64;

/// The blob of a call that makes several pipelines holds them all, and is kept for each of them: only while the
/// copies stay below this many bytes.
const COPIES_LIMIT: usize = 8 << 20;

/// What became of one create info before the driver is asked to compile.
struct Element {
    /// The pipeline that was had at once, and the library that it is.
    had: Option<vk::Pipeline>,
    key: Option<Key>,
    library: Option<Result<Library, Refusal>>,
    /// How often in a row the driver has refused its artifacts, and whether that was often enough.
    refusals: u8,
    left_alone: bool,
    /// Why it must bypass.
    refusal: Option<Refusal>,
    /// It names its code by an identifier of ours: no driver can make it.
    ours_alone: bool,
}

/// Answers vkCreateRayTracingPipelinesKHR with an operation.
///
/// # Safety
/// The program's valid arguments, `operation` among them.
pub unsafe fn create(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    passed: &Passed,
    count: u32,
    infos: *const Info<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // What an earlier call left in this operation is complete (03678), though nobody asked for its result.
    forget(device, operation);
    if device.cache_control_emulated {
        // SAFETY: valid for its count.
        let forbids = |index| unsafe { call::flags_of(&mut { *infos.add(index) }).0 & FAIL_ON != 0 };
        if (0..count as usize).any(forbids) {
            // SAFETY: as above.
            return unsafe { refuse_all(device, count, infos, pipelines) };
        }
    }
    let mut elements = Vec::with_capacity(count as usize);
    for index in 0..count as usize {
        // SAFETY: valid for its count.
        elements.push(unsafe { without_compiling(device, passed, allocator, &*infos.add(index)) });
    }
    let all_had = elements.iter().all(|element| element.had.is_some());
    let hopeless = elements.iter().any(|element| element.had.is_none() && element.ours_alone);
    // SAFETY: the caller's contract: both arrays are valid for `count`.
    unsafe {
        if all_had {
            for (index, element) in elements.into_iter().enumerate() {
                let pipeline = element.had.unwrap_or_default();
                if let Some(library) = element.library {
                    device.libraries.insert(pipeline, library);
                }
                *pipelines.add(index) = pipeline;
            }
            return vk::Result::OPERATION_NOT_DEFERRED_KHR;
        }
        // Handed out in part they would have to be put beside what the driver writes later.
        for pipeline in elements.iter_mut().filter_map(|element| element.had.take()) {
            if let Some(destroy) = device.table.destroy_pipeline {
                destroy(device.handle, pipeline, allocator);
            }
        }
        if hopeless {
            return refuse_all(device, count, infos, pipelines);
        }
        compile(device, operation, passed, elements, infos, allocator, pipelines)
    }
}

/// Rungs 3 and 4 for one create info.
///
/// # Safety
/// `info` is a valid create info of the device.
unsafe fn without_compiling(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &Info<'_>,
) -> Element {
    let (mut scratch, mut recipe, mut buffer) = (Scratch::default(), Vec::new(), Vec::new());
    // SAFETY: the caller's contract.
    let (flags, _) = unsafe { call::flags_of(&mut { *info }) };
    let is_library = flags & LIBRARY != 0;
    // SAFETY: as above.
    let (Described { key, parts, family }, steering) =
        match unsafe { describe(device, info, &mut scratch, &mut recipe) } {
            Ok(described) => described,
            Err(refusal) => {
                // SAFETY: as above.
                let named = unsafe { call::names_code_by_identifier(info.stages()) };
                return Element {
                    had: None,
                    key: None,
                    library: is_library.then_some(Err(refusal)),
                    refusals: 0,
                    left_alone: false,
                    refusal: Some(refusal),
                    ours_alone: named && device.identifiers == IdentifierMode::Emulated,
                };
            }
        };
    let request = Request {
        device,
        passed,
        allocator,
        info: *info,
        steering,
        family,
        key,
        recipe: &recipe,
        parts,
        past: Past::default(),
    };
    let ours_alone = steering.identifier_only && device.identifiers == IdentifierMode::Emulated;
    if steering.identifier_only {
        device.count(Count::IdentifierRequests);
    }
    // SAFETY: as above.
    let answer: Option<Answer> = unsafe {
        // Without cache control a blob that the driver does not take would be compiled here and now.
        let served = device.cache_control.then(|| artifact::serve(&request, &mut buffer)).flatten();
        match served {
            // The program may forbid compiling; then the driver's answer to the call itself is as good.
            None if !ours_alone && !steering.fail_on_compile_required => driver::ask(&request),
            served => served,
        }
    };
    let had = answer.map(|answer| answer.pipeline).filter(|pipeline| !pipeline.is_null());
    if had.is_none() {
        if let Some(stored) = device.stored() {
            // SAFETY: as above.
            unsafe { record::record_recipe(&request, stored) };
        }
    } else if steering.identifier_only {
        device.count(Count::IdentifierServed);
    }
    let library = steering.library.then_some(Ok(Library { key, traits: steering.made }));
    let (refusals, left_alone) = (request.past.refusals(), request.past.left_alone());
    Element { had, key: Some(key), library, refusals, left_alone, refusal: None, ours_alone }
}

/// The driver's turn, in the operation.
///
/// # Safety
/// As [`create`].
unsafe fn compile(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    passed: &Passed,
    elements: Vec<Element>,
    infos: *const Info<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let Some(next) = device.table.create_ray_tracing_pipelines_khr else { return vk::Result::ERROR_UNKNOWN };
    elements.iter().filter_map(|element| element.refusal).for_each(|refusal| bypass_counted(device, refusal));
    let keys: Option<Vec<Key>> = elements.iter().map(|element| element.key).collect();
    // Beside a cache of the program's a cache of ours may be passed only once the driver has said that it has
    // nothing for the program's own call.
    let free = match passed {
        Passed::Null => device.cache_control || device.policy.free_recording,
        Passed::Known { .. } => device.cache_control,
        Passed::Unknown(_) => false,
    };
    let refusals = elements.iter().map(|element| element.refusals).max().unwrap_or(0);
    let free = free && !elements.iter().any(|element| element.left_alone);
    let recorded = free && device.gives(Family::RayTracing) && device.stored().is_some();
    let ours = keys.as_ref().filter(|_| recorded).and_then(|_| PrivateCache::for_threads(device));
    let cache = match &ours {
        Some(ours) => ours.handle(),
        None => {
            if let Passed::Known { cache, .. } = passed {
                cache.mark_filled();
            }
            passed.handle()
        }
    };
    let count = elements.len() as u32;
    let libraries = elements.into_iter().enumerate();
    let pending = Pending {
        cache: ours.map_or(vk::PipelineCache::null(), PrivateCache::into_handle),
        keys: keys.unwrap_or_default(),
        passed: match passed {
            Passed::Known { cache, .. } => Some(cache.clone()),
            Passed::Null | Passed::Unknown(_) => None,
        },
        libraries: libraries.filter_map(|(index, element)| Some((index, element.library?))).collect(),
        pipelines,
        refusals,
        started: Instant::now(),
    };
    // Before the call: other threads may join the operation as soon as the driver knows of it.
    device.deferred().insert(operation.as_raw(), pending);
    // SAFETY: the program's valid arguments; the cache lives until the operation is complete.
    let result = unsafe { next(device.handle, operation, cache, count, infos, allocator, pipelines) };
    if result != vk::Result::OPERATION_DEFERRED_KHR {
        let outcome = match result {
            vk::Result::OPERATION_NOT_DEFERRED_KHR => vk::Result::SUCCESS,
            other => other,
        };
        // SAFETY: nothing was deferred, so the driver is done.
        unsafe { settle(device, operation, || Some(outcome)) };
    }
    result
}

/// An operation is complete: what it made is recorded, and its libraries are known from now on.
///
/// # Safety
/// The operation is complete, and the program has not been told yet.
pub unsafe fn settle(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    outcome: impl FnOnce() -> Option<vk::Result>,
) {
    let Some(pending) = device.deferred().remove(&operation.as_raw()) else { return };
    let cost = pending.started.elapsed();
    let result = outcome().unwrap_or(vk::Result::ERROR_UNKNOWN);
    let blob = if pending.cache.is_null() || result != vk::Result::SUCCESS {
        None
    } else {
        // SAFETY: a cache of ours that the driver is done with.
        unsafe { private_cache::data_behind(device, pending.cache, &record::prefix(cost, pending.refusals)) }
    };
    // SAFETY: as above.
    unsafe { private_cache::destroy(device, pending.cache) };
    if let Some(passed) = pending.passed.as_ref().filter(|_| pending.cache.is_null()) {
        // Who asked for its data meanwhile has an answer without what the driver has put in since.
        passed.mark_filled();
    }
    for (index, library) in pending.libraries {
        // SAFETY: the driver has written the handles, and the program has kept them valid until now.
        let made = unsafe { *pending.pipelines.add(index) };
        // Where one pipeline of a call fails, others may have been made.
        if !made.is_null() {
            device.libraries.insert(made, library);
        }
    }
    if result != vk::Result::SUCCESS {
        device.count(if result.as_raw() < 0 { Count::Failed } else { Count::CompileRequired });
        return;
    }
    device.counters().add(Count::CompileNanos, cost.as_nanos() as u64);
    if !pending.cache.is_null() {
        device.harvests.note(Family::RayTracing, blob.is_some(), false);
    }
    let count = pending.keys.len();
    let blob = blob.filter(|blob| count == 1 || blob.len() * count <= COPIES_LIMIT);
    for key in &pending.keys {
        if let (Some(passed), Some(blob)) = (&pending.passed, &blob) {
            passed.owe_compiled(key, &blob[record::PREFIX..]);
        }
        let kept = match (&blob, device.stored()) {
            (Some(blob), Some(stored)) => {
                if record::is_lost(stored, key) {
                    // Which of them took how long is not known.
                    record::count_lost(device, cost / count as u32);
                }
                stored.device.put(Kind::Artifact, key, blob.as_slice().into())
            }
            _ => false,
        };
        device.count(if kept { Count::Compiled } else { Count::CompiledUnrecorded });
    }
}

/// An operation is over, whatever came of it.
pub fn forget(device: &Device, operation: vk::DeferredOperationKHR) {
    let pending = device.deferred().remove(&operation.as_raw());
    if let Some(pending) = pending {
        // SAFETY: the driver is done with it (03436).
        unsafe { private_cache::destroy(device, pending.cache) };
    }
}
