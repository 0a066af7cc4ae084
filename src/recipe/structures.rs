//! The one table of pNext structures that may stand in a chain of a pipeline, a stage, a piece of state, a
//! layout, a render pass, a module or a sampler: what becomes of each, and why.
//!
//! A structure that has no row makes the pipeline go to the driver unchanged. It is never skipped: a key
//! that leaves out something that matters is a wrong pipeline (contract 7.1).

use ash::vk::{self, TaggedStructure};

use crate::stats::BypassReason;

/// What capture does with a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Its members are plain numbers: this many bytes after pNext, without padding, go into the key.
    Plain(usize),
    /// It cannot change what the driver makes of the create info.
    Ignored,
    /// It holds pointers, counts or handles and is read by the part of capture whose chain it belongs to;
    /// anywhere else it is a reason to bypass.
    Special,
    /// The pipeline must go to the driver unchanged.
    Bypass(BypassReason),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The structure.
    pub s_type: vk::StructureType,
    /// Its size in bytes in this process, for copies of chains.
    pub size: usize,
    /// What becomes of it.
    pub handling: Handling,
}

const fn row<T: TaggedStructure>(handling: Handling) -> Row {
    Row { s_type: T::STRUCTURE_TYPE, size: size_of::<T>(), handling }
}

use Handling::{Bypass, Ignored, Plain, Special};

/// The table.
pub const TABLE: &[Row] = &[
    // Steering and reporting: no part of the pipeline.
    row::<vk::PipelineCreationFeedbackCreateInfo<'_>>(Ignored),
    row::<vk::DebugUtilsObjectNameInfoEXT<'_>>(Ignored),
    row::<vk::ShaderModuleValidationCacheCreateInfoEXT<'_>>(Ignored),
    // Pipelines.
    row::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>(Special),
    row::<vk::PipelineRenderingCreateInfo<'_>>(Special),
    row::<vk::PipelineRobustnessCreateInfoEXT<'_>>(Plain(16)),
    row::<vk::PipelineFragmentShadingRateStateCreateInfoKHR<'_>>(Plain(16)),
    row::<vk::PipelineCompilerControlCreateInfoAMD<'_>>(Plain(4)),
    row::<vk::PipelineRepresentativeFragmentTestStateCreateInfoNV<'_>>(Plain(4)),
    row::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>(Bypass(BypassReason::Library)),
    row::<vk::PipelineLibraryCreateInfoKHR<'_>>(Bypass(BypassReason::Library)),
    row::<vk::ComputePipelineIndirectBufferInfoNV<'_>>(Bypass(BypassReason::NotCacheable)),
    // Stages.
    row::<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'_>>(Special),
    row::<vk::ShaderModuleCreateInfo<'_>>(Special),
    row::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(Plain(4)),
    // Graphics state.
    row::<vk::PipelineVertexInputDivisorStateCreateInfoKHR<'_>>(Special),
    row::<vk::PipelineTessellationDomainOriginStateCreateInfo<'_>>(Plain(4)),
    row::<vk::PipelineViewportDepthClipControlCreateInfoEXT<'_>>(Plain(4)),
    row::<vk::PipelineRasterizationStateRasterizationOrderAMD<'_>>(Plain(4)),
    row::<vk::PipelineRasterizationConservativeStateCreateInfoEXT<'_>>(Plain(12)),
    row::<vk::PipelineRasterizationStateStreamCreateInfoEXT<'_>>(Plain(8)),
    row::<vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'_>>(Plain(8)),
    row::<vk::PipelineRasterizationLineStateCreateInfoKHR<'_>>(Plain(14)),
    row::<vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'_>>(Plain(4)),
    row::<vk::DepthBiasRepresentationInfoEXT<'_>>(Plain(8)),
    row::<vk::PipelineCoverageToColorStateCreateInfoNV<'_>>(Plain(12)),
    row::<vk::PipelineCoverageReductionStateCreateInfoNV<'_>>(Plain(8)),
    row::<vk::PipelineColorBlendAdvancedStateCreateInfoEXT<'_>>(Plain(12)),
    // Descriptor set layouts and samplers.
    row::<vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>>(Special),
    row::<vk::MutableDescriptorTypeCreateInfoEXT<'_>>(Special),
    row::<vk::SamplerReductionModeCreateInfo<'_>>(Plain(4)),
    row::<vk::SamplerCustomBorderColorCreateInfoEXT<'_>>(Plain(20)),
    row::<vk::SamplerBorderColorComponentMappingCreateInfoEXT<'_>>(Plain(20)),
    // Render passes.
    row::<vk::RenderPassMultiviewCreateInfo<'_>>(Special),
    row::<vk::RenderPassInputAttachmentAspectCreateInfo<'_>>(Special),
    row::<vk::SubpassDescriptionDepthStencilResolve<'_>>(Special),
    row::<vk::AttachmentDescriptionStencilLayout<'_>>(Plain(8)),
    row::<vk::AttachmentReferenceStencilLayout<'_>>(Plain(4)),
    row::<vk::MemoryBarrier2<'_>>(Plain(32)),
];

/// The row of a structure, if it has one. Chains are short and so is the table: a scan beats a map.
pub fn find(s_type: vk::StructureType) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.s_type == s_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_structure_has_two_rows_and_no_plain_one_claims_more_than_it_holds() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.s_type != row.s_type), "{:?}", row.s_type);
            if let Plain(bytes) = row.handling {
                let room = row.size - size_of::<vk::BaseInStructure<'_>>();
                assert!(bytes <= room && room - bytes < 8, "{:?}: {bytes} of {room}", row.s_type);
            }
        }
    }
}
