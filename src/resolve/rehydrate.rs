//! VKSTASH_REHYDRATE: an emulated identifier without an artifact, compiled from the stash's SPIR-V.
//!
//! The call promised not to compile, so this is the user's own choice: it serves where the driver keeps no
//! artifacts, or lost them, and translating the shader anew would cost the program more than the compile.

use ash::vk;

use super::call::Answer;
use super::create_info::CreateInfo;
use super::modules::StoredModules;
use super::outcome::{ArtifactOutcome, Question, Rung};
use super::request::Request;
use super::{compile, driver};
use crate::recipe::chain::Arena;
use crate::stats::Count;
use vkstash_store::format::record::Kind;

/// Compiles the request. None where that is not wanted, the stash lacks a stage's code, or the driver fails:
/// then the program hears what it would have heard without this.
///
/// # Safety
/// The request's create info is valid, and its stages carry no identifier structures.
pub unsafe fn rehydrate<I: CreateInfo>(
    request: &Request<'_, I>,
    artifact: ArtifactOutcome<'_>,
    question: Question,
) -> Option<Answer> {
    let Request { call, pipeline } = request;
    let device = call.device;
    if !device.rehydrates() {
        return None;
    }
    let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let none = vk::PipelineCreateFlags::empty();
    let mut modules = StoredModules::new(device);
    let mut arena = Arena::default();
    let stored = device.stored()?;
    // SAFETY: the caller's contract; the modules stay on this stack frame until the call is over.
    let Some(creation) = (unsafe { modules.put_in(call.creation, pipeline.recipe, stored) }) else {
        // Without a recipe the stash may never have had the module.
        let lost = modules.lacks_one() && stored.portable.contains(Kind::Recipe, &pipeline.key);
        if lost && !matches!(artifact, ArtifactOutcome::ModuleMissing) {
            device.count(Count::ModuleMissing);
        }
        return None;
    };
    // SAFETY: as above, and for the arena.
    let answer = unsafe {
        let creation = creation.with_flags(none, fail_on, &mut arena)?;
        let request = Request { call: call.with(&creation), pipeline };
        match driver::ask_itself(&request, question) {
            Rung::Served(served) => {
                served.count(device, false);
                return Some(served.answer);
            }
            Rung::Missed(Question::Fails) => compile::untouched(&request, false),
            Rung::Missed(_) => compile::compile(&request, artifact),
        }
    };
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    device.count(Count::Rehydrated);
    Some(answer)
}
