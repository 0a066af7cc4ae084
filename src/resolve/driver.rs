//! Rungs 4 and 5: what the driver has already, and compile required.
//!
//! The program's warm cache and the driver's disk cache are not ours to lose: before anything is compiled
//! through a cache of ours, the driver is asked with the program's own call. It answers from what it has or
//! says COMPILE_REQUIRED within microseconds.

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::{Passed, Request, compile};
use crate::recipe::chain::Arena;
use crate::stats::Count;

/// Asks the driver for what it has. None: it has nothing, or there is no way to ask.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    let device = request.device;
    if request.steering.fail_on_compile_required {
        // SAFETY: the caller's contract.
        return Some(unsafe { ask_for_the_program(request) });
    }
    // Where nothing can be recorded anyway, or recording is free, the call itself asks the driver.
    let pointless = match request.passed {
        Passed::Null => device.policy.free_recording,
        Passed::Known { fresh, .. } => *fresh,
        Passed::Unknown(_) => true,
    };
    if pointless || !device.cache_control || !device.keeps_artifacts() {
        return None;
    }
    let mut arena = Arena::default();
    let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let none = vk::PipelineCreateFlags::empty();
    // SAFETY: the caller's contract; the arena stays on this stack frame.
    let answer = unsafe {
        let info = call::with_flags(&request.info, request.steering.flags2, fail_on, none, &mut arena)?;
        if let Passed::Known { cache, .. } = request.passed {
            cache.mark_filled();
        }
        call::create(device, request.passed.handle(), &info, request.allocator)
    };
    if answer.result != vk::Result::SUCCESS {
        return None;
    }
    device.count(Count::DriverHad);
    Some(answer)
}

/// The program itself forbids compiling: whatever the driver says is the answer.
///
/// # Safety
/// As [`ask`].
unsafe fn ask_for_the_program<I: CreateInfo>(request: &Request<'_, I>) -> Answer {
    // SAFETY: the caller's contract.
    let answer = unsafe { compile::harvesting(request) };
    if answer.result == vk::Result::SUCCESS {
        request.device.count(Count::DriverHad);
    }
    answer
}
