//! What the program's own caches are owed: their data, and merges, are complete although the stash served or
//! compiled beside them.

use std::sync::Arc;

use ash::vk;

pub use super::private_cache::HEADER_SIZE;
use super::private_cache::{PrivateCache, data_behind};
use super::record;
use crate::state::app_cache::{AppCache, Remembered};
use crate::state::device::Device;
use crate::store::part::{Key, Kind};

/// The complete data of a cache that is owed something. None: the driver's own answer is complete, or nothing
/// better can be had.
///
/// # Safety
/// `handle` is a live cache that the program lets this thread read now.
pub unsafe fn complete(device: &Device, handle: vk::PipelineCache, cache: &AppCache) -> Option<Arc<[u8]>> {
    let version = cache.version();
    let mut answer = cache.answer();
    if let Some(remembered) = answer.as_ref().filter(|remembered| remembered.version == version) {
        return Some(remembered.data.clone());
    }
    let owed = cache.owed();
    let data: Arc<[u8]> = match owed.as_slice() {
        [] => return None,
        // An empty cache and one pipeline: the artifact is the answer as it is.
        [key] if !cache.driver_filled() => artifact(device, key)?.into(),
        keys => {
            let all = PrivateCache::new(device, &[])?;
            let merge = device.table.merge_pipeline_caches?;
            if cache.driver_filled() {
                // SAFETY: both caches are alive; the destination is ours alone, the source may be read.
                unsafe { merge(device.handle, all.handle(), 1, &handle) }.result().ok()?;
            }
            for key in keys {
                let Some(part) = artifact(device, key).and_then(|blob| PrivateCache::new(device, &blob))
                else {
                    continue;
                };
                // SAFETY: both caches are ours alone.
                unsafe { merge(device.handle, all.handle(), 1, &part.handle()) }.result().ok()?;
            }
            // SAFETY: a cache of ours.
            unsafe { data_behind(device, all.handle(), &[]) }?.into()
        }
    };
    *answer = Some(Remembered { version, data: data.clone() });
    Some(data)
}

fn artifact(device: &Device, key: &Key) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    if !device.stored()?.device.read(Kind::Artifact, key, &mut payload) {
        return None;
    }
    record::parse(&payload)?;
    payload.drain(..record::PREFIX);
    Some(payload)
}
