//! The two identifier queries: they agree, and depend on code and flags alone (contract 2.2).

use ash::vk::{self, Handle as _};

use crate::command::void;
use crate::hash::Digest;
use crate::record::{plain, violation};
use crate::{config, content, handles, objects, stage};

/// vkGetShaderModuleIdentifierEXT.
pub unsafe extern "system" fn of_module(
    device: vk::Device,
    module: vk::ShaderModule,
    out: *mut vk::ShaderModuleIdentifierEXT<'_>,
) {
    void(plain("vkGetShaderModuleIdentifierEXT"), |call| {
        let Some(device) = handles::device(call.command, device) else { return };
        allowed(call.command, &device);
        let digest = objects::contents(call.command, device.handle, "VkShaderModule", module.as_raw());
        // SAFETY: the program passes a pIdentifier that points to a structure that can be written.
        unsafe { write(&digest, out) };
    });
}

/// vkGetShaderModuleCreateInfoIdentifierEXT.
pub unsafe extern "system" fn of_create_info(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    out: *mut vk::ShaderModuleIdentifierEXT<'_>,
) {
    void(plain("vkGetShaderModuleCreateInfoIdentifierEXT"), |call| {
        let Some(device) = handles::device(call.command, device) else { return };
        allowed(call.command, &device);
        // SAFETY: the program passes a valid pCreateInfo, and a pIdentifier that points to a structure that can be
        // written.
        unsafe { write(&content::module(&*info), out) };
    });
}

fn allowed(command: &str, device: &handles::Device) {
    if !device.identifiers {
        violation(format!("{command}: shaderModuleIdentifier is not enabled"));
    }
}

/// # Safety
/// `out` points to a structure that can be written, and whose sType and pNext are set.
unsafe fn write(digest: &Digest, out: *mut vk::ShaderModuleIdentifierEXT<'_>) {
    let config = config::current();
    let bytes = stage::identifier(&config, digest);
    // SAFETY: the caller passes a pointer to a structure that can be written.
    unsafe {
        (*out).identifier_size = bytes.len() as u32;
        (&mut (*out).identifier)[..bytes.len()].copy_from_slice(bytes);
    }
}
