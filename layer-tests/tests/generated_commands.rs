//! Device-generated commands (VK_EXT_device_generated_commands): pipelines and shader objects that the stash has served
//! stand in indirect execution sets as those that the driver has compiled.

use std::ffi::{CStr, c_void};
use std::ptr;

use ash::{ext, khr, vk};
use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

const EXTENSION: &CStr = c"VK_EXT_device_generated_commands";
/// What the two members of a set write.
const VALUES: [u32; 2] = [41, 42];

/// Declares structures that are newer than the bindings.
macro_rules! structures {
    ($($name:ident = $s_type:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            struct $name { s_type: i32, p_next: *const c_void, $($field: $type,)* }

            impl $name {
                #[allow(clippy::too_many_arguments, reason = "the members of the structure")]
                fn new($($field: $type,)*) -> $name {
                    $name { s_type: $s_type, p_next: ptr::null(), $($field,)* }
                }
            }
        )*
    };
}

structures! {
    MemoryRequirementsInfo = 1_000_572_002 { set: u64, layout: u64, sequences: u32, draws: u32, }
    SetCreateInfo = 1_000_572_003 { kind: i32, info: *const c_void, }
    CommandsInfo = 1_000_572_004 {
        stages: u32, set: u64, layout: u64, address: u64, size: u64, preprocess_address: u64, preprocess_size: u64,
        sequences: u32, count_address: u64, draws: u32,
    }
    LayoutCreateInfo = 1_000_572_006 {
        flags: u32, stages: u32, stride: u32, layout: vk::PipelineLayout, count: u32, tokens: *const Token,
    }
    Token = 1_000_572_007 { kind: i32, data: *const [u32; 2], offset: u32, }
    Write = 1_000_572_008 { index: u32, object: u64, }
    PipelineInfo = 1_000_572_010 { initial: u64, most: u32, }
    ShaderInfo = 1_000_572_011 {
        count: u32, initial: *const u64, layouts: *const ShaderLayout, most: u32, ranges: u32, p_ranges: *const c_void,
    }
    ShaderLayout = 1_000_572_012 { count: u32, layouts: *const vk::DescriptorSetLayout, }
}

/// sType of VkWriteIndirectExecutionSetShaderEXT, whose members are those of [`Write`].
const WRITE_SHADER: i32 = 1_000_572_009;
const COMPUTE: u32 = vk::ShaderStageFlags::COMPUTE.as_raw();

type Create = unsafe extern "system" fn(vk::Device, *const c_void, *const c_void, *mut u64) -> vk::Result;
type Update = unsafe extern "system" fn(vk::Device, u64, u32, *const Write);
type Destroy = unsafe extern "system" fn(vk::Device, u64, *const c_void);
type Requirements =
    unsafe extern "system" fn(vk::Device, *const MemoryRequirementsInfo, *mut vk::MemoryRequirements2<'_>);
type Execute = unsafe extern "system" fn(vk::CommandBuffer, vk::Bool32, *const CommandsInfo);

/// A buffer with memory of its own, which stays until the process ends.
struct Buffer {
    raw: vk::Buffer,
    words: *mut u32,
    address: u64,
}

/// The device, and what is made on it.
struct Rig {
    device: Device,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
}

impl Rig {
    /// None: the driver lacks an extension.
    fn new(shaders: bool) -> Option<Rig> {
        let instance = Instance::new(&InstanceOptions::default()).unwrap();
        let has = instance.device_extensions(instance.physical_device());
        let mut extensions = vec![EXTENSION];
        let mut switches = vec![(vk::StructureType::from_raw(1_000_572_000), vec![true, false])];
        let address = vk::StructureType::PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
        switches.push((address, vec![true, false, false]));
        if shaders {
            extensions.push(ext::shader_object::NAME);
            switches.push((vk::StructureType::PHYSICAL_DEVICE_SHADER_OBJECT_FEATURES_EXT, vec![true]));
        }
        let wanted = || extensions.iter().chain([&khr::maintenance5::NAME]);
        if !wanted().all(|name| has.iter().any(|has| has.as_c_str() == *name)) {
            return None;
        }
        let dynamic_rendering = true;
        let options = DeviceOptions {
            maintenance5: true,
            dynamic_rendering,
            extensions,
            switches,
            ..Default::default()
        };
        let device = Device::new(&instance, &options).unwrap();
        let binding = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
        // SAFETY: a live device, and valid create infos.
        let (set_layout, layout) = unsafe {
            let set_layout = device.raw.create_descriptor_set_layout(&info, None).unwrap();
            let sets = [set_layout];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            (set_layout, device.raw.create_pipeline_layout(&info, None).unwrap())
        };
        Some(Rig { device, set_layout, layout })
    }

    /// # Safety
    /// `F` is the type of the command of this name, which the device has.
    unsafe fn command<F: Copy>(&self, name: &CStr) -> F {
        let found = self.device.command(name).expect("a command of the extension");
        // SAFETY: function pointers of all types have one representation; the caller guarantees the type.
        unsafe { std::mem::transmute_copy(&found) }
    }

    /// The two members of a set, and what differs from the first one in the flag alone.
    fn pipelines(&self) -> [vk::Pipeline; 3] {
        const BINDABLE: u64 = 1 << 38;
        [(VALUES[0], BINDABLE), (VALUES[1], BINDABLE), (VALUES[0], 0)].map(|(value, flags)| {
            let mut flags = vk::PipelineCreateFlags2CreateInfoKHR::default()
                .flags(vk::PipelineCreateFlags2KHR::from_raw(flags));
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(self.device.module(&spirv::compute(value)))
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
            // SAFETY: a valid create info.
            let (result, made) = unsafe {
                self.device.create_compute(vk::PipelineCache::null(), &[info.push_next(&mut flags)])
            };
            assert_eq!(result, vk::Result::SUCCESS);
            made[0]
        })
    }

    /// As [`Rig::pipelines`].
    fn shaders(&self) -> [vk::ShaderEXT; 3] {
        const BINDABLE: u32 = 1 << 7;
        let commands = ext::shader_object::Device::new(&self.device.instance.raw, &self.device.raw);
        let sets = [self.set_layout];
        [(VALUES[0], BINDABLE), (VALUES[1], BINDABLE), (VALUES[0], 0)].map(|(value, flags)| {
            let code: Vec<u8> = spirv::compute(value).into_iter().flat_map(u32::to_ne_bytes).collect();
            let info = vk::ShaderCreateInfoEXT::default()
                .flags(vk::ShaderCreateFlagsEXT::from_raw(flags))
                .stage(vk::ShaderStageFlags::COMPUTE)
                .code_type(vk::ShaderCodeTypeEXT::SPIRV)
                .code(&code)
                .name(c"main")
                .set_layouts(&sets);
            // SAFETY: a valid create info.
            unsafe { commands.create_shaders(&[info], None) }.unwrap()[0]
        })
    }

    /// A set of two members, of which the second one is written by an update.
    fn set(&self, members: [u64; 2], shaders: bool) -> u64 {
        let of_pipelines = PipelineInfo::new(members[0], 2);
        let sets = [self.set_layout];
        let layouts = [ShaderLayout::new(1, sets.as_ptr())];
        let of_shaders = ShaderInfo::new(1, members.as_ptr(), layouts.as_ptr(), 2, 0, ptr::null());
        let info: *const c_void =
            if shaders { (&raw const of_shaders).cast() } else { (&raw const of_pipelines).cast() };
        let info = SetCreateInfo::new(shaders.into(), info);
        let mut write = Write::new(1, members[1]);
        let mut set = 0;
        // SAFETY: valid structures, and commands of these types.
        unsafe {
            let create: Create = self.command(c"vkCreateIndirectExecutionSetEXT");
            let handle = self.device.raw.handle();
            create(handle, (&raw const info).cast(), ptr::null(), &mut set).result().unwrap();
            let update = if shaders {
                write.s_type = WRITE_SHADER;
                c"vkUpdateIndirectExecutionSetShaderEXT"
            } else {
                c"vkUpdateIndirectExecutionSetPipelineEXT"
            };
            self.command::<Update>(update)(handle, set, 1, &write);
        }
        set
    }

    /// # Safety
    /// The device has memory that the host can see.
    unsafe fn buffer(&self, size: u64) -> Buffer {
        use vk::{BufferUsageFlags2KHR as Usage, MemoryPropertyFlags as Memory};
        let (raw, instance) = (&self.device.raw, &self.device.instance.raw);
        // VK_BUFFER_USAGE_2_PREPROCESS_BUFFER_BIT_EXT is newer than the bindings.
        let usage = Usage::STORAGE_BUFFER | Usage::INDIRECT_BUFFER | Usage::SHADER_DEVICE_ADDRESS;
        let mut usage = vk::BufferUsageFlags2CreateInfoKHR::default().usage(usage | Usage::from_raw(1 << 31));
        let info = vk::BufferCreateInfo::default().size(size).push_next(&mut usage);
        // SAFETY: a live device and valid create infos; the memory is bound once and stays mapped.
        unsafe {
            let buffer = raw.create_buffer(&info, None).unwrap();
            let needs = raw.get_buffer_memory_requirements(buffer);
            let types = instance.get_physical_device_memory_properties(self.device.physical);
            let fits = |(index, kind): &(usize, &vk::MemoryType)| {
                let visible = Memory::HOST_VISIBLE | Memory::HOST_COHERENT;
                needs.memory_type_bits & 1 << index != 0 && kind.property_flags.contains(visible)
            };
            let kinds = types.memory_types_as_slice().iter().enumerate();
            let kind = kinds.into_iter().find(fits).expect("memory that the host sees").0;
            let mut flags =
                vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind as u32)
                .push_next(&mut flags);
            let memory = raw.allocate_memory(&info, None).unwrap();
            raw.bind_buffer_memory(buffer, memory, 0).unwrap();
            let words = raw.map_memory(memory, 0, size, vk::MemoryMapFlags::empty()).unwrap().cast();
            let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
            Buffer { raw: buffer, words, address: raw.get_buffer_device_address(&info) }
        }
    }

    /// The layout of commands that choose a member of a set, and dispatch it once.
    fn commands(&self, shaders: bool) -> u64 {
        let chosen = [shaders.into(), COMPUTE];
        // VK_INDIRECT_COMMANDS_TOKEN_TYPE_EXECUTION_SET_EXT, and ..._DISPATCH_EXT.
        let tokens = [Token::new(0, &raw const chosen, 0), Token::new(9, ptr::null(), 4)];
        let info = LayoutCreateInfo::new(0, COMPUTE, 16, self.layout, 2, tokens.as_ptr());
        let mut made = 0;
        // SAFETY: valid structures, and a command of this type.
        unsafe {
            let create: Create = self.command(c"vkCreateIndirectCommandsLayoutEXT");
            let handle = self.device.raw.handle();
            create(handle, (&raw const info).cast(), ptr::null(), &mut made).result().unwrap();
        }
        made
    }

    /// A set of descriptors with this buffer.
    ///
    /// # Safety
    /// A live buffer of the device.
    unsafe fn descriptors(&self, buffer: &Buffer) -> vk::DescriptorSet {
        let sizes =
            [vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(1)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: a live device, valid create infos and a live buffer.
        unsafe {
            let pool = self.device.raw.create_descriptor_pool(&info, None).unwrap();
            let sets = [self.set_layout];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&sets);
            let set = self.device.raw.allocate_descriptor_sets(&info).unwrap()[0];
            let range = [vk::DescriptorBufferInfo { buffer: buffer.raw, offset: 0, range: vk::WHOLE_SIZE }];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&range);
            self.device.raw.update_descriptor_sets(&[write], &[]);
            set
        }
    }

    /// What each member of the set writes when a generated command chooses it. `bind` binds the first one.
    fn execute(&self, set: u64, shaders: bool, bind: impl Fn(vk::CommandBuffer)) -> Vec<u32> {
        let layout = self.commands(shaders);
        let raw = &self.device.raw;
        let mut needs = vk::MemoryRequirements2::default();
        // SAFETY: live objects of this device, structures as the registry has them, and a queue that is waited for.
        unsafe {
            let info = MemoryRequirementsInfo::new(set, layout, 1, 1);
            let ask: Requirements = self.command(c"vkGetGeneratedCommandsMemoryRequirementsEXT");
            ask(raw.handle(), &info, &mut needs);
            let size = needs.memory_requirements.size;
            let [output, input, space] = [16, 16, size.max(16)].map(|size| self.buffer(size));
            let descriptors = [self.descriptors(&output)];
            let queue = raw.get_device_queue(0, 0);
            let pool = raw.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(2);
            let buffers = raw.allocate_command_buffers(&info).unwrap();
            let execute: Execute = self.command(c"vkCmdExecuteGeneratedCommandsEXT");
            let (at, address) = (input.address, if size > 0 { space.address } else { 0 });
            let info = CommandsInfo::new(COMPUTE, set, layout, at, 16, address, size, 1, 0, 1);
            let run = |(&buffer, member): (&vk::CommandBuffer, u32)| {
                output.words.write(0);
                input.words.cast::<[u32; 4]>().write([member, 1, 1, 1]);
                raw.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()).unwrap();
                bind(buffer);
                let point = vk::PipelineBindPoint::COMPUTE;
                raw.cmd_bind_descriptor_sets(buffer, point, self.layout, 0, &descriptors, &[]);
                execute(buffer, vk::FALSE, &info);
                raw.end_command_buffer(buffer).unwrap();
                let submit = [buffer];
                let submit = vk::SubmitInfo::default().command_buffers(&submit);
                raw.queue_submit(queue, &[submit], vk::Fence::null()).unwrap();
                raw.queue_wait_idle(queue).unwrap();
                output.words.read_volatile()
            };
            let values = buffers.iter().zip(0..).map(run).collect();
            let destroy: Destroy = self.command(c"vkDestroyIndirectCommandsLayoutEXT");
            destroy(raw.handle(), layout, ptr::null());
            values
        }
    }
}

/// The step: whether there is a set at all, and what its members write; null where the device does not execute.
fn generated(input: &Value) -> Value {
    use vk::Handle as _;
    let [shaders, executes] = ["shaders", "executes"].map(|name| input[name] == true);
    let Some(rig) = Rig::new(shaders) else { return json!([false, null]) };
    let raw = &rig.device.raw;
    // SAFETY: live objects of this device, which nothing uses any more when they are destroyed.
    unsafe {
        let (set, values) = if shaders {
            let objects = rig.shaders();
            let set = rig.set([objects[0].as_raw(), objects[1].as_raw()], true);
            let commands = ext::shader_object::Device::new(&rig.device.instance.raw, raw);
            let bind = |to| commands.cmd_bind_shaders(to, &[vk::ShaderStageFlags::COMPUTE], &objects[..1]);
            let values = executes.then(|| rig.execute(set, true, bind));
            objects.into_iter().for_each(|object| commands.destroy_shader(object, None));
            (set, values)
        } else {
            let objects = rig.pipelines();
            let set = rig.set([objects[0].as_raw(), objects[1].as_raw()], false);
            let bind = |to| raw.cmd_bind_pipeline(to, vk::PipelineBindPoint::COMPUTE, objects[0]);
            (set, executes.then(|| rig.execute(set, false, bind)))
        };
        let destroy: Destroy = rig.command(c"vkDestroyIndirectExecutionSetEXT");
        destroy(raw.handle(), set, ptr::null());
        // The buffers stay, so the device does.
        std::mem::forget(rig);
        json!([true, values])
    }
}

/// Creates the sets on each driver that has the extension, without the layer, cold and warm.
fn on_each_driver(shaders: bool, counters: [&str; 2]) {
    scenario(&[("generated", generated)], |scenario| {
        let mut tested = 0;
        for driver in [Driver::Radv, Driver::RadvOnShim, Driver::Lavapipe, Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(driver.name()));
            let executes = matches!(driver, Driver::Lavapipe | Driver::Machine);
            let input = json!({ "shaders": shaders, "executes": executes });
            let without = scenario.run_ok::<Value>("generated", &env.clone().without_layer(), &input).value;
            if without[0] != true {
                eprintln!("{} lacks an extension", driver.name());
                continue;
            }
            let values = if executes { json!(VALUES) } else { Value::Null };
            assert_eq!(without[1], values, "{}", driver.name());
            // Lavapipe's caches keep nothing, so the layer describes no pipeline.
            let count = if !shaders && driver == Driver::Lavapipe { 0 } else { 3 };
            for (round, expected) in [("cold", [0, count]), ("warm", [count, 0])] {
                let run = scenario.run_ok::<Value>("generated", &env, &input);
                assert_eq!(run.value, without, "{round} on {}", driver.name());
                assert!(run.reports.bypassed().is_empty(), "{:?}", run.reports.bypassed());
                let [served, compiled] = counters.map(|name| run.reports.sum(name));
                // What the driver keeps in memory it need not compile for the flag alone.
                let compiled = compiled + run.reports.sum("driver_had");
                let all = run.reports.counters();
                assert_eq!([served, compiled], expected, "{round} on {}: {all:?}", driver.name());
            }
            tested += 1;
        }
        if tested == 0 {
            scenario.skip("no driver has VK_EXT_device_generated_commands");
        }
    });
}

#[test]
fn served_pipelines_stand_in_execution_sets_and_the_flag_separates() {
    on_each_driver(false, ["served", "compiled"]);
}

#[test]
fn served_shader_objects_stand_in_execution_sets_and_the_flag_separates() {
    on_each_driver(true, ["shaders_served", "shaders_compiled"]);
}
