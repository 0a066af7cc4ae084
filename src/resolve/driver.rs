//! Rungs 4 and 5: what the driver has already, and compile required.
//!
//! The program's warm cache and the driver's disk cache are not ours to lose: before anything is compiled
//! through a cache of ours, the driver is asked with the program's own call. It answers from what it has or
//! says COMPILE_REQUIRED within microseconds.

use ash::vk;

use super::call::{self, Answer, CreateInfo};
use super::past::{Asked, Past};
use super::{Contents, Passed, Request, binary, companion, compile};
use crate::identifier::NativeIdentifier;
use crate::recipe::capture::stage::LIBRARY;
use crate::recipe::capture::{Library, Objects, Scratch, SubpassUse};
use crate::recipe::chain::{Arena, Refusal};
use crate::recipe::model::Parts;
use crate::recipe::shader_set::ShaderSet;
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

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        self.0.looked_into()
    }
}

/// Rung 4 before any other, where the stash has nothing to serve, or the program has loaded a cache: the program's own
/// call, asked of the driver before anything is hashed. None: the ladder's turn, with what has come of it so far.
///
/// # Safety
/// `info` is a valid create info of the device.
pub unsafe fn ask_first<I: CreateInfo>(
    device: &Device,
    passed: &Passed,
    allocator: *const vk::AllocationCallbacks<'_>,
    info: &I,
) -> (Option<Answer>, Asked) {
    let mut copy = *info;
    // Libraries need keys: they may be linked later.
    // SAFETY: the caller's contract.
    if unsafe { call::flags_of(&mut copy) }.0 & LIBRARY != 0 {
        return (None, Asked::default());
    }
    let mut scratch = Scratch::default();
    // SAFETY: as above.
    let steering = match unsafe { info.capture(&Unnamed(device), &mut scratch) } {
        Ok((_, steering)) if !steering.fail_on_compile_required => steering,
        _ => return (None, Asked::default()),
    };
    // Neither key nor parts are looked at before something is recorded, which this rung never does. Its shaders are
    // not known either, so only a cache that may hold anything is asked where asking another is dear.
    let (key, parts, shaders) = (Key::default(), Parts::default(), ShaderSet::default());
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
        shaders,
        past: Past::default(),
        held: None,
    };
    // SAFETY: as above.
    let answer = unsafe { ask_itself(&request) };
    (answer, request.past.asked())
}

/// Asks the driver for what it has. None: it has nothing, or there is no way to ask.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn ask<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    // SAFETY: the caller's contract.
    unsafe {
        if request.steering.fail_on_compile_required {
            return Some(ask_for_the_program(request));
        }
        ask_itself(request).or_else(|| companion::ask(request))
    }
}

/// The program's own call and cache, with FAIL_ON_COMPILE_REQUIRED. None: the driver has nothing, or the call itself
/// asks as well.
///
/// # Safety
/// As [`ask`].
unsafe fn ask_itself<I: CreateInfo>(request: &Request<'_, I>) -> Option<Answer> {
    let device = request.device;
    let recorded = device.keeps_artifacts() && device.gives(request.family);
    if !device.cache_control || !recorded || request.past.asked_itself() || !may_have(request) {
        return None;
    }
    request.past.ask_itself();
    let mut arena = Arena::default();
    let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let none = vk::PipelineCreateFlags::empty();
    // SAFETY: the caller's contract; the arena stays on this stack frame.
    let answer = unsafe {
        let info = call::with_flags(&request.info, request.steering.flags2, fail_on, none, &mut arena)?;
        call::create(device, request.passed.handle(), &info, request.allocator)
    };
    match answer.result {
        vk::Result::SUCCESS => {}
        // The call itself will fail as well: a cache of ours beside it would only make it fail twice.
        result if result.as_raw() < 0 => {
            request.past.fail();
            return None;
        }
        _ => return None,
    }
    // What nobody has described, as where nothing was hashed, may be anything.
    request.passed.mark_filled_with(device, &request.shaders);
    request.count_had(Count::DriverHad, 1);
    Some(answer)
}

/// Whether the driver may have the pipeline: in the program's cache, in its own behind NULL, or on disk. Where
/// recording is free, or a driver's disk is dear beside a cache, the disk is asked by the call that records.
fn may_have<I>(request: &Request<'_, I>) -> bool {
    let policy = &request.device.policy;
    match request.passed {
        // A pipeline of which binaries are captured does not come from the driver's cache (contract 5.5).
        Passed::Null => {
            !policy.free_recording
                || binary::applies(request)
                || request.device.null.filled.may_have(&request.shaders)
        }
        Passed::Known { contents: Contents::Nothing, .. } => false,
        Passed::Known { contents: Contents::SameBatch, cache, .. } => cache.filled.may_have(&request.shaders),
        Passed::Known { contents: Contents::Anything, cache, .. } => {
            !policy.dear_disk_beside_cache || cache.filled.may_have(&request.shaders)
        }
        Passed::Unknown(_) => false,
    }
}

/// The program itself forbids compiling: whatever the driver says is the answer, unless its cache would have had it
/// without the stash.
///
/// # Safety
/// As [`ask`].
unsafe fn ask_for_the_program<I: CreateInfo>(request: &Request<'_, I>) -> Answer {
    // SAFETY: the caller's contract.
    let answer = unsafe { compile::harvesting(request) };
    match answer.result {
        vk::Result::SUCCESS => request.device.count(Count::DriverHad),
        vk::Result::PIPELINE_COMPILE_REQUIRED => {
            // SAFETY: as above.
            return unsafe { companion::ask(request) }.unwrap_or(answer);
        }
        _ => {}
    }
    answer
}
