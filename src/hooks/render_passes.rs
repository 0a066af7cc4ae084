//! Hooks of render passes of both forms.

use ash::vk;

use super::object_hooks::{create_hook, destroy_hook};
use crate::state::devices::device::Device;
use crate::state::objects::described::{Described, Encoded};
use vkstash_model::key;
use vkstash_model::recipe::RenderPass;
use vkstash_recipe::capture::render_pass::{self, uses};

create_hook!(create_render_pass, keep_first_form, vk::RenderPassCreateInfo<'_>, vk::RenderPass, "RenderPass");
// And its KHR alias.
create_hook!(
    create_render_pass2,
    keep_second_form,
    vk::RenderPassCreateInfo2<'_>,
    vk::RenderPass,
    "RenderPass2"
);
destroy_hook!(destroy_render_pass, forget, vk::RenderPass, "RenderPass");

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

/// # Safety
/// `info` is a valid VkRenderPassCreateInfo2.
unsafe fn keep_second_form(
    device: &Device,
    handle: vk::RenderPass,
    info: &vk::RenderPassCreateInfo2<'_>,
    _has_allocator: bool,
) {
    // SAFETY: `info` is a valid VkRenderPassCreateInfo2, with arrays of its counts and a valid pNext chain.
    let described = unsafe { render_pass::render_pass2(info) }.and_then(|pass| encode(&pass));
    device.objects.render_passes.insert(handle, described);
}

fn forget(device: &Device, handle: vk::RenderPass) -> bool {
    device.objects.render_passes.remove(handle);
    true
}

fn encode(pass: &RenderPass) -> Described<Encoded> {
    Encoded::of(key::RENDER_PASS, pass, uses(pass))
}
