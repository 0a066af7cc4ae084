//! The habits of DXVK: no VkPipelineCache; code in the stage's chain; graphics pipelines linked from four libraries
//! on first use, which must be instant, while a worker thread creates the optimised pipeline. Identifiers come from
//! vkGetShaderModuleCreateInfoIdentifierEXT and stay in memory: they are used to create a library again that was
//! destroyed to save memory, which must be instant too.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Sender};

use ash::vk;

use super::create::{self, Created, FAIL_ON, Graphics, LIBRARY, OPTIMISE, RETAIN};
use super::gpu::Gpu;
use super::jobs::{Draw, Jobs, Shader};
use super::plan::{Optimised, Plan};
use super::report::Report;
use super::stages::{Code, Stages};

/// VK_GRAPHICS_PIPELINE_LIBRARY_*.
type Subset = vk::GraphicsPipelineLibraryFlagsEXT;

/// Creates everything, destroys it, and creates it again.
pub fn run(gpu: &Gpu, plan: &Plan, jobs: &Jobs, report: &mut Report) {
    let mut compute: Vec<_> = jobs.compute.iter().map(ShaderState::new).collect();
    for kept in &mut compute {
        report.pipelines += u32::from(kept.acquire(gpu, plan, report).is_some());
        kept.destroy(gpu);
    }
    for kept in &mut compute {
        kept.acquire(gpu, plan, report);
        kept.destroy(gpu);
    }
    let mut scene = Scene::new(gpu, plan, jobs);
    scene.first_frame(report);
    scene.trim();
    // The libraries are created again; the frame after that needs nothing new.
    scene.next_frame(report);
    scene.next_frame(report);
    scene.destroy();
}

/// The pipeline or library of one shader: created from code first, later by identifier.
struct ShaderState<'a> {
    shader: &'a Shader,
    identifier: Option<Vec<u8>>,
    /// Whether the pipeline or library was created in an earlier run.
    known: bool,
    handle: Option<Handle>,
}

/// A library, and the flags that its links must have.
#[derive(Clone, Copy)]
struct Handle {
    pipeline: vk::Pipeline,
    link_flags: u64,
}

impl<'a> ShaderState<'a> {
    fn new(shader: &'a Shader) -> ShaderState<'a> {
        ShaderState { shader, identifier: None, known: false, handle: None }
    }

    /// The existing handle; else created by identifier if it was created before; else, or if that is refused, from
    /// code.
    fn acquire(&mut self, gpu: &Gpu, plan: &Plan, report: &mut Report) -> Option<Handle> {
        if self.handle.is_some() {
            return self.handle;
        }
        if let (true, Some(identifier)) = (self.known, &self.identifier) {
            let created = self.create(gpu, plan, FAIL_ON, Code::Identifier(identifier));
            report.asked(created.result, created.took);
            if report.judge("by identifier", created.result, created.pipeline, true) {
                self.handle = Some(Handle { pipeline: created.pipeline, link_flags: FAIL_ON });
            }
        }
        if self.handle.is_none() {
            if self.identifier.is_none() {
                self.identifier = gpu.identifier_of_code(&self.shader.code);
            }
            let created = self.create(gpu, plan, 0, Code::Inline(&self.shader.code));
            report.translated(created.took, self.known && self.identifier.is_some());
            if report.judge("from code", created.result, created.pipeline, false) {
                self.handle = Some(Handle { pipeline: created.pipeline, link_flags: 0 });
            }
        }
        self.known = true;
        let is_library = self.shader.stage != vk::ShaderStageFlags::COMPUTE;
        report.libraries += u32::from(is_library && self.handle.is_some());
        self.handle
    }

    fn create(&self, gpu: &Gpu, plan: &Plan, flags: u64, code: Code<'_>) -> Created {
        let stages = Stages::new(&[(self.shader, code)]);
        let (subsets, layout) = match self.shader.stage {
            vk::ShaderStageFlags::COMPUTE => {
                return create::compute(gpu, vk::PipelineCache::null(), flags, &stages);
            }
            vk::ShaderStageFlags::VERTEX => (Subset::PRE_RASTERIZATION_SHADERS, gpu.graphics.vertex),
            _ => (Subset::FRAGMENT_SHADER, gpu.graphics.fragment),
        };
        library(gpu, plan, subsets, flags, &stages, layout, vk::Format::UNDEFINED)
    }

    fn destroy(&mut self, gpu: &Gpu) {
        gpu.destroy_pipelines(self.handle.take().map(|handle| handle.pipeline));
    }
}

/// A library of these subsets.
fn library(
    gpu: &Gpu,
    plan: &Plan,
    subsets: Subset,
    flags: u64,
    stages: &Stages<'_>,
    layout: vk::PipelineLayout,
    format: vk::Format,
) -> Created {
    let retain = if plan.optimised == Optimised::Link { RETAIN } else { 0 };
    let flags = flags | LIBRARY | retain;
    let wanted = Graphics { subsets, flags, stages, libraries: &[], layout, format };
    create::graphics(gpu, vk::PipelineCache::null(), &wanted)
}

/// A pipeline for the worker thread to create.
struct Order {
    draw: Draw,
    libraries: [vk::Pipeline; 4],
}

/// The graphics pipelines.
struct Scene<'a> {
    gpu: &'a Gpu,
    plan: &'a Plan,
    jobs: &'a Jobs,
    vertex: Vec<ShaderState<'a>>,
    fragment: Vec<ShaderState<'a>>,
    vertex_input: Option<vk::Pipeline>,
    /// Fragment output libraries by format.
    output: BTreeMap<i32, Option<vk::Pipeline>>,
    /// Fast links by draw; a failed one is NULL and is not tried again.
    linked: BTreeMap<usize, vk::Pipeline>,
    optimised: Vec<vk::Pipeline>,
}

impl<'a> Scene<'a> {
    fn new(gpu: &'a Gpu, plan: &'a Plan, jobs: &'a Jobs) -> Scene<'a> {
        Scene {
            gpu,
            plan,
            jobs,
            vertex: jobs.vertex.iter().map(ShaderState::new).collect(),
            fragment: jobs.fragment.iter().map(ShaderState::new).collect(),
            vertex_input: None,
            output: BTreeMap::new(),
            linked: BTreeMap::new(),
            optimised: Vec::new(),
        }
    }

    /// Draws everything for the first time, while the worker thread creates the optimised pipelines.
    fn first_frame(&mut self, report: &mut Report) {
        let (gpu, plan, jobs) = (self.gpu, self.plan, self.jobs);
        let (send, orders) = mpsc::channel::<Order>();
        let optimised: Vec<Created> = std::thread::scope(|scope| {
            let worker =
                scope.spawn(move || orders.iter().map(|order| optimise(gpu, plan, jobs, &order)).collect());
            for index in 0..jobs.draws.len() {
                self.draw(index, Some(&send), report);
            }
            drop(send);
            worker.join().expect("a worker that does not panic")
        });
        for created in optimised {
            if report.judge("optimised", created.result, created.pipeline, false) {
                report.links.optimised += 1;
                report.times.optimised.add(created.took);
                self.optimised.push(created.pipeline);
            }
        }
    }

    /// The program frees memory: it destroys links and the shaders' libraries. Links that failed stay remembered.
    fn trim(&mut self) {
        self.gpu.destroy_pipelines(self.linked.values().copied());
        self.linked.retain(|_, &mut pipeline| pipeline == vk::Pipeline::null());
        for kept in self.vertex.iter_mut().chain(&mut self.fragment) {
            kept.destroy(self.gpu);
        }
    }

    /// Draws everything again: destroyed libraries are created by identifier.
    fn next_frame(&mut self, report: &mut Report) {
        for index in 0..self.jobs.draws.len() {
            self.draw(index, None, report);
        }
    }

    /// The pipeline of a draw, from four libraries.
    fn draw(&mut self, index: usize, worker: Option<&Sender<Order>>, report: &mut Report) {
        let draw = self.jobs.draws[index];
        if let Some(&pipeline) = self.linked.get(&index) {
            report.links.memoised += u32::from(pipeline == vk::Pipeline::null());
            return;
        }
        let vertex = self.vertex[draw.vertex].acquire(self.gpu, self.plan, report);
        let fragment = self.fragment[draw.fragment].acquire(self.gpu, self.plan, report);
        let vertex_input = self.vertex_input(report);
        let output = self.output(draw.format, report);
        let (Some(vertex), Some(fragment)) = (vertex, fragment) else { return };
        let (Some(vertex_input), Some(output)) = (vertex_input, output) else { return };
        let libraries = [vertex_input, vertex.pipeline, fragment.pipeline, output];
        if let Some(worker) = worker {
            worker.send(Order { draw, libraries }).expect("the worker listens until we are done");
        }
        let flags = vertex.link_flags | fragment.link_flags;
        let link = Graphics {
            subsets: Subset::empty(),
            flags,
            stages: &Stages::none(),
            libraries: &libraries,
            layout: self.gpu.graphics.linked,
            format: draw.format,
        };
        let created = create::graphics(self.gpu, vk::PipelineCache::null(), &link);
        let made = report.judge("fast link", created.result, created.pipeline, flags & FAIL_ON != 0);
        if made {
            report.links.fast += 1;
            report.times.fast_link.add(created.took);
            report.pipelines += u32::from(worker.is_some());
        } else {
            report.links.failed += 1;
        }
        self.linked.insert(index, if made { created.pipeline } else { vk::Pipeline::null() });
    }

    fn vertex_input(&mut self, report: &mut Report) -> Option<vk::Pipeline> {
        if self.vertex_input.is_none() {
            self.vertex_input = self.interface(Subset::VERTEX_INPUT_INTERFACE, vk::Format::UNDEFINED, report);
        }
        self.vertex_input
    }

    fn output(&mut self, format: vk::Format, report: &mut Report) -> Option<vk::Pipeline> {
        if let Some(known) = self.output.get(&format.as_raw()) {
            return *known;
        }
        let made = self.interface(Subset::FRAGMENT_OUTPUT_INTERFACE, format, report);
        self.output.insert(format.as_raw(), made);
        made
    }

    /// A library without shaders.
    fn interface(&self, subset: Subset, format: vk::Format, report: &mut Report) -> Option<vk::Pipeline> {
        let none = vk::PipelineLayout::null();
        let created = library(self.gpu, self.plan, subset, 0, &Stages::none(), none, format);
        let made = report.judge("interface library", created.result, created.pipeline, false);
        report.libraries += u32::from(made);
        made.then_some(created.pipeline)
    }

    fn destroy(mut self) {
        self.trim();
        let output = self.output.values().flatten().copied();
        self.gpu.destroy_pipelines(self.optimised.iter().copied().chain(output).chain(self.vertex_input));
    }
}

/// Creates the pipeline that replaces a fast link.
fn optimise(gpu: &Gpu, plan: &Plan, jobs: &Jobs, order: &Order) -> Created {
    let format = order.draw.format;
    let cache = vk::PipelineCache::null();
    if plan.optimised == Optimised::Link {
        let link = Graphics {
            subsets: Subset::empty(),
            flags: OPTIMISE,
            stages: &Stages::none(),
            libraries: &order.libraries,
            layout: gpu.graphics.linked,
            format,
        };
        return create::graphics(gpu, cache, &link);
    }
    let (vertex, fragment) = (&jobs.vertex[order.draw.vertex], &jobs.fragment[order.draw.fragment]);
    let stages =
        Stages::new(&[(vertex, Code::Inline(&vertex.code)), (fragment, Code::Inline(&fragment.code))]);
    let layout = gpu.graphics.merged;
    let whole =
        Graphics { subsets: create::whole(), flags: 0, stages: &stages, libraries: &[], layout, format };
    create::graphics(gpu, cache, &whole)
}
