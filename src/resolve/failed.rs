//! What the program gets for a create info for which the layer itself has failed.

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::{Passed, emulated, feedback, forbid, refuse_nameless};
use crate::recipe::capture::stage::LIBRARY;
use crate::recipe::chain::{Arena, Refusal};
use crate::state::device::Device;
use crate::stats::BypassReason;

/// What the driver had `made` by then, or else what it makes of the program's own create info.
///
/// # Safety
/// As [`super::serve`].
pub unsafe fn serve<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
    made: Option<Answer>,
) -> Answer {
    let mut copy = *info;
    // SAFETY: the caller's contract; the arena outlives the call.
    unsafe {
        let answer = match made {
            Some(made) => {
                // Of which cache it came is not known any more, and that of the program need not have had it.
                feedback::clear_hit(*copy.p_next_mut());
                made
            }
            None => untouched(device, passed, allocator, info),
        };
        if answer.result == vk::Result::SUCCESS && call::flags_of(&mut copy).0 & LIBRARY != 0 {
            // What is linked of it is left to the driver as well.
            device.libraries.insert(answer.pipeline, Err(Refusal::plain(BypassReason::UnknownObject)));
        }
        answer
    }
}

/// # Safety
/// As [`serve`].
unsafe fn untouched<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
) -> Answer {
    let mut pipeline = vk::Pipeline::null();
    let mut arena = Arena::default();
    // SAFETY: the caller's contract; the arena outlives the call.
    unsafe {
        if let Some(result) = refuse_nameless(device, 1, info, &mut pipeline) {
            return Answer { result, pipeline };
        }
        // A driver without the feature must not see its flags.
        let stripped = if device.cache_control_emulated {
            emulated::without_cache_control(device, info, &mut arena)
        } else {
            Some(*info)
        };
        let Some(info) = stripped else { return forbid(device, info) };
        passed.mark_filled(device);
        call::create(device, passed.handle(), &info, allocator)
    }
}
