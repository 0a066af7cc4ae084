//! The subsets of state that a graphics create info provides (VK_EXT_graphics_pipeline_library).

use ash::vk;

use crate::capture::flags::LIBRARY;

/// VkGraphicsPipelineLibraryFlagsEXT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subsets(pub vk::GraphicsPipelineLibraryFlagsEXT);

use vk::GraphicsPipelineLibraryFlagsEXT as Flags;

impl Subsets {
    /// The subsets of a pipeline that is complete by itself.
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

    /// Whether one of the two subsets is there that read pStages.
    pub fn shaders(self) -> bool {
        self.pre_rasterization() || self.fragment_shader()
    }

    /// Whether one of the two subsets is there that concern fragments.
    pub fn fragment(self) -> bool {
        self.fragment_shader() || self.fragment_output()
    }

    /// Anything but vertex input: a render pass or rendering info is read (06603).
    pub fn render_target(self) -> bool {
        self.shaders() || self.fragment_output()
    }

    /// What a create info itself provides: what VkGraphicsPipelineLibraryCreateInfoEXT says (`own`); without it a
    /// library or a link provides nothing, and anything else all (contract 6). `flags` are the effective ones.
    pub fn provided(
        flags: u64,
        own: Option<vk::GraphicsPipelineLibraryFlagsEXT>,
        linked: Option<&vk::PipelineLibraryCreateInfoKHR<'_>>,
    ) -> Subsets {
        let links = linked.is_some_and(|linked| linked.library_count > 0);
        match own {
            Some(own) => Subsets(own),
            None if links || flags & LIBRARY != 0 => Subsets::default(),
            None => Subsets::ALL,
        }
    }
}
