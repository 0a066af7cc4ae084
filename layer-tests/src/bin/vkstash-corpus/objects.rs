//! Shader objects in place of pipelines (VK_EXT_shader_object): of SPIR-V, or of the program's own binaries.

use std::fs;
use std::path::Path;
use std::time::Instant;

use ash::{ext, vk};
use vkstash_layer_tests::bench::report::{Call, Kind, Round};
use vkstash_layer_tests::corpus::Module;
use vkstash_layer_tests::vulkan::shader_objects::Binary;

use crate::counters;
use crate::failure::Failure;
use crate::vulkan::{Gpu, nanos};

/// One round. With a file: each shader of its binary there, or of SPIR-V if there is no file, which is then written.
pub(crate) fn round(gpu: &Gpu, modules: &[Module], file: Option<&Path>) -> Result<Round, Failure> {
    let commands = gpu.shader_objects.as_ref().ok_or("the device was created without shader objects")?;
    let kept = match file.filter(|path| path.exists()) {
        Some(path) => serde_json::from_slice::<Vec<Vec<u8>>>(&fs::read(path)?)?,
        None => Vec::new(),
    };
    let kept: Vec<Binary> = kept.iter().map(|bytes| Binary::of(bytes)).collect();
    let (started, before) = (Instant::now(), counters::processor_time());
    let (mut calls, mut shaders) = (Vec::new(), Vec::new());
    for (index, module) in modules.iter().enumerate() {
        let (shader, create_ns) = one(gpu, commands, module, kept.get(index))?;
        shaders.push(shader);
        calls.push(Call { create_ns, ..Call::default() });
    }
    let total_ns = nanos(started);
    let processor_ns = Some((counters::processor_time() - before).as_nanos() as u64);
    if let Some(path) = file.filter(|path| !path.exists()) {
        // SAFETY: live shaders of this device.
        let binary = |shader: &vk::ShaderEXT| unsafe { commands.get_shader_binary_data(*shader) };
        let binaries = shaders.iter().map(binary).collect::<Result<Vec<Vec<u8>>, _>>()?;
        fs::write(path, serde_json::to_vec(&binaries)?)?;
    }
    for shader in shaders {
        // SAFETY: made by this device, never bound.
        unsafe { commands.destroy_shader(shader, None) };
    }
    Ok(Round { kind: Kind::Create, total_ns, processor_ns, instructions: None, calls })
}

/// A shader, and the nanoseconds of its vkCreateShadersEXT.
fn one(
    gpu: &Gpu,
    commands: &ext::shader_object::Device,
    module: &Module,
    kept: Option<&Binary>,
) -> Result<(vk::ShaderEXT, u64), Failure> {
    let (sets, ranges) = gpu.layouts();
    let (code_type, p_code, code_size) = match kept {
        Some(binary) => (vk::ShaderCodeTypeEXT::BINARY, binary.as_ptr(), binary.length()),
        None => (vk::ShaderCodeTypeEXT::SPIRV, module.words.as_ptr().cast(), 4 * module.words.len()),
    };
    let info = vk::ShaderCreateInfoEXT {
        stage: vk::ShaderStageFlags::COMPUTE,
        code_type,
        p_code,
        code_size,
        ..Default::default()
    };
    let info = info.name(&module.entry).set_layouts(&sets).push_constant_ranges(&ranges);
    let mut shader = vk::ShaderEXT::null();
    let (create, device) = (commands.fp().create_shaders_ext, gpu.device.handle());
    let started = Instant::now();
    // SAFETY: a live device with the extension; the create info's arrays outlive the call; room for one shader.
    let result = unsafe { create(device, 1, &info, std::ptr::null(), &mut shader) };
    let nanos = nanos(started);
    if result != vk::Result::SUCCESS || shader == vk::ShaderEXT::null() {
        return Err(format!("{}: vkCreateShadersEXT: {result:?}", module.name).into());
    }
    Ok((shader, nanos))
}
