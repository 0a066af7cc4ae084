/*
 * wgpu.exe DRIVER END: wgpu-native on Direct3D 12 (DRIVER is "direct3d12") computes with dozens of pipelines and
 * draws with some more, without a window. It prints a hash of the results, and ends as END says (ends.h). Before the
 * first pipeline and before the end it waits for a line of the standard input.
 *
 * The shaders write to a storage texture: the compiler of HLSL in Wine 10 takes neither loads from raw buffers nor
 * stores to them.
 */
#include "ends.h"
#include "wgpu.h"

enum { COMPUTES = 48, DRAWS = 8, SIDE = 64 };
/* The bytes of what is computed, and with what is drawn. */
enum { TABLE = COMPUTES * SIDE * 4, ALL = TABLE + SIDE * SIDE * 4 };

static WGPUStringView view(const char *text)
{
    return (WGPUStringView){ text, strlen(text) };
}

static void got_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *to, void *_)
{
    (void)_;
    if (status != WGPURequestAdapterStatus_Success)
        fprintf(stderr, "%.*s\n", (int)message.length, message.data);
    *(WGPUAdapter *)to = adapter;
}

static void got_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *to, void *_)
{
    (void)_;
    if (status != WGPURequestDeviceStatus_Success)
        fprintf(stderr, "%.*s\n", (int)message.length, message.data);
    *(WGPUDevice *)to = device;
}

static void went_wrong(const WGPUDevice *device, WGPUErrorType type, WGPUStringView message, void *_, void *__)
{
    (void)device, (void)type, (void)_, (void)__;
    fprintf(stderr, "%.*s\n", (int)message.length, message.data);
    give_up("wgpu", "an error of the device");
}

static void mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *to, void *_)
{
    (void)message, (void)_;
    *(WGPUMapAsyncStatus *)to = status;
}

static WGPUDevice device;
static WGPUQueue queue;

static void open_device(void)
{
    WGPUInstanceExtras extras = {
        .chain.sType = (WGPUSType)WGPUSType_InstanceExtras,
        .backends = WGPUInstanceBackend_DX12,
        .dx12ShaderCompiler = WGPUDx12Compiler_Fxc,
    };
    WGPUInstanceDescriptor descriptor = { .nextInChain = &extras.chain };
    WGPUInstance instance = wgpuCreateInstance(&descriptor);
    if (!instance)
        give_up("wgpuCreateInstance", "nothing");

    WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
    options.backendType = WGPUBackendType_D3D12;
    WGPUAdapter adapter = NULL;
    wgpuInstanceRequestAdapter(instance, &options, (WGPURequestAdapterCallbackInfo){
        .mode = WGPUCallbackMode_AllowSpontaneous, .callback = got_adapter, .userdata1 = &adapter });
    if (!adapter)
        give_up("wgpuInstanceRequestAdapter", "nothing");

    WGPUDeviceDescriptor wanted = WGPU_DEVICE_DESCRIPTOR_INIT;
    wanted.uncapturedErrorCallbackInfo.callback = went_wrong;
    wgpuAdapterRequestDevice(adapter, &wanted, (WGPURequestDeviceCallbackInfo){
        .mode = WGPUCallbackMode_AllowSpontaneous, .callback = got_device, .userdata1 = &device });
    if (!device)
        give_up("wgpuAdapterRequestDevice", "nothing");
    queue = wgpuDeviceGetQueue(device);
}

static WGPUShaderModule module_of(const char *code)
{
    WGPUShaderSourceWGSL source = { .chain.sType = WGPUSType_ShaderSourceWGSL, .code = view(code) };
    WGPUShaderModuleDescriptor descriptor = { .nextInChain = &source.chain };
    return wgpuDeviceCreateShaderModule(device, &descriptor);
}

/* Each has constants of its own, which the compilers of HLSL and of SPIR-V leave in the code. */
static WGPUComputePipeline compute_pipeline(unsigned number)
{
    char code[1024];
    snprintf(code, sizeof code,
        "@group(0) @binding(0) var data: texture_storage_2d<r32uint, write>;\n"
        "@compute @workgroup_size(%u)\n"
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        "    let i = id.x;\n"
        "    textureStore(data, vec2<u32>(i, %uu), vec4<u32>((i * %uu + (i >> 3u)) ^ %uu, 0u, 0u, 0u));\n"
        "}\n",
        number % 2 ? 64 : 32, number, 2 * number + 3, number * 2654435761u);
    WGPUComputePipelineDescriptor descriptor = {
        .compute = { .module = module_of(code), .entryPoint = view("main") } };
    return wgpuDeviceCreateComputePipeline(device, &descriptor);
}

static WGPUTexture texture_of(WGPUTextureFormat format, unsigned height, WGPUTextureUsage usage)
{
    WGPUTextureDescriptor descriptor = { .usage = usage | WGPUTextureUsage_CopySrc, .format = format,
        .dimension = WGPUTextureDimension_2D, .size = { SIDE, height, 1 }, .mipLevelCount = 1, .sampleCount = 1 };
    return wgpuDeviceCreateTexture(device, &descriptor);
}

/* To where in `result`. */
static void copy(WGPUCommandEncoder encoder, WGPUTexture texture, unsigned height, WGPUBuffer result, size_t offset)
{
    WGPUTexelCopyTextureInfo from = { .texture = texture, .aspect = WGPUTextureAspect_All };
    WGPUTexelCopyBufferInfo to = { .layout = { offset, SIDE * 4, height }, .buffer = result };
    WGPUExtent3D size = { SIDE, height, 1 };
    wgpuCommandEncoderCopyTextureToBuffer(encoder, &from, &to, &size);
}

/* Each pipeline writes a row of a texture. */
static void compute(WGPUCommandEncoder encoder, WGPUBuffer result)
{
    WGPUTexture table = texture_of(WGPUTextureFormat_R32Uint, COMPUTES, WGPUTextureUsage_StorageBinding);
    WGPUTextureView rows = wgpuTextureCreateView(table, NULL);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    for (unsigned number = 0; number < COMPUTES; number++) {
        WGPUComputePipeline pipeline = compute_pipeline(number);
        WGPUBindGroupEntry entry = { .binding = 0, .textureView = rows };
        WGPUBindGroupDescriptor descriptor = {
            .layout = wgpuComputePipelineGetBindGroupLayout(pipeline, 0), .entryCount = 1, .entries = &entry };
        wgpuComputePassEncoderSetPipeline(pass, pipeline);
        wgpuComputePassEncoderSetBindGroup(pass, 0, wgpuDeviceCreateBindGroup(device, &descriptor), 0, NULL);
        wgpuComputePassEncoderDispatchWorkgroups(pass, SIDE / (number % 2 ? 64 : 32), 1, 1);
    }
    wgpuComputePassEncoderEnd(pass);
    copy(encoder, table, COMPUTES, result, 0);
}

static WGPURenderPipeline render_pipeline(unsigned number)
{
    char code[1024];
    snprintf(code, sizeof code,
        "@vertex fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4<f32> {\n"
        "    let x = f32(i & 1u) * 2.0 - 1.0;\n"
        "    let y = f32(i >> 1u) * 2.0 - 1.0;\n"
        "    return vec4<f32>(x * %u.0 / 8.0, y, 0.0, 1.0);\n"
        "}\n"
        "@fragment fn color(@builtin(position) at: vec4<f32>) -> @location(0) vec4<f32> {\n"
        "    return vec4<f32>(at.x / 64.0, at.y / 64.0, %u.0 / 8.0, 0.5);\n"
        "}\n",
        number + 1, number);
    WGPUShaderModule module = module_of(code);
    WGPUBlendComponent add = {
        .operation = WGPUBlendOperation_Add, .srcFactor = WGPUBlendFactor_One, .dstFactor = WGPUBlendFactor_One };
    WGPUBlendComponent over = { .operation = WGPUBlendOperation_Add, .srcFactor = WGPUBlendFactor_SrcAlpha,
        .dstFactor = WGPUBlendFactor_OneMinusSrcAlpha };
    WGPUBlendState blend = { number % 2 ? add : over, add };
    WGPUColorTargetState target = { .format = WGPUTextureFormat_RGBA8Unorm,
        .blend = number % 4 == 3 ? NULL : &blend, .writeMask = WGPUColorWriteMask_All };
    WGPUFragmentState fragment = {
        .module = module, .entryPoint = view("color"), .targetCount = 1, .targets = &target };
    WGPURenderPipelineDescriptor descriptor = WGPU_RENDER_PIPELINE_DESCRIPTOR_INIT;
    descriptor.vertex.module = module;
    descriptor.vertex.entryPoint = view("corner");
    descriptor.primitive.topology = WGPUPrimitiveTopology_TriangleList;
    descriptor.multisample.count = 1;
    descriptor.multisample.mask = ~0u;
    descriptor.fragment = &fragment;
    return wgpuDeviceCreateRenderPipeline(device, &descriptor);
}

static void draw(WGPUCommandEncoder encoder, WGPUBuffer result)
{
    WGPUTexture picture = texture_of(WGPUTextureFormat_RGBA8Unorm, SIDE, WGPUTextureUsage_RenderAttachment);
    WGPURenderPassColorAttachment attachment = WGPU_RENDER_PASS_COLOR_ATTACHMENT_INIT;
    attachment.view = wgpuTextureCreateView(picture, NULL);
    attachment.loadOp = WGPULoadOp_Clear;
    attachment.storeOp = WGPUStoreOp_Store;
    WGPURenderPassDescriptor begin = { .colorAttachmentCount = 1, .colorAttachments = &attachment };
    WGPURenderPassEncoder pass = wgpuCommandEncoderBeginRenderPass(encoder, &begin);
    for (unsigned number = 0; number < DRAWS; number++) {
        wgpuRenderPassEncoderSetPipeline(pass, render_pipeline(number));
        wgpuRenderPassEncoderDraw(pass, 3, 1, 0, 0);
    }
    wgpuRenderPassEncoderEnd(pass);
    copy(encoder, picture, SIDE, result, TABLE);
}

int main(int count, char **arguments)
{
    if (count != 3 || strcmp(arguments[1], "direct3d12") != 0)
        give_up("usage", "wgpu.exe direct3d12 END");
    open_device();
    wait_for_word("ready");

    WGPUBufferDescriptor descriptor = { .size = ALL, .usage = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst };
    WGPUBuffer result = wgpuDeviceCreateBuffer(device, &descriptor);
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device, NULL);
    compute(encoder, result);
    draw(encoder, result);
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuQueueSubmit(queue, 1, &commands);

    WGPUMapAsyncStatus status = 0;
    wgpuBufferMapAsync(result, WGPUMapMode_Read, 0, ALL, (WGPUBufferMapCallbackInfo){
        .mode = WGPUCallbackMode_AllowSpontaneous, .callback = mapped, .userdata1 = &status });
    while (!status)
        wgpuDevicePoll(device, 1, NULL);
    const void *bytes = wgpuBufferGetConstMappedRange(result, 0, ALL);
    if (status != WGPUMapAsyncStatus_Success || !bytes)
        give_up("wgpuBufferMapAsync", "failed");
    printf("picture %016llx\n", hash_of(bytes, ALL));
    wait_for_word("drawn");
    return end_by(arguments[2]);
}
