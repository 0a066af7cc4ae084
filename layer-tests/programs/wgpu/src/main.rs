//! Creates compute and graphics pipelines with wgpu's Vulkan backend, uses them offscreen, and reads the results.
//!
//! Prints the device, the number of pipelines and a hash of all results of each kind. `--cache FILE` also uses wgpu's
//! own pipeline cache, loaded from this file and written back to it. What the creation of all pipelines has taken goes
//! to the standard error.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

const COMPUTE: &str = include_str!("compute.wgsl");
const DRAW: &str = include_str!("draw.wgsl");
/// Each pipeline so many times, each time with another constant in its shaders.
const SETS: u32 = 16;
const SIDE: u32 = 64;
const COLOR: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;
const DEPTH: wgpu::TextureFormat = wgpu::TextureFormat::Depth32Float;

struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    cache: Option<wgpu::PipelineCache>,
    /// The time spent in the calls that create pipelines.
    creating: Cell<Duration>,
}

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--cache").skip(1);
    let file = arguments.next();
    let gpu = Gpu::new(file.as_deref());
    let mut pipelines = 0;
    for entry in ["mix_up", "mix_down", "add_up", "turn_over"] {
        let results = (1..=SETS).map(|nth| gpu.compute(entry, f64::from(nth)));
        println!("compute {entry}: {:016x}", hash(&results.collect::<Vec<_>>().concat()));
        pipelines += SETS;
    }
    for drawing in DRAWINGS {
        let results = (1..=SETS).map(|nth| gpu.draw(drawing, f64::from(nth)));
        println!("draw {}: {:016x}", drawing.name, hash(&results.collect::<Vec<_>>().concat()));
        pipelines += SETS;
    }
    println!("pipelines: {pipelines}");
    eprintln!("creating them: {:.1} ms", gpu.creating.get().as_secs_f64() * 1e3);
    if let Some(data) = gpu.cache.as_ref().and_then(wgpu::PipelineCache::get_data) {
        // The amount depends on the driver's bookkeeping.
        println!("cache data: {}", if data.is_empty() { "none" } else { "some" });
        std::fs::write(file.expect("a cache is used with a file"), data).expect("a file that can be written");
    }
}

/// FNV-1a, which suffices to distinguish pictures.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

struct Drawing {
    name: &'static str,
    entry: &'static str,
    blend: Option<wgpu::BlendState>,
    depth: bool,
    samples: u32,
    topology: wgpu::PrimitiveTopology,
    vertices: bool,
}

const PLAIN: Drawing = Drawing {
    name: "plain",
    entry: "flat",
    blend: None,
    depth: false,
    samples: 1,
    topology: wgpu::PrimitiveTopology::TriangleList,
    vertices: false,
};

const DRAWINGS: &[Drawing] = &[
    PLAIN,
    Drawing { name: "waves", entry: "waves", ..PLAIN },
    Drawing { name: "blended", entry: "waves", blend: Some(wgpu::BlendState::ALPHA_BLENDING), ..PLAIN },
    Drawing { name: "depth", depth: true, ..PLAIN },
    Drawing { name: "samples", entry: "waves", samples: 4, ..PLAIN },
    Drawing { name: "strip", topology: wgpu::PrimitiveTopology::TriangleStrip, ..PLAIN },
    Drawing { name: "vertices", vertices: true, ..PLAIN },
];

impl Gpu {
    fn new(file: Option<&str>) -> Gpu {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        // Without validation and debug names, as a released program.
        descriptor.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(descriptor);
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))
            .expect("a Vulkan device");
        println!("device: {}", adapter.get_info().name);
        let features = if file.is_some() { wgpu::Features::PIPELINE_CACHE } else { wgpu::Features::empty() };
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: wgpu::Limits::downlevel_defaults(),
            ..Default::default()
        }))
        .expect("a device");
        let cache = file.map(|file| {
            let data = std::fs::read(file).ok();
            let descriptor =
                wgpu::PipelineCacheDescriptor { label: None, data: data.as_deref(), fallback: true };
            // SAFETY: the file is this program's own: it holds what `get_data` returned to an earlier run.
            unsafe { device.create_pipeline_cache(&descriptor) }
        });
        Gpu { device, queue, cache, creating: Cell::default() }
    }

    /// Counts the time that this takes.
    fn create<T>(&self, create: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let created = create();
        self.creating.set(self.creating.get() + began.elapsed());
        created
    }

    fn module(&self, code: &str) -> wgpu::ShaderModule {
        let source = wgpu::ShaderSource::Wgsl(code.into());
        self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source })
    }

    fn buffer(&self, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    fn compute(&self, entry: &str, nth: f64) -> Vec<u8> {
        const SIZE: u64 = 4 * 1024;
        let module = self.module(COMPUTE);
        let descriptor = wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some(entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &[("nth", nth)],
                ..Default::default()
            },
            cache: self.cache.as_ref(),
        };
        let pipeline = self.create(|| self.device.create_compute_pipeline(&descriptor));
        let data = self.buffer(
            SIZE,
            wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        );
        let input: Vec<u8> =
            (0..SIZE / 4).flat_map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        self.queue.write_buffer(&data, 0, &input);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &data,
                    offset: 0,
                    size: NonZeroU64::new(SIZE),
                }),
            }],
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups((SIZE / 4 / 64) as u32, 1, 1);
        }
        let result = self.buffer(SIZE, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        encoder.copy_buffer_to_buffer(&data, 0, &result, 0, SIZE);
        self.finish(encoder, &result)
    }

    fn texture(&self, format: wgpu::TextureFormat, samples: u32) -> wgpu::Texture {
        self.device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d { width: SIDE, height: SIDE, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: samples,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage: if format == COLOR && samples == 1 {
                wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC
            } else {
                wgpu::TextureUsages::RENDER_ATTACHMENT
            },
            view_formats: &[],
        })
    }

    fn pipeline(&self, drawing: &Drawing, nth: f64) -> wgpu::RenderPipeline {
        let module = self.module(DRAW);
        let attributes = wgpu::vertex_attr_array![0 => Float32x2, 1 => Float32x3];
        let layout = wgpu::VertexBufferLayout {
            array_stride: 20,
            step_mode: wgpu::VertexStepMode::Vertex,
            attributes: &attributes,
        };
        let buffers = [Some(layout)];
        let descriptor = wgpu::RenderPipelineDescriptor {
            label: None,
            layout: None,
            vertex: wgpu::VertexState {
                module: &module,
                entry_point: Some(if drawing.vertices { "from_buffer" } else { "from_index" }),
                compilation_options: Default::default(),
                buffers: if drawing.vertices { &buffers } else { &[] },
            },
            primitive: wgpu::PrimitiveState { topology: drawing.topology, ..Default::default() },
            depth_stencil: drawing.depth.then(|| wgpu::DepthStencilState {
                format: DEPTH,
                depth_write_enabled: Some(true),
                depth_compare: Some(wgpu::CompareFunction::Less),
                stencil: Default::default(),
                bias: Default::default(),
            }),
            multisample: wgpu::MultisampleState { count: drawing.samples, ..Default::default() },
            fragment: Some(wgpu::FragmentState {
                module: &module,
                entry_point: Some(drawing.entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &[("nth", nth)],
                    ..Default::default()
                },
                targets: &[Some(wgpu::ColorTargetState {
                    format: COLOR,
                    blend: drawing.blend,
                    write_mask: wgpu::ColorWrites::ALL,
                })],
            }),
            multiview_mask: None,
            cache: self.cache.as_ref(),
        };
        self.create(|| self.device.create_render_pipeline(&descriptor))
    }

    fn draw(&self, drawing: &Drawing, nth: f64) -> Vec<u8> {
        let pipeline = self.pipeline(drawing, nth);
        let corners = self.buffer(3 * 20, wgpu::BufferUsages::VERTEX | wgpu::BufferUsages::COPY_DST);
        let values: [f32; 15] =
            [-0.9, -0.9, 1.0, 0.0, 0.0, 0.9, -0.9, 0.0, 1.0, 0.0, 0.0, 0.9, 0.0, 0.0, 1.0];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.queue.write_buffer(&corners, 0, &bytes);

        let target = self.texture(COLOR, 1);
        let shown = target.create_view(&Default::default());
        let many = (drawing.samples > 1)
            .then(|| self.texture(COLOR, drawing.samples).create_view(&Default::default()));
        let depth = drawing.depth.then(|| self.texture(DEPTH, 1).create_view(&Default::default()));
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
                color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                    view: many.as_ref().unwrap_or(&shown),
                    depth_slice: None,
                    resolve_target: many.is_some().then_some(&shown),
                    ops: wgpu::Operations {
                        load: wgpu::LoadOp::Clear(wgpu::Color { r: 0.1, g: 0.2, b: 0.3, a: 1.0 }),
                        store: wgpu::StoreOp::Store,
                    },
                })],
                depth_stencil_attachment: depth.as_ref().map(|view| wgpu::RenderPassDepthStencilAttachment {
                    view,
                    depth_ops: Some(wgpu::Operations {
                        load: wgpu::LoadOp::Clear(1.0),
                        store: wgpu::StoreOp::Discard,
                    }),
                    stencil_ops: None,
                }),
                ..Default::default()
            });
            pass.set_pipeline(&pipeline);
            pass.set_vertex_buffer(0, corners.slice(..));
            pass.draw(0..3, 0..1);
        }
        let size = u64::from(SIDE * SIDE * 4);
        let result = self.buffer(size, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        encoder.copy_texture_to_buffer(
            target.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &result,
                layout: wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(SIDE * 4),
                    rows_per_image: None,
                },
            },
            target.size(),
        );
        self.finish(encoder, &result)
    }

    /// Submits, waits and reads `result`.
    fn finish(&self, encoder: wgpu::CommandEncoder, result: &wgpu::Buffer) -> Vec<u8> {
        self.queue.submit([encoder.finish()]);
        result.map_async(wgpu::MapMode::Read, .., |outcome| outcome.expect("a buffer that can be mapped"));
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the work comes to an end");
        result.get_mapped_range(..).expect("mapped just now").to_vec()
    }
}
