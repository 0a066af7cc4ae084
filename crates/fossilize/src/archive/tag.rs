//! Tags of entries (Fossilize's `ResourceTag`): the kind of object that an entry describes.

/// Fossilize's `ResourceTag`: what an entry describes. The order is that of the numbers in files, not that in which the
/// objects depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tag {
    /// `VkApplicationInfo` and the enabled features, as JSON.
    ApplicationInfo = 0,
    /// `VkSamplerCreateInfo`, as JSON.
    Sampler = 1,
    /// `VkDescriptorSetLayoutCreateInfo`, as JSON.
    DescriptorSetLayout = 2,
    /// `VkPipelineLayoutCreateInfo`, as JSON.
    PipelineLayout = 3,
    /// `VkShaderModuleCreateInfo`: JSON, and the code as varints behind it ([`payload`](super::payload)).
    ShaderModule = 4,
    /// `VkRenderPassCreateInfo` or `VkRenderPassCreateInfo2`, as JSON.
    RenderPass = 5,
    /// `VkGraphicsPipelineCreateInfo`, as JSON.
    GraphicsPipeline = 6,
    /// `VkComputePipelineCreateInfo`, as JSON.
    ComputePipeline = 7,
    /// Which application info an entry belongs to, as JSON. The hash is that of the link.
    ApplicationBlobLink = 8,
    /// `VkRayTracingPipelineCreateInfoKHR`, as JSON.
    RaytracingPipeline = 9,
    /// The text of the bucket's `bucket.json`: not in the form of the other JSON, and stored without a CRC. The hash
    /// is that of the text.
    BucketInfo = 10,
}

impl Tag {
    /// All tags, by number.
    pub const ALL: [Tag; 11] = [
        Tag::ApplicationInfo,
        Tag::Sampler,
        Tag::DescriptorSetLayout,
        Tag::PipelineLayout,
        Tag::ShaderModule,
        Tag::RenderPass,
        Tag::GraphicsPipeline,
        Tag::ComputePipeline,
        Tag::ApplicationBlobLink,
        Tag::RaytracingPipeline,
        Tag::BucketInfo,
    ];

    /// The tag with this number; none if Fossilize did not have it in August 2026.
    pub fn from_number(number: u128) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied())
    }

    /// The number in files.
    pub fn number(self) -> u8 {
        self as u8
    }
}
