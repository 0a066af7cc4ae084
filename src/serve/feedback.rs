//! Creation feedback: what the driver wrote into the program's structures, put right.

use std::time::Duration;

use ash::vk;

const HIT: vk::PipelineCreationFeedbackFlags =
    vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT;

/// The program's structure, where it has one.
type Feedback<'a> = Option<&'a vk::PipelineCreationFeedbackCreateInfo<'a>>;

/// Whether the driver says that the passed cache held the pipeline; None without a feedback structure.
///
/// # Safety
/// `info` is none or a valid structure whose outputs the driver has filled.
pub unsafe fn cache_hit(info: Feedback<'_>) -> Option<bool> {
    // SAFETY: pPipelineCreationFeedback of the valid structure points to one output, which the driver has filled.
    let feedback = unsafe { info?.p_pipeline_creation_feedback.as_ref() }?;
    Some(feedback.flags.contains(vk::PipelineCreationFeedbackFlags::VALID | HIT))
}

/// A hit in a cache of the layer's is not one in the program's: HIT means the application's cache (contract 3.7).
///
/// # Safety
/// As [`cache_hit`].
pub unsafe fn clear_hit(info: Feedback<'_>) {
    let Some(info) = info else { return };
    // SAFETY: pPipelineCreationFeedback is valid, and pPipelineStageCreationFeedbacks has
    // pipelineStageCreationFeedbackCount elements; the driver has filled both.
    unsafe {
        if let Some(feedback) = info.p_pipeline_creation_feedback.as_mut() {
            feedback.flags &= !HIT;
        }
        let stages = info.p_pipeline_stage_creation_feedbacks;
        for index in 0..info.pipeline_stage_creation_feedback_count as usize {
            (*stages.add(index)).flags &= !HIT;
        }
    }
}

/// The driver has made the pipeline of something else than the program's cache, which would have held it.
///
/// # Safety
/// As [`cache_hit`].
pub unsafe fn say_hit(info: Feedback<'_>) {
    // SAFETY: pPipelineCreationFeedback of the valid structure points to one output, which the driver has filled.
    let feedback = info.and_then(|info| unsafe { info.p_pipeline_creation_feedback.as_mut() });
    if let Some(feedback) = feedback.filter(|f| f.flags.contains(vk::PipelineCreationFeedbackFlags::VALID)) {
        feedback.flags |= HIT;
    }
}

/// The pipeline was made before the call: the pipeline's feedback says that handing it over took this time. There is
/// none for the stages, which the specification allows (contract 3.7).
///
/// # Safety
/// `info` is none or a valid structure.
pub unsafe fn say_made(info: Feedback<'_>, spent: Duration) {
    // SAFETY: `info` is none or the program's valid structure, whose outputs are only written.
    unsafe { say_none(info) };
    // SAFETY: pPipelineCreationFeedback points to one output, which `say_none` has just written.
    if let Some(feedback) = info.and_then(|info| unsafe { info.p_pipeline_creation_feedback.as_mut() }) {
        feedback.flags = vk::PipelineCreationFeedbackFlags::VALID;
        feedback.duration = spent.as_nanos() as u64;
    }
}

/// The layer answers in the driver's place: neither for the pipeline nor for any stage is there any feedback,
/// which must be said too (contract 3.7).
///
/// # Safety
/// `info` is none or a valid structure.
pub unsafe fn say_none(info: Feedback<'_>) {
    let none = vk::PipelineCreationFeedback::default();
    let Some(info) = info else { return };
    // SAFETY: pPipelineCreationFeedback is valid, and pPipelineStageCreationFeedbacks has
    // pipelineStageCreationFeedbackCount elements; both are only written.
    unsafe {
        if let Some(feedback) = info.p_pipeline_creation_feedback.as_mut() {
            *feedback = none;
        }
        let stages = info.p_pipeline_stage_creation_feedbacks;
        for index in 0..info.pipeline_stage_creation_feedback_count as usize {
            stages.add(index).write(none);
        }
    }
}
