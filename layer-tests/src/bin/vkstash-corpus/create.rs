//! One round: creates every pipeline of the corpus in one habit, on one or several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use vkstash_layer_tests::bench::report::{Call, Kind, Round};

use crate::caches::Cache;
use crate::counters::{self, Instructions};
use crate::failure::Failure;
use crate::identifiers::Book;
use crate::vulkan::{Gpu, Shader, nanos};
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
    /// A cache for each pipeline, loaded from the blob of the same index.
    Blobs(&'a [Vec<u8>]),
}

/// The settings of a round.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) kind: Kind,
    pub(crate) source: Source<'a>,
    pub(crate) book: Option<&'a Book>,
    pub(crate) feedback: bool,
    pub(crate) modules_only: bool,
    pub(crate) threads: usize,
    pub(crate) gap: Duration,
}

struct Creation {
    index: usize,
    call: Call,
    pipeline: vk::Pipeline,
    data: Vec<u8>,
}

/// Creates all pipelines once. Returns the round and, for [`Source::Fresh`] with `read`, the data of each cache.
/// Pipelines are destroyed at the end of the round, as in programs.
pub(crate) fn round(gpu: &Gpu, modules: &[Module], plan: Plan<'_>) -> Result<(Round, Vec<Vec<u8>>), Failure> {
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
    let (calls, data) = made.into_iter().map(|made| (made.call, made.data)).unzip();
    Ok((Round { kind: plan.kind, total_ns, processor_ns, instructions, calls }, data))
}

fn one(gpu: &Gpu, index: usize, module: &Module, plan: Plan<'_>) -> Result<Creation, Failure> {
    let mut call = Call::default();
    let started = Instant::now();
    let own = match plan.source {
        Source::Fresh { .. } => Some(Cache::new(gpu, &[])?),
        Source::Blobs(blobs) => Some(Cache::new(gpu, &blobs[index])?),
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
    let mut data = Vec::new();
    if let Some(own) = own {
        let started = Instant::now();
        if let Source::Fresh { read: true } = plan.source {
            data = own.data()?;
            call.cache_bytes = Some(data.len() as u64);
        }
        drop(own);
        call.cache_ns += nanos(started);
    }
    Ok(Creation { index, call, pipeline, data })
}

/// By identifier if one is known; by module if that is refused or none is known.
fn pipeline(
    gpu: &Gpu,
    module: &Module,
    cache: vk::PipelineCache,
    plan: Plan<'_>,
    call: &mut Call,
) -> Result<vk::Pipeline, Failure> {
    let known = plan.book.and_then(|book| book.get(&module.digest));
    if let Some(identifier) = known {
        let created = gpu.pipeline(module, Shader::Identifier(identifier), cache, plan.feedback);
        call.result = created.result.as_raw();
        match created.result {
            vk::Result::SUCCESS => {
                call.by_identifier = true;
                call.create_ns = created.nanos;
                call.feedback = created.feedback;
                return not_null(module, created.pipeline);
            }
            vk::Result::PIPELINE_COMPILE_REQUIRED if created.pipeline == vk::Pipeline::null() => {
                call.refused_ns = created.nanos;
            }
            result => {
                let what =
                    format!("{}: by identifier: {result:?}, handle {:?}", module.name, created.pipeline);
                return Err(what.into());
            }
        }
    }
    let (handle, module_ns) = gpu.module(module)?;
    call.module_ns = module_ns;
    if let (None, Some(book)) = (known, plan.book) {
        book.learn(gpu, &module.digest, handle);
    }
    if plan.modules_only {
        gpu.destroy_module(handle);
        return Ok(vk::Pipeline::null());
    }
    let created = gpu.pipeline(module, Shader::Module(handle), cache, plan.feedback);
    gpu.destroy_module(handle);
    call.create_ns = created.nanos;
    call.feedback = created.feedback;
    call.result = created.result.as_raw();
    if created.result != vk::Result::SUCCESS {
        return Err(format!("{}: vkCreateComputePipelines: {:?}", module.name, created.result).into());
    }
    not_null(module, created.pipeline)
}

fn not_null(module: &Module, pipeline: vk::Pipeline) -> Result<vk::Pipeline, Failure> {
    if pipeline == vk::Pipeline::null() {
        return Err(format!("{}: VK_SUCCESS without a pipeline", module.name).into());
    }
    Ok(pipeline)
}
