//! VKSTASH_REHYDRATE: an emulated identifier without an artifact, compiled from the stash's SPIR-V.
//!
//! The call promised not to compile, so this is the user's own choice: it serves where the driver keeps no
//! artifacts, or lost them, and translating the shader anew would cost the program more than the compile.

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::{Request, compile, driver, modules};
use crate::recipe::capture::stage::Steering;
use crate::recipe::chain::Arena;
use crate::stats::Count;
use vkstash_store::format::record::Kind;

/// Compiles the request. None where that is not wanted, the stash lacks a stage's code, or the driver fails:
/// then the program hears what it would have heard without this.
///
/// # Safety
/// The request's create info is valid, and its stages carry no identifier structures.
pub unsafe fn rehydrate<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    let device = request.device;
    if !device.rehydrates() {
        return None;
    }
    let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let none = vk::PipelineCreateFlags::empty();
    let mut brought = modules::Brought::new(device);
    let mut arena = Arena::default();
    let stored = device.stored()?;
    // SAFETY: the caller's contract; the modules stay on this stack frame until the call is over.
    let Some(info) = (unsafe { brought.bring(&request.info, request.recipe, stored) }) else {
        // Without a recipe the stash may never have had the module.
        let lost = brought.lacks_module() && stored.portable.contains(Kind::Recipe, &request.key);
        if lost && !request.past.lacks_module() {
            device.count(Count::ModuleMissing);
        }
        return None;
    };
    // SAFETY: as above, and for the arena.
    let answer = unsafe {
        let info = call::with_flags(&info, request.steering.flags2, none, fail_on, &mut arena)?;
        let steering = Steering { fail_on_compile_required: false, ..request.steering };
        let (past, shaders) = (request.past.take(), request.shaders.clone());
        let request = Request { info, steering, past, shaders, ..*request };
        if let Some(answer) = driver::ask_itself(&request) {
            return Some(answer);
        }
        compile::compile(&request)
    };
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    device.count(Count::Rehydrated);
    Some(answer)
}
