//! Shader modules: hashed when they are created, and their code queued for the store if it is new.

use ash::vk;

use crate::hooks::inert::pass;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use crate::state::objects::described::Module;
use vkstash_host::guard::guard;
use vkstash_model::counters::Count;
use vkstash_model::identifier;
use vkstash_model::payload::module_record;
use vkstash_recipe::capture::stage;
use vkstash_recipe::chain;

/// vkCreateShaderModule.
pub unsafe extern "system" fn create(
    handle: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_shader_module(info, allocator, module));
    };
    let Some(next) = device.table.create_shader_module else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: `info`, `allocator` and `module` are the program's arguments of this command, valid until it returns.
    let result = unsafe { next(handle, info, allocator, module) };
    if result == vk::Result::SUCCESS {
        // SAFETY: a valid create info; the driver has written the handle.
        guard("vkCreateShaderModule", || unsafe { describe(&device, &*info, *module) }, || ());
    }
    result
}

/// # Safety
/// `info` is a valid VkShaderModuleCreateInfo, and `module` was made of it.
unsafe fn describe(device: &Device, info: &vk::ShaderModuleCreateInfo<'_>, module: vk::ShaderModule) {
    if !device.describes() {
        return;
    }
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

/// vkDestroyShaderModule.
pub unsafe extern "system" fn destroy(
    handle: vk::Device,
    module: vk::ShaderModule,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, destroy_shader_module(module, allocator));
    };
    // Forgotten first: the driver may give the handle to another thread at once.
    let forget = || device.objects.modules.remove(module);
    guard("vkDestroyShaderModule", forget, || ());
    if let Some(next) = device.table.destroy_shader_module {
        // SAFETY: `module` is NULL or a live module that no other thread uses, and `allocator` NULL or valid: the
        // program's arguments of this command.
        unsafe { next(handle, module, allocator) };
    }
}
