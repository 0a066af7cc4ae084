//! The tables of what may stand in chains.

use std::ffi::c_void;

use ash::vk;
use vkstash_model::newer::{
    CustomResolveCreateInfoEXT, PipelineViewportDepthClampControlCreateInfoEXT,
    ShaderDescriptorSetAndBindingMappingInfoEXT,
};

use super::chain::{KnownStructure, known, read_chain, write_chain};
use super::document::Value;
use super::error::{ParseError, WriteError};
use super::reader::Reader;
#[cfg(test)]
use super::samples::Samples;
use super::structures::newer::{
    PhysicalDeviceMaintenance8FeaturesKHR, PipelineFragmentDensityMapLayeredCreateInfoVALVE,
    RayTracingPipelineClusterAccelerationStructureCreateInfoNV,
};
use super::writer::Writer;

/// Structures in the chains of create infos and of what they consist of. As in Fossilize, the table does not tell in
/// whose chain a structure may stand.
pub static CREATE_INFOS: &[KnownStructure] = &[
    known::<vk::PipelineTessellationDomainOriginStateCreateInfo<'_>>(),
    known::<vk::PipelineVertexInputDivisorStateCreateInfoKHR<'_>>(),
    known::<vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'_>>(),
    known::<vk::PipelineRasterizationStateStreamCreateInfoEXT<'_>>(),
    known::<vk::RenderPassMultiviewCreateInfo<'_>>(),
    known::<vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>>(),
    known::<vk::PipelineColorBlendAdvancedStateCreateInfoEXT<'_>>(),
    known::<vk::PipelineRasterizationConservativeStateCreateInfoEXT<'_>>(),
    known::<vk::PipelineRasterizationLineStateCreateInfoKHR<'_>>(),
    known::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(),
    known::<vk::MutableDescriptorTypeCreateInfoEXT<'_>>(),
    known::<vk::AttachmentDescriptionStencilLayout<'_>>(),
    known::<vk::AttachmentReferenceStencilLayout<'_>>(),
    known::<vk::SubpassDescriptionDepthStencilResolve<'_>>(),
    known::<vk::FragmentShadingRateAttachmentInfoKHR<'_>>(),
    known::<vk::PipelineRenderingCreateInfo<'_>>(),
    known::<vk::PipelineColorWriteCreateInfoEXT<'_>>(),
    known::<vk::PipelineSampleLocationsStateCreateInfoEXT<'_>>(),
    known::<vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'_>>(),
    known::<vk::SamplerCustomBorderColorCreateInfoEXT<'_>>(),
    known::<vk::SamplerReductionModeCreateInfo<'_>>(),
    known::<vk::RenderPassInputAttachmentAspectCreateInfo<'_>>(),
    known::<vk::PipelineDiscardRectangleStateCreateInfoEXT<'_>>(),
    known::<vk::MemoryBarrier2<'_>>(),
    known::<vk::PipelineFragmentShadingRateStateCreateInfoKHR<'_>>(),
    known::<vk::SamplerYcbcrConversionCreateInfo<'_>>(),
    known::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>(),
    known::<vk::PipelineLibraryCreateInfoKHR<'_>>(),
    known::<vk::PipelineViewportDepthClipControlCreateInfoEXT<'_>>(),
    known::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>(),
    known::<vk::RenderPassCreationControlEXT<'_>>(),
    known::<vk::SamplerBorderColorComponentMappingCreateInfoEXT<'_>>(),
    known::<vk::MultisampledRenderToSingleSampledInfoEXT<'_>>(),
    known::<vk::DepthBiasRepresentationInfoEXT<'_>>(),
    known::<vk::RenderPassFragmentDensityMapCreateInfoEXT<'_>>(),
    known::<vk::SampleLocationsInfoEXT<'_>>(),
    known::<vk::PipelineRobustnessCreateInfoEXT<'_>>(),
    known::<PipelineViewportDepthClampControlCreateInfoEXT>(),
    known::<vk::RenderingAttachmentLocationInfoKHR<'_>>(),
    known::<vk::RenderingInputAttachmentIndexInfoKHR<'_>>(),
    known::<PipelineFragmentDensityMapLayeredCreateInfoVALVE>(),
    known::<RayTracingPipelineClusterAccelerationStructureCreateInfoNV>(),
    known::<ShaderDescriptorSetAndBindingMappingInfoEXT>(),
    known::<CustomResolveCreateInfoEXT>(),
];

/// Structures in the chain of VkPhysicalDeviceFeatures2.
pub static FEATURES: &[KnownStructure] = &[
    known::<vk::PhysicalDeviceRobustness2FeaturesEXT<'_>>(),
    known::<vk::PhysicalDeviceImageRobustnessFeatures<'_>>(),
    known::<vk::PhysicalDeviceFragmentShadingRateEnumsFeaturesNV<'_>>(),
    known::<vk::PhysicalDeviceFragmentShadingRateFeaturesKHR<'_>>(),
    known::<vk::PhysicalDeviceMeshShaderFeaturesEXT<'_>>(),
    known::<vk::PhysicalDeviceMeshShaderFeaturesNV<'_>>(),
    known::<vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'_>>(),
    known::<vk::PhysicalDeviceShaderObjectFeaturesEXT<'_>>(),
    known::<vk::PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT<'_>>(),
    known::<vk::PhysicalDeviceImage2DViewOf3DFeaturesEXT<'_>>(),
    known::<vk::PhysicalDevicePipelineRobustnessFeaturesEXT<'_>>(),
    known::<PhysicalDeviceMaintenance8FeaturesKHR>(),
];

/// A reader of documents.
pub fn reader() -> Reader {
    fn chain(value: &Value, reader: &mut Reader) -> Result<*mut c_void, ParseError> {
        read_chain(CREATE_INFOS, value, reader)
    }
    Reader::new(chain)
}

/// A writer of documents.
pub fn writer() -> Writer {
    /// # Safety
    /// As for [`write_chain`].
    unsafe fn chain(first: *const c_void, writer: &mut Writer) -> Result<(), WriteError> {
        // SAFETY: the same promise (this function's # Safety section).
        unsafe { write_chain(CREATE_INFOS, first, writer) }
    }
    Writer::new(chain)
}

/// A source of values for tests, whose chains have up to three structures.
#[cfg(test)]
pub fn samples(seed: u64) -> Samples {
    Samples::new(seed, |samples| {
        let mut next = std::ptr::null_mut();
        for _ in 0..samples.below(4) {
            let row = &CREATE_INFOS[samples.below(CREATE_INFOS.len() as u64) as usize];
            next = (row.sample)(next, samples);
        }
        next
    })
}
