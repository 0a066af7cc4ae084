//! The commands of VK_EXT_shader_object, except those that take a command buffer, of which the driver has none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ash::vk::{self, Handle as _};

use crate::command::{command, strike_shader};
use crate::config::{self, Config, ShaderCode, ShaderData};
use crate::content::{self, plain_chain, slice};
use crate::handles::{self, Device};
use crate::hash::{Hasher, digest};
use crate::objects::{self, Body};
use crate::record::{self, Call, plain, violation};
use crate::shader::{self, KeptCode, Shader};
use crate::{chain, lifecycle, stage};

type Info<'a> = vk::ShaderCreateInfoEXT<'a>;

const REFUSED: vk::Result = vk::Result::INCOMPATIBLE_SHADER_BINARY_EXT;
/// Binaries, and what they are written to, stand at multiples of this.
const ALIGNMENT: usize = 16;
/// By how much the size is wrong that a driver gives with `shrinks` and `grows`.
const WRONG_BY: usize = 16;

fn allowed(command: &str, device: &Device) {
    if !device.shader_object {
        violation(format!("{command}: shaderObject is not enabled"));
    }
}

/// vkCreateShadersEXT. A shader that is not made does not keep others from being made, except those that it is linked
/// with.
pub unsafe extern "system" fn create(
    device: vk::Device,
    count: u32,
    infos: *const Info<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::ShaderEXT,
) -> vk::Result {
    let mut call = Call { create_infos: Some(count), ..plain("vkCreateShadersEXT") };
    // SAFETY: the program passes `count` valid create infos, and an array with room for as many handles.
    let (infos, out) = unsafe { (slice(infos, count), std::slice::from_raw_parts_mut(out, count as usize)) };
    out.fill(vk::ShaderEXT::null());
    for info in infos {
        // SAFETY: the chain of a valid create info.
        call.p_next.extend(unsafe { chain::types(call.command, info.p_next) });
        call.flags.push(info.flags.as_raw().into());
    }
    command(call, |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        allowed(call.command, &device);
        // SAFETY: valid create infos.
        let mut made: Vec<_> =
            infos.iter().enumerate().map(|(at, info)| unsafe { make(call, &device, info, at) }).collect();
        link(call, infos, &mut made);
        call.hit = infos.iter().zip(&made).map(|(info, made)| made.is_ok() && is_binary(info)).collect();
        // SAFETY: the program passes NULL or valid callbacks.
        let allocator = unsafe { objects::allocator(callbacks) };
        let mut result = vk::Result::SUCCESS;
        for ((info, made), out) in infos.iter().zip(made).zip(out) {
            match made {
                Ok(shader) => {
                    if is_binary(info) {
                        record::count_hit()
                    } else {
                        record::count_compile()
                    }
                    let handle = objects::insert(device.handle, allocator, Body::Shader(shader));
                    *out = vk::ShaderEXT::from_raw(handle);
                }
                Err(error) if result == vk::Result::SUCCESS => result = error,
                Err(_) => {}
            }
        }
        result
    })
}

fn is_binary(info: &Info<'_>) -> bool {
    info.code_type == vk::ShaderCodeTypeEXT::BINARY
}

fn is_linked(info: &Info<'_>) -> bool {
    info.flags.contains(vk::ShaderCreateFlagsEXT::LINK_STAGE)
}

/// The shader of a create info, without those that it is linked with if it is made of SPIR-V.
///
/// # Safety
/// `info` is valid.
unsafe fn make(call: &Call, device: &Device, info: &Info<'_>, at: usize) -> Result<Shader, vk::Result> {
    let code = if is_binary(info) { ShaderCode::Binary } else { ShaderCode::Spirv };
    if let Some(struck) = strike_shader(call, code, at) {
        return Err(struck);
    }
    // SAFETY: pCode has codeSize bytes, and the rest of the create info is valid.
    let (bytes, hasher) =
        unsafe { (slice(info.p_code.cast::<u8>(), info.code_size as u32), content(call, device, info)) };
    if bytes.is_empty() {
        violation(format!("{}: there is no code (codeSize-arraylength)", call.command));
        return Err(vk::Result::ERROR_UNKNOWN);
    }
    let config = config::current();
    let shape = hasher.shape();
    if code == ShaderCode::Spirv {
        thread::sleep(Duration::from_micros(config.compile_us));
        let mut hasher = hasher;
        hasher.code(&digest("SPIR-V", bytes), &[]);
        return Ok(Shader { key: hasher.finish(), shape, set: [0; 32], code: None });
    }
    if info.p_code.addr() % ALIGNMENT != 0 {
        violation(format!("{}: a binary at {:p} (08492)", call.command, info.p_code));
    }
    let mut shader = Shader::parse(bytes, &config).filter(|shader| shader.shape == shape).ok_or(REFUSED)?;
    shader.code = config.keeps_shader_code.then(|| KeptCode::new(bytes));
    Ok(shader)
}

/// Everything in a create info but the code.
///
/// # Safety
/// `info` is valid.
unsafe fn content(call: &Call, device: &Device, info: &Info<'_>) -> Hasher {
    let mut hasher = Hasher::new("shader object");
    hasher.word(info.flags.as_raw());
    hasher.word(info.stage.as_raw());
    hasher.word(info.next_stage.as_raw());
    hasher.bytes(&device.robustness.map(u8::from));
    let layout = vk::PipelineLayoutCreateInfo {
        set_layout_count: info.set_layout_count,
        p_set_layouts: info.p_set_layouts,
        push_constant_range_count: info.push_constant_range_count,
        p_push_constant_ranges: info.p_push_constant_ranges,
        ..Default::default()
    };
    // SAFETY: the name, the specialization, the arrays and the chain of a valid create info.
    unsafe {
        if info.p_name.is_null() {
            violation(format!("{}: a shader has no entry point", call.command));
        } else {
            hasher.bytes(std::ffi::CStr::from_ptr(info.p_name).to_bytes());
        }
        stage::specialization(&mut hasher, info.p_specialization_info);
        hasher.bytes(&content::pipeline_layout(call.command, device.handle, &layout));
        plain_chain(&mut hasher, info.p_next);
    }
    hasher
}

/// Links the shaders that are to be: those of SPIR-V get their set, and those of binaries must be of it. If one is not
/// made, none is.
fn link(call: &Call, infos: &[Info<'_>], made: &mut [Result<Shader, vk::Result>]) {
    let linked: Vec<usize> = (0..infos.len()).filter(|&at| is_linked(&infos[at])).collect();
    if linked.windows(2).any(|pair| is_binary(&infos[pair[0]]) != is_binary(&infos[pair[1]])) {
        violation(format!("{}: shaders of SPIR-V and of binaries are linked", call.command));
    }
    let set = shader::set(linked.iter().filter_map(|&at| made[at].as_ref().ok()).map(|shader| shader.key));
    let error = linked.iter().find_map(|&at| match &made[at] {
        Ok(shader) => (is_binary(&infos[at]) && shader.set != set).then_some(REFUSED),
        Err(error) => Some(*error),
    });
    for at in linked {
        match (error, &mut made[at]) {
            (Some(error), made) => *made = Err(error),
            (None, Ok(shader)) => shader.set = set,
            (None, Err(_)) => {}
        }
    }
}

fn check_code(command: &str, shader: &Shader) {
    if shader.code.as_ref().is_some_and(|code| !code.is_there()) {
        violation(format!("{command}: the binary that the shader was made of is gone (keeps_shader_code)"));
    }
}

/// vkDestroyShaderEXT.
pub unsafe extern "system" fn destroy(
    device: vk::Device,
    shader: vk::ShaderEXT,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program passes NULL or valid callbacks.
    unsafe {
        lifecycle::destroy("vkDestroyShaderEXT", "VkShaderEXT", device, shader.as_raw(), callbacks, |body| {
            if let Body::Shader(shader) = body {
                check_code("vkDestroyShaderEXT", shader);
            }
        })
    };
}

/// Makes the binaries of `changes` different.
static SALT: AtomicU64 = AtomicU64::new(1);

fn data(config: &Config, shader: &Shader) -> Vec<u8> {
    match config.shader_data {
        ShaderData::Empty => Vec::new(),
        // Also in another process.
        ShaderData::Changes => {
            let salt = SALT.fetch_add(1, Ordering::Relaxed) | u64::from(std::process::id()) << 32;
            shader.binary(config, salt)
        }
        _ => shader.binary(config, 0),
    }
}

/// vkGetShaderBinaryDataEXT.
pub unsafe extern "system" fn get_data(
    device: vk::Device,
    shader: vk::ShaderEXT,
    size: *mut usize,
    out: *mut std::ffi::c_void,
) -> vk::Result {
    command(plain("vkGetShaderBinaryDataEXT"), |call| {
        let Some(device) = handles::device(call.command, device) else {
            return vk::Result::ERROR_DEVICE_LOST;
        };
        allowed(call.command, &device);
        let found = objects::get(call.command, device.handle, "VkShaderEXT", shader.as_raw());
        let Some(Body::Shader(shader)) = found else { return vk::Result::ERROR_UNKNOWN };
        check_code(call.command, &shader);
        let config = config::current();
        let data = data(&config, &shader);
        // SAFETY: the program passes a place for the size.
        let size = unsafe { &mut *size };
        if out.is_null() {
            *size = match config.shader_data {
                ShaderData::Shrinks => data.len() + WRONG_BY,
                ShaderData::Grows | ShaderData::GrowsUnsaid => data.len() - WRONG_BY,
                _ => config.claimed(data.len()),
            };
            return vk::Result::SUCCESS;
        }
        if out.addr() % ALIGNMENT != 0 {
            violation(format!("{}: data at {out:p} (08499)", call.command));
        }
        let room = std::mem::replace(size, data.len());
        if room < data.len() && config.shader_data != ShaderData::GrowsUnsaid {
            *size = 0;
            return vk::Result::INCOMPLETE;
        }
        // SAFETY: the program passes room for as many bytes as its size says.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), out.cast(), data.len().min(room)) };
        vk::Result::SUCCESS
    })
}
