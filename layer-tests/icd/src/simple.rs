//! The commands that create and destroy objects that matter only by their contents: modules, samplers, layouts and
//! render passes.

use ash::vk::{self, Handle as _};

use crate::lifecycle::{create, destroy};
use crate::objects::{self, Body};
use crate::record::plain;
use crate::{content, render_pass};

macro_rules! object {
    ($create:ident $create_name:literal, $destroy:ident $destroy_name:literal, $kind:literal,
     $handle:ty, $info:ty, |$call:ident, $device:ident, $one:ident| $body:expr) => {
        #[doc = $create_name]
        pub unsafe extern "system" fn $create(
            device: vk::Device,
            info: *const $info,
            callbacks: *const vk::AllocationCallbacks<'_>,
            out: *mut $handle,
        ) -> vk::Result {
            // SAFETY: the program passes a valid create info, a pAllocator that is NULL or valid, and an output
            // pointer; all are valid until the command returns.
            unsafe {
                let $one = &*info;
                create(plain($create_name), device, $one.p_next, callbacks, out, |$call, $device| Ok($body))
            }
        }

        #[doc = $destroy_name]
        pub unsafe extern "system" fn $destroy(
            device: vk::Device,
            handle: $handle,
            callbacks: *const vk::AllocationCallbacks<'_>,
        ) {
            // SAFETY: `callbacks` is the pAllocator that the program passes: NULL or valid.
            unsafe { destroy($destroy_name, $kind, device, handle.as_raw(), callbacks, |_| {}) };
        }
    };
}

object!(create_module "vkCreateShaderModule", destroy_module "vkDestroyShaderModule", "VkShaderModule",
    vk::ShaderModule, vk::ShaderModuleCreateInfo<'_>,
    |_call, _device, info| Body::Module(content::module(info)));
object!(create_sampler "vkCreateSampler", destroy_sampler "vkDestroySampler", "VkSampler",
    vk::Sampler, vk::SamplerCreateInfo<'_>,
    |_call, _device, info| Body::Sampler(content::sampler(info)));
object!(create_set_layout "vkCreateDescriptorSetLayout", destroy_set_layout "vkDestroyDescriptorSetLayout",
    "VkDescriptorSetLayout", vk::DescriptorSetLayout, vk::DescriptorSetLayoutCreateInfo<'_>,
    |call, device, info| Body::SetLayout(content::set_layout(call.command, device.handle, info)));
object!(create_pipeline_layout "vkCreatePipelineLayout", destroy_pipeline_layout "vkDestroyPipelineLayout",
"VkPipelineLayout", vk::PipelineLayout, vk::PipelineLayoutCreateInfo<'_>,
|call, device, info| Body::PipelineLayout(objects::Layout {
    digest: content::pipeline_layout(call.command, device.handle, info),
    independent: info.flags.contains(vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT),
}));
object!(create_render_pass "vkCreateRenderPass", destroy_render_pass "vkDestroyRenderPass", "VkRenderPass",
    vk::RenderPass, vk::RenderPassCreateInfo<'_>,
    |_call, _device, info| render_pass::first(info));

/// vkCreateRenderPass2 and vkCreateRenderPass2KHR.
pub unsafe extern "system" fn create_render_pass2(
    device: vk::Device,
    info: *const vk::RenderPassCreateInfo2<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::RenderPass,
) -> vk::Result {
    // SAFETY: the program passes a valid create info, a pAllocator that is NULL or valid, and an output pointer; all
    // are valid until the command returns.
    unsafe {
        let info = &*info;
        let call = plain("vkCreateRenderPass2");
        create(call, device, info.p_next, callbacks, out, |_, _| Ok(render_pass::second(info)))
    }
}
