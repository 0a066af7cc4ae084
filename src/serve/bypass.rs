//! What cannot be described goes to the driver unchanged, and a counter says why.

use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;

use super::call::{Answer, Call};
use super::counts::count_result;
use super::create_info::CreateInfo;
use super::modules::{self, Stripped};
use super::refuse::refuse;
use crate::state::device::{Device, IdentifierMode};
use vkstash_model::counters::Count;
use vkstash_model::structures;
use vkstash_recipe::chain::{Arena, Refusal};

/// The driver gets the call.
///
/// # Safety
/// The call's create info is valid.
pub unsafe fn bypass<I: CreateInfo>(call: &Call<'_, I>, refusal: Refusal) -> Answer {
    let device = call.device;
    count_bypassed(device, refusal);
    let mut stripped = Stripped::default();
    let mut arena = Arena::default();
    let mut creation = *call.creation;
    // SAFETY: the call's create info is valid; `arena` and `stripped`, where its copy's chain and stages
    // live, stay on this stack frame.
    unsafe {
        if call.names_code_of_the_layers() {
            device.count(Count::CompileRequired);
            return refuse(call.parsed());
        }
        if device.identifiers() == IdentifierMode::Emulated && call.parsed().naming.identifier_structure {
            // A chain with an unknown structure cannot be copied.
            let without = modules::without_identifiers(&creation, &mut arena, &mut stripped);
            creation = without.unwrap_or(creation);
        }
        call.program_cache.mark_filled(device);
        let answer = call.with(&creation).create();
        if answer.result == vk::Result::SUCCESS && call.parsed().is_library() {
            device.objects.libraries.insert(answer.pipeline, Err(refusal));
        }
        count_result(device, answer.result);
        answer
    }
}

/// Counts a pipeline that bypasses the stash, and tells of the first of its kind.
pub fn count_bypassed(device: &Device, refusal: Refusal) {
    if device.counters().bypass(refusal.reason, refusal.s_type) {
        log_bypass(refusal);
    }
}

/// Logs an unexpected reason once in a process: two lines for each pipeline would be read as the cause of crashes. A
/// reason that this version leaves to the driver by design is logged at a level that has to be asked for.
fn log_bypass(Refusal { reason, s_type }: Refusal) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let mut name = reason.name().to_owned();
    // 0 says that no structure is to blame, although Vulkan has given that number to VkApplicationInfo.
    if s_type != 0 {
        name += &format!(" ({})", structures::name(vk::StructureType::from_raw(s_type)));
    }
    if reason.is_by_design() || TOLD.swap(true, Ordering::Relaxed) {
        tracing::info!("a pipeline bypasses the stash: {name}");
    } else {
        tracing::warn!("a pipeline bypasses the stash: {name}; further ones are only counted");
    }
}
