//! Tests of how much stack of the program's threads creation calls need.

use std::ffi::c_void;
use std::ptr;

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, graphics, spirv};

/// The stack of a thread whose use is measured.
const STACK: usize = 4 << 20;
/// What nothing has written to.
const UNTOUCHED: u8 = 0xA5;

/// Runs `body` on a thread of its own; gives the bytes of its stack that were used.
fn used(body: &dyn Fn()) -> usize {
    extern "C" fn call(body: *mut c_void) -> *mut c_void {
        // SAFETY: `used` passes a pointer to its argument, and waits for the thread.
        unsafe { (*body.cast::<&dyn Fn()>())() };
        ptr::null_mut()
    }
    // SAFETY: the attributes, the thread's number and `body` are on this stack, and the memory is mapped, until the
    // thread is joined.
    unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let stack = libc::mmap(ptr::null_mut(), STACK, protection, flags, -1, 0);
        assert_ne!(stack, libc::MAP_FAILED);
        stack.cast::<u8>().write_bytes(UNTOUCHED, STACK);
        let (mut attributes, mut thread) = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack, STACK), 0);
        let body = (&raw const body).cast_mut().cast();
        assert_eq!(libc::pthread_create(&mut thread, &attributes, call, body), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
        let bytes = std::slice::from_raw_parts(stack.cast::<u8>(), STACK);
        let untouched = bytes.iter().take_while(|&&byte| byte == UNTOUCHED).count();
        libc::munmap(stack, STACK);
        STACK - untouched
    }
}

/// The step: the stack that vkCreateComputePipelines and vkCreateGraphicsPipelines need, without a cache and with one.
fn needed(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let stage = |stage, code: &[u32]| {
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(stage);
        stage.module(device.module(code)).name(c"main")
    };
    let compute = stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(1));
    let compute = vk::ComputePipelineCreateInfo::default().stage(compute).layout(device.compute_layout());
    let shaders = [
        stage(vk::ShaderStageFlags::VERTEX, &spirv::vertex(0.5)),
        stage(vk::ShaderStageFlags::FRAGMENT, &spirv::fragment(1.0)),
    ];
    let (layout, pass) = (device.empty_layout(), device.render_pass(vk::Format::R8G8B8A8_UNORM));
    let own = device.cache(&[]);
    let base = used(&|| ());
    let bytes = graphics::plain(&shaders, |info| {
        let graphics = info.layout(layout).render_pass(pass);
        [vk::PipelineCache::null(), own].map(|cache| {
            let is_made = |result| assert_eq!(result, vk::Result::SUCCESS);
            // SAFETY: valid create infos, and a cache of the device or none.
            let of_compute = used(&|| is_made(unsafe { device.create_compute(cache, &[compute]) }.0));
            // SAFETY: as above.
            let of_graphics = used(&|| is_made(unsafe { device.create_graphics(cache, &[graphics]) }.0));
            [of_compute - base, of_graphics - base]
        })
    });
    device.destroy_cache(own);
    json!(bytes.as_flattened())
}

/// Most bytes that a creation call may need beside what it needs without the layer.
const MOST: usize = 128 << 10;

#[test]
fn creation_calls_need_little_more_of_the_callers_stack() {
    scenario(&[("needed", needed)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let bytes = |env: &Env| scenario.run_ok::<[usize; 4]>("needed", env, &()).value;
        let without = bytes(&env.clone().without_layer());
        // A run that compiles and records, and one that is served.
        for run in ["first", "second"] {
            let with = bytes(&env);
            let more = with.iter().zip(&without).map(|(with, without)| with.saturating_sub(*without)).max();
            assert!(more.unwrap() <= MOST, "{run}: {without:?} {with:?}");
        }
    });
}
