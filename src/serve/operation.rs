//! Deferred operations in which the driver makes ray tracing pipelines: from the call that goes down to what it has
//! come to (contract 3.6).

use std::time::Instant;

use ash::vk::{self, Handle};

use super::call::Answer;
use super::create_info::CreateInfo as _;
use super::feedback;
use super::settle;
use super::verdict::{MadeWith, Origin, PendingEntry, Place, Record, Subject, Verdict};
use crate::state::caches::pipeline_class::PipelineClass;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::deferred::{DeferredCall, Element, Taken, Ticket};
use crate::state::devices::device::Device;
use vkstash_host::guard::guard;
use vkstash_host::memory;
use vkstash_model::counters::Count;
use vkstash_model::failed::Refusals;
use vkstash_model::payload;
use vkstash_recipe::capture::stage::Naming;

/// The artifact of a call that makes several pipelines holds them all, and is kept for each of them: only while the
/// copies stay below this many bytes.
const COPIES_LIMIT: usize = 8 << 20;

/// Whether a call with an operation is made without it: the driver may get something else than the program wrote, and
/// would read the program's own structures until the operation is complete.
///
/// # Safety
/// Valid create infos.
pub unsafe fn is_made_at_once(
    device: &Device,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoKHR<'_>,
) -> bool {
    let is_emulated = device.decided.identifiers == IdentifierMode::Emulated;
    if !is_emulated && !device.physical.emulates_cache_control {
        return false;
    }
    (0..count as usize).any(|index| {
        // SAFETY: valid for its count (the caller's contract).
        let parsed = unsafe { (*infos.add(index)).parse() };
        let Naming { lacks_code, identifier_structure } = parsed.naming;
        is_emulated && (lacks_code || identifier_structure)
            || device.physical.emulates_cache_control
                && (parsed.fails_on_compile_required() || parsed.returns_early())
    })
}

/// What the program is told of a call that was made without its operation.
pub fn without_deferring(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    result: vk::Result,
) -> vk::Result {
    if operation.is_null() {
        return result;
    }
    // What an earlier call left in this operation is complete (03678).
    forget(device, operation);
    if result == vk::Result::SUCCESS { vk::Result::OPERATION_NOT_DEFERRED_KHR } else { result }
}

/// A call with an operation to a driver that is only watched: it is counted when it is complete.
///
/// # Safety
/// `below` passes the program's valid arguments on, this operation and these `count` pipelines among them.
pub unsafe fn watch(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    program_cache: &ProgramCache,
    count: u32,
    pipelines: *mut vk::Pipeline,
    below: impl FnOnce() -> vk::Result,
) -> vk::Result {
    forget(device, operation);
    program_cache.mark_filled(&device.caches);
    let deferred_call = DeferredCall {
        cache: vk::PipelineCache::null(),
        elements: (0..count).map(|_| Element::default()).collect(),
        program_cache: program_cache.clone(),
        is_watched: true,
        pipelines,
        refusals: Refusals::NONE,
        started: Instant::now(),
    };
    // SAFETY: `below` passes on the program's valid arguments, with this operation and `count` elements of
    // `pipelines` (the caller's # Safety section).
    unsafe { hand_over(device, operation, deferred_call, below) }
}

/// The call goes down, and is remembered until it is complete.
///
/// # Safety
/// As [`watch`].
pub unsafe fn hand_over(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    deferred_call: DeferredCall,
    below: impl FnOnce() -> vk::Result,
) -> vk::Result {
    // Before the call: other threads may join the operation as soon as the driver knows of it.
    let ticket = device.deferred.begin(operation, deferred_call);
    let result = below();
    let after = || match result {
        vk::Result::OPERATION_DEFERRED_KHR => {
            if device.deferred.deferred(operation, ticket) {
                // SAFETY: the call has not returned, so the program keeps the operation and the array valid.
                unsafe { complete(device, operation, Some(ticket), None) };
            }
        }
        vk::Result::OPERATION_NOT_DEFERRED_KHR => {
            // SAFETY: nothing was deferred, so the driver is done, and the call has not returned.
            unsafe { complete(device, operation, Some(ticket), Some(vk::Result::SUCCESS)) };
        }
        // SAFETY: the call has failed, so the driver is done, and it has not returned.
        other => unsafe { complete(device, operation, Some(ticket), Some(other)) },
    };
    // The driver has the call: it must not get it once more.
    guard("vkCreateRayTracingPipelinesKHR", after, || device.count(Count::InternalFailures));
    result
}

/// The driver has said that an operation is complete, and the program is about to hear of it. `noted` is the call
/// that was under way when the driver was asked, and `result` what came of it, where that is known.
///
/// # Safety
/// `operation` is a live deferred operation of the device.
pub unsafe fn complete(
    device: &Device,
    operation: vk::DeferredOperationKHR,
    mut noted: Option<Ticket>,
    result: Option<vk::Result>,
) {
    let mut result = result.filter(|_| noted.is_some());
    loop {
        // While this thread was in the driver, the operation may have completed and been given new work; then the
        // driver is asked about that.
        let Some(ticket) = noted.take().or_else(|| device.deferred.under_way(operation)) else { return };
        // The driver is asked before any thread was told: from then on the operation may be used again.
        // SAFETY: a live operation.
        let ask = || unsafe {
            let ask = device.table.get_deferred_operation_result;
            ask.map_or(vk::Result::ERROR_UNKNOWN, |ask| ask(device.handle, operation))
        };
        let outcome = result.take().unwrap_or_else(ask);
        if outcome == vk::Result::NOT_READY {
            return;
        }
        // SAFETY: the call is complete, and nobody has been told or its creating call has not returned: until this
        // entry is taken out neither goes on. So the program keeps the array valid.
        let read = |deferred_call: &mut DeferredCall| unsafe { read(device, deferred_call) };
        match device.deferred.take(operation, ticket, read) {
            Taken::Over(deferred_call) => return finish(device, deferred_call, outcome),
            Taken::Gone => return,
            // The operation was used again meanwhile: the driver's answer was about what it did before.
            Taken::Another => {}
        }
    }
}

/// Looks at what the driver has written, puts it right, and remembers the libraries.
///
/// # Safety
/// The call is complete, and the program has not been told yet, or is still in the creating call.
unsafe fn read(device: &Device, deferred_call: &mut DeferredCall) {
    for (index, element) in deferred_call.elements.iter_mut().enumerate() {
        // SAFETY: the driver has written the handles, and the program has kept them valid until now.
        let made = unsafe { *deferred_call.pipelines.add(index) };
        // Where one pipeline of a call fails, others may have been made.
        element.made = !made.is_null();
        // SAFETY: the driver has filled the program's structure, which the program has kept valid until now.
        unsafe { feedback::clear_hit(element.feedback.take().map(|feedback| feedback.as_ref())) };
        if let Some(library) = element.library.take().filter(|_| element.made) {
            device.objects.libraries.insert(made, library);
        }
    }
}

/// What an operation made is settled.
fn finish(device: &Device, deferred_call: DeferredCall, result: vk::Result) {
    let DeferredCall { cache, elements, program_cache, is_watched, refusals, started, pipelines: _ } =
        deferred_call;
    let cost = started.elapsed();
    // SAFETY: NULL, or a cache of the layer's that the driver is done with.
    let mut own_cache = unsafe { device.caches.commands.taken_back(cache) };
    if own_cache.is_none() {
        // A program that read the cache's data during the call has data without what the driver has added since.
        program_cache.mark_filled(&device.caches);
    }
    let count = elements.len();
    let all_there = elements.iter().all(|element| element.made);
    // A driver that says that it has failed has failed, whatever it has written.
    let has_failed = |index: usize, element: &Element| {
        result != vk::Result::SUCCESS && (!element.made || all_there && index == 0)
    };
    if is_watched {
        let missing = elements.iter().enumerate().filter(|(index, element)| has_failed(*index, element));
        return settle::watched(device, result, missing.count() as u64, count as u64, cost);
    }
    let read = own_cache.as_ref().filter(|_| result == vk::Result::SUCCESS);
    let (payload, mut lacks) = match read.map(|cache| cache.data_behind(&payload::prefix(cost, refusals))) {
        Some(Ok(payload)) => (payload, None),
        Some(Err(lacks)) => (Vec::new(), Some(lacks)),
        None => (Vec::new(), None),
    };
    let is_kept = !payload.is_empty() && (count == 1 || payload.len() * count <= COPIES_LIMIT);
    for (index, mut element) in elements.into_iter().enumerate() {
        let result = if has_failed(index, &element) { result } else { vk::Result::SUCCESS };
        element.compiling.take().into_iter().for_each(|mark| mark.end(device.stored(), element.made));
        let Some((key, shaders)) = &element.key else {
            settle::complete_undescribed(device, result);
            continue;
        };
        let class = PipelineClass::RayTracing;
        let subject = Subject { device, program_cache: &program_cache, key, shaders, class };
        let record = if result.as_raw() < 0 && count == 1 {
            // If the call is for several pipelines it is not known which have failed. That it works later is not noted:
            // the layer's cache may have been to blame, and there is no second try here.
            Record::Outcome { known: element.failed_before }
        } else if result != vk::Result::SUCCESS {
            Record::Nothing
        } else if let Some(lacks) = lacks.take() {
            // Said once.
            Record::Artifact(Err(lacks))
        } else {
            let copy = if is_kept { memory::copied(&payload) } else { None };
            copy.map_or(Record::NoArtifact, |copy| Record::Artifact(Ok(copy)))
        };
        let place = match record {
            Record::Artifact(Ok(_)) => {
                // The cache has what all pipelines of the call have left, and is owed once.
                let is_new = program_cache.known().is_some_and(|cache| !cache.holds(key));
                let made_with = if is_new { own_cache.take() } else { None };
                let made_with = made_with.map_or(MadeWith::Another, MadeWith::Cache);
                Place::Pending(PendingEntry {
                    made_with,
                    bytes: payload.len() - payload::PREFIX,
                    digest: None,
                })
            }
            _ => Place::Nowhere,
        };
        // Each pipeline gets an equal share of the time: which took how long is not known.
        let share = cost / count as u32;
        let answer = Answer { result, pipeline: vk::Pipeline::null() };
        let origin = Origin::Compile { wall: share, cost: share };
        settle::complete(&subject, Verdict { answer, origin, place, record });
    }
}

/// An operation is over, whatever came of it.
pub fn forget(device: &Device, operation: vk::DeferredOperationKHR) {
    if let Some(deferred_call) = device.deferred.forget(operation) {
        // SAFETY: the driver is done with it (03436).
        drop(unsafe { device.caches.commands.taken_back(deferred_call.cache) });
    }
}
