//! The sources of a pipeline, one after the other, and the compile where none has it.

use std::cell::RefCell;
use std::mem::take;
use std::time::Instant;

use ash::vk;

use super::call::{Answer, Call};
use super::counts::count_result;
use super::create_info::CreateInfo;
use super::driver::DriverMiss;
use super::order::{Order, Source, order};
use super::outcome::{ArtifactOutcome, Found, Origin, Outcome, Served};
use super::program_cache::ProgramCache;
use super::refuse::{forbid, note_refused, refuse};
use super::request::{DescribedPipeline, Request};
use super::{
    artifact, bypass, companion, compile, driver, driver_hits, emulated, facts, feedback, modules, parked,
    record,
};
use crate::live;
use crate::state::device::Device;
use crate::steps::Steps;
use crate::trace::spans;
use vkstash_model::counters::Count;
use vkstash_model::live::Activity;
use vkstash_model::steps::{CreationResult, OrderReason, StepAnswer, StepSource};
use vkstash_recipe::chain::Arena;
use vkstash_store::format::record::Key;

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
    let device = call.device;
    if device.emulates_cache_control() {
        // SAFETY: the call's create info is valid; the arena, in which the copy's chain lives, stays on this
        // stack frame.
        allowed = unsafe { emulated::without_cache_control(&call, &mut arena) };
        match &allowed {
            Some(creation) => call = call.with(creation),
            // SAFETY: the call's create info is valid (the caller's contract).
            None => return unsafe { forbid(&call) },
        }
    }
    if call.parsed().is_fast_link() {
        let _live = live::call::Call::begin(Instant::now(), Activity::Link, vk::ShaderStageFlags::empty());
        // SAFETY: the call's create info is valid (the caller's contract).
        let answer = unsafe { pass_on(&call) };
        count_result(device, answer.result);
        return answer;
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
    let device = call.device;
    let mut steps = Steps::begin(call.parsed().stage_flags(), device.frames.number());
    // SAFETY: the call's create info is valid (the caller's contract).
    let described = match unsafe { DescribedPipeline::of(device, call.creation, recipe) } {
        Ok(described) => described,
        Err(refusal) => {
            steps.asks(StepSource::Own);
            // SAFETY: the call's create info is valid (the caller's contract).
            return unsafe { bypass::bypass(call, refusal) };
        }
    };
    steps.knows(&described.key);
    let asked = call.parsed().feedback;
    let would_hit =
        asked.is_some() && call.program_cache.known().is_some_and(|cache| cache.holds(&described.key));
    // SAFETY: the create info could be captured. The request holds it, or a copy that differs only as it must.
    let answer = unsafe {
        modules::with_request(call, &described, |request| ask_in_order(request, artifact, &mut steps))
    };
    if would_hit && answer.result == vk::Result::SUCCESS {
        // SAFETY: the program's valid structure, which was filled with the answer.
        unsafe { feedback::say_hit(asked) };
    }
    if call.parsed().is_library() && answer.result == vk::Result::SUCCESS {
        device.objects.libraries.insert(answer.pipeline, Ok(described.library()));
    }
    if call.parsed().fails_on_compile_required() && answer.result == vk::Result::PIPELINE_COMPILE_REQUIRED {
        note_refused(&described.key, call.program_cache);
    }
    count_result(device, answer.result);
    note_steps(device, &described.key, &steps, answer.result);
    answer
}

/// What was tried goes into the timeline of the run and into the trace.
pub fn note_steps(device: &Device, key: &Key, steps: &Steps, result: vk::Result) {
    let result = match result {
        vk::Result::SUCCESS => CreationResult::Pipeline,
        vk::Result::PIPELINE_COMPILE_REQUIRED => CreationResult::CompileRequired,
        _ => CreationResult::Error,
    };
    let creation = steps.creation(key, result);
    spans::pipeline(&creation);
    device.frames.note(&creation);
    if let Some(stored) = device.stored() {
        stored.stash.note_timeline(creation);
    }
}

/// Asks the sources in their order, and compiles where none has the pipeline.
///
/// # Safety
/// The request's create info is valid.
unsafe fn ask_in_order<I: CreateInfo>(
    request: &Request<'_, I>,
    buffer: &mut Vec<u8>,
    steps: &mut Steps,
) -> Answer {
    let call = &request.call;
    let parsed = call.parsed();
    if parsed.naming.lacks_code {
        call.device.count(Count::IdentifierRequests);
    }
    // SAFETY: the request's create info is valid, and stays so while the sources are asked one after another.
    unsafe {
        if parsed.has_nothing_to_compile() {
            return compile_nothing(request, steps);
        }
        if parsed.joins_retained() {
            steps.set_reason(OrderReason::PassedOn);
            return go_untouched(request, false, steps);
        }
        match without_compiling(request, false, buffer, steps) {
            Outcome::Served(served) => {
                served.count(call.device, parsed.naming.lacks_code);
                driver_hits::note_found(request, &served);
                served.answer
            }
            Outcome::GoUntouched { recorded } => go_untouched(request, recorded, steps),
            Outcome::Missed { artifact, driver_has_nothing } => {
                if call.names_code_of_the_layers() {
                    return refuse(parsed);
                }
                let may_compile = !parsed.fails_on_compile_required();
                let source = if may_compile { StepSource::Compile } else { StepSource::Own };
                steps.asks(source);
                let answer = if may_compile {
                    compile::compile(request, artifact)
                } else {
                    driver::ask_for_the_program(request, artifact, driver_has_nothing)
                };
                steps.add(source, step_answer(answer));
                answer
            }
        }
    }
}

/// The driver gets a call with nothing to compile as it is.
///
/// # Safety
/// The request's create info is valid.
unsafe fn compile_nothing<I: CreateInfo>(request: &Request<'_, I>, steps: &mut Steps) -> Answer {
    let (call, parsed) = (&request.call, request.call.parsed());
    steps.set_reason(OrderReason::PassedOn);
    steps.asks(StepSource::Own);
    // SAFETY: the request's create info is valid.
    let answer = unsafe { pass_on(call) };
    steps.add(StepSource::Own, step_answer(answer));
    // Recipes of links name it. One that RADV may crash with is left to the program.
    let named = parsed.is_library() && !parsed.joins_retained();
    if named && answer.result == vk::Result::SUCCESS {
        // SAFETY: the same create info.
        unsafe { record::record_alone(request, None) };
    }
    answer
}

/// Asks the sources that need not compile, in their order. `parked_alone`: nothing else may be handed out.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn without_compiling<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    parked_alone: bool,
    buffer: &mut Vec<u8>,
    steps: &mut Steps,
) -> Outcome<'a> {
    let facts = facts::of(request, parked_alone);
    let Order { reason, sources } = order(&facts);
    steps.set_reason(reason);
    let mut artifact = ArtifactOutcome::NotOffered;
    let mut driver_miss = None;
    for source in sources {
        steps.asks(source.step_source());
        // SAFETY: each source reads the request's create info, which is valid, and returns before the next is asked.
        let served = unsafe {
            match source {
                Source::Parked => parked::take(request),
                Source::Driver => driver::ask(request).map_err(|miss| driver_miss = Some(miss)).ok(),
                Source::Stash => artifact::serve(request, buffer).map_err(|outcome| artifact = outcome).ok(),
                Source::Companion if driver_miss == Some(DriverMiss::Error) => None,
                Source::Companion => companion::ask(request),
            }
        };
        let answer = match (&served, source) {
            (Some(Served { origin: Origin::Driver { from: Found::OnDisk, .. }, .. }), _) => {
                StepAnswer::HadOnDisk
            }
            (Some(_), _) => StepAnswer::Had,
            (None, Source::Driver) => driver_miss.map_or(StepAnswer::NotAsked, DriverMiss::step_answer),
            (None, Source::Stash) => artifact.step_answer(),
            (None, Source::Parked | Source::Companion) => StepAnswer::Nothing,
        };
        steps.add(source.step_source(), answer);
        if let Some(served) = served {
            return Outcome::Served(served);
        }
    }
    if facts.has_failed || driver_miss == Some(DriverMiss::Error) {
        return Outcome::GoUntouched { recorded: facts.has_failed };
    }
    Outcome::Missed { artifact, driver_has_nothing: driver_miss == Some(DriverMiss::NotThere) }
}

/// The driver answers this call with an error, or nothing of a cache may stand in: it gets the program's own call.
///
/// # Safety
/// The request's create info is valid.
unsafe fn go_untouched<I: CreateInfo>(request: &Request<'_, I>, recorded: bool, steps: &mut Steps) -> Answer {
    steps.asks(StepSource::Own);
    // SAFETY: the request's create info is valid, and its feedback structure may be written.
    unsafe {
        let answer = match request.call.names_code_of_the_layers() {
            true => refuse(request.call.parsed()),
            false => compile::untouched(request, recorded),
        };
        steps.add(StepSource::Own, step_answer(answer));
        answer
    }
}

/// What the program's own call, or the compile, has come to.
fn step_answer(answer: Answer) -> StepAnswer {
    match answer.result {
        vk::Result::SUCCESS => StepAnswer::Had,
        vk::Result::PIPELINE_COMPILE_REQUIRED => StepAnswer::Forbidden,
        _ => StepAnswer::Error,
    }
}

/// The driver gets the call as it is: what it makes of it costs less than looking for it.
///
/// # Safety
/// As [`serve`].
unsafe fn pass_on<I: CreateInfo>(call: &Call<'_, I>) -> Answer {
    // The call compiles nothing. Where the program passes VK_NULL_HANDLE, the cache that the driver has for such calls
    // gets nothing either, so only a cache of the program's is marked.
    if let ProgramCache::Known { cache, .. } = call.program_cache {
        cache.mark_filled();
    }
    // SAFETY: the call's create info is valid, and its cache and allocator are the program's.
    let answer = unsafe { call.create() };
    if answer.result == vk::Result::SUCCESS {
        call.device.count(Count::NothingToCompile);
    }
    answer
}
