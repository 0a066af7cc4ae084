//! Hooks of shader modules: hashed when they are created, and their code queued for the store if it is new.

use ash::vk;

use super::object_hooks::{create_hook, destroy_hook};
use crate::state::devices::device::Device;
use crate::state::objects::described::Module;
use vkstash_model::counters::Count;
use vkstash_model::identifier;
use vkstash_model::payload::module_record;
use vkstash_recipe::capture::stage;
use vkstash_recipe::chain;

create_hook!(create_shader_module, keep, vk::ShaderModuleCreateInfo<'_>, vk::ShaderModule, "ShaderModule");
destroy_hook!(destroy_shader_module, forget, vk::ShaderModule, "ShaderModule");

/// # Safety
/// `info` is a valid VkShaderModuleCreateInfo, and `module` was made of it.
unsafe fn keep(
    device: &Device,
    module: vk::ShaderModule,
    info: &vk::ShaderModuleCreateInfo<'_>,
    _has_allocator: bool,
) {
    // With a report that knows what is counted here: a program may end before its first pipeline.
    device.session();
    // The settings of the stash that was opened may forbid what would be recorded.
    if !device.describes() {
        return;
    }
    device.work.listeners.note_creation();
    // SAFETY: `info` is a valid VkShaderModuleCreateInfo: pCode has codeSize bytes, and its chain is valid.
    let (code, scanned) = unsafe { (stage::code(info), chain::scan_plain(info.p_next)) };
    device.count(Count::Modules);
    // Plain structures in a module's chain would have to be part of its identity; there are none today.
    let refusal = scanned.err();
    let identity = identifier::module_identity(info.flags, code);
    device.objects.modules.insert(module, Module { identity, refusal });
    if device.keeps_modules() {
        // SAFETY: a live module.
        unsafe { device.keep_module(module, &identity, || module_record(info.flags, code)) };
    }
}

fn forget(device: &Device, module: vk::ShaderModule) -> bool {
    device.objects.modules.remove(module);
    true
}
