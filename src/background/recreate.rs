//! Calls for pipelines that the driver had, made once more without compiling, so that what it had is recorded.

use std::time::Duration;

use ash::vk;

use crate::serve::call::Call;
use crate::serve::create_info::CreateInfo;
use crate::serve::request::Request;
use crate::state::caches::private_cache::PrivateCache;
use vkstash_model::failed::Refusals;
use vkstash_model::payload;
use vkstash_model::record::Kind;
use vkstash_recipe::chain::Arena;

/// Why what the driver had was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRecorded {
    /// The driver would have to compile it: what it had was in a cache, and not on its disk.
    #[error("the driver does not have it beside an empty cache")]
    Refused,
    /// The call that forbids compiling cannot be made.
    #[error("its create info cannot be copied")]
    NoCopy,
    /// The driver gives no data.
    #[error("the driver's cache does not hold it")]
    NoData,
    /// The driver's answer.
    #[error("the driver answers {0:?}")]
    Driver(vk::Result),
    /// The stash takes nothing now.
    #[error("the stash does not take it")]
    Dropped,
}

/// Makes the pipeline again through an empty cache, without compiling, and records the cache's data. The artifact is as
/// unverified as any that was just recorded. `took`: what the program's call took. The pipeline and the cache are the
/// caller's.
///
/// # Safety
/// The request's create info is valid, and the calling thread may call the driver.
pub unsafe fn make_again<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    took: Duration,
) -> Result<(vk::Pipeline, PrivateCache<'a>), NotRecorded> {
    let Request { call, pipeline } = request;
    let device = call.device;
    let stored = device.stored().ok_or(NotRecorded::Dropped)?;
    let no_cache = NotRecorded::Driver(vk::Result::ERROR_OUT_OF_HOST_MEMORY);
    let cache = device.caches.commands.private(&[]).ok_or(no_cache)?;
    let mut arena = Arena::default();
    // SAFETY: the request's create info is valid, this thread may call the driver, and the arena stays on
    // this stack frame until the call is over.
    let answer = unsafe {
        let mut creation = *call.creation;
        if !creation.forbid_compiling(&mut arena) {
            return Err(NotRecorded::NoCopy);
        }
        call.create_with(cache.handle(), &creation.info)
    };
    match answer.result {
        vk::Result::SUCCESS => {}
        vk::Result::PIPELINE_COMPILE_REQUIRED => return Err(NotRecorded::Refused),
        error => return Err(NotRecorded::Driver(error)),
    }
    let record = |cache: &PrivateCache<'_>| {
        let payload =
            cache.data_behind(&payload::prefix(took, Refusals::NONE)).map_err(|_| NotRecorded::NoData)?;
        // The program may have had it compiled meanwhile.
        let is_there = stored.device.contains(Kind::Artifact, &pipeline.key);
        let is_kept =
            is_there || stored.device.put(Kind::Artifact, &pipeline.key, payload.into_boxed_slice());
        is_kept.then_some(()).ok_or(NotRecorded::Dropped)
    };
    // SAFETY: the pipeline was just made with the call's allocator, and nobody else has had it.
    record(&cache).inspect_err(|_| unsafe { destroy(call, answer.pipeline) })?;
    Ok((answer.pipeline, cache))
}

/// Destroys a pipeline that a worker has made again.
///
/// # Safety
/// `pipeline` is of the call's device, was made with the call's allocator, and nobody else has it.
pub unsafe fn destroy<I: CreateInfo>(call: &Call<'_, I>, pipeline: vk::Pipeline) {
    if let Some(destroy) = call.device.table.destroy_pipeline {
        // SAFETY: the pipeline is alive, is destroyed with the allocator of its creation, and nobody else has
        // its handle.
        unsafe { destroy(call.device.handle, pipeline, call.allocator) };
    }
}
