//! The way of one creation: it is described, its sources are asked one after the other, and what has become of it is
//! settled.

use std::cell::RefCell;
use std::mem::take;
use std::time::Instant;

use ash::vk;

use super::call::{Answer, Call};
use super::create_info::CreateInfo;
use super::facts::{self, Deferral};
use super::modules::{self, Stripped};
use super::order::{self, Source, Then};
use super::request::{DescribedPipeline, Request};
use super::verdict::{Attempts, Origin, Verdict};
use super::{artifact, companion, compile, driver, emulated, own, parked, settle};
use crate::live;
use crate::steps::Steps;
use vkstash_model::live::Activity;
use vkstash_model::steps::{StepAnswer, StepSource};
use vkstash_recipe::chain::Arena;

/// Buffers that are reused from call to call.
#[derive(Default)]
struct Buffers {
    recipe: Vec<u8>,
    artifact: Vec<u8>,
}

/// What a thread keeps of its buffer for artifacts at most.
const KEPT_BYTES: usize = 1 << 20;

// A call that goes down undescribed does not use the buffers: the first use in a thread registers a destructor.
thread_local!(static BUFFERS: RefCell<Buffers> = RefCell::default());

/// Serves one create info.
///
/// # Safety
/// The call's create info is valid, and its base pipeline is named by handle; the allocator is the program's.
pub unsafe fn serve<I: CreateInfo>(call: &Call<'_, I>) -> Answer {
    let mut arena = Arena::default();
    let allowed;
    let mut call = *call;
    if call.device.physical.emulates_cache_control {
        // SAFETY: the call's create info is valid; the arena, in which the copy's chain lives, stays on this
        // stack frame.
        allowed = unsafe { emulated::without_cache_control(&call, &mut arena) };
        match &allowed {
            Some(creation) => call = call.with(creation),
            // SAFETY: the call's create info is valid (the caller's contract).
            None => return unsafe { settle::settle_undescribed(&call, Verdict::refusal()) },
        }
    }
    if call.parsed().is_fast_link() {
        let _live = live::call::Call::begin(Instant::now(), Activity::Link, vk::ShaderStageFlags::empty());
        // SAFETY: the call's create info is valid (the caller's contract).
        return unsafe { settle::settle_undescribed(&call, own::nothing_to_compile(&call)) };
    }
    // The buffers are destroyed, or in use by a driver that calls back into Vulkan from a creation call.
    let taken = BUFFERS.try_with(|buffers| buffers.try_borrow_mut().ok().map(|mut kept| take(&mut *kept)));
    let mut buffers = taken.ok().flatten().unwrap_or_default();
    // SAFETY: the call's create info, or its copy in `arena`, is valid, and names its base pipeline by handle.
    let answer = unsafe { serve_described(&call, &mut buffers) };
    // One large artifact must not keep its memory in every thread.
    if buffers.artifact.capacity() > KEPT_BYTES {
        buffers.artifact = Vec::new();
    }
    // If thread-local storage is gone, the next call allocates again.
    let _ = BUFFERS.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = buffers));
    answer
}

/// Serves what is not passed on at once.
///
/// # Safety
/// As [`serve`].
unsafe fn serve_described<I: CreateInfo>(call: &Call<'_, I>, buffers: &mut Buffers) -> Answer {
    let steps = Steps::begin(call.parsed().stage_flags(), call.device.frames().number());
    // SAFETY: the call's create info is valid (the caller's contract). It could be captured where it is asked for: the
    // request holds it, or a copy that differs only as it must.
    unsafe {
        let described = match DescribedPipeline::of(call.device, call.creation, &mut buffers.recipe) {
            Ok(described) => described,
            Err(refusal) => {
                steps.asks(StepSource::Own);
                return settle::settle_undescribed(call, own::undescribed(call, refusal));
            }
        };
        steps.knows(&described.key);
        let (mut arena, mut stripped) = (Arena::default(), Stripped::default());
        let without = modules::without_emulated_identifiers(call, &mut arena, &mut stripped);
        let call = without.as_ref().map_or(*call, |creation| call.with(creation));
        let (request, mut attempts) = (Request { call, pipeline: &described }, Attempts::new(steps));
        answer(&request, &mut buffers.artifact, &mut attempts)
    }
}

/// Answers a request: its sources are asked, then it is the driver's turn; and what has become of it is settled.
///
/// # Safety
/// The request's create info is valid.
unsafe fn answer<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    buffer: &mut Vec<u8>,
    attempts: &mut Attempts<'a>,
) -> Answer {
    // SAFETY: the request's create info is valid until the program's command returns.
    unsafe {
        let verdict = sources(request, Deferral::None, buffer, attempts);
        let verdict = verdict.unwrap_or_else(|| last(request, attempts));
        settle::settle(request, verdict, attempts)
    }
}

/// Asks the sources that need not compile, in their order. None: no source has it.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn sources<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    deferral: Deferral,
    buffer: &mut Vec<u8>,
    attempts: &mut Attempts<'a>,
) -> Option<Verdict<'a>> {
    let facts = facts::first(request, deferral);
    attempts.has_failed = facts.has_failed;
    let mut order = order::first(&facts);
    loop {
        attempts.steps.reason = order.reason;
        for source in order.sources {
            // SAFETY: the request's create info is valid (the caller's contract).
            let verdict = unsafe { ask(request, *source, buffer, attempts) };
            if verdict.is_some() {
                return verdict;
            }
        }
        match order.then {
            Then::Facts => order = order::order(&facts::of(request)),
            Then::Compile => break,
            Then::AsItIs => {
                attempts.as_it_is = true;
                break;
            }
        }
    }
    // An error of the driver's is the program's: its own call says which.
    attempts.as_it_is |= attempts.driver == Some(StepAnswer::Error);
    None
}

/// Asks one source. None: it does not have the pipeline.
///
/// # Safety
/// The request's create info is valid.
unsafe fn ask<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    source: Source,
    buffer: &mut Vec<u8>,
    attempts: &mut Attempts<'a>,
) -> Option<Verdict<'a>> {
    let Attempts { steps, unready, artifact: miss, stash, driver, .. } = attempts;
    steps.try_out(source.step_source(), || {
        // SAFETY: each source reads the request's create info, which is valid, and returns before the next is asked.
        let asked = unsafe {
            match source {
                Source::Parked => parked::take(request).map_err(|why| {
                    *unready = why;
                    StepAnswer::Nothing
                }),
                Source::Driver => driver::ask(request).inspect_err(|answer| *driver = Some(*answer)),
                Source::Stash => artifact::serve(request, buffer).map_err(|why| {
                    *miss = why;
                    *stash.insert(miss.step_answer())
                }),
                // It would answer with the same error.
                Source::Companion if *driver == Some(StepAnswer::Error) => Err(StepAnswer::Nothing),
                Source::Companion => companion::ask(request).ok_or(StepAnswer::Nothing),
            }
        };
        match asked {
            // A driver that cannot be kept from compiling has refused the artifact in this way.
            Ok(verdict) if source == Source::Stash && matches!(verdict.origin, Origin::Compile { .. }) => {
                (*stash.insert(StepAnswer::Refused), Some(verdict))
            }
            Ok(verdict) => (verdict.step_answer(), Some(verdict)),
            Err(answer) => (answer, None),
        }
    })
}

/// No source has the pipeline: what is left is the driver's turn, or the layer's refusal.
///
/// # Safety
/// The request's create info is valid.
unsafe fn last<'a, I: CreateInfo>(request: &Request<'a, I>, attempts: &mut Attempts<'a>) -> Verdict<'a> {
    let Attempts { steps, artifact, driver, as_it_is, has_failed, .. } = attempts;
    let (call, parsed) = (&request.call, request.call.parsed());
    let may_compile = !parsed.fails_on_compile_required();
    let source = if may_compile && !*as_it_is { StepSource::Compile } else { StepSource::Own };
    steps.try_out(source, || {
        // It has said already that it has nothing.
        let is_answered = !may_compile && *driver == Some(StepAnswer::Nothing);
        // SAFETY: the request's create info is valid until the program's command returns.
        let verdict = unsafe {
            if parsed.has_nothing_to_compile() {
                own::nothing_to_compile(call)
            } else if call.names_code_of_the_layers() || is_answered && !*as_it_is {
                // The driver cannot resolve the identifier, or has answered.
                Verdict::refusal()
            } else {
                let asked = may_compile && call.device.decided.cache_control;
                let compiled = if *as_it_is { None } else { compile::compile(request, artifact, asked) };
                compiled.unwrap_or_else(|| own::untouched(request, *as_it_is && *has_failed))
            }
        };
        (verdict.step_answer(), verdict)
    })
}
