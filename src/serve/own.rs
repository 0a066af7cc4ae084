//! The program's own call: what the driver gets as it is, and what it must not get at all.

use std::time::Instant;

use ash::vk;

use super::call::Call;
use super::compiling;
use super::create_info::CreateInfo;
use super::feedback;
use super::modules::{self, Stripped};
use super::request::Request;
use super::settle;
use super::verdict::{AsItIs, Origin, Place, Record, Verdict};
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use vkstash_recipe::capture::parsed::Parsed;
use vkstash_recipe::chain::{Arena, Refusal};

/// The driver has answered the call with an error before, or nothing of a cache may stand in. `known`: the stash knows
/// of the error.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn untouched<'a, I: CreateInfo>(request: &Request<'a, I>, known: bool) -> Verdict<'a> {
    let Request { call, pipeline } = request;
    call.program_cache.mark_filled_with(&call.device.caches, &pipeline.key, &pipeline.shaders);
    // SAFETY: the request's create info is valid (the caller's contract).
    let compiling = unsafe { compiling::begin(request) };
    let started = Instant::now();
    // SAFETY: `call` has a valid create info, and the program's own cache and allocator.
    let answer = unsafe { call.create() };
    let origin = Origin::AsItIs(AsItIs::Untouched(started.elapsed()));
    let is_made = answer.result == vk::Result::SUCCESS;
    compiling.into_iter().for_each(|compiling| compiling.end(call.device.stored(), is_made));
    let place = if is_made { Place::Own } else { Place::Nowhere };
    Verdict { answer, origin, place, record: Record::Outcome { known } }
}

/// There is nothing to compile: what the driver makes of it costs less than looking for it.
///
/// # Safety
/// The call's create info is valid.
pub unsafe fn nothing_to_compile<'a, I: CreateInfo>(call: &Call<'_, I>) -> Verdict<'a> {
    // The call compiles nothing. Where the program passes VK_NULL_HANDLE, the cache that the driver has for such calls
    // gets nothing either, so only a cache of the program's is marked.
    if let ProgramCache::Known { cache, .. } = call.program_cache {
        cache.mark_filled();
    }
    // SAFETY: the call's create info is valid, and its cache and allocator are the program's.
    let answer = unsafe { call.create() };
    // Recipes of links name it. One that RADV may crash with is left to the program.
    let parsed = call.parsed();
    let is_named = answer.result == vk::Result::SUCCESS && parsed.is_library() && !parsed.joins_retained();
    let record = if is_named { Record::Recipe } else { Record::Nothing };
    Verdict { answer, origin: Origin::AsItIs(AsItIs::NothingToCompile), place: Place::Nowhere, record }
}

/// What cannot be described goes to the driver unchanged, unless it names code of the layer's.
///
/// # Safety
/// The call's create info is valid.
pub unsafe fn undescribed<'a, I: CreateInfo>(call: &Call<'_, I>, refusal: Refusal) -> Verdict<'a> {
    let origin = Origin::AsItIs(AsItIs::Undescribed(refusal));
    if call.names_code_of_the_layers() {
        return Verdict { origin, ..Verdict::refusal() };
    }
    let (mut stripped, mut arena, mut creation) = (Stripped::default(), Arena::default(), *call.creation);
    // SAFETY: the call's create info is valid; `arena` and `stripped`, where its copy's chain and stages live, stay on
    // this stack frame.
    let answer = unsafe {
        if call.device.decided.identifiers == IdentifierMode::Emulated
            && call.parsed().naming.identifier_structure
        {
            // A chain with an unknown structure cannot be copied.
            let without = modules::without_identifiers(&creation, &mut arena, &mut stripped);
            creation = without.unwrap_or(creation);
        }
        call.program_cache.mark_filled(&call.device.caches);
        call.with(&creation).create()
    };
    Verdict { answer, origin, place: Place::Nowhere, record: Record::Nothing }
}

/// VK_PIPELINE_COMPILE_REQUIRED to a whole call.
///
/// # Safety
/// `parsed` are of valid create infos, and there is a slot for each in `pipelines`.
unsafe fn refuse_all<'a>(
    device: &Device,
    parsed: impl Iterator<Item = Parsed<'a>>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let mut count = 0;
    for (index, parsed) in parsed.enumerate() {
        // SAFETY: each of `parsed` is of a valid create info, and `pipelines` has an element for each of them.
        unsafe {
            feedback::say_none(parsed.feedback);
            *pipelines.add(index) = vk::Pipeline::null();
        }
        count += 1;
    }
    settle::refused(device, count);
    vk::Result::PIPELINE_COMPILE_REQUIRED
}

/// Checks a call that goes down without being captured. The answer is COMPILE_REQUIRED if a stage has no code but an
/// emulated identifier, which the driver cannot resolve, or if the program forbids compiling and the driver cannot.
/// None: the call may go down.
///
/// # Safety
/// `infos` and `pipelines` are the program's arrays of `count` elements.
pub unsafe fn refuse_impossible<I: CreateInfo>(
    device: &Device,
    count: u32,
    infos: *const I,
    pipelines: *mut vk::Pipeline,
) -> Option<vk::Result> {
    let is_emulated = device.decided.identifiers == IdentifierMode::Emulated;
    if !is_emulated && !device.physical.emulates_cache_control {
        return None;
    }
    let is_impossible = |parsed: &Parsed<'_>| {
        is_emulated && parsed.naming.lacks_code
            || device.physical.emulates_cache_control && parsed.fails_on_compile_required()
    };
    // SAFETY: `infos` has `count` valid create infos (VUID-vkCreateGraphicsPipelines-pCreateInfos-parameter).
    let parsed = || (0..count as usize).map(|index| unsafe { (*infos.add(index)).parse() });
    // SAFETY: as many slots as create infos (the caller's contract).
    parsed().any(|parsed| is_impossible(&parsed)).then(|| unsafe { refuse_all(device, parsed(), pipelines) })
}
