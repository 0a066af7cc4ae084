//! The objects that all pipelines of a run share.

use ash::vk;

use super::description::{Shader, Work};
use crate::vulkan::Device;

/// The shared objects.
pub(super) struct Objects {
    pub(super) layout: vk::PipelineLayout,
    pub(super) pass: vk::RenderPass,
}

/// The colour format.
pub(super) const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

impl Objects {
    pub(super) fn new(work: &Work, device: &Device) -> Objects {
        let graphics = work.shader.is_graphics();
        Objects {
            layout: match graphics {
                _ if work.heap != 0 => vk::PipelineLayout::null(),
                true => device.empty_layout(),
                false => device.compute_layout(),
            },
            pass: match work.shader {
                Shader::RenderPass => device.render_pass(FORMAT),
                _ => vk::RenderPass::null(),
            },
        }
    }
}
