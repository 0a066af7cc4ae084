//! Answer to a create info for which the layer itself has failed.

use ash::vk;

use super::call::{Answer, Call};
use super::create_info::CreateInfo;
use super::settle::settle_undescribed;
use super::verdict::Verdict;
use super::{emulated, feedback};
use vkstash_model::counters::BypassReason;
use vkstash_recipe::chain::{Arena, Refusal};

/// What the driver had `made` by then, or else what it makes of the program's own create info.
///
/// # Safety
/// As [`super::ask::serve`].
pub unsafe fn serve<I: CreateInfo>(call: &Call<'_, I>, made: Option<Answer>) -> Answer {
    let answer = match made {
        Some(made) => {
            // The cache that the pipeline came from is not known any more, and the program's cache need not
            // have had it.
            // SAFETY: the driver has filled the program's structure.
            unsafe { feedback::clear_hit(call.parsed().feedback) };
            made
        }
        // SAFETY: the call's create info is valid: where the layer fails, the program's command has not returned yet.
        None => unsafe { untouched(call) },
    };
    if answer.result == vk::Result::SUCCESS && call.parsed().is_library() {
        // What is linked of it is left to the driver as well.
        let unknown = Refusal::plain(BypassReason::UnknownObject);
        call.device.objects.libraries.insert(answer.pipeline, Err(unknown));
    }
    answer
}

/// # Safety
/// The call's create info is valid.
unsafe fn untouched<I: CreateInfo>(call: &Call<'_, I>) -> Answer {
    let device = call.device;
    let mut arena = Arena::default();
    // SAFETY: the call's create info is valid; the arena, in which its copy's chain lives, outlives the driver's call.
    unsafe {
        if call.names_code_of_the_layers() {
            return settle_undescribed(call, Verdict::refusal());
        }
        // A driver without the feature must not see its flags.
        let stripped = if device.physical.emulates_cache_control {
            emulated::without_cache_control(call, &mut arena)
        } else {
            Some(*call.creation)
        };
        let Some(creation) = stripped else { return settle_undescribed(call, Verdict::refusal()) };
        call.program_cache.mark_filled(&device.caches);
        call.with(&creation).create()
    }
}
