//! pipelineCreationCacheControl on a driver that lacks it.
//!
//! Such a driver must not see the feature's flags, and would compile whatever it does not have. So a request
//! that forbids compiling is answered by the layer alone (contract 3.5: without the driver's cache control an
//! artifact will not do, because a blob that is not taken is compiled), and everything else goes down without
//! the flags.

use ash::vk;

use super::call::{self, CreateInfo};
use crate::recipe::chain::Arena;
use crate::state::device::Device;

const FAIL_ON: vk::PipelineCreateFlags = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
const EARLY_RETURN: vk::PipelineCreateFlags = vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;

/// The create info as the driver may see it. None: the program forbids compiling, and the answer is
/// COMPILE_REQUIRED; not for a stage without code where the user has allowed to compile stored SPIR-V.
///
/// # Safety
/// A valid create info; the copy is used only while `arena` and the original live and stay where they are.
pub unsafe fn without_cache_control<I: CreateInfo>(
    device: &Device,
    info: &I,
    arena: &mut Arena,
) -> Option<I> {
    let mut copy = *info;
    // SAFETY: the caller's contract.
    unsafe {
        let (flags, flags2) = call::flags_of(&mut copy);
        let has = |flag: vk::PipelineCreateFlags| flags & u64::from(flag.as_raw()) != 0;
        if has(FAIL_ON) && !(device.rehydrates() && call::names_code_by_identifier(info.stages())) {
            return None;
        }
        if !has(FAIL_ON) && !has(EARLY_RETURN) {
            return Some(copy);
        }
        let none = vk::PipelineCreateFlags::empty();
        let stripped = call::with_flags(info, flags2, none, FAIL_ON | EARLY_RETURN, arena);
        // EARLY_RETURN alone, in a chain that nobody can copy: a flag that the driver does not know is better
        // than no pipeline.
        stripped.or((!has(FAIL_ON)).then_some(copy))
    }
}
