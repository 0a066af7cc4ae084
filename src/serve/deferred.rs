//! Ray tracing pipelines that the driver makes in a deferred operation (contract 3.6).
//!
//! What can be had without compiling is had at once, and the program is told that nothing was deferred. Only
//! where every pipeline of the call is had: else the driver gets the call as the program made it, whose own
//! structures it may read until the operation is complete, and at most another cache. Recipes are recorded
//! before the call, because the program's structures may be gone when it is complete; artifacts afterwards.

use std::ptr::NonNull;
use std::time::Instant;

use ash::vk;

use super::ask;
use super::call::Call;
use super::compiling;
use super::create_info::Creation;
use super::facts::Deferral;
use super::modules::{self, Stripped};
use super::operation;
use super::request::{DescribedPipeline, Request};
use super::settle;
use super::verdict::{Attempts, Miss, Origin, Verdict};
use crate::live;
use crate::state::caches::pipeline_class::PipelineClass;
use crate::state::caches::private_cache::PrivateCache;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::deferred::{DeferredCall, Element};
use crate::state::devices::device::Device;
use crate::steps::Steps;
use vkstash_model::failed::Refusals;
use vkstash_model::live::Activity;
use vkstash_recipe::chain::{Arena, Refusal};

type Info<'a> = vk::RayTracingPipelineCreateInfoKHR<'a>;

/// What one create info of a call is asked with, for as long as the others are asked, too.
#[derive(Default)]
struct RequestBuffers<'a> {
    recipe: Vec<u8>,
    artifact: Vec<u8>,
    arena: Arena,
    stripped: Stripped,
    described: Option<DescribedPipeline<'a>>,
    alone: Option<Creation<'a, Info<'a>>>,
    without_identifiers: Option<Creation<'a, Info<'a>>>,
}

/// One create info of a call, which was asked for.
struct Attempt<'a> {
    call: Call<'a, Info<'a>>,
    outcome: Result<DescribedAttempt<'a>, Refusal>,
}

/// One that could be described.
struct DescribedAttempt<'a> {
    pipeline: &'a DescribedPipeline<'a>,
    verdict: Option<Verdict<'a>>,
    tried: Attempts<'a>,
    base_is_missing: bool,
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
    operation::forget(device, operation);
    let mut kept: Vec<RequestBuffers<'_>> = creations.iter().map(|_| RequestBuffers::default()).collect();
    let mut handles: Vec<vk::Pipeline> = Vec::new();
    let mut attempts: Vec<Attempt<'_>> = Vec::new();
    for (creation, kept) in creations.iter().zip(&mut kept) {
        let call = Call { device, program_cache, allocator, creation };
        let base = |from: usize| handles.get(from).copied().unwrap_or_default();
        // SAFETY: the program's valid create info.
        let attempt = unsafe { ask(call, base, kept) };
        handles.push(attempt.pipeline());
        attempts.push(attempt);
    }
    // SAFETY: `infos` and `pipelines` have as many elements as `creations`, and so as `attempts`; the create infos are
    // valid until the command returns.
    unsafe {
        if handles.iter().all(|pipeline| *pipeline != vk::Pipeline::null()) {
            for (index, attempt) in attempts.into_iter().enumerate() {
                attempt.hand_out();
                *pipelines.add(index) = handles[index];
            }
            return vk::Result::OPERATION_NOT_DEFERRED_KHR;
        }
        // Handed out in part they would have to be put beside what the driver writes later.
        if let Some(destroy) = device.table.destroy_pipeline {
            handles.into_iter().for_each(|pipeline| destroy(device.handle, pipeline, allocator));
        }
        compile(device, operation, program_cache, attempts, infos, allocator, pipelines)
    }
}

/// Asks the sources that need not compile, for one create info. `base` tells what was had of an earlier one of the same
/// call.
///
/// # Safety
/// The call's create info is valid.
unsafe fn ask<'a>(
    call: Call<'a, Info<'a>>,
    base: impl FnOnce(usize) -> vk::Pipeline,
    kept: &'a mut RequestBuffers<'a>,
) -> Attempt<'a> {
    let (device, parsed) = (call.device, call.parsed());
    let RequestBuffers { recipe, artifact, arena, stripped, described, alone, without_identifiers } = kept;
    let mut tried = Attempts::new(Steps::begin(parsed.stage_flags(), device.frames().number()));
    // SAFETY: the call's create info is valid, and its objects are of this device.
    let pipeline = match unsafe { DescribedPipeline::of(device, call.creation, recipe) } {
        Ok(pipeline) => described.insert(pipeline),
        Err(refusal) => return Attempt { call, outcome: Err(refusal) },
    };
    tried.steps.knows(&pipeline.key);
    let mut base_is_missing = false;
    let base = |from| {
        let base = base(from);
        base_is_missing = base == vk::Pipeline::null();
        base
    };
    // SAFETY: the call's create info is valid and could be captured, so every structure in its chains is known; what
    // the copy needs is in `kept`.
    let verdict = unsafe {
        let alone = alone.insert(*call.creation);
        alone.stand_alone(arena, base);
        let of_alone = call.with(alone);
        *without_identifiers = modules::without_emulated_identifiers(&of_alone, arena, stripped);
        let call = without_identifiers.as_ref().map_or(of_alone, |creation| of_alone.with(creation));
        // Where its base is to be compiled the driver gets both, as the program wrote them. Without cache control a
        // blob that the driver does not take would be compiled here and now.
        let deferral = match base_is_missing || !device.decided.cache_control {
            true => Deferral::ParkedAlone,
            false => Deferral::Whole,
        };
        ask::sources(&Request { call, pipeline }, deferral, artifact, &mut tried)
    };
    Attempt { call, outcome: Ok(DescribedAttempt { pipeline, verdict, tried, base_is_missing }) }
}

impl Attempt<'_> {
    /// The pipeline, if it was had.
    fn pipeline(&self) -> vk::Pipeline {
        match &self.outcome {
            Ok(DescribedAttempt { verdict: Some(verdict), .. }) => verdict.answer.pipeline,
            _ => vk::Pipeline::null(),
        }
    }

    /// The program gets it.
    ///
    /// # Safety
    /// The call's create info is valid.
    unsafe fn hand_out(self) {
        if let Ok(DescribedAttempt { pipeline, verdict: Some(verdict), tried, .. }) = self.outcome {
            // SAFETY: as this function.
            unsafe { settle::settle(&Request { call: self.call, pipeline }, verdict, &tried) };
        }
    }

    /// Whether a cache of the layer's may be passed in the place of the program's, or of none: only once the driver has
    /// said that it has nothing for the program's own call. `compile.rs`, `through`, says why other calls decide
    /// otherwise.
    fn may_go_beside(&self) -> bool {
        let Call { device, program_cache, .. } = self.call;
        let Ok(DescribedAttempt { verdict, tried, base_is_missing, .. }) = &self.outcome else {
            return false;
        };
        // What the program itself forbids to compile is asked for by the call that goes down. Where a base is missing
        // nothing was asked, and only a cache of the program's is worth more than an artifact.
        let passes_null = matches!(program_cache, ProgramCache::Null);
        let was_asked = if *base_is_missing { passes_null } else { device.decided.cache_control };
        let is_asked = match verdict {
            // What the stash had the driver need not have.
            Some(verdict) => matches!(verdict.origin, Origin::Stash { .. } | Origin::Parked { .. }),
            None => {
                (was_asked || passes_null && device.policy.free_recording)
                    && !self.call.parsed().fails_on_compile_required()
                    && !tried.as_it_is
                    && !tried.artifact.is_left_alone()
            }
        };
        let beside = match program_cache {
            ProgramCache::Null => true,
            // RADV says that it has nothing of ray tracing libraries where it has (`compile.rs`, `through`).
            ProgramCache::Known { cache, .. } => {
                !(self.call.parsed().is_library() && cache.holds_earlier_runs())
            }
            ProgramCache::Unknown(_) => false,
        };
        is_asked && beside
    }

    /// The driver makes it in the operation: what the program's structures are needed for is settled now.
    /// `is_beside`: with a cache of the layer's.
    ///
    /// # Safety
    /// The call's create info is valid.
    unsafe fn defer(self, is_beside: bool) -> Element {
        let (call, parsed) = (self.call, self.call.parsed());
        // What a cache of the layer's had is no hit in the program's.
        let feedback = parsed.feedback.filter(|_| is_beside).map(|feedback| NonNull::from(feedback).cast());
        let described = self.outcome.map(|DescribedAttempt { pipeline, mut tried, .. }| {
            let request = Request { call, pipeline };
            // SAFETY: as this function.
            let compiling = unsafe {
                settle::defer(&request, &mut tried);
                compiling::begin(&request)
            };
            (pipeline, tried.has_failed, compiling)
        });
        match described {
            Ok((pipeline, failed_before, compiling)) => Element {
                compiling,
                key: Some((pipeline.key, pipeline.shaders.clone())),
                library: parsed.is_library().then(|| Ok(pipeline.library())),
                failed_before,
                feedback,
                ..Element::default()
            },
            Err(refusal) => {
                settle::bypassed(call.device, refusal);
                Element {
                    library: parsed.is_library().then_some(Err(refusal)),
                    feedback,
                    ..Element::default()
                }
            }
        }
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
    attempts: Vec<Attempt<'_>>,
    infos: *const Info<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let Some(next) = device.table.create_ray_tracing_pipelines_khr else { return vk::Result::ERROR_UNKNOWN };
    let refusals = attempts.iter().map(|attempt| match &attempt.outcome {
        Ok(DescribedAttempt { tried: Attempts { artifact: Miss::Refused(refused), .. }, .. }) => {
            refused.refusals
        }
        _ => Refusals::NONE,
    });
    let refusals = refusals.max().unwrap_or_default();
    let is_recorded =
        attempts.iter().all(Attempt::may_go_beside) && device.records_artifacts(PipelineClass::RayTracing);
    let own_cache = if is_recorded { device.caches.commands.for_threads() } else { None };
    let cache = match &own_cache {
        Some(cache) => cache.handle(),
        None => {
            program_cache.mark_filled(&device.caches);
            program_cache.handle()
        }
    };
    let count = attempts.len() as u32;
    // SAFETY: the program's valid create infos.
    let defer = |attempt: Attempt<'_>| unsafe { attempt.defer(own_cache.is_some()) };
    let elements = attempts.into_iter().map(defer).collect();
    let deferred_call = DeferredCall {
        cache: own_cache.map_or(vk::PipelineCache::null(), PrivateCache::into_handle),
        elements,
        program_cache: program_cache.clone(),
        is_watched: false,
        pipelines,
        refusals,
        started: Instant::now(),
    };
    let _live = live::call::Call::begin(deferred_call.started, Activity::Own, vk::ShaderStageFlags::empty());
    // SAFETY: the program's valid arguments; the cache lives until the operation is complete.
    let below = || unsafe { next(device.handle, operation, cache, count, infos, allocator, pipelines) };
    // SAFETY: `below` passes the program's valid arguments on.
    unsafe { operation::hand_over(device, operation, deferred_call, below) }
}
