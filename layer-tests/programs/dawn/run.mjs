// Creates compute and render pipelines through Dawn (the npm package webgpu), uses them, and reads the results back. Creates half of
// them asynchronously, so that Dawn's worker threads create them. Prints a hash of each result.
//
// Its argument is the folder that holds node_modules.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.argv[2], 'package.json'));
const { create, globals } = await import(pathToFileURL(require.resolve('webgpu')).href);
Object.assign(globalThis, globals);

const compute = (step) => `
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
override rounds: u32 = ${step}u;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var value = data[id.x];
    for (var i = 0u; i < rounds; i++) { value = value * ${2 * step + 1}u + (value >> ${step}u) + i; }
    data[id.x] = value;
}`;

const draw = `
struct Corner { @builtin(position) position: vec4f, @location(0) color: vec3f }
@vertex fn corner(@builtin(vertex_index) index: u32) -> Corner {
    let place = vec2f(f32(index & 1u), f32(index >> 1u)) * 1.6 - 0.8;
    return Corner(vec4f(place, 0.5, 1.0), vec3f(f32(index) * 0.5, 0.25, 0.75));
}
@fragment fn color(corner: Corner) -> @location(0) vec4f {
    return vec4f(corner.color * (0.5 + 0.4 * sin(corner.position.x * 0.3)), 0.5);
}`;

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const SIDE = 64, FORMAT = 'rgba8unorm';

// Dawn stops answering when this object is garbage-collected.
const gpu = create(['backend=vulkan', 'adapter=' + (process.env.DAWN_ADAPTER ?? '')]);
globalThis.kept = gpu;
const adapter = await gpu.requestAdapter();
if (!adapter) throw new Error('no adapter');
console.log('device:', adapter.info.device, adapter.info.description);
const device = await adapter.requestDevice();
device.addEventListener('uncapturederror', (event) => { console.error(event.error.message); process.exit(1); });

async function read(buffer) {
    await buffer.mapAsync(GPUMapMode.READ);
    return new Uint8Array(buffer.getMappedRange());
}

async function runCompute(pipeline) {
    const size = 4096, { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const data = device.createBuffer({ size, usage: STORAGE | COPY_SRC | COPY_DST });
    device.queue.writeBuffer(data, 0, Uint32Array.from({ length: size / 4 }, (_, i) => i * 7919));
    const result = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
    const group = device.createBindGroup({
        layout: pipeline.getBindGroupLayout(0),
        entries: [{ binding: 0, resource: { buffer: data } }],
    });
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(size / 4 / 64);
    pass.end();
    encoder.copyBufferToBuffer(data, 0, result, 0, size);
    device.queue.submit([encoder.finish()]);
    return hash(await read(result));
}

async function runDraw(pipeline, samples) {
    const size = [SIDE, SIDE], { RENDER_ATTACHMENT, COPY_SRC } = GPUTextureUsage;
    const target = device.createTexture({ size, format: FORMAT, usage: RENDER_ATTACHMENT | COPY_SRC });
    const many = samples > 1 &&
        device.createTexture({ size, format: FORMAT, sampleCount: samples, usage: RENDER_ATTACHMENT });
    const result = device.createBuffer({
        size: SIDE * SIDE * 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginRenderPass({
        colorAttachments: [{
            view: (many || target).createView(),
            resolveTarget: many ? target.createView() : undefined,
            clearValue: [0.1, 0.2, 0.3, 1], loadOp: 'clear', storeOp: 'store',
        }],
    });
    pass.setPipeline(pipeline);
    pass.draw(3);
    pass.end();
    encoder.copyTextureToBuffer({ texture: target }, { buffer: result, bytesPerRow: SIDE * 4 }, size);
    device.queue.submit([encoder.finish()]);
    return hash(await read(result));
}

const BLEND = { srcFactor: 'src-alpha', dstFactor: 'one-minus-src-alpha' };
const module = device.createShaderModule({ code: draw });
const wanted = [];
for (let step = 1; step <= 8; step++) {
    const description = {
        layout: 'auto',
        compute: { module: device.createShaderModule({ code: compute(step) }), constants: { rounds: step + 2 } },
    };
    const made = step % 2 ? device.createComputePipeline(description) : device.createComputePipelineAsync(description);
    wanted.push([`compute ${step}`, made, runCompute]);
}
for (const samples of [1, 4]) for (const blend of [undefined, { color: BLEND, alpha: BLEND }])
    for (const topology of ['triangle-list', 'triangle-strip']) {
        const description = {
            layout: 'auto',
            vertex: { module },
            fragment: { module, targets: [{ format: FORMAT, blend }] },
            primitive: { topology },
            multisample: { count: samples },
        };
        const made = blend ? device.createRenderPipelineAsync(description) : device.createRenderPipeline(description);
        wanted.push([`draw ${samples} ${blend ? 'blended' : 'plain'} ${topology}`, made,
            (pipeline) => runDraw(pipeline, samples)]);
    }
for (const [name, made, run] of wanted) console.log(`${name}:`, await run(await made));
console.log('pipelines:', wanted.length);
device.destroy();
