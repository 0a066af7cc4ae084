//! Ray tracing pipelines that the driver makes in a deferred operation (contract 3.6).
//!
//! What can be had without compiling is had at once, and the program is told that nothing was deferred. Only
//! where every pipeline of the call is had: else the driver gets the call as the program made it, whose own
//! structures it may read until the operation is complete, and at most another cache. Recipes are recorded
//! before the call, because the program's structures may be gone when it is complete; artifacts afterwards.

use std::ptr::NonNull;
use std::time::Instant;

use ash::vk::{self, Handle};

use super::bypass::count_bypassed;
use super::call::Call;
use super::counts::{count_result, count_unrecorded};
use super::create_info::{CreateInfo as _, Creation};
use super::outcome::{ArtifactOutcome, Origin, Outcome, Served};
use super::program_cache::ProgramCache;
use super::request::{DescribedPipeline, Request};
use super::{driver_hits, feedback, modules, record, sources};
use crate::guard::guard;
use crate::live;
use crate::state::cache_state::InCall;
use crate::state::deferred::{DeferredCall, Element, Feedback, Taken, Ticket};
use crate::state::described::LibraryObject;
use crate::state::device::{Device, IdentifierMode};
use crate::state::pipeline_class::PipelineClass;
use crate::state::private_cache::PrivateCache;
use crate::steps::Steps;
use vkstash_model::counters::Count;
use vkstash_model::live::Activity;
use vkstash_model::payload;
use vkstash_model::shader_set::ShaderSet;
use vkstash_model::steps::{StepAnswer, StepSource};
use vkstash_recipe::capture::stage::Naming;
use vkstash_recipe::chain::{Arena, Refusal};
use vkstash_store::base::memory;
use vkstash_store::format::record::{Key, Kind};

type Info<'a> = vk::RayTracingPipelineCreateInfoKHR<'a>;

/// The artifact of a call that makes several pipelines holds them all, and is kept for each of them: only while the
/// copies stay below this many bytes.
const COPIES_LIMIT: usize = 8 << 20;

/// What became of one create info before the driver is asked to compile.
#[derive(Default)]
struct Attempt {
    /// The pipeline, if a source had it without a compile.
    had: Option<Served>,
    /// Its key and its shaders, where it could be described.
    key: Option<(Key, ShaderSet)>,
    /// What the pipeline is remembered as, where it is a library.
    library: Option<LibraryObject>,
    /// How often in a row the driver has refused its artifacts.
    refusals: u8,
    /// No cache of the layer's may be passed.
    untouched: bool,
    /// The driver was asked for the pipeline with the program's own call, or cannot have it: a cache of the layer's
    /// in the place of the program's hides nothing.
    asked: bool,
    /// The stash knows that the driver has answered it with an error.
    failed_before: bool,
    /// Why the create info goes to the driver unchanged.
    refusal: Option<Refusal>,
    /// The create info names a stage by its identifier only.
    by_identifier: bool,
    /// The program's structure for creation feedback.
    feedback: Option<NonNull<Feedback>>,
}

/// Answers vkCreateRayTracingPipelinesKHR with an operation. `creations` are the program's create infos, parsed.
///
/// # Safety
/// `operation`, `infos`, `allocator` and `pipelines` are the program's valid arguments of
/// vkCreateRayTracingPipelinesKHR; both arrays have as many elements as `creations`.
pub unsafe fn create(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    program_cache: &ProgramCache,
    creations: &[Creation<'_, Info<'_>>],
    infos: *const Info<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    // What an earlier call left in this operation is complete (03678), though no thread asked for its result.
    forget(device, operation);
    let mut attempts: Vec<Attempt> = Vec::new();
    for creation in creations {
        let call = Call { device, program_cache, allocator, creation };
        let base = |from: usize| {
            let had = attempts.get(from).and_then(|base: &Attempt| base.had);
            had.map(|served| served.answer.pipeline).unwrap_or_default()
        };
        // SAFETY: the program's valid create info.
        let attempt = unsafe { without_compiling(&call, base) };
        attempts.push(attempt);
    }
    let all_had = attempts.iter().all(|attempt| attempt.had.is_some());
    // SAFETY: `infos` and `pipelines` have as many elements as `creations`, and so as `attempts`.
    unsafe {
        if all_had {
            for (index, attempt) in attempts.into_iter().enumerate() {
                let Some(served) = attempt.had else { continue };
                let pipeline = served.answer.pipeline;
                if let Some(library) = attempt.library {
                    device.objects.libraries.insert(pipeline, library);
                }
                served.count(device, attempt.by_identifier);
                *pipelines.add(index) = pipeline;
            }
            return vk::Result::OPERATION_NOT_DEFERRED_KHR;
        }
        // Handed out in part they would have to be put beside what the driver writes later.
        for served in attempts.iter_mut().filter_map(|attempt| attempt.had.take()) {
            if let Some(destroy) = device.table.destroy_pipeline {
                destroy(device.handle, served.answer.pipeline, allocator);
            }
        }
        compile(device, operation, program_cache, attempts, infos, allocator, pipelines)
    }
}

/// Asks the sources that need not compile, for one create info. `base` tells what was had of an earlier one of the same
/// call.
///
/// # Safety
/// The call's create info is valid.
unsafe fn without_compiling(call: &Call<'_, Info<'_>>, base: impl FnOnce(usize) -> vk::Pipeline) -> Attempt {
    let (device, parsed) = (call.device, call.parsed());
    let by_identifier = parsed.naming.lacks_code;
    let feedback = parsed.feedback.map(|feedback| NonNull::from(feedback).cast());
    let attempt = Attempt { by_identifier, feedback, ..Attempt::default() };
    let mut steps = Steps::begin(parsed.stage_flags(), device.frames.number());
    let mut recipe = Vec::new();
    // SAFETY: the call's create info is valid, and its objects are of this device.
    let described = match unsafe { DescribedPipeline::of(device, call.creation, &mut recipe) } {
        Ok(described) => described,
        Err(refusal) => {
            let library = parsed.is_library().then_some(Err(refusal));
            return Attempt { refusal: Some(refusal), library, ..attempt };
        }
    };
    if by_identifier {
        device.count(Count::IdentifierRequests);
    }
    let mut arena = Arena::default();
    let mut base_is_missing = false;
    let base = |from| {
        let base = base(from);
        base_is_missing = base.is_null();
        base
    };
    let library = parsed.is_library().then(|| Ok(described.library()));
    steps.knows(&described.key);
    let attempt = Attempt { key: Some((described.key, described.shaders.clone())), library, ..attempt };
    // SAFETY: the call's create info is valid and could be captured, so every structure in its chains is known; what
    // the copy needs stays on this stack frame.
    let attempt = unsafe {
        let mut alone = *call.creation;
        alone.stand_alone(&mut arena, base);
        let call = call.with(&alone);
        modules::with_request(&call, &described, |request| {
            ask_in_order(request, base_is_missing, attempt, &mut steps)
        })
    };
    if attempt.had.is_none() {
        steps.add(StepSource::Own, StepAnswer::Deferred);
    }
    sources::note_steps(device, &described.key, &steps, vk::Result::SUCCESS);
    attempt
}

/// [`without_compiling`] for a described pipeline. `attempt` is what is known of it already.
///
/// # Safety
/// The request's create info is valid.
unsafe fn ask_in_order(
    request: &Request<'_, Info<'_>>,
    base_is_missing: bool,
    attempt: Attempt,
    steps: &mut Steps,
) -> Attempt {
    let (call, mut buffer) = (&request.call, Vec::new());
    let device = call.device;
    // SAFETY: the request's create info is valid until vkCreateRayTracingPipelinesKHR returns.
    unsafe {
        // Where its base is to be compiled the driver gets both, as the program wrote them. Without cache control a
        // blob that the driver does not take would be compiled here and now.
        let parked_alone = base_is_missing || !device.cache_control();
        let artifact = match sources::without_compiling(request, parked_alone, &mut buffer, steps) {
            Outcome::Served(served) => {
                let asked = matches!(served.origin, Origin::Stash { .. } | Origin::Parked { .. });
                driver_hits::note_found(request, &served);
                return Attempt { had: Some(served), asked, ..attempt };
            }
            Outcome::GoUntouched { recorded } => {
                record_recipe(request);
                return Attempt { untouched: true, failed_before: recorded, ..attempt };
            }
            Outcome::Missed { artifact, .. } => artifact,
        };
        record_recipe(request);
        // What the program itself forbids to compile is asked for by the call that goes down. Where a base is missing
        // nothing was asked, and only a cache of the program's is worth more than an artifact.
        let was_asked = if base_is_missing {
            matches!(call.program_cache, ProgramCache::Null)
        } else {
            device.cache_control()
        };
        let recorded_anyway =
            matches!(call.program_cache, ProgramCache::Null) && device.policy.free_recording;
        let asked = !call.parsed().fails_on_compile_required() && (was_asked || recorded_anyway);
        let attempt = Attempt { asked, ..attempt };
        match artifact {
            ArtifactOutcome::LeftAlone => Attempt { untouched: true, ..attempt },
            ArtifactOutcome::Refused(refused) => Attempt { refusals: refused.refusals, ..attempt },
            ArtifactOutcome::NotOffered | ArtifactOutcome::ModuleMissing => attempt,
        }
    }
}

/// Queues the recipe now: the program's structures may be gone when the operation is complete.
///
/// # Safety
/// The request's create info is valid.
unsafe fn record_recipe(request: &Request<'_, Info<'_>>) {
    if let Some(stored) = request.call.device.stored() {
        // SAFETY: the request's create info is valid: the command that was passed it has not returned yet.
        unsafe { record::record_recipe(request, stored) };
    }
}

/// The driver's turn, in the operation.
///
/// # Safety
/// As [`create`].
unsafe fn compile(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    program_cache: &ProgramCache,
    attempts: Vec<Attempt>,
    infos: *const Info<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let Some(next) = device.table.create_ray_tracing_pipelines_khr else { return vk::Result::ERROR_UNKNOWN };
    attempts.iter().filter_map(|attempt| attempt.refusal).for_each(|refusal| count_bypassed(device, refusal));
    let all_described = attempts.iter().all(|attempt| attempt.key.is_some());
    // In the place of the program's cache, or of none, one of the layer's may be passed only once the driver has said
    // that it has nothing for the program's own call. `compile.rs`, `source`, says why other calls decide otherwise.
    let asked = attempts.iter().all(|attempt| attempt.asked);
    let free = match program_cache {
        ProgramCache::Null => asked,
        // RADV says that it has nothing of ray tracing libraries where it has (`compile.rs`, `source`).
        ProgramCache::Known { cache, .. } => {
            let unsure = attempts.iter().any(|attempt| attempt.library.is_some());
            asked && !(unsure && cache.holds_earlier_runs())
        }
        ProgramCache::Unknown(_) => false,
    };
    let refusals = attempts.iter().map(|attempt| attempt.refusals).max().unwrap_or(0);
    let free = free && !attempts.iter().any(|attempt| attempt.untouched);
    let recorded = free && all_described && record::may_record_artifact(device, PipelineClass::RayTracing);
    let own_cache = if recorded { device.caches.commands.for_threads() } else { None };
    let cache = match &own_cache {
        Some(cache) => cache.handle(),
        None => {
            program_cache.mark_filled(device);
            program_cache.handle()
        }
    };
    let count = attempts.len() as u32;
    // What a cache of the layer's had is no hit in the program's.
    let is_hit_elsewhere = own_cache.is_some();
    let element = |Attempt { key, library, refusal, failed_before, feedback, .. }| Element {
        key,
        library,
        bypassed: refusal.is_some(),
        failed_before,
        made: false,
        feedback: feedback.filter(|_| is_hit_elsewhere),
    };
    let elements = attempts.into_iter().map(element);
    let deferred_call = DeferredCall {
        cache: own_cache.map_or(vk::PipelineCache::null(), PrivateCache::into_handle),
        elements: elements.collect(),
        program_cache: of_program(program_cache),
        passes_null: matches!(program_cache, ProgramCache::Null),
        pipelines,
        refusals,
        started: Instant::now(),
    };
    let _live = live::call::Call::begin(deferred_call.started, Activity::Own, vk::ShaderStageFlags::empty());
    // SAFETY: the program's valid arguments; the cache lives until the operation is complete.
    let below = || unsafe { next(device.handle, operation, cache, count, infos, allocator, pipelines) };
    // SAFETY: `below` passes the program's valid arguments on.
    unsafe { hand_over(device, operation, deferred_call, below) }
}

/// The program's cache, as far as it is known.
fn of_program(program_cache: &ProgramCache) -> Option<InCall> {
    match program_cache {
        ProgramCache::Known { cache, .. } => Some(cache.clone()),
        ProgramCache::Null | ProgramCache::Unknown(_) => None,
    }
}

/// Whether a call with an operation is made without it: the driver may get something else than the program wrote, and
/// would read the program's own structures until the operation is complete.
///
/// # Safety
/// Valid create infos.
pub unsafe fn is_made_at_once(device: &Device, count: u32, infos: *const Info<'_>) -> bool {
    let is_emulated = device.identifiers() == IdentifierMode::Emulated;
    if !is_emulated && !device.emulates_cache_control() {
        return false;
    }
    (0..count as usize).any(|index| {
        // SAFETY: valid for its count (the caller's contract).
        let parsed = unsafe { (*infos.add(index)).parse() };
        let Naming { lacks_code, identifier_structure } = parsed.naming;
        is_emulated && (lacks_code || identifier_structure)
            || device.emulates_cache_control()
                && (parsed.fails_on_compile_required() || parsed.returns_early())
    })
}

/// What the program is told of a call that was made without its operation.
pub fn without_deferring(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    result: vk::Result,
) -> vk::Result {
    if operation.is_null() {
        return result;
    }
    // What an earlier call left in this operation is complete (03678).
    forget(device, operation);
    if result == vk::Result::SUCCESS { vk::Result::OPERATION_NOT_DEFERRED_KHR } else { result }
}

/// A call with an operation to a driver that is only watched: it is counted when it is complete.
///
/// # Safety
/// `below` passes the program's valid arguments on, this operation and these `count` pipelines among them.
pub unsafe fn watch(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    program_cache: &ProgramCache,
    count: u32,
    pipelines: *mut vk::Pipeline,
    below: impl FnOnce() -> vk::Result,
) -> vk::Result {
    forget(device, operation);
    program_cache.mark_filled(device);
    let deferred_call = DeferredCall {
        cache: vk::PipelineCache::null(),
        elements: (0..count).map(|_| Element::default()).collect(),
        program_cache: of_program(program_cache),
        passes_null: false,
        pipelines,
        refusals: 0,
        started: Instant::now(),
    };
    // SAFETY: `below` passes on the program's valid arguments, with this operation and `count` elements of
    // `pipelines` (the caller's # Safety section).
    unsafe { hand_over(device, operation, deferred_call, below) }
}

/// The call goes down, and is remembered until it is complete.
///
/// # Safety
/// As [`watch`].
unsafe fn hand_over(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    deferred_call: DeferredCall,
    below: impl FnOnce() -> vk::Result,
) -> vk::Result {
    // Before the call: other threads may join the operation as soon as the driver knows of it.
    let ticket = device.deferred.begin(operation, deferred_call);
    let result = below();
    let after = || match result {
        vk::Result::OPERATION_DEFERRED_KHR => {
            if device.deferred.deferred(operation, ticket) {
                // SAFETY: the call has not returned, so the program keeps the operation and the array valid.
                unsafe { settle(device, operation, Some(ticket), None) };
            }
        }
        vk::Result::OPERATION_NOT_DEFERRED_KHR => {
            // SAFETY: nothing was deferred, so the driver is done, and the call has not returned.
            unsafe { settle(device, operation, Some(ticket), Some(vk::Result::SUCCESS)) };
        }
        // SAFETY: the call has failed, so the driver is done, and it has not returned.
        other => unsafe { settle(device, operation, Some(ticket), Some(other)) },
    };
    // The driver has the call: it must not get it once more.
    guard("vkCreateRayTracingPipelinesKHR", after, || device.count(Count::InternalFailures));
    result
}

/// The driver has said that an operation is complete, and the program is about to hear of it. `noted` is the call
/// that was under way when the driver was asked, and `result` what came of it, where that is known.
///
/// # Safety
/// `operation` is a live deferred operation of the device.
pub unsafe fn settle(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    mut noted: Option<Ticket>,
    result: Option<vk::Result>,
) {
    let mut result = result.filter(|_| noted.is_some());
    loop {
        // While this thread was in the driver, the operation may have completed and been given new work; then the
        // driver is asked about that.
        let Some(ticket) = noted.take().or_else(|| device.deferred.under_way(operation)) else { return };
        // The driver is asked before any thread was told: from then on the operation may be used again.
        // SAFETY: a live operation.
        let ask = || unsafe {
            let ask = device.table.get_deferred_operation_result;
            ask.map_or(vk::Result::ERROR_UNKNOWN, |ask| ask(device.handle, operation))
        };
        let outcome = result.take().unwrap_or_else(ask);
        if outcome == vk::Result::NOT_READY {
            return;
        }
        // SAFETY: the call is complete, and nobody has been told or its creating call has not returned: until this
        // entry is taken out neither goes on. So the program keeps the array valid.
        let read = |deferred_call: &mut DeferredCall| unsafe { read(device, deferred_call) };
        match device.deferred.take(operation, ticket, read) {
            Taken::Over(deferred_call) => return finish(device, deferred_call, outcome),
            Taken::Gone => return,
            // The operation was used again meanwhile: the driver's answer was about what it did before.
            Taken::Another => {}
        }
    }
}

/// Looks at what the driver has written, puts it right, and remembers the libraries.
///
/// # Safety
/// The call is complete, and the program has not been told yet, or is still in the creating call.
unsafe fn read(device: &Device, deferred_call: &mut DeferredCall) {
    for (index, element) in deferred_call.elements.iter_mut().enumerate() {
        // SAFETY: the driver has written the handles, and the program has kept them valid until now.
        let made = unsafe { *deferred_call.pipelines.add(index) };
        // Where one pipeline of a call fails, others may have been made.
        element.made = !made.is_null();
        // SAFETY: the driver has filled the program's structure, which the program has kept valid until now.
        unsafe { feedback::clear_hit(element.feedback.take().map(|feedback| feedback.as_ref())) };
        if let Some(library) = element.library.take().filter(|_| element.made) {
            device.objects.libraries.insert(made, library);
        }
    }
}

/// What an operation made is recorded and counted.
fn finish(device: &Device, deferred_call: DeferredCall, result: vk::Result) {
    let DeferredCall { cache, elements, program_cache, passes_null, refusals, started, pipelines: _ } =
        deferred_call;
    let cost = started.elapsed();
    // SAFETY: NULL, or a cache of the layer's that the driver is done with.
    let mut own_cache = unsafe { device.caches.commands.taken_back(cache) };
    let read = own_cache.as_ref().filter(|_| result == vk::Result::SUCCESS);
    let data = read.map(|cache| cache.data_behind(&payload::prefix(cost, refusals)));
    if let Some(program_cache) = program_cache.as_ref().filter(|_| cache.is_null()) {
        // A program that read the cache's data during the call has data without what the driver has added since.
        program_cache.mark_filled();
    }
    let count = elements.len();
    if result == vk::Result::SUCCESS && elements.iter().any(|element| element.key.is_some()) {
        device.counters().add(Count::CompileNanos, cost.as_nanos() as u64);
        if let Some(data) = &data {
            device.caches.probe.note(PipelineClass::RayTracing, data.as_ref().err().copied(), false);
        }
    }
    // If the call is for several pipelines it is not known which have failed. That it works later is not
    // noted: the layer's cache may have been to blame, and there is no second try here.
    if let [Element { key: Some((key, _)), failed_before, .. }] = &elements[..] {
        if result.as_raw() < 0 {
            record::note_failure(device, key, *failed_before, result);
        }
    }
    let artifact =
        data.and_then(Result::ok).filter(|artifact| count == 1 || artifact.len() * count <= COPIES_LIMIT);
    let all_there = elements.iter().all(|element| element.made);
    for (index, element) in elements.iter().enumerate() {
        // A driver that says that it has failed has failed, whatever it has written.
        if result != vk::Result::SUCCESS && (!element.made || all_there && index == 0) {
            count_result(device, result);
            continue;
        }
        let kept = match (&element.key, &artifact, device.stored()) {
            (Some((key, shaders)), Some(artifact), Some(stored)) => {
                if let Some(program_cache) = &program_cache {
                    if program_cache.pending.note(key, shaders) {
                        // It has what all elements have left.
                        let bytes = artifact.len() - payload::PREFIX;
                        own_cache.take().into_iter().for_each(|cache| program_cache.answer.add(cache, bytes));
                    }
                } else if passes_null {
                    device.caches.null.pending.note(key, shaders);
                }
                if record::is_lost(stored, key) {
                    // Each pipeline gets an equal share of the time: which took how long is not known.
                    record::count_lost(device, cost / count as u32);
                }
                stored.stash.note_use(Kind::Artifact, key);
                let copy = memory::copied(artifact);
                copy.is_some_and(|copy| stored.device.put(Kind::Artifact, key, copy.into_boxed_slice()))
            }
            (Some((key, _)), None, Some(stored)) if device.records_recipes_alone() => {
                // Each pipeline's cost is an equal share of the operation's time.
                record::note_cost(device, stored, key, cost / count as u32);
                false
            }
            _ => false,
        };
        if !element.bypassed {
            match kept {
                true => device.count(Count::Compiled),
                false => count_unrecorded(device, 1),
            }
        }
    }
}

/// An operation is over, whatever came of it.
pub fn forget(device: &Device, operation: vk::DeferredOperationKHR) {
    if let Some(deferred_call) = device.deferred.forget(operation) {
        // SAFETY: the driver is done with it (03436).
        drop(unsafe { device.caches.commands.taken_back(deferred_call.cache) });
    }
}
