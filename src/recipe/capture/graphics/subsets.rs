//! The subsets of state that a graphics create info provides (VK_EXT_graphics_pipeline_library).

use std::ffi::c_void;

use ash::vk;

use crate::recipe::capture::array;
use crate::recipe::chain;

/// VkGraphicsPipelineLibraryFlagsEXT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subsets(pub vk::GraphicsPipelineLibraryFlagsEXT);

use vk::GraphicsPipelineLibraryFlagsEXT as Flags;

impl Subsets {
    /// Of a pipeline that is complete by itself.
    pub const ALL: Subsets = Subsets(Flags::from_raw(
        Flags::VERTEX_INPUT_INTERFACE.as_raw()
            | Flags::PRE_RASTERIZATION_SHADERS.as_raw()
            | Flags::FRAGMENT_SHADER.as_raw()
            | Flags::FRAGMENT_OUTPUT_INTERFACE.as_raw(),
    ));

    /// Vertex input.
    pub fn vertex_input(self) -> bool {
        self.0.contains(Flags::VERTEX_INPUT_INTERFACE)
    }

    /// Vertex to geometry or mesh shaders, and what rasterization needs.
    pub fn pre_rasterization(self) -> bool {
        self.0.contains(Flags::PRE_RASTERIZATION_SHADERS)
    }

    /// The fragment shader.
    pub fn fragment_shader(self) -> bool {
        self.0.contains(Flags::FRAGMENT_SHADER)
    }

    /// Blending and formats.
    pub fn fragment_output(self) -> bool {
        self.0.contains(Flags::FRAGMENT_OUTPUT_INTERFACE)
    }

    /// One of the two that read pStages.
    pub fn shaders(self) -> bool {
        self.pre_rasterization() || self.fragment_shader()
    }

    /// One of the two that concern fragments.
    pub fn fragment(self) -> bool {
        self.fragment_shader() || self.fragment_output()
    }

    /// Anything but vertex input: a render pass or rendering info is read (06603).
    pub fn render_target(self) -> bool {
        self.shaders() || self.fragment_output()
    }

    /// What a create info itself provides: what VkGraphicsPipelineLibraryCreateInfoEXT says; without it a
    /// library or a link provides nothing, and anything else all (P:5901).
    ///
    /// # Safety
    /// The chain of a valid create info, and its effective flags.
    pub unsafe fn provided(flags: u64, p_next: *const c_void) -> Subsets {
        let library = u64::from(vk::PipelineCreateFlags::LIBRARY_KHR.as_raw());
        let mut links = false;
        // SAFETY: the caller's contract; the casts follow the sType.
        unsafe {
            for node in chain::walk(p_next) {
                match (*node).s_type {
                    vk::StructureType::GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT => {
                        return Subsets((*node.cast::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>()).flags);
                    }
                    vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR => {
                        links = (*node.cast::<vk::PipelineLibraryCreateInfoKHR<'_>>()).library_count > 0;
                    }
                    _ => {}
                }
            }
        }
        if links || flags & library != 0 { Subsets::default() } else { Subsets::ALL }
    }
}

/// The libraries that a create info links.
///
/// # Safety
/// The chain of a valid create info.
pub unsafe fn linked<'a>(p_next: *const c_void) -> &'a [vk::Pipeline] {
    // SAFETY: the caller's contract; the cast follows the sType, and the array is valid for its count.
    unsafe {
        for node in chain::walk(p_next) {
            if (*node).s_type == vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR {
                let info = &*node.cast::<vk::PipelineLibraryCreateInfoKHR<'_>>();
                return array(info.p_libraries, info.library_count);
            }
        }
    }
    &[]
}
