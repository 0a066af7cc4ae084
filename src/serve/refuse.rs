//! VK_PIPELINE_COMPILE_REQUIRED of the layer's: the driver never sees the call.

use std::cell::Cell;

use ash::vk;

use super::call::{Answer, Call};
use super::create_info::CreateInfo;
use super::feedback;
use super::program_cache::ProgramCache;
use crate::state::device::{Device, IdentifierMode};
use vkstash_model::counters::Count;
use vkstash_recipe::capture::parsed::Parsed;
use vkstash_store::format::record::Key;

/// COMPILE_REQUIRED to one create info.
///
/// # Safety
/// `parsed` is of a valid create info.
pub unsafe fn refuse(parsed: &Parsed<'_>) -> Answer {
    // SAFETY: the feedback structure in `parsed` is none or a valid one in the chain of the program's create info.
    unsafe { feedback::say_none(parsed.feedback) };
    Answer::compile_required()
}

/// COMPILE_REQUIRED to a whole call.
///
/// # Safety
/// `parsed` are of valid create infos, and there is a slot for each in `pipelines`.
pub unsafe fn refuse_all<'a>(
    device: &Device,
    parsed: impl Iterator<Item = Parsed<'a>>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let mut count = 0;
    for (index, parsed) in parsed.enumerate() {
        // SAFETY: each of `parsed` is of a valid create info, and `pipelines` has an element for each of them.
        unsafe {
            refuse(&parsed);
            *pipelines.add(index) = vk::Pipeline::null();
        }
        count += 1;
    }
    device.counters().add(Count::CompileRequired, count);
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
    let is_emulated = device.identifiers() == IdentifierMode::Emulated;
    if !is_emulated && !device.emulates_cache_control() {
        return None;
    }
    let is_impossible = |parsed: &Parsed<'_>| {
        is_emulated && parsed.naming.lacks_code
            || device.emulates_cache_control() && parsed.fails_on_compile_required()
    };
    // SAFETY: `infos` has `count` valid create infos (VUID-vkCreateGraphicsPipelines-pCreateInfos-parameter).
    let parsed = || (0..count as usize).map(|index| unsafe { (*infos.add(index)).parse() });
    // SAFETY: as many slots as create infos (the caller's contract).
    parsed().any(|parsed| is_impossible(&parsed)).then(|| unsafe { refuse_all(device, parsed(), pipelines) })
}

thread_local! {
    /// The key and the cache of the latest refused call that forbade compiling, until a call that may compile looks at
    /// it.
    static JUST_REFUSED: Cell<Option<(Key, vk::PipelineCache)>> = const { Cell::new(None) };
}

/// A call that forbids compiling is refused. Translators then make the same call without that flag.
pub fn note_refused(key: &Key, program_cache: &ProgramCache) {
    // Without thread-local storage the driver is asked once more.
    let _ = JUST_REFUSED.try_with(|refused| refused.set(Some((*key, program_cache.handle()))));
}

/// Whether this call repeats the call that was just refused, without FAIL_ON, which is no part of the key.
pub fn was_just_refused(key: &Key, program_cache: &ProgramCache) -> bool {
    let refused = JUST_REFUSED.try_with(Cell::take).ok().flatten();
    refused.is_some_and(|(refused, cache)| refused == *key && cache == program_cache.handle())
}

/// The answer to a call that forbids compiling, where the driver cannot be asked.
///
/// # Safety
/// The call's create info is valid.
pub unsafe fn forbid<I: CreateInfo>(call: &Call<'_, I>) -> Answer {
    if call.parsed().naming.lacks_code {
        call.device.count(Count::IdentifierRequests);
    }
    call.device.count(Count::CompileRequired);
    // SAFETY: the options were parsed of the call's valid create info.
    unsafe { refuse(call.parsed()) }
}
