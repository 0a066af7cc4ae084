//! Rungs 4 and 5: what the driver has already, and compile required.
//!
//! The program's warm cache and the driver's disk cache are not ours to lose: before anything is compiled
//! through a cache of ours, the driver is asked with the program's own call. It answers from what it has or
//! says COMPILE_REQUIRED within microseconds.

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::past::Past;
use super::{Contents, Passed, Request, binary, compile};
use crate::identifier::NativeIdentifier;
use crate::recipe::capture::stage::LIBRARY;
use crate::recipe::capture::{Library, Objects, Scratch, SubpassUse};
use crate::recipe::chain::{Arena, Refusal};
use crate::recipe::model::Parts;
use crate::state::device::Device;
use crate::state::family::Family;
use crate::stats::{BypassReason, Count};
use crate::store::part::Key;

/// What capture needs to know to find out whether a call may be changed, without hashing anything.
struct Unnamed<'a>(&'a Device);

impl Objects for Unnamed<'_> {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        let known = self.0.modules.read(module, |module| module.refusal);
        match known {
            Some(None) => Ok(Key::default()),
            Some(Some(refusal)) => Err(refusal),
            None => Err(Refusal::plain(BypassReason::UnknownObject)),
        }
    }

    fn inline_module(&self, _: vk::ShaderModuleCreateFlags, _: &[u8]) -> Key {
        Key::default()
    }

    fn identified(&self, _: &NativeIdentifier) -> Option<Key> {
        Some(Key::default())
    }

    fn algorithm(&self) -> [u8; 16] {
        self.0.algorithm()
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        self.0.layout(layout)
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        self.0.render_pass(render_pass, subpass)
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        self.0.library(library)
    }

    fn advanced_blend(&self) -> bool {
        self.0.advanced_blend()
    }
}

/// Rung 4 before any other, where the stash has nothing to serve: the program's own call, asked of the driver
/// before anything is hashed. None: the ladder's turn.
///
/// # Safety
/// `info` is a valid create info of the device.
pub unsafe fn ask_first<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
) -> Option<Answer> {
    let mut copy = *info;
    // Libraries need keys: they may be linked later.
    // SAFETY: the caller's contract.
    if unsafe { call::flags_of(&mut copy) }.0 & LIBRARY != 0 {
        return None;
    }
    let mut scratch = Scratch::default();
    // SAFETY: as above.
    let steering = unsafe { info.capture(&Unnamed(device), &mut scratch) }.ok()?.1;
    if steering.fail_on_compile_required {
        return None;
    }
    // Neither key nor parts are looked at before something is recorded, which this rung never does.
    let (key, parts) = (Key::default(), Parts::default());
    let family = Family::Complete;
    let recipe = &[];
    let request = Request {
        device,
        passed,
        allocator,
        info: *info,
        steering,
        family,
        key,
        recipe,
        parts,
        past: Past::default(),
        held: None,
    };
    // SAFETY: as above.
    unsafe { ask(&request) }
}

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
        // A pipeline of which binaries are captured does not come from the driver's cache (contract 5.5).
        Passed::Null => device.policy.free_recording && !binary::applies(request),
        Passed::Known { contents, .. } => *contents != Contents::Anything,
        Passed::Unknown(_) => true,
    };
    let recorded = device.keeps_artifacts() && device.gives(request.family);
    if pointless || !device.cache_control || !recorded {
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
    request.count_had(Count::DriverHad, 1);
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
