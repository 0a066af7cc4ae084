//! The structures that may stand in the chain of VkDeviceCreateInfo, with what is needed to copy and to hash
//! them. Data, listed from the bindings and, for what is newer, from the registry.

use ash::vk::{self, TaggedStructure};

/// One structure.
#[derive(Clone, Copy, Debug)]
pub struct DeviceStructure {
    /// Its type.
    pub s_type: vk::StructureType,
    /// Its size in bytes in this process.
    pub size: usize,
    /// How many VkBool32 it consists of; 0 where it holds something else.
    pub switches: usize,
}

const fn row<T: TaggedStructure>(switches: usize) -> DeviceStructure {
    DeviceStructure { s_type: T::STRUCTURE_TYPE, size: size_of::<T>(), switches }
}

/// A structure that is newer than the bindings and consists of VkBool32 alone, as the registry says.
const fn newer(s_type: i32, switches: usize) -> DeviceStructure {
    let header = size_of::<vk::BaseInStructure<'_>>();
    let size = (header + 4 * switches).next_multiple_of(align_of::<vk::BaseInStructure<'_>>());
    DeviceStructure { s_type: vk::StructureType::from_raw(s_type), size, switches }
}

/// The row of a structure, if it has one.
pub fn find(s_type: vk::StructureType) -> Option<&'static DeviceStructure> {
    TABLE.iter().find(|row| row.s_type == s_type)
}

const TABLE: &[DeviceStructure] = &[
    // Not made of switches.
    row::<vk::DeviceDeviceMemoryReportCreateInfoEXT<'_>>(0),
    row::<vk::DeviceDiagnosticsConfigCreateInfoNV<'_>>(0),
    row::<vk::DeviceGroupDeviceCreateInfo<'_>>(0),
    row::<vk::DeviceMemoryOverallocationCreateInfoAMD<'_>>(0),
    row::<vk::DevicePrivateDataCreateInfo<'_>>(0),
    row::<vk::DeviceQueueShaderCoreControlCreateInfoARM<'_>>(0),
    row::<vk::PhysicalDeviceFeatures2<'_>>(0),
    // Features.
    row::<vk::PhysicalDevice16BitStorageFeatures<'_>>(4),
    row::<vk::PhysicalDevice4444FormatsFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDevice8BitStorageFeatures<'_>>(3),
    row::<vk::PhysicalDeviceASTCDecodeFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceAccelerationStructureFeaturesKHR<'_>>(5),
    row::<vk::PhysicalDeviceAddressBindingReportFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceAmigoProfilingFeaturesSEC<'_>>(1),
    row::<vk::PhysicalDeviceAttachmentFeedbackLoopLayoutFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceBlendOperationAdvancedFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceBorderColorSwizzleFeaturesEXT<'_>>(2),
    row::<vk::PhysicalDeviceBufferDeviceAddressFeatures<'_>>(3),
    row::<vk::PhysicalDeviceBufferDeviceAddressFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceClusterCullingShaderFeaturesHUAWEI<'_>>(2),
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
    row::<vk::PhysicalDeviceShaderEnqueueFeaturesAMDX<'_>>(1),
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
    // VkDevicePipelineBinaryInternalCacheControlKHR
    newer(1_000_483_008, 1),
    // VkPhysicalDeviceAntiLagFeaturesAMD
    newer(1_000_476_000, 1),
    // VkPhysicalDeviceClusterAccelerationStructureFeaturesNV
    newer(1_000_569_000, 1),
    // VkPhysicalDeviceCommandBufferInheritanceFeaturesNV
    newer(1_000_559_000, 1),
    // VkPhysicalDeviceComputeOccupancyPriorityFeaturesNV
    newer(1_000_645_001, 1),
    // VkPhysicalDeviceCooperativeMatrix2FeaturesNV
    newer(1_000_593_000, 7),
    // VkPhysicalDeviceCooperativeMatrixConversionFeaturesQCOM
    newer(1_000_172_000, 1),
    // VkPhysicalDeviceCooperativeMatrixDecodeVectorFeaturesNV
    newer(1_000_689_000, 1),
    // VkPhysicalDeviceCooperativeMatrixMaintenance1FeaturesEXT
    newer(1_000_659_000, 5),
    // VkPhysicalDeviceCooperativeVectorFeaturesNV
    newer(1_000_491_000, 2),
    // VkPhysicalDeviceCopyMemoryIndirectFeaturesKHR
    newer(1_000_549_000, 2),
    // VkPhysicalDeviceCustomResolveFeaturesEXT
    newer(1_000_628_000, 1),
    // VkPhysicalDeviceDataGraphFeaturesARM
    newer(1_000_507_006, 5),
    // VkPhysicalDeviceDataGraphModelFeaturesQCOM
    newer(1_000_629_000, 1),
    // VkPhysicalDeviceDataGraphNeuralAcceleratorStatisticsFeaturesARM
    newer(1_000_676_002, 1),
    // VkPhysicalDeviceDataGraphOpticalFlowFeaturesARM
    newer(1_000_631_000, 1),
    // VkPhysicalDeviceDenseGeometryFormatFeaturesAMDX
    newer(1_000_478_000, 1),
    // VkPhysicalDeviceDepthClampControlFeaturesEXT
    newer(1_000_582_000, 1),
    // VkPhysicalDeviceDescriptorBufferTensorFeaturesARM
    newer(1_000_460_018, 1),
    // VkPhysicalDeviceDescriptorHeapFeaturesEXT
    newer(1_000_135_009, 2),
    // VkPhysicalDeviceDeviceAddressCommandsFeaturesKHR
    newer(1_000_318_006, 1),
    // VkPhysicalDeviceDeviceGeneratedCommandsFeaturesEXT
    newer(1_000_572_000, 2),
    // VkPhysicalDeviceElapsedTimerQueryFeaturesQCOM
    newer(1_000_173_000, 1),
    // VkPhysicalDeviceExtendedFlagsFeaturesKHR
    newer(1_000_668_004, 1),
    // VkPhysicalDeviceFaultFeaturesKHR
    newer(1_000_573_000, 4),
    // VkPhysicalDeviceFormatPackFeaturesARM
    newer(1_000_609_000, 1),
    // VkPhysicalDeviceFragmentDensityMapLayeredFeaturesVALVE
    newer(1_000_611_000, 1),
    // VkPhysicalDeviceGpaFeaturesAMD
    newer(1_000_133_000, 4),
    // VkPhysicalDeviceHdrVividFeaturesHUAWEI
    newer(1_000_590_000, 1),
    // VkPhysicalDeviceImageAlignmentControlFeaturesMESA
    newer(1_000_575_000, 1),
    // VkPhysicalDeviceImageProcessing3FeaturesQCOM
    newer(1_000_303_000, 3),
    // VkPhysicalDeviceImageTilingControlFeaturesEXT
    newer(1_000_687_000, 1),
    // VkPhysicalDeviceInternallySynchronizedQueuesFeaturesKHR
    newer(1_000_504_000, 1),
    // VkPhysicalDeviceLegacyVertexAttributesFeaturesEXT
    newer(1_000_495_000, 1),
    // VkPhysicalDeviceMaintenance10FeaturesKHR
    newer(1_000_630_000, 1),
    // VkPhysicalDeviceMaintenance11FeaturesKHR
    newer(1_000_657_000, 1),
    // VkPhysicalDeviceMaintenance7FeaturesKHR
    newer(1_000_562_000, 1),
    // VkPhysicalDeviceMaintenance8FeaturesKHR
    newer(1_000_574_000, 1),
    // VkPhysicalDeviceMaintenance9FeaturesKHR
    newer(1_000_584_000, 1),
    // VkPhysicalDeviceMultisampledRenderToSwapchainFeaturesEXT
    newer(1_000_616_000, 1),
    // VkPhysicalDeviceOpacityMicromapFeaturesKHR
    newer(1_000_623_000, 1),
    // VkPhysicalDevicePartitionedAccelerationStructureFeaturesNV
    newer(1_000_570_000, 1),
    // VkPhysicalDevicePerformanceCountersByRegionFeaturesARM
    newer(1_000_605_000, 1),
    // VkPhysicalDevicePipelineBinaryFeaturesKHR
    newer(1_000_483_000, 1),
    // VkPhysicalDevicePipelineCacheIncrementalModeFeaturesSEC
    newer(1_000_637_000, 1),
    // VkPhysicalDevicePipelineOpacityMicromapFeaturesARM
    newer(1_000_596_000, 1),
    // VkPhysicalDevicePresentId2FeaturesKHR
    newer(1_000_479_002, 1),
    // VkPhysicalDevicePresentMeteringFeaturesNV
    newer(1_000_613_001, 1),
    // VkPhysicalDevicePresentModeFifoLatestReadyFeaturesKHR
    newer(1_000_361_000, 1),
    // VkPhysicalDevicePresentTimingFeaturesEXT
    newer(1_000_208_000, 3),
    // VkPhysicalDevicePresentWait2FeaturesKHR
    newer(1_000_480_001, 1),
    // VkPhysicalDevicePrimitiveRestartIndexFeaturesEXT
    newer(1_000_678_000, 1),
    // VkPhysicalDevicePushConstantBankFeaturesNV
    newer(1_000_580_001, 1),
    // VkPhysicalDeviceQueuePerfHintFeaturesQCOM
    newer(1_000_302_001, 1),
    // VkPhysicalDeviceRayTracingInvocationReorderFeaturesEXT
    newer(1_000_581_000, 1),
    // VkPhysicalDeviceRayTracingLinearSweptSpheresFeaturesNV
    newer(1_000_429_008, 2),
    // VkPhysicalDeviceShader64BitIndexingFeaturesEXT
    newer(1_000_627_000, 1),
    // VkPhysicalDeviceShaderAbortFeaturesKHR
    newer(1_000_233_000, 1),
    // VkPhysicalDeviceShaderBfloat16FeaturesKHR
    newer(1_000_141_000, 3),
    // VkPhysicalDeviceShaderConstantDataFeaturesKHR
    newer(1_000_231_000, 1),
    // VkPhysicalDeviceShaderFloat8FeaturesEXT
    newer(1_000_567_000, 2),
    // VkPhysicalDeviceShaderFmaFeaturesKHR
    newer(1_000_579_000, 3),
    // VkPhysicalDeviceShaderInstrumentationFeaturesARM
    newer(1_000_607_000, 1),
    // VkPhysicalDeviceShaderLongVectorFeaturesEXT
    newer(1_000_635_000, 1),
    // VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE
    newer(1_000_673_000, 4),
    // VkPhysicalDeviceShaderMultipleWaitQueuesFeaturesQCOM
    newer(1_000_304_000, 1),
    // VkPhysicalDeviceShaderOCPMicroscalingTypesFeaturesEXT
    newer(1_000_672_000, 4),
    // VkPhysicalDeviceShaderRelaxedExtendedInstructionFeaturesKHR
    newer(1_000_558_000, 1),
    // VkPhysicalDeviceShaderReplicatedCompositesFeaturesEXT
    newer(1_000_564_000, 1),
    // VkPhysicalDeviceShaderSplitBarrierFeaturesEXT
    newer(1_000_305_000, 1),
    // VkPhysicalDeviceShaderSubgroupPartitionedFeaturesEXT
    newer(1_000_662_000, 1),
    // VkPhysicalDeviceShaderUniformBufferUnsizedArrayFeaturesEXT
    newer(1_000_642_000, 1),
    // VkPhysicalDeviceShaderUntypedPointersFeaturesKHR
    newer(1_000_387_000, 1),
    // VkPhysicalDeviceTensorFeaturesARM
    newer(1_000_460_009, 6),
    // VkPhysicalDeviceTextureCompressionASTC3DFeaturesEXT
    newer(1_000_288_000, 1),
    // VkPhysicalDeviceThrottleHintFeaturesSEC
    newer(1_000_674_000, 1),
    // VkPhysicalDeviceTileMemoryHeapFeaturesQCOM
    newer(1_000_547_000, 1),
    // VkPhysicalDeviceTileShadingFeaturesQCOM
    newer(1_000_309_000, 14),
    // VkPhysicalDeviceUnifiedImageLayoutsFeaturesKHR
    newer(1_000_527_000, 2),
    // VkPhysicalDeviceVertexAttributeRobustnessFeaturesEXT
    newer(1_000_608_000, 1),
    // VkPhysicalDeviceVideoDecodeVP9FeaturesKHR
    newer(1_000_514_000, 1),
    // VkPhysicalDeviceVideoEncodeAV1FeaturesKHR
    newer(1_000_513_004, 1),
    // VkPhysicalDeviceVideoEncodeFeedback2FeaturesKHR
    newer(1_000_598_000, 1),
    // VkPhysicalDeviceVideoEncodeIntraRefreshFeaturesKHR
    newer(1_000_552_004, 1),
    // VkPhysicalDeviceVideoEncodeQuantizationMapFeaturesKHR
    newer(1_000_553_009, 1),
    // VkPhysicalDeviceVideoEncodeRgbConversionFeaturesVALVE
    newer(1_000_390_000, 1),
    // VkPhysicalDeviceVideoMaintenance2FeaturesKHR
    newer(1_000_586_000, 1),
    // VkPhysicalDeviceVulkan14Features
    newer(55, 21),
    // VkPhysicalDeviceZeroInitializeDeviceMemoryFeaturesEXT
    newer(1_000_620_000, 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_structure_is_filled_by_its_switches() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.s_type != row.s_type), "{:?}", row.s_type);
            let room = row.size - size_of::<vk::BaseInStructure<'_>>();
            assert!(row.switches == 0 || room - 4 * row.switches < 8, "{:?}", row.s_type);
        }
    }
}
