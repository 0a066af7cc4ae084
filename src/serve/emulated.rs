//! pipelineCreationCacheControl on a driver that lacks it.
//!
//! Such a driver must not see the feature's flags, and would compile whatever it does not have. So a request
//! that forbids compiling is answered by the layer alone (contract 3.5: without the driver's cache control an
//! artifact will not do, because a blob that is not taken is compiled), and everything else goes down without
//! the flags.

use super::call::Call;
use super::create_info::{CreateInfo, Creation};
use vkstash_recipe::capture::flags::EARLY_RETURN;
use vkstash_recipe::chain::Arena;

/// The create info as the driver may see it. None: the program forbids compiling, and the answer is COMPILE_REQUIRED.
///
/// # Safety
/// The call's create info is valid; the copy is used only while `arena` and the original live and stay where they are.
pub unsafe fn without_cache_control<'a, I: CreateInfo>(
    call: &Call<'a, I>,
    arena: &mut Arena,
) -> Option<Creation<'a, I>> {
    let parsed = call.parsed();
    if parsed.fails_on_compile_required() {
        return None;
    }
    if !parsed.returns_early() {
        return Some(*call.creation);
    }
    // SAFETY: the call's create info is valid; the caller keeps `arena` and the original while it uses the copy.
    let stripped = unsafe { call.creation.without_flags(EARLY_RETURN, arena) };
    // EARLY_RETURN alone, in a chain that nobody can copy: a flag that the driver does not know is better
    // than no pipeline.
    stripped.or(Some(*call.creation))
}
