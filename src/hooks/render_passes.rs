//! Render passes of both forms: described when they are created.

use ash::vk;

use super::layouts::object_hooks;
use crate::hooks::inert::pass;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use crate::state::objects::described::{Described, Encoded};
use vkstash_host::guard::guard;
use vkstash_model::key;
use vkstash_model::recipe::RenderPass;
use vkstash_recipe::capture::render_pass::{self, uses};

object_hooks!(
    create_render_pass,
    destroy_render_pass,
    keep_first_form,
    forget,
    vk::RenderPassCreateInfo<'_>,
    vk::RenderPass,
    "RenderPass"
);

/// vkCreateRenderPass2 and its KHR alias.
pub unsafe extern "system" fn create_render_pass2(
    handle: vk::Device,
    info: *const vk::RenderPassCreateInfo2<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    object: *mut vk::RenderPass,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_render_pass2(info, allocator, object));
    };
    let Some(next) = device.table.create_render_pass2 else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: `info`, `allocator` and `object` are the program's arguments of this command, valid until it returns.
    let result = unsafe { next(handle, info, allocator, object) };
    if result == vk::Result::SUCCESS {
        // SAFETY: a valid create info; the driver has written the handle.
        let describe = || unsafe {
            if device.describes() {
                let described = render_pass::render_pass2(&*info).and_then(|pass| encode(&pass));
                device.objects.render_passes.insert(*object, described);
            }
        };
        guard("vkCreateRenderPass2", describe, || ());
    }
    result
}

/// # Safety
/// `info` is a valid VkRenderPassCreateInfo.
unsafe fn keep_first_form(
    device: &Device,
    handle: vk::RenderPass,
    info: &vk::RenderPassCreateInfo<'_>,
    _has_allocator: bool,
) {
    // SAFETY: `info` is a valid VkRenderPassCreateInfo, with arrays of its counts and a valid pNext chain.
    let described = unsafe { render_pass::render_pass(info) }.and_then(|pass| encode(&pass));
    device.objects.render_passes.insert(handle, described);
}

fn forget(device: &Device, handle: vk::RenderPass) -> bool {
    device.objects.render_passes.remove(handle);
    true
}

fn encode(pass: &RenderPass) -> Described<Encoded> {
    Encoded::of(key::RENDER_PASS, pass, uses(pass))
}
