//! The stash as a source with VK_KHR_pipeline_binary, where that is enabled: instead of a cache blob the driver gets
//! binaries that it gave out itself, and must use them (contract 5.5).
//!
//! A blob that does not fit is a miss; a binary that does not fit is a wrong pipeline. So what a binary is stored
//! under holds everything about the device, and the driver's key for it, beside the recipe's key.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use ash::vk;
use smallvec::SmallVec;

use super::call::Call;
use super::create_info::{CreateInfo, Creation};
use super::outcome::{Form, Origin, Served};
use super::program_cache::ProgramCache;
use super::request::Request;
use super::{feedback, record};
use crate::pipeline_binary::{self as api, PipelineBinary, PipelineBinaryInfoKHR};
use crate::state::device::Device;
use crate::state::sized_data;
use vkstash_model::counters::Count;
use vkstash_model::key;
use vkstash_model::newer::PIPELINE_BINARY_INFO;
use vkstash_model::payload;
use vkstash_recipe::capture::flags::FAIL_ON;
use vkstash_recipe::chain::Arena;
use vkstash_store::base::memory;
use vkstash_store::format::record::{Key, Kind};
use vkstash_store::part::admission::Admission;

/// Whether binaries stand in for blobs in this call: the pending entries of a program's cache are blobs, and binaries
/// hold code alone. RADV (Mesa 25.0.7) makes of them libraries without what a link optimizes again, and dereferences
/// NULL there.
pub fn applies<I: CreateInfo>(call: &Call<'_, I>) -> bool {
    // NVIDIA 580.159.04 dereferences NULL where the binaries of a link with shaders of its own are captured, and no
    // rule says what binaries beside pLibraries mean (contract 5.8).
    let parsed = call.parsed();
    call.device.binaries.is_some()
        && !parsed.is_looked_at()
        && !parsed.is_linked()
        && matches!(call.program_cache, ProgramCache::Null)
}

/// Where the binaries of a recipe are stored. None where the driver does not tell its global key.
fn stored_under(device: &Device, recipe: &Key) -> Option<Key> {
    let mut both = [0; 64];
    both[..32].copy_from_slice(recipe);
    both[32..].copy_from_slice(device.binaries.as_ref()?.digest(
        &device.table,
        device.handle,
        device.configuration(),
    )?);
    Some(key::digest(key::BINARIES, &both))
}

/// Serves a call from stored binaries. None: there are none, or they cannot be used.
///
/// # Safety
/// The call's create info is valid, and `recipe` is its key.
pub unsafe fn serve<I: CreateInfo>(call: &Call<'_, I>, recipe: &Key, buffer: &mut Vec<u8>) -> Option<Served> {
    let device = call.device;
    let stored = device.stored()?;
    let name = stored_under(device, recipe)?;
    if !stored.device.read(Kind::Artifact, &name, buffer) {
        return None;
    }
    let (cost, listed) = payload::parse_binaries(buffer)?;
    let started = Instant::now();
    let admission = stored.device.admit(&name);
    if matches!(admission, Admission::NotYet) {
        device.count(Count::NotReady);
        return None;
    }
    if matches!(admission, Admission::Quarantined) {
        device.count(Count::Quarantined);
        return None;
    }
    let binaries = Binaries::from_data(device, &listed)?;
    let mut arena = Arena::default();
    // SAFETY: the call's create info is valid; the arena, the structure and the binaries stay on this stack
    // frame until the call is over. Without a cache and without FAIL_ON in either word (09616, 09622).
    let answer = unsafe {
        let mut changed = call.creation.with_flags(0, FAIL_ON, &mut arena)?.info;
        *changed.flags_mut() &= !vk::PipelineCreateFlags::from_raw(FAIL_ON as u32);
        let used = PipelineBinaryInfoKHR {
            s_type: PIPELINE_BINARY_INFO,
            p_next: *changed.p_next_mut(),
            binary_count: binaries.handles.len() as u32,
            p_pipeline_binaries: binaries.handles.as_ptr(),
        };
        *changed.p_next_mut() = (&raw const used).cast();
        call.create_with(vk::PipelineCache::null(), &changed)
    };
    drop(binaries);
    drop(admission);
    if answer.result != vk::Result::SUCCESS {
        // VK_PIPELINE_BINARY_MISSING_KHR among them: no result of the program's own call (contract 5.3).
        device.count(Count::NotTaken);
        return None;
    }
    // SAFETY: the driver has filled the program's structure.
    unsafe { feedback::clear_hit(call.parsed().feedback) };
    let cost = stored.stash.note_taken(&stored.device, &name).then_some(cost);
    let origin = Origin::Stash { confirmed: true, cost, spent: started.elapsed(), form: Form::Binaries };
    Some(Served { answer, origin })
}

/// The create info for a compile whose binaries are wanted: the flag lives in VkPipelineCreateFlags2 alone
/// (contract 3.4). None where the chain cannot be copied.
///
/// # Safety
/// `creation` is of a valid create info; the copy is used only while `arena` and the original live and stay where
/// they are.
pub unsafe fn capturing<I: CreateInfo>(creation: &Creation<'_, I>, arena: &mut Arena) -> Option<I> {
    if creation.parsed.flags2 {
        // SAFETY: the create info is valid; the caller keeps `arena` and the original while it uses the copy.
        return Some(unsafe { creation.with_flags(api::CAPTURE_DATA, 0, arena) }?.info);
    }
    let mut copy = creation.info;
    let mut flags = vk::PipelineCreateFlags2CreateInfoKHR::default();
    let given = u64::from(copy.flags_mut().as_raw());
    flags.flags = vk::PipelineCreateFlags2KHR::from_raw(given | api::CAPTURE_DATA);
    flags.p_next = *copy.p_next_mut();
    // SAFETY: a structure of that size, copied to where it lives as long as the create info does.
    *copy.p_next_mut() = unsafe { arena.copy((&raw const flags).cast(), size_of_val(&flags)) };
    Some(copy)
}

/// Records the binaries of a pipeline that was made by [`capturing`], and lets the driver forget them.
///
/// # Safety
/// The request's create info is valid, and `pipeline` is its live pipeline.
pub unsafe fn record_captured<I: CreateInfo>(
    request: &Request<'_, I>,
    pipeline: vk::Pipeline,
    cost: Duration,
) -> bool {
    let device = request.call.device;
    let from = api::CreateInfo { pipeline, ..api::CreateInfo::default() };
    let payload = Binaries::create(device, &from, None).and_then(|binaries| binaries.payload(cost));
    if let Some(release) = device.table.release_captured_pipeline_data {
        // SAFETY: a captured pipeline, released once (09613, 09618), with the allocator of its creation (09611).
        let result =
            unsafe { release(device.handle, &api::ReleaseInfo::new(pipeline), request.call.allocator) };
        if result != vk::Result::SUCCESS {
            tracing::debug!("captured data of a pipeline was not released: {result:?}");
        }
    }
    let (Some(payload), Some(name)) = (payload, stored_under(device, &request.pipeline.key)) else {
        return false;
    };
    if device.stored().is_some_and(|stored| record::is_lost(stored, &name)) {
        record::count_lost(device, cost);
    }
    // SAFETY: the request's create info is valid, so its recipe and its inline modules can be read.
    unsafe { record::record_as(request, &name, payload) }
}

/// Binaries that are destroyed when they go out of scope.
struct Binaries<'a> {
    device: &'a Device,
    handles: Vec<PipelineBinary>,
}

impl<'a> Binaries<'a> {
    fn from_data(device: &'a Device, listed: &[(&[u8], &[u8])]) -> Option<Binaries<'a>> {
        let keys: SmallVec<[api::Key; 4]> =
            listed.iter().map(|(key, _)| api::Key::new(key)).collect::<Option<_>>()?;
        // The driver only reads what it gets here.
        let data: SmallVec<[api::Data; 4]> = listed
            .iter()
            .map(|(_, data)| api::Data { size: data.len(), data: data.as_ptr().cast_mut().cast() })
            .collect();
        let count = listed.len() as u32;
        let all = api::KeysAndData { count, keys: keys.as_ptr(), data: data.as_ptr() };
        let from = api::CreateInfo { keys_and_data: &all, ..api::CreateInfo::default() };
        Binaries::create(device, &from, Some(listed.len()))
    }

    /// Creates binaries; asks how many there will be where that is not known.
    fn create(device: &'a Device, from: &api::CreateInfo, count: Option<usize>) -> Option<Binaries<'a>> {
        let create = device.table.create_pipeline_binaries?;
        let mut list = api::Handles::default();
        let count = match count {
            Some(count) => count,
            None => {
                // SAFETY: a valid create info; a count that starts at 0, because drivers may add to it
                // (contract 5.4).
                let result = unsafe { create(device.handle, from, std::ptr::null(), &mut list) };
                if result != vk::Result::SUCCESS {
                    return None;
                }
                list.count as usize
            }
        };
        let mut handles = Vec::new();
        if !memory::lengthen(&mut handles, count) {
            return None;
        }
        let mut binaries = Binaries { device, handles };
        list.count = count as u32;
        list.binaries = binaries.handles.as_mut_ptr();
        // SAFETY: a valid create info, with room for as many handles as it has binaries.
        let result = unsafe { create(device.handle, from, std::ptr::null(), &mut list) };
        let all_there = binaries.handles.iter().all(|&handle| handle != 0);
        // What was made in part is destroyed all the same.
        binaries.handles.retain(|handle| *handle != 0);
        (result == vk::Result::SUCCESS && all_there && count > 0).then_some(binaries)
    }

    /// The data of all binaries, as an artifact's payload.
    fn payload(&self, cost: Duration) -> Option<Vec<u8>> {
        let get = self.device.table.get_pipeline_binary_data?;
        let mut listed = memory::room(self.handles.len())?;
        for &handle in &self.handles {
            let (info, mut name) = (api::DataInfo::new(handle), api::Key::default());
            let ask = |size: &mut usize, data: *mut c_void| {
                // SAFETY: a live binary of the layer's; `read` passes NULL (contract 5.6), or a buffer for everything.
                unsafe { get(self.device.handle, &info, &mut name, size, data.cast()) }
            };
            let (data, _) = sized_data::read(&[], ask).ok()?;
            if name.as_bytes().is_empty() {
                return None;
            }
            listed.push((name, data));
        }
        payload::binaries_payload(cost, listed.iter().map(|(name, data)| (name.as_bytes(), &data[..])))
    }
}

impl Drop for Binaries<'_> {
    fn drop(&mut self) {
        let Some(destroy) = self.device.table.destroy_pipeline_binary else { return };
        for &handle in &self.handles {
            // SAFETY: a binary of the layer's, created without an allocator; the call that used it is over.
            unsafe { destroy(self.device.handle, handle, std::ptr::null()) };
        }
    }
}
