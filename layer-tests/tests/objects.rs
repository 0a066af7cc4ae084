//! Short-lived objects, reused handles, and allocators and structures of the program.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ash::vk::{self, Handle};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, on, run};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{Shader, Work};

fn on_radv(step: fn(&Value) -> Value, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Radv) {
            test(scenario, &env);
        }
    });
}

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions::default()).unwrap()
}

/// Creates a compute pipeline from objects that are destroyed at once, with bindings of this many descriptors.
fn short_lived(
    device: &Device,
    value: u32,
    descriptors: u32,
    allocator: Option<&vk::AllocationCallbacks<'_>>,
) -> bool {
    short_lived_of(device, value, descriptors, allocator, allocator)
}

/// [`short_lived`] with one allocator for the pipeline, and one for the other objects.
fn short_lived_of(
    device: &Device,
    value: u32,
    descriptors: u32,
    of_pipeline: Option<&vk::AllocationCallbacks<'_>>,
    allocator: Option<&vk::AllocationCallbacks<'_>>,
) -> bool {
    let code = spirv::compute(value);
    let binding = [vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(descriptors)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)];
    let set_info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
    let raw = &device.raw;
    // SAFETY: valid create infos; each object is destroyed once, and not used afterwards.
    unsafe {
        let set = raw.create_descriptor_set_layout(&set_info, allocator).unwrap();
        let sets = [set];
        let layout_info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        let layout = raw.create_pipeline_layout(&layout_info, allocator).unwrap();
        // Legal: the pipeline layout keeps what it needs.
        raw.destroy_descriptor_set_layout(set, allocator);
        let module_info = vk::ShaderModuleCreateInfo::default().code(&code);
        let module = raw.create_shader_module(&module_info, allocator).unwrap();
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
        let mut pipeline = vk::Pipeline::null();
        let [allocator, of_pipeline] =
            [allocator, of_pipeline].map(|chosen| chosen.map_or(ptr::null(), ptr::from_ref));
        let create = raw.fp_v1_0().create_compute_pipelines;
        let result = create(raw.handle(), vk::PipelineCache::null(), 1, &info, of_pipeline, &mut pipeline);
        (raw.fp_v1_0().destroy_shader_module)(raw.handle(), module, allocator);
        (raw.fp_v1_0().destroy_pipeline_layout)(raw.handle(), layout, allocator);
        (raw.fp_v1_0().destroy_pipeline)(raw.handle(), pipeline, of_pipeline);
        result == vk::Result::SUCCESS && !pipeline.is_null()
    }
}

/// Pairs of (code, layout), each pair once, with handles that are reused.
fn reuse(_: &Value) -> Value {
    let device = device();
    json!((0..40).all(|n| short_lived(&device, n % 10, 1 + n / 10, None)))
}

#[test]
fn reused_handles_refer_to_the_new_objects() {
    on_radv(reuse, |scenario, env| {
        let cold = scenario.run_ok::<bool>("step", env, &());
        assert!(cold.value);
        assert_eq!(cold.reports.sum("compiled"), 40, "40 different pipelines: {:?}", cold.reports.counters());
        assert_eq!(cold.reports.sum("modules_new"), 10);
        let warm = scenario.run_ok::<bool>("step", env, &());
        assert!(warm.value);
        assert_eq!(warm.reports.sum("served"), 40, "{:?}", warm.reports.counters());
    });
}

/// Live allocations of the program's allocator: address to size and alignment.
static LIVE: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

unsafe extern "system" fn allocate(
    _: *mut c_void,
    size: usize,
    alignment: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    let alignment = alignment.max(16);
    // SAFETY: the alignment is a power of two, and the size is not 0.
    let memory =
        unsafe { std::alloc::alloc(std::alloc::Layout::from_size_align(size.max(1), alignment).unwrap()) };
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(memory.addr(), (size.max(1), alignment));
    memory.cast()
}

unsafe extern "system" fn reallocate(
    user: *mut c_void,
    original: *mut c_void,
    size: usize,
    alignment: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: the specification's rules for pfnReallocation: the content is copied up to the smaller size.
    unsafe {
        let memory = allocate(user, size, alignment, scope);
        if !original.is_null() {
            let known = LIVE.lock().unwrap_or_else(PoisonError::into_inner)[&original.addr()].0;
            ptr::copy_nonoverlapping(original.cast::<u8>(), memory.cast(), known.min(size));
            free(user, original);
        }
        memory
    }
}

unsafe extern "system" fn free(_: *mut c_void, memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    let known = LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&memory.addr());
    // Memory that this allocator did not allocate ends the process, as in a real program.
    let Some((size, alignment)) = known else { std::process::abort() };
    // SAFETY: allocated with this layout.
    unsafe {
        std::alloc::dealloc(memory.cast(), std::alloc::Layout::from_size_align(size, alignment).unwrap());
    }
}

fn allocating(_: &Value) -> Value {
    let device = device();
    let allocator = vk::AllocationCallbacks::default()
        .pfn_allocation(Some(allocate))
        .pfn_reallocation(Some(reallocate))
        .pfn_free(Some(free));
    let made = (0..10).all(|n| short_lived(&device, n, 1, Some(&allocator)));
    json!((made, LIVE.lock().unwrap_or_else(PoisonError::into_inner).len()))
}

#[test]
fn the_programs_allocator_is_used_for_the_programs_objects_only() {
    on_radv(allocating, |scenario, env| {
        for served in [0, 10] {
            let run = scenario.run_ok::<(bool, usize)>("step", env, &());
            assert_eq!(run.value, (true, 0), "everything is freed by who allocated it");
            assert_eq!(run.reports.sum("served"), served);
        }
    });
}

/// A lock of the program's, which a thread holds while it creates a pipeline.
static HELD: Mutex<()> = Mutex::new(());
/// A thread that does not hold it is about to wait for it, in a callback of the driver's.
static WAITS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "system" fn allocate_under_lock(
    user: *mut c_void,
    size: usize,
    alignment: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    if !HOLDS.get() {
        WAITS.store(true, Ordering::SeqCst);
        drop(HELD.lock().unwrap());
    }
    // SAFETY: the driver's arguments to pfnAllocation: `alignment` is a power of two, and `user` is not read.
    unsafe { allocate(user, size, alignment, scope) }
}

/// A thread waits in the driver's callback for a lock that another one holds, which creates a pipeline meanwhile.
fn waiting_in_a_callback(_: &Value) -> Value {
    let device = device();
    let allocator = || {
        vk::AllocationCallbacks::default()
            .pfn_allocation(Some(allocate_under_lock))
            .pfn_reallocation(Some(reallocate))
            .pfn_free(Some(free))
    };
    let made = std::thread::scope(|scope| {
        let held = HELD.lock().unwrap();
        HOLDS.set(true);
        let waits = scope.spawn(|| short_lived_of(&device, 0, 1, Some(&allocator()), None));
        until("a thread waits in the driver", || WAITS.load(Ordering::SeqCst));
        let made = short_lived_of(&device, 1, 1, Some(&allocator()), None);
        drop(held);
        made && waits.join().unwrap()
    });
    json!(made)
}

/// The layer lets one thread at a time into this driver, but for a program that the driver calls back.
#[test]
fn who_waits_in_a_callback_keeps_nobody_out_of_the_driver() {
    on_radv(waiting_in_a_callback, |scenario, env| {
        let env = env.clone().var("VKSTASH_SERVED_WIDTH", "1");
        for served in [0, 2] {
            let run = scenario.run_ok::<bool>("step", &env, &());
            assert!(run.value);
            assert_eq!(run.reports.sum("served"), served, "{:?}", run.reports.counters());
        }
    });
}

/// Creates devices whose chains the layer must change, and says whether the program's own structures are unchanged.
fn untouched(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let physical = instance.physical_device();
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut features = vk::PhysicalDeviceVulkan13Features::default();
    let mut identifier =
        vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
    identifier.p_next = ptr::from_mut(&mut features).cast();
    let names = [c"VK_EXT_shader_module_identifier".as_ptr()];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
    info.p_next = ptr::from_ref(&identifier).cast();
    let before = (features.pipeline_creation_cache_control, info.p_next, identifier.p_next, names);
    // SAFETY: a live physical device and a valid create info.
    let device = unsafe { instance.raw.create_device(physical, &info, None) }.unwrap();
    let after = (features.pipeline_creation_cache_control, info.p_next, identifier.p_next, names);
    // SAFETY: just created, without objects.
    unsafe { device.destroy_device(None) };
    json!(before == after && info.enabled_extension_count == 1)
}

#[test]
fn the_programs_own_structures_are_never_written_to() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("step", untouched)], |scenario| {
            if let Some(env) = scenario.on(driver) {
                assert!(scenario.run_ok::<bool>("step", &env, &()).value);
            }
        });
    }
}

/// Features that change the code give a part of its own; others share one.
#[test]
fn a_device_with_other_features_has_a_part_of_its_own() {
    on(Driver::Radv, |scenario, env| {
        let plain = run(scenario, env, &Work::default());
        let with_cache_control = run(scenario, env, &Work { cache_control: true, ..Work::default() });
        assert_eq!(with_cache_control.reports.parts(), plain.reports.parts());
        assert_all_served(&with_cache_control, 3);
        let with_identifiers = Work { identifiers: true, ..Work::default() };
        let with_identifiers = run(scenario, env, &with_identifiers);
        assert_eq!(with_identifiers.reports.parts(), plain.reports.parts());
        assert_all_served(&with_identifiers, 3);
        let another = env.clone().var("RADV_FORCE_FAMILY", "navi31");
        let another = run(scenario, &another, &Work::default());
        assert_ne!(another.reports.parts(), plain.reports.parts());
        assert_eq!(another.reports.sum("compiled"), 3);
    });
}

/// Pipelines on devices of two applications.
fn two_applications(_: &Value) -> Value {
    let made = ["one", "two"].map(|name| {
        let options = InstanceOptions { application: name.into(), ..Default::default() };
        let instance = Instance::new(&options).unwrap();
        Work::default().run(&Device::new(&instance, &DeviceOptions::default()).unwrap()).all_made()
    });
    json!(made == [true; 2])
}

#[test]
fn each_application_has_a_stash_of_its_own() {
    on_radv(two_applications, |scenario, env| {
        for (compiled, served) in [(6, 0), (0, 6)] {
            let run = scenario.run_ok::<bool>("step", env, &());
            assert!(run.value);
            assert_eq!(run.reports.sum("compiled"), compiled, "{:?}", run.reports.0);
            assert_eq!(run.reports.sum("served"), served, "{:?}", run.reports.0);
            assert_eq!(run.reports.0.len(), 2, "one report for each");
        }
    });
}

/// Deletes the stash while the program runs.
fn delete_the_stash(_: &Value) -> Value {
    let device = device();
    let mut made = Work::default().run(&device).all_made();
    let stash = std::env::var_os("VKSTASH_DIR").unwrap();
    for first in [1, 11] {
        // The writer may be creating a file in it.
        while std::path::Path::new(&stash).exists() && std::fs::remove_dir_all(&stash).is_err() {}
        made &= Work { first, ..Work::default() }.run(&device).all_made();
    }
    json!(made)
}

#[test]
fn a_program_runs_on_when_its_stash_is_deleted() {
    on_radv(delete_the_stash, |scenario, env| {
        for _ in 0..3 {
            assert!(scenario.run_ok::<bool>("step", env, &()).value);
        }
    });
}

#[test]
fn a_level_of_the_log_that_is_none_is_named() {
    on(Driver::Radv, |scenario, env| {
        let outcome = run(scenario, &env.clone().var("VKSTASH_LOG", "loud"), &Work::default());
        let lines = outcome.stderr.lines().filter(|line| line.contains("vkstash"));
        let expected =
            "vkstash: warn: VKSTASH_LOG=loud is none of off, error, warn, info, debug and trace: warn counts";
        assert_eq!(lines.collect::<Vec<_>>(), [expected]);
    });
}

#[test]
fn an_ordinary_run_logs_nothing() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        on(Driver::Radv, |scenario, env| {
            for _ in 0..2 {
                let outcome = run(scenario, env, &Work { shader, ..Work::default() });
                assert!(!outcome.stderr.contains("vkstash"), "{}", outcome.stderr);
            }
        });
    }
}
