//! Creation feedback: what the driver wrote into the program's structures, put right.

use std::ffi::c_void;

use ash::vk;

use crate::recipe::chain;

const HIT: vk::PipelineCreationFeedbackFlags =
    vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT;

/// The feedback structure of a chain.
///
/// # Safety
/// A valid chain.
unsafe fn find<'a>(p_next: *const c_void) -> Option<&'a vk::PipelineCreationFeedbackCreateInfo<'a>> {
    // SAFETY: the caller's contract; the cast follows the sType.
    unsafe {
        let node = chain::walk(p_next)
            .find(|&node| (*node).s_type == vk::StructureType::PIPELINE_CREATION_FEEDBACK_CREATE_INFO)?;
        Some(&*node.cast())
    }
}

/// Whether the program asks where the pipeline comes from.
///
/// # Safety
/// A valid chain.
pub unsafe fn is_asked(p_next: *const c_void) -> bool {
    // SAFETY: the caller's contract.
    unsafe { find(p_next) }.is_some()
}

/// Whether the driver says that the passed cache held the pipeline; None where nobody asked.
///
/// # Safety
/// A valid chain that the driver has filled.
pub unsafe fn cache_hit(p_next: *const c_void) -> Option<bool> {
    // SAFETY: the caller's contract; pPipelineCreationFeedback is valid.
    let feedback = unsafe { find(p_next)?.p_pipeline_creation_feedback.as_ref() }?;
    Some(feedback.flags.contains(vk::PipelineCreationFeedbackFlags::VALID | HIT))
}

/// A hit in a cache of ours is not one in the program's: HIT means the application's cache (contract 3.7).
///
/// # Safety
/// As [`cache_hit`].
pub unsafe fn clear_hit(p_next: *const c_void) {
    // SAFETY: the caller's contract; both outputs are valid, the second for its count.
    unsafe {
        let Some(info) = find(p_next) else { return };
        if let Some(feedback) = info.p_pipeline_creation_feedback.as_mut() {
            feedback.flags &= !HIT;
        }
        let stages = info.p_pipeline_stage_creation_feedbacks;
        for index in 0..info.pipeline_stage_creation_feedback_count as usize {
            (*stages.add(index)).flags &= !HIT;
        }
    }
}

/// The layer answers in the driver's place: neither for the pipeline nor for any stage is there any feedback,
/// which must be said too (contract 3.7).
///
/// # Safety
/// A valid chain.
pub unsafe fn say_none(p_next: *const c_void) {
    let none = vk::PipelineCreationFeedback::default();
    // SAFETY: the caller's contract; both outputs are valid, the second for its count.
    unsafe {
        let Some(info) = find(p_next) else { return };
        if let Some(feedback) = info.p_pipeline_creation_feedback.as_mut() {
            *feedback = none;
        }
        let stages = info.p_pipeline_stage_creation_feedbacks;
        for index in 0..info.pipeline_stage_creation_feedback_count as usize {
            stages.add(index).write(none);
        }
    }
}
