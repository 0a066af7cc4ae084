//! The creation of shader objects (VK_EXT_shader_object), and their end.

use ash::vk;

use super::pipelines::begin;
use crate::hooks::inert::pass;
use crate::serve::shaders;
use crate::state::devices::live_devices;
use vkstash_host::guard::{guard, guard_within, tls_destroyed};
use vkstash_host::signals::Uncancelled;
use vkstash_model::counters::Count;

/// vkCreateShadersEXT.
pub unsafe extern "system" fn create(
    handle: vk::Device,
    count: u32,
    infos: *const vk::ShaderCreateInfoEXT<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    objects: *mut vk::ShaderEXT,
) -> vk::Result {
    let uncancelled = Uncancelled::begin();
    // SAFETY: `handle` is a live device, as the command demands of its caller.
    let Some(device) = (unsafe { live_devices::find_within(&uncancelled, handle) }) else {
        pass!(handle, create_shaders(count, infos, allocator, objects));
    };
    let Some(next) = device.table.create_shaders else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the next layer's command gets the arguments of this one, which are valid for both.
    let untouched = || unsafe { next(handle, count, infos, allocator, objects) };
    if tls_destroyed() {
        return untouched();
    }
    let _begun = begin(&device, "vkCreateShadersEXT", count);
    let serve = || {
        device.session();
        let takes = device.kept_shaders()?;
        device.work.listeners.note_creation();
        // SAFETY: the arguments are those of the command: `count` valid create infos, and room for as many handles.
        Some(unsafe { shaders::create(&device, takes, next, count, infos, allocator, objects) })
    };
    let failed = || {
        device.count(Count::InternalFailures);
        None
    };
    let Some((result, made)) = guard_within(&uncancelled, "vkCreateShadersEXT", serve, failed) else {
        return untouched();
    };
    // The program's shaders are made: a failure from here on costs their records alone.
    // SAFETY: the driver has made them, and no other thread knows their handles before this command returns.
    let record = || unsafe { shaders::record(&device, made) };
    guard_within(&uncancelled, "vkCreateShadersEXT", record, || device.count(Count::InternalFailures));
    result
}

/// vkDestroyShaderEXT.
pub unsafe extern "system" fn destroy(
    handle: vk::Device,
    shader: vk::ShaderEXT,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, destroy_shader(shader, allocator));
    };
    // Forgotten first: the driver may give the handle to another thread at once. It may look at the code until then.
    let _code = guard("vkDestroyShaderEXT", || device.objects.shader_code.forget(shader), || None);
    if let Some(next) = device.table.destroy_shader {
        // SAFETY: `shader` is NULL or a shader that nothing uses any more, and `allocator` NULL or valid: the program's
        // arguments of this command.
        unsafe { next(handle, shader, allocator) };
    }
}
