//! `short-buffers`: what the driver of the environment writes into buffers that are too short for all that it has.

use std::ffi::c_void;

use ash::{ext, vk};
use vkstash_layer_tests::vulkan::shader_objects::{self, Code, Shader};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::{self, Work};

use crate::failure::Failure;

/// Room behind each buffer.
const BEHIND: usize = 1 << 20;
const UNTOUCHED: u8 = 0xa5;

/// Prints a line for each command and size of a buffer.
pub(crate) fn run() -> Result<(), Failure> {
    println!("command\tbytes\troom\tresult\ttold\twritten beyond");
    let instance = Instance::new(&InstanceOptions::default())?;
    of_caches(&Device::new(&instance, &Work::default().device_options())?);
    match Device::new(&instance, &shader_objects::device_options()) {
        Ok(device) => of_shaders(&device)?,
        Err(error) => eprintln!("no shader objects: {error}"),
    }
    Ok(())
}

fn of_caches(device: &Device) {
    let get = device.raw.fp_v1_0().get_pipeline_cache_data;
    for count in [0, 1, 8] {
        let cache = device.cache(&[]);
        Work { count, shader: work::Shader::Lengthy, first: 1500, ..Work::default() }
            .run_through(device, cache);
        // SAFETY: a live cache; NULL, or a buffer of that size.
        probe(&format!("cache data of {count}"), |size, data| unsafe {
            get(device.raw.handle(), cache, size, data)
        });
        device.destroy_cache(cache);
    }
}

fn of_shaders(device: &Device) -> Result<(), Failure> {
    let get =
        ext::shader_object::Device::new(&device.instance.raw, &device.raw).fp().get_shader_binary_data_ext;
    let code = Code::Spirv(spirv::fragment(0.5));
    let (stage, next) = (vk::ShaderStageFlags::FRAGMENT, vk::ShaderStageFlags::empty());
    let wanted = [Shader { stage, next, linked: false, code, constant: None }];
    // SAFETY: a live device with the extension; each shader is destroyed once.
    unsafe {
        let (result, made) = shader_objects::create(device, &[], &wanted);
        result.result()?;
        probe("shader binary", |size, data| get(device.raw.handle(), made[0], size, data));
        shader_objects::destroy(device, &made);
    }
    Ok(())
}

fn probe(name: &str, get: impl Fn(&mut usize, *mut c_void) -> vk::Result) {
    let mut all = 0;
    let _ = get(&mut all, std::ptr::null_mut());
    let rooms = [
        0,
        16,
        31,
        32,
        35,
        36,
        47,
        48,
        64,
        100,
        256,
        1000,
        4096,
        1 << 16,
        all / 2,
        all.saturating_sub(1),
        all,
    ];
    for room in rooms.into_iter().filter(|room| *room <= all) {
        // At an address that suits all commands (08499).
        let mut buffer = vec![u128::from_ne_bytes([UNTOUCHED; 16]); (all + BEHIND).div_ceil(16)];
        let mut told = room;
        let result = get(&mut told, buffer.as_mut_ptr().cast());
        let bytes = buffer.iter().flat_map(|word| word.to_ne_bytes());
        let last = bytes.enumerate().filter(|(_, byte)| *byte != UNTOUCHED).map(|(at, _)| at + 1).last();
        let beyond = last.unwrap_or(0).saturating_sub(room);
        println!("{name}\t{all}\t{room}\t{}\t{told}\t{beyond}", result.as_raw());
    }
}
