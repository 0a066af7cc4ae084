//! The structures that may stand in the chain of VkDeviceCreateInfo, with what is needed to copy and to hash
//! them. Data, listed from the bindings and, for what is newer, from the registry, against which a test holds it.

use ash::vk::{self, TaggedStructure};

use vkstash_model::structures;

/// A structure that may be in a device's chain.
#[derive(Clone, Copy, Debug)]
pub struct DeviceStructure {
    /// Its type.
    pub s_type: vk::StructureType,
    /// Its size in bytes in this process.
    pub size: usize,
    /// How many VkBool32 the structure consists of behind its header; 0 where it has other members.
    pub switches: usize,
    name: Name,
}

/// Where a structure's name is from.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// The name of the bindings' type.
    Type(fn() -> &'static str),
    /// The name in the registry.
    Registry(&'static str),
}

impl DeviceStructure {
    /// The structure's name without "Vk".
    pub fn name(&self) -> &'static str {
        match self.name {
            Name::Type(path) => structures::last_of(path()),
            Name::Registry(name) => name,
        }
    }
}

const fn row<T: TaggedStructure>(switches: usize) -> DeviceStructure {
    let name = Name::Type(std::any::type_name::<T>);
    DeviceStructure { s_type: T::STRUCTURE_TYPE, size: size_of::<T>(), switches, name }
}

/// A structure that the bindings do not know, or do not know to belong here, and that consists of VkBool32 alone, as
/// the registry says.
const fn newer(name: &'static str, s_type: i32, switches: usize) -> DeviceStructure {
    let header = size_of::<vk::BaseInStructure<'_>>();
    let size = (header + 4 * switches).next_multiple_of(align_of::<vk::BaseInStructure<'_>>());
    let name = Name::Registry(name);
    DeviceStructure { s_type: vk::StructureType::from_raw(s_type), size, switches, name }
}

/// The name of a structure in a device's chain, as log lines give it: the number where nothing here knows it.
pub fn name(s_type: vk::StructureType) -> String {
    find(s_type).map_or_else(|| structures::name(s_type), |row| format!("Vk{}", row.name()))
}

/// The row of a structure, if it has one.
pub fn find(s_type: vk::StructureType) -> Option<&'static DeviceStructure> {
    TABLE.iter().find(|row| row.s_type == s_type)
}

const TABLE: &[DeviceStructure] = &[
    // Structures that have members other than VkBool32.
    row::<vk::DeviceDeviceMemoryReportCreateInfoEXT<'_>>(0),
    row::<vk::DeviceDiagnosticsConfigCreateInfoNV<'_>>(0),
    row::<vk::DeviceGroupDeviceCreateInfo<'_>>(0),
    row::<vk::DeviceMemoryOverallocationCreateInfoAMD<'_>>(0),
    row::<vk::DevicePrivateDataCreateInfo<'_>>(0),
    row::<vk::DeviceQueueShaderCoreControlCreateInfoARM<'_>>(0),
    DeviceStructure { switches: 0, ..newer("ExternalComputeQueueDeviceCreateInfoNV", 1_000_556_000, 1) },
    row::<vk::PhysicalDeviceFeatures2<'_>>(0),
    // Features.
    row::<vk::PhysicalDevice16BitStorageFeatures<'_>>(4),
    row::<vk::PhysicalDevice4444FormatsFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDevice8BitStorageFeatures<'_>>(3),
    row::<vk::PhysicalDeviceASTCDecodeFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceAccelerationStructureFeaturesKHR<'_>>(5),
    row::<vk::PhysicalDeviceAddressBindingReportFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceAmigoProfilingFeaturesSEC<'_>>(1),
    row::<vk::PhysicalDeviceAttachmentFeedbackLoopDynamicStateFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceAttachmentFeedbackLoopLayoutFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceBlendOperationAdvancedFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceBorderColorSwizzleFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceBufferDeviceAddressFeatures<'_>>(3),
    row::<vk::PhysicalDeviceBufferDeviceAddressFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceClusterCullingShaderFeaturesHUAWEI<'_>>(2),
    row::<vk::PhysicalDeviceClusterCullingShaderVrsFeaturesHUAWEI<'_>>(1),
    row::<vk::PhysicalDeviceCoherentMemoryFeaturesAMD<'_>>(1),
    row::<vk::PhysicalDeviceColorWriteEnableFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceComputeShaderDerivativesFeaturesNV<'_>>(2),
    row::<vk::PhysicalDeviceConditionalRenderingFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'_>>(2),
    row::<vk::PhysicalDeviceCooperativeMatrixFeaturesNV<'_>>(2),
    row::<vk::PhysicalDeviceCopyMemoryIndirectFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceCornerSampledImageFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceCoverageReductionModeFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceCubicClampFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceCubicWeightsFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceCudaKernelLaunchFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceCustomBorderColorFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceDedicatedAllocationImageAliasingFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceDepthBiasControlFeaturesEXT<'_>>(4),
    row::<vk::PhysicalDeviceDepthClampZeroOneFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceDepthClipControlFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceDepthClipEnableFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'_>>(4),
    row::<vk::PhysicalDeviceDescriptorIndexingFeatures<'_>>(20),
    row::<vk::PhysicalDeviceDescriptorPoolOverallocationFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceDescriptorSetHostMappingFeaturesVALVE<'_>>(1),
    row::<vk::PhysicalDeviceDeviceGeneratedCommandsComputeFeaturesNV<'_>>(3),
    row::<vk::PhysicalDeviceDeviceGeneratedCommandsFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceDeviceMemoryReportFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceDiagnosticsConfigFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceDisplacementMicromapFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceDynamicRenderingFeatures<'_>>(1),
    row::<vk::PhysicalDeviceDynamicRenderingLocalReadFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceDynamicRenderingUnusedAttachmentsFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceExclusiveScissorFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceExtendedDynamicState2FeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceExtendedDynamicState3FeaturesEXT<'_>>(31),
    row::<vk::PhysicalDeviceExtendedDynamicStateFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceExtendedSparseAddressSpaceFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceExternalFormatResolveFeaturesANDROID<'_>>(1),
    row::<vk::PhysicalDeviceExternalMemoryRDMAFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceExternalMemoryScreenBufferFeaturesQNX<'_>>(1),
    row::<vk::PhysicalDeviceFaultFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceFragmentDensityMap2FeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceFragmentDensityMapFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceFragmentDensityMapOffsetFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceFragmentShaderBarycentricFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceFragmentShaderInterlockFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceFragmentShadingRateEnumsFeaturesNV<'_>>(3),
    row::<vk::PhysicalDeviceFragmentShadingRateFeaturesKHR<'_>>(3),
    row::<vk::PhysicalDeviceFrameBoundaryFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceGlobalPriorityQueryFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceHostImageCopyFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceHostQueryResetFeatures<'_>>(1),
    row::<vk::PhysicalDeviceImage2DViewOf3DFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceImageCompressionControlFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceImageCompressionControlSwapchainFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceImageProcessing2FeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceImageProcessingFeaturesQCOM<'_>>(3),
    row::<vk::PhysicalDeviceImageRobustnessFeatures<'_>>(1),
    row::<vk::PhysicalDeviceImageSlicedViewOf3DFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceImageViewMinLodFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceImagelessFramebufferFeatures<'_>>(1),
    row::<vk::PhysicalDeviceIndexTypeUint8FeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceInheritedViewportScissorFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceInlineUniformBlockFeatures<'_>>(2),
    row::<vk::PhysicalDeviceInvocationMaskFeaturesHUAWEI<'_>>(1),
    row::<vk::PhysicalDeviceLegacyDitheringFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceLineRasterizationFeaturesKHR<'_>>(6),
    row::<vk::PhysicalDeviceLinearColorAttachmentFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceMaintenance4Features<'_>>(1),
    row::<vk::PhysicalDeviceMaintenance5FeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceMaintenance6FeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceMapMemoryPlacedFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceMemoryDecompressionFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceMemoryPriorityFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceMeshShaderFeaturesEXT<'_>>(5),
    row::<vk::PhysicalDeviceMeshShaderFeaturesNV<'_>>(2),
    row::<vk::PhysicalDeviceMultiDrawFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceMultisampledRenderToSingleSampledFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceMultiviewFeatures<'_>>(3),
    row::<vk::PhysicalDeviceMultiviewPerViewRenderAreasFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceMultiviewPerViewViewportsFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceMutableDescriptorTypeFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceNestedCommandBufferFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceNonSeamlessCubeMapFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceOpacityMicromapFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceOpticalFlowFeaturesNV<'_>>(1),
    row::<vk::PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDevicePerStageDescriptorSetFeaturesNV<'_>>(2),
    row::<vk::PhysicalDevicePerformanceQueryFeaturesKHR<'_>>(2),
    row::<vk::PhysicalDevicePipelineCreationCacheControlFeatures<'_>>(1),
    row::<vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDevicePipelineLibraryGroupHandlesFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDevicePipelinePropertiesFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDevicePipelineProtectedAccessFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDevicePipelineRobustnessFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDevicePortabilitySubsetFeaturesKHR<'_>>(15),
    row::<vk::PhysicalDevicePresentBarrierFeaturesNV<'_>>(1),
    row::<vk::PhysicalDevicePresentIdFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDevicePresentWaitFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDevicePrimitiveTopologyListRestartFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDevicePrivateDataFeatures<'_>>(1),
    row::<vk::PhysicalDeviceProtectedMemoryFeatures<'_>>(1),
    row::<vk::PhysicalDeviceProvokingVertexFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceRGBA10X6FormatsFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceRasterizationOrderAttachmentAccessFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceRawAccessChainsFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceRayQueryFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceRayTracingInvocationReorderFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceRayTracingMaintenance1FeaturesKHR<'_>>(2),
    row::<vk::PhysicalDeviceRayTracingMotionBlurFeaturesNV<'_>>(2),
    row::<vk::PhysicalDeviceRayTracingPipelineFeaturesKHR<'_>>(5),
    row::<vk::PhysicalDeviceRayTracingPositionFetchFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceRayTracingValidationFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceRelaxedLineRasterizationFeaturesIMG<'_>>(1),
    row::<vk::PhysicalDeviceRenderPassStripedFeaturesARM<'_>>(1),
    row::<vk::PhysicalDeviceRepresentativeFragmentTestFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceRobustness2FeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceSamplerYcbcrConversionFeatures<'_>>(1),
    row::<vk::PhysicalDeviceScalarBlockLayoutFeatures<'_>>(1),
    row::<vk::PhysicalDeviceSchedulingControlsFeaturesARM<'_>>(1),
    row::<vk::PhysicalDeviceSeparateDepthStencilLayoutsFeatures<'_>>(1),
    row::<vk::PhysicalDeviceShaderAtomicFloat16VectorFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceShaderAtomicFloat2FeaturesEXT<'_>>(12),
    row::<vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT<'_>>(12),
    row::<vk::PhysicalDeviceShaderAtomicInt64Features<'_>>(2),
    row::<vk::PhysicalDeviceShaderClockFeaturesKHR<'_>>(2),
    row::<vk::PhysicalDeviceShaderCoreBuiltinsFeaturesARM<'_>>(1),
    row::<vk::PhysicalDeviceShaderDemoteToHelperInvocationFeatures<'_>>(1),
    row::<vk::PhysicalDeviceShaderDrawParametersFeatures<'_>>(1),
    row::<vk::PhysicalDeviceShaderEarlyAndLateFragmentTestsFeaturesAMD<'_>>(1),
    row::<vk::PhysicalDeviceShaderEnqueueFeaturesAMDX<'_>>(2),
    row::<vk::PhysicalDeviceShaderExpectAssumeFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceShaderFloat16Int8Features<'_>>(2),
    row::<vk::PhysicalDeviceShaderFloatControls2FeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceShaderImageAtomicInt64FeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceShaderImageFootprintFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceShaderIntegerDotProductFeatures<'_>>(1),
    row::<vk::PhysicalDeviceShaderIntegerFunctions2FeaturesINTEL<'_>>(1),
    row::<vk::PhysicalDeviceShaderMaximalReconvergenceFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceShaderObjectFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceShaderQuadControlFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceShaderSMBuiltinsFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceShaderSubgroupExtendedTypesFeatures<'_>>(1),
    row::<vk::PhysicalDeviceShaderSubgroupRotateFeaturesKHR<'_>>(2),
    row::<vk::PhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceShaderTerminateInvocationFeatures<'_>>(1),
    row::<vk::PhysicalDeviceShaderTileImageFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceShadingRateImageFeaturesNV<'_>>(2),
    row::<vk::PhysicalDeviceSubgroupSizeControlFeatures<'_>>(2),
    row::<vk::PhysicalDeviceSubpassMergeFeedbackFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceSubpassShadingFeaturesHUAWEI<'_>>(1),
    row::<vk::PhysicalDeviceSwapchainMaintenance1FeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceSynchronization2Features<'_>>(1),
    row::<vk::PhysicalDeviceTexelBufferAlignmentFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceTextureCompressionASTCHDRFeatures<'_>>(1),
    row::<vk::PhysicalDeviceTilePropertiesFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceTimelineSemaphoreFeatures<'_>>(1),
    row::<vk::PhysicalDeviceTransformFeedbackFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceUniformBufferStandardLayoutFeatures<'_>>(1),
    row::<vk::PhysicalDeviceVariablePointersFeatures<'_>>(2),
    row::<vk::PhysicalDeviceVertexAttributeDivisorFeaturesKHR<'_>>(2),
    row::<vk::PhysicalDeviceVertexInputDynamicStateFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceVideoMaintenance1FeaturesKHR<'_>>(1),
    row::<vk::PhysicalDeviceVulkan11Features<'_>>(12),
    row::<vk::PhysicalDeviceVulkan12Features<'_>>(47),
    row::<vk::PhysicalDeviceVulkan13Features<'_>>(15),
    row::<vk::PhysicalDeviceVulkanMemoryModelFeatures<'_>>(3),
    row::<vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR<'_>>(4),
    row::<vk::PhysicalDeviceYcbcr2Plane444FormatsFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceYcbcrDegammaFeaturesQCOM<'_>>(1),
    row::<vk::PhysicalDeviceYcbcrImageArraysFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceZeroInitializeWorkgroupMemoryFeatures<'_>>(1),
    // Features newer than the bindings.
    newer("DevicePipelineBinaryInternalCacheControlKHR", 1_000_483_008, 1),
    newer("PhysicalDeviceAntiLagFeaturesAMD", 1_000_476_000, 1),
    newer("PhysicalDeviceBufferDeviceAddressAllocationAlignmentFeaturesVALVE", 1_000_709_000, 1),
    newer("PhysicalDeviceClusterAccelerationStructureFeaturesNV", 1_000_569_000, 1),
    newer("PhysicalDeviceCommandBufferInheritanceFeaturesNV", 1_000_559_000, 1),
    newer("PhysicalDeviceComputeOccupancyPriorityFeaturesNV", 1_000_645_001, 1),
    newer("PhysicalDeviceCooperativeMatrix2FeaturesNV", 1_000_593_000, 7),
    newer("PhysicalDeviceCooperativeMatrixConversionFeaturesQCOM", 1_000_172_000, 1),
    newer("PhysicalDeviceCooperativeMatrixDecodeVectorFeaturesNV", 1_000_689_000, 1),
    newer("PhysicalDeviceCooperativeMatrixLayoutsFeaturesARM", 1_000_670_000, 1),
    newer("PhysicalDeviceCooperativeMatrixMaintenance1FeaturesEXT", 1_000_659_000, 5),
    newer("PhysicalDeviceCooperativeVectorFeaturesNV", 1_000_491_000, 2),
    newer("PhysicalDeviceCopyMemoryIndirectFeaturesKHR", 1_000_549_000, 2),
    newer("PhysicalDeviceCustomResolveFeaturesEXT", 1_000_628_000, 1),
    newer("PhysicalDeviceDataGraphFeaturesARM", 1_000_507_006, 5),
    newer("PhysicalDeviceDataGraphModelFeaturesQCOM", 1_000_629_000, 1),
    newer("PhysicalDeviceDataGraphNeuralAcceleratorStatisticsFeaturesARM", 1_000_676_002, 1),
    newer("PhysicalDeviceDataGraphOpticalFlowFeaturesARM", 1_000_631_000, 1),
    newer("PhysicalDeviceDenseGeometryFormatFeaturesAMDX", 1_000_478_000, 1),
    newer("PhysicalDeviceDepthClampControlFeaturesEXT", 1_000_582_000, 1),
    newer("PhysicalDeviceDescriptorBufferTensorFeaturesARM", 1_000_460_018, 1),
    newer("PhysicalDeviceDescriptorHeapFeaturesEXT", 1_000_135_009, 2),
    newer("PhysicalDeviceDeviceAddressCommandsFeaturesKHR", 1_000_318_006, 1),
    newer("PhysicalDeviceDeviceGeneratedCommandsFeaturesEXT", 1_000_572_000, 2),
    newer("PhysicalDeviceElapsedTimerQueryFeaturesQCOM", 1_000_173_000, 1),
    newer("PhysicalDeviceExtendedFlagsFeaturesKHR", 1_000_668_004, 1),
    newer("PhysicalDeviceFaultFeaturesKHR", 1_000_573_000, 4),
    newer("PhysicalDeviceFormatPackFeaturesARM", 1_000_609_000, 1),
    newer("PhysicalDeviceFragmentDensityMapLayeredFeaturesVALVE", 1_000_611_000, 1),
    newer("PhysicalDeviceGpaFeaturesAMD", 1_000_133_000, 4),
    newer("PhysicalDeviceHdrSmpteSt209450FeaturesGOOGLE", 1_000_718_000, 1),
    newer("PhysicalDeviceHdrVividFeaturesHUAWEI", 1_000_590_000, 1),
    newer("PhysicalDeviceImageAlignmentControlFeaturesMESA", 1_000_575_000, 1),
    newer("PhysicalDeviceImageProcessing3FeaturesQCOM", 1_000_303_000, 3),
    newer("PhysicalDeviceImageTilingControlFeaturesEXT", 1_000_687_000, 1),
    newer("PhysicalDeviceInternallySynchronizedQueuesFeaturesKHR", 1_000_504_000, 1),
    newer("PhysicalDeviceLegacyVertexAttributesFeaturesEXT", 1_000_495_000, 1),
    newer("PhysicalDeviceMaintenance10FeaturesKHR", 1_000_630_000, 1),
    newer("PhysicalDeviceMaintenance11FeaturesKHR", 1_000_657_000, 1),
    newer("PhysicalDeviceMaintenance7FeaturesKHR", 1_000_562_000, 1),
    newer("PhysicalDeviceMaintenance8FeaturesKHR", 1_000_574_000, 1),
    newer("PhysicalDeviceMaintenance9FeaturesKHR", 1_000_584_000, 1),
    newer("PhysicalDeviceMultisampledRenderToSwapchainFeaturesEXT", 1_000_616_000, 1),
    newer("PhysicalDeviceOpacityMicromapFeaturesKHR", 1_000_623_000, 1),
    newer("PhysicalDevicePartitionedAccelerationStructureFeaturesNV", 1_000_570_000, 1),
    newer("PhysicalDevicePerformanceCountersByRegionFeaturesARM", 1_000_605_000, 1),
    newer("PhysicalDevicePipelineBinaryFeaturesKHR", 1_000_483_000, 1),
    newer("PhysicalDevicePipelineCacheIncrementalModeFeaturesSEC", 1_000_637_000, 1),
    newer("PhysicalDevicePipelineOpacityMicromapFeaturesARM", 1_000_596_000, 1),
    newer("PhysicalDevicePresentId2FeaturesKHR", 1_000_479_002, 1),
    newer("PhysicalDevicePresentMeteringFeaturesNV", 1_000_613_001, 1),
    newer("PhysicalDevicePresentModeFifoLatestReadyFeaturesKHR", 1_000_361_000, 1),
    newer("PhysicalDevicePresentTimingFeaturesEXT", 1_000_208_000, 3),
    newer("PhysicalDevicePresentWait2FeaturesKHR", 1_000_480_001, 1),
    newer("PhysicalDevicePrimitiveRestartIndexFeaturesEXT", 1_000_678_000, 1),
    newer("PhysicalDevicePrivateDataBaseHandleFeaturesNV", 1_000_707_000, 1),
    newer("PhysicalDevicePushConstantBankFeaturesNV", 1_000_580_001, 1),
    newer("PhysicalDeviceQueuePerfHintFeaturesQCOM", 1_000_302_001, 1),
    newer("PhysicalDeviceRayTracingInvocationReorderFeaturesEXT", 1_000_581_000, 1),
    newer("PhysicalDeviceRayTracingLinearSweptSpheresFeaturesNV", 1_000_429_008, 2),
    newer("PhysicalDeviceShader64BitIndexingFeaturesEXT", 1_000_627_000, 1),
    newer("PhysicalDeviceShaderAbortFeaturesKHR", 1_000_233_000, 1),
    newer("PhysicalDeviceShaderBfloat16FeaturesKHR", 1_000_141_000, 3),
    newer("PhysicalDeviceShaderConstantDataFeaturesKHR", 1_000_231_000, 1),
    newer("PhysicalDeviceShaderFloat8FeaturesEXT", 1_000_567_000, 2),
    newer("PhysicalDeviceShaderFmaFeaturesKHR", 1_000_579_000, 3),
    newer("PhysicalDeviceShaderInstrumentationFeaturesARM", 1_000_607_000, 1),
    newer("PhysicalDeviceShaderLongVectorFeaturesEXT", 1_000_635_000, 1),
    newer("PhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE", 1_000_673_000, 4),
    newer("PhysicalDeviceShaderMultipleWaitQueuesFeaturesQCOM", 1_000_304_000, 1),
    newer("PhysicalDeviceShaderOCPMicroscalingTypesFeaturesEXT", 1_000_672_000, 4),
    newer("PhysicalDeviceShaderRelaxedExtendedInstructionFeaturesKHR", 1_000_558_000, 1),
    newer("PhysicalDeviceShaderReplicatedCompositesFeaturesEXT", 1_000_564_000, 1),
    newer("PhysicalDeviceShaderSplitBarrierFeaturesEXT", 1_000_305_000, 1),
    newer("PhysicalDeviceShaderSubgroupPartitionedFeaturesEXT", 1_000_662_000, 1),
    newer("PhysicalDeviceShaderUniformBufferUnsizedArrayFeaturesEXT", 1_000_642_000, 1),
    newer("PhysicalDeviceShaderUntypedPointersFeaturesKHR", 1_000_387_000, 1),
    newer("PhysicalDeviceTensorFeaturesARM", 1_000_460_009, 6),
    newer("PhysicalDeviceTextureCompressionASTC3DFeaturesEXT", 1_000_288_000, 1),
    newer("PhysicalDeviceThrottleHintFeaturesSEC", 1_000_674_000, 1),
    newer("PhysicalDeviceTileMemoryHeapFeaturesQCOM", 1_000_547_000, 1),
    newer("PhysicalDeviceTileShadingFeaturesQCOM", 1_000_309_000, 14),
    newer("PhysicalDeviceUnifiedImageLayoutsFeaturesKHR", 1_000_527_000, 2),
    newer("PhysicalDeviceVertexAttributeRobustnessFeaturesEXT", 1_000_608_000, 1),
    newer("PhysicalDeviceVideoDecodeVP9FeaturesKHR", 1_000_514_000, 1),
    newer("PhysicalDeviceVideoEncodeAV1FeaturesKHR", 1_000_513_004, 1),
    newer("PhysicalDeviceVideoEncodeFeedback2FeaturesKHR", 1_000_598_000, 1),
    newer("PhysicalDeviceVideoEncodeIntraRefreshFeaturesKHR", 1_000_552_004, 1),
    newer("PhysicalDeviceVideoEncodeQuantizationMapFeaturesKHR", 1_000_553_009, 1),
    newer("PhysicalDeviceVideoEncodeRgbConversionFeaturesVALVE", 1_000_390_000, 1),
    newer("PhysicalDeviceVideoMaintenance2FeaturesKHR", 1_000_586_000, 1),
    newer("PhysicalDeviceVulkan14Features", 55, 21),
    newer("PhysicalDeviceZeroInitializeDeviceMemoryFeaturesEXT", 1_000_620_000, 1),
];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry::Registry;

    /// Programs chain what extends their structures' structures, too.
    #[test]
    fn every_structure_that_the_registry_lets_extend_a_device_has_its_row() {
        let Some(registry) = Registry::newest() else { return };
        let mut belongs = BTreeSet::from(["VkDeviceCreateInfo"]);
        loop {
            let more: Vec<_> = registry.structures.iter().filter(|s| s.extends_any(&belongs)).collect();
            let known = belongs.len();
            belongs.extend(more.iter().map(|s| s.name.as_str()));
            if belongs.len() == known {
                break;
            }
        }
        belongs.remove("VkDeviceCreateInfo");
        assert!(belongs.len() > 150, "the registry has changed its form: {belongs:?}");
        let mut wrong = Vec::new();
        for structure in registry.structures.iter().filter(|s| belongs.contains(s.name.as_str())) {
            let Some(row) = find(vk::StructureType::from_raw(structure.s_type)) else {
                wrong.push(format!("no row for {} ({})", structure.name, structure.s_type));
                continue;
            };
            let own = format!("Vk{}", row.name());
            // The distribution's registry is older than some names.
            let known = registry.newer_than_bindings || registry.knows(&own);
            if known && own != structure.name && registry.aliased(&own) != Some(&structure.name) {
                wrong.push(format!("{} is called {own}", structure.name));
            }
            // An older registry may know fewer members of a provisional structure.
            let switches = structure.members.iter().all(|member| member == "VkBool32");
            if switches && row.switches < structure.members.len() || !switches && row.switches != 0 {
                wrong.push(format!("{}: {} switches, not {:?}", own, row.switches, structure.members));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn every_feature_structure_is_filled_by_its_switches() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.s_type != row.s_type), "{:?}", row.s_type);
            let room = row.size - size_of::<vk::BaseInStructure<'_>>();
            assert!(row.switches == 0 || room - 4 * row.switches < 8, "{:?}", row.s_type);
        }
    }
}
