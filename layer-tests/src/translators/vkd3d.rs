//! The habits of vkd3d-proton: each pipeline has a VkPipelineCache of its own; identifiers come from
//! vkGetShaderModuleIdentifierEXT and are kept in a file; a second run asks by identifier alone, without the SPIR-V.
//! VK_PIPELINE_COMPILE_REQUIRED is the only positive code that it knows; it then translates the shaders.

use ash::vk;

use super::book::Book;
use super::create::{self, Created, FAIL_ON, Graphics, LIBRARY};
use super::gpu::Gpu;
use super::jobs::{self, Jobs, Shader};
use super::plan::Plan;
use super::report::Report;
use super::stages::{Code, Stages};
use crate::corpus::Failure;

/// A pipeline state object.
struct State<'a> {
    /// The name under which its cache's data is kept.
    name: String,
    shaders: Vec<&'a Shader>,
    /// Format of the colour attachment; None for compute.
    format: Option<vk::Format>,
}

/// Creates every pipeline, and writes the files for the next run.
///
/// # Errors
/// A store that cannot be read or written.
pub fn run(gpu: &Gpu, plan: &Plan, jobs: &Jobs, report: &mut Report) -> Result<(), Failure> {
    let mut book = Book::open(&plan.store, gpu.algorithm)?;
    report.book_rejected = book.rejected;
    for state in states(jobs) {
        let mut client = Client { gpu, plan, book: &mut book, report };
        client.pipeline(&state)?;
    }
    book.save()?;
    Ok(())
}

fn states(jobs: &Jobs) -> Vec<State<'_>> {
    let compute = |shader| State { name: name(&[shader], 0), shaders: vec![shader], format: None };
    let draw = |draw: &jobs::Draw| {
        let shaders = vec![&jobs.vertex[draw.vertex], &jobs.fragment[draw.fragment]];
        State { name: name(&shaders, draw.format.as_raw()), shaders, format: Some(draw.format) }
    };
    jobs.compute.iter().map(compute).chain(jobs.draws.iter().map(draw)).collect()
}

fn name(shaders: &[&Shader], format: i32) -> String {
    let digests: Vec<&str> = shaders.iter().map(|shader| &shader.digest[..16]).collect();
    format!("{}-{format}", digests.join("-"))
}

struct Client<'a> {
    gpu: &'a Gpu,
    plan: &'a Plan,
    book: &'a mut Book,
    report: &'a mut Report,
}

/// The pipelines of one attempt; the last one is used for drawing.
struct Attempt {
    created: Created,
    library: Option<vk::Pipeline>,
}

impl Client<'_> {
    fn pipeline(&mut self, state: &State<'_>) -> Result<(), Failure> {
        let data = if self.plan.load_blobs { self.book.blob(&state.name) } else { Vec::new() };
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // SAFETY: a live device; the data is of a driver, and another driver ignores it.
        let cache = unsafe { self.gpu.device.create_pipeline_cache(&info, None) }?;
        let mut made = None;
        if self.plan.inline {
            made = self.inline(state, cache);
        }
        let identifiers: Option<Vec<Vec<u8>>> = state
            .shaders
            .iter()
            .map(|shader| self.book.identifier(&shader.digest).map(<[u8]>::to_vec))
            .collect();
        let asked = identifiers.filter(|_| self.gpu.identifiers.is_some() && !self.plan.inline);
        if let Some(identifiers) = &asked {
            made = self.by_identifier(state, cache, identifiers);
        }
        if made.is_none() && !self.plan.inline {
            made = self.translate(state, cache, asked.is_some())?;
        }
        self.report.pipelines += u32::from(made.is_some());
        // SAFETY: a live cache that no other thread uses.
        let data = unsafe { self.gpu.device.get_pipeline_cache_data(cache) }?;
        self.report.blobs += 1;
        self.report.blob_bytes += data.len() as u64;
        self.book.keep_blob(&state.name, data);
        if let Some(attempt) = made {
            self.gpu.destroy_pipelines(attempt.library.into_iter().chain([attempt.created.pipeline]));
        }
        // SAFETY: created above, and no longer in use.
        unsafe { self.gpu.device.destroy_pipeline_cache(cache, None) };
        Ok(())
    }

    /// Creates the pipeline from code in the stages' chains alone.
    fn inline(&mut self, state: &State<'_>, cache: vk::PipelineCache) -> Option<Attempt> {
        let shaders: Vec<(&Shader, Code<'_>)> =
            state.shaders.iter().map(|&shader| (shader, Code::Inline(&shader.code))).collect();
        let attempt = self.create(state, cache, 0, &Stages::new(&shaders));
        self.report.translated(attempt.created.took, false);
        self.finish("inline", attempt, false)
    }

    /// Requests the pipeline without modules. None: the shaders must be translated.
    fn by_identifier(
        &mut self,
        state: &State<'_>,
        cache: vk::PipelineCache,
        identifiers: &[Vec<u8>],
    ) -> Option<Attempt> {
        let code = |(&shader, bytes)| (shader, Code::Identifier(Vec::as_slice(bytes)));
        let shaders: Vec<_> = state.shaders.iter().zip(identifiers).map(code).collect();
        let attempt = self.create(state, cache, FAIL_ON, &Stages::new(&shaders));
        self.report.asked(attempt.created.result, attempt.created.took);
        self.finish("by identifier", attempt, true)
    }

    /// Translates: creates modules, stores their identifiers for the next run, and creates the pipeline.
    fn translate(
        &mut self,
        state: &State<'_>,
        cache: vk::PipelineCache,
        again: bool,
    ) -> Result<Option<Attempt>, Failure> {
        let mut modules = Vec::new();
        for shader in &state.shaders {
            let module = self.gpu.module(&shader.code)?;
            modules.push(module);
            if let Some(identifier) = self.gpu.identifier_of_module(module) {
                self.book.learn(&shader.digest, identifier);
            }
        }
        let code = |(&shader, &module)| (shader, Code::Module(module));
        let shaders: Vec<_> = state.shaders.iter().zip(&modules).map(code).collect();
        let attempt = self.create(state, cache, 0, &Stages::new(&shaders));
        self.report.translated(attempt.created.took, again);
        let made = self.finish("translated", attempt, false);
        self.gpu.destroy_modules(modules);
        Ok(made)
    }

    /// Records the results of an attempt, or destroys its pipelines.
    fn finish(&mut self, what: &str, attempt: Attempt, may_refuse: bool) -> Option<Attempt> {
        let Created { result, pipeline, .. } = attempt.created;
        if self.report.judge(what, result, pipeline, may_refuse) {
            return Some(attempt);
        }
        self.gpu.destroy_pipelines(attempt.library);
        None
    }

    fn create(
        &mut self,
        state: &State<'_>,
        cache: vk::PipelineCache,
        flags: u64,
        stages: &Stages<'_>,
    ) -> Attempt {
        let Some(format) = state.format else {
            let created = create::compute(self.gpu, cache, flags, stages);
            return Attempt { created, library: None };
        };
        let output = vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_OUTPUT_INTERFACE;
        let layout = self.gpu.graphics.merged;
        let whole = Graphics { subsets: create::whole(), flags, stages, libraries: &[], layout, format };
        if !self.plan.libraries {
            return Attempt { created: create::graphics(self.gpu, cache, &whole), library: None };
        }
        let part = Graphics { subsets: create::whole() & !output, flags: flags | LIBRARY, ..whole };
        let library = create::graphics(self.gpu, cache, &part);
        if !self.report.judge("library", library.result, library.pipeline, flags & FAIL_ON != 0) {
            return Attempt { created: library, library: None };
        }
        self.report.libraries += 1;
        // The link inherits the library's flags about compiling (06855).
        let libraries = [library.pipeline];
        let stages = &Stages::none();
        let link = Graphics { subsets: output, flags, stages, libraries: &libraries, layout, format };
        let mut created = create::graphics(self.gpu, cache, &link);
        if created.result == vk::Result::SUCCESS {
            self.report.links.fast += 1;
            self.report.times.fast_link.add(created.took);
        } else {
            self.report.links.failed += 1;
        }
        created.took += library.took;
        Attempt { created, library: Some(library.pipeline) }
    }
}
