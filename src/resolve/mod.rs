//! The ladder: the ordered ways to serve one creation call. One file a rung.
//!
//! - [`call`] one creation call of either kind, and its copies with changed flags
//! - [`artifact`] rung 3: from our artifact, confirmed as taken
//! - [`driver`] rungs 4 and 5: what the driver has already, and compile required
//! - [`compile`] rung 6: the driver compiles, and what it made is recorded
//! - [`app_data`] what the program's own caches are owed
//! - [`modules`] SPIR-V from the stash for stages that are named by identifier only
//! - [`private_cache`], [`feedback`], [`record`] what the rungs share

pub mod app_data;
mod artifact;
pub mod call;
mod compile;
mod driver;
pub mod feedback;
mod modules;
mod private_cache;
mod record;

use std::cell::RefCell;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;

use crate::recipe::capture::compute::Scratch;
use crate::recipe::capture::stage::Steering;
use crate::recipe::chain::{Arena, Refusal};
use crate::recipe::key;
use crate::recipe::model::{Parts, Recipe};
use crate::state::app_cache::AppCache;
use crate::state::device::{Device, IdentifierMode};
use crate::stats::{BypassReason, Count};
use crate::store::part::Key;
use call::{Answer, CreateInfo};

/// The cache that the program passed.
pub enum Passed {
    /// VK_NULL_HANDLE.
    Null,
    /// A cache that was seen being created.
    Known {
        /// The handle.
        handle: vk::PipelineCache,
        /// What is known of it.
        cache: Arc<AppCache>,
        /// Nothing has been put into it, so after this call it is a one-pipeline blob.
        fresh: bool,
    },
    /// A cache that was not.
    Unknown(vk::PipelineCache),
}

impl Passed {
    /// The handle as the program passed it.
    pub fn handle(&self) -> vk::PipelineCache {
        match self {
            Passed::Null => vk::PipelineCache::null(),
            Passed::Known { handle, .. } | Passed::Unknown(handle) => *handle,
        }
    }

    /// What is known of it.
    pub fn known(&self) -> Option<&AppCache> {
        match self {
            Passed::Known { cache, .. } => Some(cache),
            Passed::Null | Passed::Unknown(_) => None,
        }
    }
}

/// What every rung works with.
struct Request<'a, I> {
    device: &'a Device,
    passed: &'a Passed,
    allocator: *const vk::AllocationCallbacks<'a>,
    /// The program's create info; on a driver without identifiers less their structures.
    info: I,
    steering: Steering,
    key: Key,
    /// The encoded recipe.
    recipe: &'a [u8],
    /// What the recipe names by digest.
    parts: Parts,
}

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
    if device.asks_driver_first() {
        // SAFETY: the caller vouches for the create info.
        if let Some(answer) = unsafe { driver::ask_first(device, passed, allocator, info) } {
            return answer;
        }
    }
    let mut scratch = Scratch::default();
    // SAFETY: the caller vouches for the create info.
    let captured = unsafe { info.capture(device, &mut scratch) };
    let keyed = captured
        .and_then(|(model, steering)| Ok((key_of(&model, recipe)?, model.pipeline.parts(), steering)));
    let (key, parts, steering) = match keyed {
        Ok(keyed) => keyed,
        // SAFETY: as above.
        Err(refusal) => return unsafe { bypass(device, passed, allocator, info, refusal) },
    };
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
    let request = Request { device, passed, allocator, info, steering, key, recipe, parts };
    // SAFETY: the request holds the program's create info, or a copy that differs only as it must.
    let answer = unsafe {
        match artifact::serve(&request, artifact) {
            Some(answer) => {
                if steering.identifier_only {
                    device.count(Count::IdentifierServed);
                }
                answer
            }
            None if emulated && steering.identifier_only => refuse(&request.info),
            None => match driver::ask(&request) {
                Some(answer) => answer,
                None => compile::compile(&request),
            },
        }
    };
    count_result(device, answer.result);
    answer
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
    if device.counters().bypass(refusal.reason, refusal.s_type) {
        log_bypass(refusal);
    }
    // SAFETY: as the caller's contract; a driver without identifiers must never see a stage without code.
    unsafe {
        if device.identifiers == IdentifierMode::Emulated && call::names_code_by_identifier(info.stages()) {
            device.count(Count::CompileRequired);
            return refuse(info);
        }
        if let Passed::Known { cache, .. } = passed {
            cache.mark_filled();
        }
        let answer = call::create(device, passed.handle(), info, allocator);
        count_result(device, answer.result);
        answer
    }
}

/// What nobody expected is told once a process: two lines a pipeline get read as the cause of crashes. What
/// this version leaves to the driver by design is told to whoever asks.
fn log_bypass(Refusal { reason, s_type }: Refusal) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let (name, s_type) = (reason.name(), vk::StructureType::from_raw(s_type));
    let by_design =
        matches!(reason, BypassReason::Library | BypassReason::RayTracing | BypassReason::NotCacheable);
    if by_design || TOLD.swap(true, Ordering::Relaxed) {
        tracing::info!("a pipeline bypasses the stash: {name} ({s_type:?})");
    } else {
        tracing::warn!("a pipeline bypasses the stash: {name} ({s_type:?}); more are counted, not told");
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

fn count_result(device: &Device, result: vk::Result) {
    if result == vk::Result::PIPELINE_COMPILE_REQUIRED {
        device.count(Count::CompileRequired);
    } else if result != vk::Result::SUCCESS {
        device.count(Count::Failed);
    }
}
