//! VK_KHR_deferred_host_operations: the threads that join do the work. Create infos are read again then, as
//! drivers do, and must still say what they said.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ash::vk::{self, Handle as _};

use crate::config::{self, Deferral};
use crate::content::slice;
use crate::handles::{self, Device};
use crate::hash::Digest;
use crate::objects::{self, Allocator, Body};
use crate::pipelines::{self, EARLY_RETURN, Element};
use crate::record::{Call, command, plain, violation};
use crate::{caches, ray_tracing, simple};

/// A deferred vkCreateRayTracingPipelinesKHR. Pointers are kept as addresses.
#[derive(Clone, Debug)]
pub struct Job {
    device: Arc<Device>,
    cache: vk::PipelineCache,
    infos: usize,
    keys: Arc<[Digest]>,
    flags: Vec<u64>,
    allocator: Allocator,
    out: usize,
    /// How many threads can work at once: tasks are single pipelines, or all of them.
    tasks: usize,
}

impl Job {
    /// The work that a call asks for.
    pub fn new(
        device: &Arc<Device>,
        cache: vk::PipelineCache,
        infos: &[vk::RayTracingPipelineCreateInfoKHR<'_>],
        elements: &[Element<'_>],
        allocator: Allocator,
        out: *mut vk::Pipeline,
    ) -> Job {
        let exclusive = !cache.is_null()
            && caches::find("vkCreateRayTracingPipelinesKHR", device, cache)
                .is_some_and(|cache| cache.flags & 1 != 0);
        let serial = exclusive || elements.iter().any(|element| element.flags & EARLY_RETURN != 0);
        Job {
            device: device.clone(),
            cache,
            infos: infos.as_ptr().expose_provenance(),
            keys: elements.iter().map(|element| element.key).collect(),
            flags: elements.iter().map(|element| element.flags).collect(),
            allocator,
            out: out.expose_provenance(),
            tasks: if serial { 1 } else { elements.len() },
        }
    }

    fn work(&self, call: &mut Call, task: usize) -> vk::Result {
        let count = self.keys.len();
        let which = if self.tasks == 1 { 0..count } else { task..task + 1 };
        let infos: *const vk::RayTracingPipelineCreateInfoKHR<'_> =
            std::ptr::with_exposed_provenance(self.infos);
        call.cache = caches::name(self.cache);
        call.flags.clone_from(&self.flags);
        // SAFETY: the specification keeps all parameters of a deferred command valid until it is done.
        unsafe {
            let infos = slice(infos, count as u32);
            let elements: Vec<_> =
                infos.iter().map(|info| ray_tracing::element(call, &self.device, info)).collect();
            if elements.iter().zip(self.keys.iter()).any(|(element, key)| element.key != *key) {
                violation(format!("{}: the create infos changed before the join", call.command));
            }
            let out = std::ptr::with_exposed_provenance_mut(self.out);
            pipelines::make_some(call, &self.device, self.cache, &elements, which, self.allocator, out)
        }
    }
}

#[derive(Debug)]
enum State {
    /// Nothing was deferred with it.
    Empty,
    /// Tasks that are started and done, and their results in the order of tasks.
    Running {
        job: Job,
        started: usize,
        done: usize,
        results: Vec<vk::Result>,
    },
    Done(vk::Result),
}

/// A VkDeferredOperationKHR.
#[derive(Debug)]
pub struct Operation(Mutex<State>);

impl Operation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, call: &mut Call) -> vk::Result {
        loop {
            let (job, task) = match &mut *self.state() {
                State::Running { job, started, .. } if *started < job.tasks => {
                    *started += 1;
                    (job.clone(), *started - 1)
                }
                State::Running { .. } => return vk::Result::THREAD_DONE_KHR,
                State::Empty | State::Done(_) => return vk::Result::SUCCESS,
            };
            let result = match config::current().deferral {
                Deferral::Fails => vk::Result::from_raw(config::current().deferral_error),
                _ => job.work(call, task),
            };
            let mut state = self.state();
            if let State::Running { done, results, .. } = &mut *state {
                results[task] = result;
                *done += 1;
                if *done == job.tasks {
                    let not_success = |result: &&vk::Result| **result != vk::Result::SUCCESS;
                    let worst = results.iter().min().copied().filter(|result| result.as_raw() < 0);
                    let first = results.iter().find(not_success).copied();
                    *state = State::Done(worst.or(first).unwrap_or(vk::Result::SUCCESS));
                    drop(state);
                    // Other threads can learn of it before this one returns.
                    std::thread::sleep(Duration::from_millis(config::current().join_lingers_ms));
                    return vk::Result::SUCCESS;
                }
            }
        }
    }

    fn result(&self) -> vk::Result {
        match &*self.state() {
            State::Empty => vk::Result::SUCCESS,
            State::Running { .. } => vk::Result::NOT_READY,
            State::Done(result) => *result,
        }
    }

    fn concurrency(&self) -> u32 {
        match &*self.state() {
            State::Running { job, started, .. } => (job.tasks - started) as u32,
            State::Empty | State::Done(_) => 0,
        }
    }
}

/// Gives an operation its work.
pub fn defer(call: &Call, device: &Device, handle: vk::DeferredOperationKHR, job: Job) -> vk::Result {
    let Some(operation) = find(call.command, device, handle) else { return vk::Result::ERROR_UNKNOWN };
    let mut state = operation.state();
    if matches!(*state, State::Running { .. }) {
        violation(format!("{}: the deferred operation has work already", call.command));
    }
    let results = vec![vk::Result::SUCCESS; job.tasks];
    *state = State::Running { job, started: 0, done: 0, results };
    drop(state);
    // Other threads can do the work before this one returns.
    std::thread::sleep(Duration::from_millis(config::current().defer_lingers_ms));
    vk::Result::OPERATION_DEFERRED_KHR
}

fn find(command: &str, device: &Device, handle: vk::DeferredOperationKHR) -> Option<Arc<Operation>> {
    match objects::get(command, device.handle, "VkDeferredOperationKHR", handle.as_raw())? {
        Body::Operation(operation) => Some(operation),
        _ => None,
    }
}

/// vkCreateDeferredOperationKHR.
pub unsafe extern "system" fn create(
    device: vk::Device,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeferredOperationKHR,
) -> vk::Result {
    let call = plain("vkCreateDeferredOperationKHR");
    let operation = Body::Operation(Arc::new(Operation(Mutex::new(State::Empty))));
    // SAFETY: the command's own pointers.
    unsafe { simple::create(call, device, std::ptr::null(), callbacks, out, |_, _| Ok(operation)) }
}

/// vkDestroyDeferredOperationKHR.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    handle: vk::DeferredOperationKHR,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    let name = "vkDestroyDeferredOperationKHR";
    // SAFETY: the command's own pointers.
    unsafe {
        simple::destroy(name, "VkDeferredOperationKHR", device, handle.as_raw(), callbacks, |body| {
            if matches!(body, Body::Operation(operation) if operation.result() == vk::Result::NOT_READY) {
                violation(format!("{name}: the operation is not done (03436)"));
            }
        });
    }
}

fn ask(
    name: &'static str,
    device: vk::Device,
    handle: vk::DeferredOperationKHR,
    question: impl FnOnce(&mut Call, &Operation) -> vk::Result,
) -> vk::Result {
    command(plain(name), |call| {
        let Some(device) = handles::device(name, device) else { return vk::Result::ERROR_DEVICE_LOST };
        let Some(operation) = find(name, &device, handle) else { return vk::Result::ERROR_UNKNOWN };
        question(call, &operation)
    })
}

/// vkDeferredOperationJoinKHR.
pub unsafe extern "system" fn join(device: vk::Device, handle: vk::DeferredOperationKHR) -> vk::Result {
    ask("vkDeferredOperationJoinKHR", device, handle, |call, operation| operation.join(call))
}

/// vkGetDeferredOperationResultKHR.
pub unsafe extern "system" fn get_result(device: vk::Device, handle: vk::DeferredOperationKHR) -> vk::Result {
    ask("vkGetDeferredOperationResultKHR", device, handle, |_, operation| operation.result())
}

/// vkGetDeferredOperationMaxConcurrencyKHR.
pub unsafe extern "system" fn max_concurrency(device: vk::Device, handle: vk::DeferredOperationKHR) -> u32 {
    let mut concurrency = 0;
    let _ = ask("vkGetDeferredOperationMaxConcurrencyKHR", device, handle, |_, operation| {
        concurrency = operation.concurrency();
        vk::Result::SUCCESS
    });
    concurrency
}
