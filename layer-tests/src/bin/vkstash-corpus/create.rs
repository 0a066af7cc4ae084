//! One round: creates every pipeline of the corpus in one habit, on one or several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use vkstash_layer_tests::bench::report::{Call, Kind, Round};

use crate::caches::Cache;
use crate::counters::{self, Instructions};
use crate::failure::Failure;
use crate::vulkan::{Gpu, nanos};
use vkstash_layer_tests::corpus::Module;

/// The origin of a pipeline's VkPipelineCache.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// No cache.
    Null,
    /// One cache for all pipelines.
    One(&'a Cache<'a>),
    /// An empty cache for each pipeline; the cache's data is read if `read`.
    Fresh { read: bool },
}

/// The settings of a round.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) kind: Kind,
    pub(crate) source: Source<'a>,
    pub(crate) modules_only: bool,
    pub(crate) threads: usize,
    pub(crate) gap: Duration,
}

struct Creation {
    index: usize,
    call: Call,
    pipeline: vk::Pipeline,
}

/// Creates all pipelines once. They are destroyed at the end of the round, as in programs.
pub(crate) fn round(gpu: &Gpu, modules: &[Module], plan: Plan<'_>) -> Result<Round, Failure> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<Creation>, Failure> {
        let mut made = Vec::with_capacity(modules.len());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(module) = modules.get(index) else { return Ok(made) };
            if !plan.gap.is_zero() {
                std::thread::sleep(plan.gap);
            }
            made.push(one(gpu, index, module, plan)?);
        }
    };
    let counter = if plan.threads <= 1 { Instructions::count() } else { None };
    let (started, before) = (Instant::now(), counters::processor_time());
    let mut made = if plan.threads <= 1 {
        work()?
    } else {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.threads).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().map_err(|_| "a thread panicked")??);
            }
            Ok::<_, Failure>(all)
        })?
    };
    let total_ns = nanos(started);
    let processor = counters::processor_time() - before;
    let processor_ns = (plan.threads <= 1).then_some(processor.as_nanos() as u64);
    let instructions = counter.and_then(Instructions::so_far);
    made.sort_by_key(|made| made.index);
    gpu.destroy_pipelines(made.iter().map(|made| made.pipeline));
    let calls = made.into_iter().map(|made| made.call).collect();
    Ok(Round { kind: plan.kind, total_ns, processor_ns, instructions, calls })
}

fn one(gpu: &Gpu, index: usize, module: &Module, plan: Plan<'_>) -> Result<Creation, Failure> {
    let mut call = Call::default();
    let started = Instant::now();
    let own = match plan.source {
        Source::Fresh { .. } => Some(Cache::new(gpu, &[])?),
        Source::Null | Source::One(_) => None,
    };
    if own.is_some() {
        call.cache_ns += nanos(started);
    }
    let cache = match (&own, plan.source) {
        (Some(own), _) => own.handle(),
        (None, Source::One(shared)) => shared.handle(),
        (None, _) => vk::PipelineCache::null(),
    };
    let pipeline = pipeline(gpu, module, cache, plan, &mut call)?;
    if let Some(own) = own {
        let started = Instant::now();
        if let Source::Fresh { read: true } = plan.source {
            own.data()?;
        }
        drop(own);
        call.cache_ns += nanos(started);
    }
    Ok(Creation { index, call, pipeline })
}

fn pipeline(
    gpu: &Gpu,
    module: &Module,
    cache: vk::PipelineCache,
    plan: Plan<'_>,
    call: &mut Call,
) -> Result<vk::Pipeline, Failure> {
    let (handle, module_ns) = gpu.module(module)?;
    call.module_ns = module_ns;
    if plan.modules_only {
        gpu.destroy_module(handle);
        return Ok(vk::Pipeline::null());
    }
    let created = gpu.pipeline(module, handle, cache);
    gpu.destroy_module(handle);
    call.create_ns = created.nanos;
    call.result = created.result.as_raw();
    if created.result != vk::Result::SUCCESS {
        return Err(format!("{}: vkCreateComputePipelines: {:?}", module.name, created.result).into());
    }
    if created.pipeline == vk::Pipeline::null() {
        return Err(format!("{}: VK_SUCCESS without a pipeline", module.name).into());
    }
    Ok(created.pipeline)
}
