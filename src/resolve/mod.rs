//! The ladder: the ordered ways to serve one creation call. One file a rung.
//!
//! - [`call`] one creation call of any kind, and its copies with changed flags
//! - [`artifact`] rung 3: from our artifact, confirmed as taken
//! - [`binary`] the same with VK_KHR_pipeline_binary
//! - [`driver`] rungs 4 and 5: what the driver has already, and compile required
//! - [`companion`] the same, of a cache with what the program's own would hold without the stash
//! - [`compile`] rung 6: the driver compiles, and what it made is recorded
//! - [`deferred`] ray tracing pipelines that the driver makes in a deferred operation
//! - [`failed`] what the program gets where the layer itself has failed
//! - [`app_data`] what the program's own caches are owed
//! - [`modules`] SPIR-V from the stash for stages that are named by identifier only
//! - [`rehydrate`] the same where there is no artifact, for who wants that compiled
//! - [`emulated`] cache control on a driver that lacks it
//! - [`request`] what every rung works with
//! - [`offered`], [`private_cache`], [`past`], [`feedback`], [`recent`], [`record`] what the rungs share
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod app_data;
mod artifact;
mod binary;
pub mod call;
pub mod companion;
mod compile;
pub mod deferred;
mod driver;
mod emulated;
pub mod failed;
pub mod feedback;
pub mod modules;
mod offered;
mod past;
mod private_cache;
mod recent;
mod record;
mod rehydrate;
mod request;

use std::cell::RefCell;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ash::vk;

pub use request::{Contents, Passed};

use past::Past;
use request::{Held, Request, count_unrecorded};

use crate::recipe::capture::stage::{LIBRARY, Steering};
use crate::recipe::capture::{Library, Scratch};
use crate::recipe::chain::{Arena, Refusal};
use crate::recipe::key;
use crate::recipe::model::{Parts, Pipeline, Recipe};
use crate::recipe::shader_set::ShaderSet;
use crate::recipe::structures;
use crate::state::device::{Device, IdentifierMode};
use crate::state::family::Family;
use crate::stats::{BypassReason, Count};
use call::{Answer, CreateInfo};
use vkstash_store::format::record::Key;

/// Buffers that are reused from call to call.
#[derive(Default)]
struct Buffers {
    recipe: Vec<u8>,
    artifact: Vec<u8>,
}

/// What a thread keeps of its buffer for artifacts at most.
const KEPT_BYTES: usize = 1 << 20;

thread_local!(static BUFFERS: RefCell<Buffers> = RefCell::default());

/// Serves one create info.
///
/// # Safety
/// `info` is a valid create info of the device, whose base pipeline is named by handle; `allocator` is what
/// the program passed.
pub unsafe fn serve<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
) -> Answer {
    // Not there, or in use: a driver that calls back into Vulkan from inside a creation call.
    let taken = BUFFERS.try_with(|buffers| buffers.try_borrow_mut().ok().map(|mut kept| take(&mut *kept)));
    let mut buffers = taken.ok().flatten().unwrap_or_default();
    // SAFETY: the caller's contract.
    let answer = unsafe { serve_with(device, passed, allocator, info, &mut buffers) };
    // One large artifact must not be paid for by every thread for ever.
    if buffers.artifact.capacity() > KEPT_BYTES {
        buffers.artifact = Vec::new();
    }
    // Without it the next call allocates again, which is all.
    let _ = BUFFERS.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = buffers));
    answer
}

unsafe fn serve_with<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
    buffers: &mut Buffers,
) -> Answer {
    let Buffers { recipe, artifact } = buffers;
    let mut without_flags = Arena::default();
    let stripped;
    let info = if device.cache_control_emulated {
        // SAFETY: the caller vouches for the create info; the arena stays on this stack frame.
        stripped = unsafe { emulated::without_cache_control(device, info, &mut without_flags) };
        match &stripped {
            Some(stripped) => stripped,
            // SAFETY: as above.
            None => return unsafe { forbid(device, info) },
        }
    } else {
        info
    };
    // SAFETY: the caller vouches for the create info.
    if unsafe { info.is_fast_link() } {
        // SAFETY: as above.
        let answer = unsafe { pass_on(device, passed, allocator, info) };
        count_result(device, answer.result);
        return answer;
    }
    let mut past = Past::default();
    // SAFETY: the caller vouches for the create info.
    if let Some(why) = unsafe { driver::comes_first(device, passed, info) } {
        // SAFETY: as above.
        let (answer, asked) = unsafe { driver::ask_first(device, passed, allocator, info, why) };
        if let Some(answer) = answer {
            return answer;
        }
        past = Past::after(asked);
    }
    let mut scratch = Scratch::default();
    // SAFETY: the caller vouches for the create info.
    let (captured, steering) = match unsafe { describe(device, info, &mut scratch, recipe) } {
        Ok(described) => described,
        // SAFETY: as above.
        Err(refusal) => return unsafe { bypass(device, passed, allocator, info, refusal) },
    };
    let Described { key, parts, family, shaders } = captured;
    if steering.identifier_only {
        device.count(Count::IdentifierRequests);
    }
    let emulated = device.identifiers == IdentifierMode::Emulated;
    let mut stripped = modules::Stripped::default();
    let mut arena = Arena::default();
    let info = if emulated && steering.identifier_structure {
        // SAFETY: the create info could be captured, so every structure in its chains is known.
        unsafe { modules::without_identifiers(info, &mut arena, &mut stripped) }.unwrap_or(*info)
    } else {
        *info
    };
    let request = Request {
        device,
        passed,
        allocator,
        info,
        steering,
        family,
        key,
        recipe,
        parts,
        shaders,
        past,
        held: None,
    };
    // SAFETY: the request holds the program's create info, or a copy that differs only as it must.
    let answer = unsafe { climb(&request, artifact) };
    if steering.library && answer.result == vk::Result::SUCCESS {
        device.libraries.insert(answer.pipeline, Ok(Library { key, traits: steering.made }));
    }
    count_result(device, answer.result);
    answer
}

/// The rungs, one after the other.
///
/// # Safety
/// The request's create info is valid.
unsafe fn climb<I: CreateInfo>(request: &Request<'_, I>, artifact: &mut Vec<u8>) -> Answer {
    let Request { device, steering, .. } = request;
    // SAFETY: the caller's contract.
    unsafe {
        if steering.nothing_to_compile {
            return pass_on(device, request.passed, request.allocator, &request.info);
        }
        if steering.joins_retained {
            let ours = device.identifiers == IdentifierMode::Emulated && steering.identifier_only;
            return if ours { refuse(&request.info) } else { compile::untouched(request) };
        }
        if let Some(answer) = artifact::ask_its_cache(request) {
            return answer;
        }
        if let Some(answer) = artifact::serve(request, artifact) {
            if steering.identifier_only {
                device.count(Count::IdentifierServed);
            }
            return answer;
        }
        // Code that is named by an identifier of ours is nothing to the driver.
        let ours = device.identifiers == IdentifierMode::Emulated && steering.identifier_only;
        if record::has_failed(request) {
            request.past.failed_before();
        }
        if request.past.fails() {
            return if ours { refuse(&request.info) } else { compile::untouched(request) };
        }
        if ours {
            return companion::ask(request)
                .or_else(|| rehydrate::rehydrate(request))
                .unwrap_or_else(|| refuse(&request.info));
        }
        match driver::ask(request) {
            Some(answer) => answer,
            None => compile::compile(request),
        }
    }
}

/// The driver gets the call as it is: what it makes of it costs less than looking for it.
///
/// # Safety
/// As [`serve`].
unsafe fn pass_on<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
) -> Answer {
    // The driver compiles nothing, so there is nothing that its own cache behind NULL would have of it.
    if let Passed::Known { cache, .. } = passed {
        cache.mark_filled();
    }
    // SAFETY: the caller's contract.
    let answer = unsafe { call::create(device, passed.handle(), info, allocator) };
    if answer.result == vk::Result::SUCCESS {
        device.count(Count::NothingToCompile);
    }
    answer
}

/// What the ladder has to know of a pipeline.
struct Described {
    key: Key,
    parts: Parts,
    family: Family,
    shaders: ShaderSet,
}

/// Captures a pipeline, leaves its encoded recipe in `buffer`, and hashes it.
///
/// # Safety
/// `info` is a valid create info of the device.
unsafe fn describe<'a, I: CreateInfo>(
    device: &Device,
    info: &'a I,
    scratch: &'a mut Scratch,
    buffer: &mut Vec<u8>,
) -> Result<(Described, Steering), Refusal> {
    // SAFETY: the caller's contract.
    let (model, steering) = unsafe { info.capture(device, scratch) }?;
    let family = match (&model.pipeline, steering.linked, steering.library) {
        (Pipeline::RayTracing(_), ..) => Family::RayTracing,
        (_, true, _) => Family::Link,
        (_, _, true) => Family::Library,
        _ => Family::Complete,
    };
    let (key, parts) = (key_of(&model, buffer)?, model.pipeline.parts());
    let shaders = ShaderSet::of(&model.pipeline);
    Ok((Described { key, parts, family, shaders }, steering))
}

/// Encodes a recipe into `buffer` and hashes it.
fn key_of(model: &Recipe<'_>, buffer: &mut Vec<u8>) -> Result<Key, Refusal> {
    key::encode(model, buffer).map_err(|_| Refusal::plain(BypassReason::NotCacheable))?;
    Ok(key::digest(key::RECIPE, buffer))
}

/// Rung 1: the driver gets the call unchanged, and a counter says why.
///
/// # Safety
/// As [`serve`].
unsafe fn bypass<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
    refusal: Refusal,
) -> Answer {
    bypass_counted(device, refusal);
    let emulated = device.identifiers == IdentifierMode::Emulated;
    let mut stripped = modules::Stripped::default();
    let mut arena = Arena::default();
    let mut copy = *info;
    // SAFETY: as the caller's contract; a driver without identifiers must never see a stage without code. With
    // binaries neither modules nor identifiers count (contract 5.5).
    unsafe {
        if emulated && refusal.reason == BypassReason::OwnBinaries {
            copy = modules::without_identifiers(info, &mut arena, &mut stripped).unwrap_or(copy);
        } else if emulated && call::names_code_by_identifier(info.stages()) {
            device.count(Count::CompileRequired);
            return refuse(info);
        }
        passed.mark_filled(device);
        let answer = call::create(device, passed.handle(), &copy, allocator);
        if answer.result == vk::Result::SUCCESS && call::flags_of(&mut copy).0 & LIBRARY != 0 {
            device.libraries.insert(answer.pipeline, Err(refusal));
        }
        count_result(device, answer.result);
        answer
    }
}

/// Counts a pipeline that bypasses the stash, and tells of the first of its kind.
fn bypass_counted(device: &Device, refusal: Refusal) {
    if device.counters().bypass(refusal.reason, refusal.s_type) {
        log_bypass(refusal);
    }
}

/// What nobody expected is told once a process: two lines a pipeline get read as the cause of crashes. What
/// this version leaves to the driver by design is told to whoever asks.
fn log_bypass(Refusal { reason, s_type }: Refusal) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let mut name = reason.name().to_owned();
    // 0 says that no structure is to blame, although Vulkan has given that number to VkApplicationInfo.
    if s_type != 0 {
        name += &format!(" ({})", structures::name(vk::StructureType::from_raw(s_type)));
    }
    let by_design = matches!(
        reason,
        BypassReason::RayTracing
            | BypassReason::OwnBinaries
            | BypassReason::NotCacheable
            | BypassReason::Statistics
    );
    if by_design || TOLD.swap(true, Ordering::Relaxed) {
        tracing::info!("a pipeline bypasses the stash: {name}");
    } else {
        tracing::warn!("a pipeline bypasses the stash: {name}; more are counted, not told");
    }
}

/// The layer's own COMPILE_REQUIRED: the driver never sees the call.
///
/// # Safety
/// A valid create info.
unsafe fn refuse<I: CreateInfo>(info: &I) -> Answer {
    let mut copy = *info;
    // SAFETY: the caller's contract.
    unsafe { feedback::say_none(*copy.p_next_mut()) };
    Answer::compile_required()
}

/// The layer's own COMPILE_REQUIRED to a whole call.
///
/// # Safety
/// Both arrays are valid for `count`.
unsafe fn refuse_all<I: CreateInfo>(
    device: &Device,
    count: u32,
    infos: *const I,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    for index in 0..count as usize {
        // SAFETY: the caller's contract.
        unsafe {
            refuse(&*infos.add(index));
            *pipelines.add(index) = vk::Pipeline::null();
        }
    }
    device.counters().add(Count::CompileRequired, count.into());
    vk::Result::PIPELINE_COMPILE_REQUIRED
}

/// What comes before a call goes down as the program made it: code that is named by an identifier of ours is
/// nothing to a driver that has never heard of identifiers. None: the call may go down.
///
/// # Safety
/// The arguments of vkCreate*Pipelines.
pub unsafe fn refuse_nameless<I: CreateInfo>(
    device: &Device,
    count: u32,
    infos: *const I,
    pipelines: *mut vk::Pipeline,
) -> Option<vk::Result> {
    if device.identifiers != IdentifierMode::Emulated {
        return None;
    }
    // SAFETY: the caller's contract.
    let nameless = |index| unsafe { call::names_code_by_identifier((*infos.add(index)).stages()) };
    // SAFETY: as above.
    (0..count as usize).any(nameless).then(|| unsafe { refuse_all(device, count, infos, pipelines) })
}

/// The layer's answer to a request that forbids compiling, where the driver cannot be asked.
///
/// # Safety
/// As [`serve`].
unsafe fn forbid<I: CreateInfo>(device: &Device, info: &I) -> Answer {
    // SAFETY: the caller's contract.
    unsafe {
        if call::names_code_by_identifier(info.stages()) {
            device.count(Count::IdentifierRequests);
        }
        device.count(Count::CompileRequired);
        refuse(info)
    }
}

/// Counts a call that went down as the program made it, on a driver that is only watched.
pub fn count_watched(device: &Device, result: vk::Result, missing: u64, count: u64, spent: Duration) {
    let counters = device.counters();
    // A driver that says that it has failed has failed, whatever it has written.
    let missing = if result == vk::Result::SUCCESS { 0 } else { missing.clamp(1.min(count), count) };
    match result {
        vk::Result::SUCCESS => {}
        result if result.as_raw() < 0 => counters.add(Count::Failed, missing),
        _ => counters.add(Count::CompileRequired, missing),
    }
    if count > missing {
        counters.add(Count::CompileNanos, spent.as_nanos() as u64);
    }
    count_unrecorded(device, count - missing);
}

fn count_result(device: &Device, result: vk::Result) {
    if result == vk::Result::PIPELINE_COMPILE_REQUIRED {
        device.count(Count::CompileRequired);
    } else if result != vk::Result::SUCCESS {
        device.count(Count::Failed);
    }
}
