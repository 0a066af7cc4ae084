//! VKSTASH_COMPILE_STORED: compiles a request by an emulated identifier that has no artifact from stored SPIR-V.
//!
//! The call promises not to compile, so the user has to ask for this. It pays where the driver keeps no artifacts, or
//! has lost them, and where translating the shader again would cost the program more than the compile.

use ash::vk;

use super::call::Answer;
use super::create_info::CreateInfo;
use super::driver::DriverMiss;
use super::modules::StoredModules;
use super::order::{Source, order};
use super::outcome::ArtifactOutcome;
use super::request::Request;
use super::{compile, driver, facts};
use vkstash_model::counters::Count;
use vkstash_recipe::capture::flags::FAIL_ON;
use vkstash_recipe::chain::Arena;
use vkstash_store::format::record::Kind;

/// Compiles the request. None where the user has not asked for it, the stash lacks a stage's code, or the driver fails:
/// the program then gets the answer that it would have had without this setting.
///
/// # Safety
/// The request's create info is valid, and its stages carry no identifier structures.
pub unsafe fn compile_stored<I: CreateInfo>(
    request: &Request<'_, I>,
    artifact: ArtifactOutcome<'_>,
) -> Option<Answer> {
    let Request { call, pipeline } = request;
    let device = call.device;
    if !device.compiles_stored() {
        return None;
    }
    let mut modules = StoredModules::new(device);
    let mut arena = Arena::default();
    let stored = device.stored()?;
    // SAFETY: the caller passes a valid create info; `modules` stays on this stack frame until the call has returned.
    let Some(creation) = (unsafe { modules.put_in(call.creation, pipeline.recipe, stored) }) else {
        // Without a recipe the stash may never have had the module.
        let lost = modules.lacks_one() && stored.portable.contains(Kind::Recipe, &pipeline.key);
        if lost && !matches!(artifact, ArtifactOutcome::ModuleMissing) {
            device.count(Count::ModuleMissing);
        }
        return None;
    };
    // SAFETY: the caller passes a valid create info; `modules` and `arena`, which the copy points to, stay on this
    // stack frame until the driver's call has returned.
    let answer = unsafe {
        let creation = creation.with_flags(0, FAIL_ON, &mut arena)?;
        let request = request.with(&creation);
        // The stash was asked; the driver could not be, before it had the code.
        let asks_driver = order(&facts::of(&request, false)).sources.contains(&Source::Driver);
        match asks_driver.then(|| driver::ask(&request)) {
            Some(Ok(served)) => {
                served.count(device, false);
                return Some(served.answer);
            }
            Some(Err(DriverMiss::Error)) => compile::untouched(&request, false),
            Some(Err(_)) | None => compile::compile(&request, artifact),
        }
    };
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    device.count(Count::CompiledFromStored);
    Some(answer)
}
