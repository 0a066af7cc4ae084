//! The way of one creation: it is described, its sources are asked one after the other, and what has become of it is
//! settled.

use std::cell::RefCell;
use std::mem::take;
use std::time::Instant;

use ash::vk;

use super::artifact::{self, Miss};
use super::call::{Answer, Call};
use super::create_info::CreateInfo;
use super::facts::{self, Deferral};
use super::modules::{self, Stripped};
use super::order::{self, Source, Then};
use super::request::{DescribedPipeline, Request};
use super::settle::{self, Subject};
use super::verdict::Verdict;
use super::{companion, compile, driver, emulated, own, parked};
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
    if call.device.emulates_cache_control() {
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
unsafe fn serve_described<I: CreateInfo>(
    call: &Call<'_, I>,
    Buffers { recipe, artifact }: &mut Buffers,
) -> Answer {
    let mut steps = Steps::begin(call.parsed().stage_flags(), call.device.frames.number());
    // SAFETY: the call's create info is valid (the caller's contract). It could be captured where it is asked for: the
    // request holds it, or a copy that differs only as it must.
    unsafe {
        let described = match DescribedPipeline::of(call.device, call.creation, recipe) {
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
        let request = Request { call, pipeline: &described };
        let verdict = match sources(&request, Deferral::None, artifact, &mut steps) {
            Ok(verdict) => verdict,
            Err(missed) => last(&request, missed, &mut steps),
        };
        settle::settle(&request, verdict, &mut steps)
    }
}

/// What is known of a request that no source has.
pub struct Missed<'a> {
    /// What has become of the artifact.
    pub artifact: Miss<'a>,
    /// What the driver has said. None: it was not asked.
    pub driver: Option<StepAnswer>,
    /// The driver gets the program's own call as it is.
    pub as_it_is: bool,
    /// The stash knows that the driver answers it with an error.
    pub has_failed: bool,
}

/// Asks the sources that need not compile, in their order.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn sources<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    deferral: Deferral,
    buffer: &mut Vec<u8>,
    steps: &mut Steps,
) -> Result<Verdict<'a>, Missed<'a>> {
    let facts = facts::first(request, deferral);
    let mut missed =
        Missed { artifact: Miss::NotOffered, driver: None, as_it_is: false, has_failed: facts.has_failed };
    let mut order = order::first(&facts);
    loop {
        steps.set_reason(order.reason);
        for source in order.sources {
            // SAFETY: the request's create info is valid (the caller's contract).
            if let Some(verdict) = unsafe { ask(request, *source, buffer, &mut missed, steps) } {
                return Ok(verdict);
            }
        }
        match order.then {
            Then::Facts => order = order::order(&facts::of(request)),
            Then::Compile => break,
            Then::AsItIs => {
                missed.as_it_is = true;
                break;
            }
        }
    }
    // An error of the driver's is the program's: its own call says which.
    missed.as_it_is |= missed.driver == Some(StepAnswer::Error);
    Err(missed)
}

/// Asks one source. None: it does not have the pipeline.
///
/// # Safety
/// The request's create info is valid.
unsafe fn ask<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    source: Source,
    buffer: &mut Vec<u8>,
    missed: &mut Missed<'a>,
    steps: &mut Steps,
) -> Option<Verdict<'a>> {
    steps.asks(source.step_source());
    // SAFETY: each source reads the request's create info, which is valid, and returns before the next is asked.
    let asked = unsafe {
        match source {
            Source::Parked => parked::take(request).map_err(|why| {
                steps.not_ready(why);
                StepAnswer::Nothing
            }),
            Source::Driver => driver::ask(request).inspect_err(|answer| missed.driver = Some(*answer)),
            Source::Stash => artifact::serve(request, buffer).map_err(|miss| {
                let answer = miss.step_answer();
                missed.artifact = miss;
                answer
            }),
            // It would answer with the same error.
            Source::Companion if missed.driver == Some(StepAnswer::Error) => Err(StepAnswer::Nothing),
            Source::Companion => companion::ask(request).ok_or(StepAnswer::Nothing),
        }
    };
    match asked {
        Ok(verdict) => {
            steps.add(source.step_source(), verdict.step_answer());
            Some(verdict)
        }
        Err(answer) => {
            steps.add(source.step_source(), answer);
            settle::in_vain(&Subject::of(request), source, answer, &missed.artifact);
            None
        }
    }
}

/// No source has the pipeline: what is left is the driver's turn, or the layer's refusal.
///
/// # Safety
/// The request's create info is valid.
unsafe fn last<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    missed: Missed<'a>,
    steps: &mut Steps,
) -> Verdict<'a> {
    let Missed { artifact, driver, as_it_is, has_failed } = missed;
    let (call, parsed) = (&request.call, request.call.parsed());
    let may_compile = !parsed.fails_on_compile_required();
    let source = if may_compile && !as_it_is { StepSource::Compile } else { StepSource::Own };
    steps.asks(source);
    // SAFETY: the request's create info is valid until the program's command returns.
    let verdict = unsafe {
        if parsed.has_nothing_to_compile() {
            own::nothing_to_compile(call)
        } else if call.names_code_of_the_layers() {
            // The driver cannot resolve the identifier.
            Verdict::refusal()
        } else if as_it_is {
            own::untouched(request, has_failed)
        } else if may_compile {
            compile::compile(request, artifact, call.device.cache_control())
        } else if driver == Some(StepAnswer::Nothing) {
            // It has said so already.
            Verdict::refusal()
        } else {
            compile::compile(request, artifact, false)
        }
    };
    steps.add(source, verdict.step_answer());
    verdict
}
