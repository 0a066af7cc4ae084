//! The structures that may stand in the chain of VkDeviceCreateInfo, with what is needed to copy and to hash
//! them. Data, listed from the bindings and from the registry for what is newer. A structure without a row keeps
//! the layer from changing the chain.

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

/// A structure of switches alone that the bindings do not have.
const fn newer(s_type: i32, switches: usize) -> DeviceStructure {
    let base = size_of::<vk::BaseInStructure<'_>>();
    let size = (base + 4 * switches).next_multiple_of(align_of::<vk::BaseInStructure<'_>>());
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
    row::<vk::PhysicalDeviceAttachmentFeedbackLoopDynamicStateFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceClusterCullingShaderVrsFeaturesHUAWEI<'_>>(1),
    row::<vk::PhysicalDeviceDedicatedAllocationImageAliasingFeaturesNV<'_>>(1),
    row::<vk::PhysicalDeviceDynamicRenderingUnusedAttachmentsFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceImageCompressionControlSwapchainFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceMultisampledRenderToSingleSampledFeaturesEXT<'_>>(1),
    row::<vk::PhysicalDeviceRasterizationOrderAttachmentAccessFeaturesEXT<'_>>(3),
    row::<vk::PhysicalDeviceShaderEarlyAndLateFragmentTestsFeaturesAMD<'_>>(1),
    row::<vk::PhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR<'_>>(1),
    // Structures of switches that are newer than the bindings.
    newer(1000483008, 1),  // DevicePipelineBinaryInternalCacheControlKHR
    newer(1000476000, 1),  // PhysicalDeviceAntiLagFeaturesAMD
    newer(1000569000, 1),  // PhysicalDeviceClusterAccelerationStructureFeaturesNV
    newer(1000559000, 1),  // PhysicalDeviceCommandBufferInheritanceFeaturesNV
    newer(1000645001, 1),  // PhysicalDeviceComputeOccupancyPriorityFeaturesNV
    newer(1000593000, 7),  // PhysicalDeviceCooperativeMatrix2FeaturesNV
    newer(1000172000, 1),  // PhysicalDeviceCooperativeMatrixConversionFeaturesQCOM
    newer(1000689000, 1),  // PhysicalDeviceCooperativeMatrixDecodeVectorFeaturesNV
    newer(1000659000, 5),  // PhysicalDeviceCooperativeMatrixMaintenance1FeaturesEXT
    newer(1000491000, 2),  // PhysicalDeviceCooperativeVectorFeaturesNV
    newer(1000549000, 2),  // PhysicalDeviceCopyMemoryIndirectFeaturesKHR
    newer(1000628000, 1),  // PhysicalDeviceCustomResolveFeaturesEXT
    newer(1000507006, 5),  // PhysicalDeviceDataGraphFeaturesARM
    newer(1000629000, 1),  // PhysicalDeviceDataGraphModelFeaturesQCOM
    newer(1000676002, 1),  // PhysicalDeviceDataGraphNeuralAcceleratorStatisticsFeaturesARM
    newer(1000631000, 1),  // PhysicalDeviceDataGraphOpticalFlowFeaturesARM
    newer(1000582000, 1),  // PhysicalDeviceDepthClampControlFeaturesEXT
    newer(1000460018, 1),  // PhysicalDeviceDescriptorBufferTensorFeaturesARM
    newer(1000135009, 2),  // PhysicalDeviceDescriptorHeapFeaturesEXT
    newer(1000318006, 1),  // PhysicalDeviceDeviceAddressCommandsFeaturesKHR
    newer(1000572000, 2),  // PhysicalDeviceDeviceGeneratedCommandsFeaturesEXT
    newer(1000173000, 1),  // PhysicalDeviceElapsedTimerQueryFeaturesQCOM
    newer(1000668004, 1),  // PhysicalDeviceExtendedFlagsFeaturesKHR
    newer(1000573000, 4),  // PhysicalDeviceFaultFeaturesKHR
    newer(1000609000, 1),  // PhysicalDeviceFormatPackFeaturesARM
    newer(1000611000, 1),  // PhysicalDeviceFragmentDensityMapLayeredFeaturesVALVE
    newer(1000133000, 4),  // PhysicalDeviceGpaFeaturesAMD
    newer(1000590000, 1),  // PhysicalDeviceHdrVividFeaturesHUAWEI
    newer(1000575000, 1),  // PhysicalDeviceImageAlignmentControlFeaturesMESA
    newer(1000303000, 3),  // PhysicalDeviceImageProcessing3FeaturesQCOM
    newer(1000687000, 1),  // PhysicalDeviceImageTilingControlFeaturesEXT
    newer(1000504000, 1),  // PhysicalDeviceInternallySynchronizedQueuesFeaturesKHR
    newer(1000495000, 1),  // PhysicalDeviceLegacyVertexAttributesFeaturesEXT
    newer(1000630000, 1),  // PhysicalDeviceMaintenance10FeaturesKHR
    newer(1000657000, 1),  // PhysicalDeviceMaintenance11FeaturesKHR
    newer(1000562000, 1),  // PhysicalDeviceMaintenance7FeaturesKHR
    newer(1000574000, 1),  // PhysicalDeviceMaintenance8FeaturesKHR
    newer(1000584000, 1),  // PhysicalDeviceMaintenance9FeaturesKHR
    newer(1000616000, 1),  // PhysicalDeviceMultisampledRenderToSwapchainFeaturesEXT
    newer(1000623000, 1),  // PhysicalDeviceOpacityMicromapFeaturesKHR
    newer(1000570000, 1),  // PhysicalDevicePartitionedAccelerationStructureFeaturesNV
    newer(1000605000, 1),  // PhysicalDevicePerformanceCountersByRegionFeaturesARM
    newer(1000483000, 1),  // PhysicalDevicePipelineBinaryFeaturesKHR
    newer(1000637000, 1),  // PhysicalDevicePipelineCacheIncrementalModeFeaturesSEC
    newer(1000596000, 1),  // PhysicalDevicePipelineOpacityMicromapFeaturesARM
    newer(1000479002, 1),  // PhysicalDevicePresentId2FeaturesKHR
    newer(1000613001, 1),  // PhysicalDevicePresentMeteringFeaturesNV
    newer(1000361000, 1),  // PhysicalDevicePresentModeFifoLatestReadyFeaturesKHR
    newer(1000208000, 3),  // PhysicalDevicePresentTimingFeaturesEXT
    newer(1000480001, 1),  // PhysicalDevicePresentWait2FeaturesKHR
    newer(1000678000, 1),  // PhysicalDevicePrimitiveRestartIndexFeaturesEXT
    newer(1000580001, 1),  // PhysicalDevicePushConstantBankFeaturesNV
    newer(1000302001, 1),  // PhysicalDeviceQueuePerfHintFeaturesQCOM
    newer(1000581000, 1),  // PhysicalDeviceRayTracingInvocationReorderFeaturesEXT
    newer(1000429008, 2),  // PhysicalDeviceRayTracingLinearSweptSpheresFeaturesNV
    newer(1000627000, 1),  // PhysicalDeviceShader64BitIndexingFeaturesEXT
    newer(1000233000, 1),  // PhysicalDeviceShaderAbortFeaturesKHR
    newer(1000141000, 3),  // PhysicalDeviceShaderBfloat16FeaturesKHR
    newer(1000231000, 1),  // PhysicalDeviceShaderConstantDataFeaturesKHR
    newer(1000567000, 2),  // PhysicalDeviceShaderFloat8FeaturesEXT
    newer(1000579000, 3),  // PhysicalDeviceShaderFmaFeaturesKHR
    newer(1000607000, 1),  // PhysicalDeviceShaderInstrumentationFeaturesARM
    newer(1000635000, 1),  // PhysicalDeviceShaderLongVectorFeaturesEXT
    newer(1000673000, 4),  // PhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE
    newer(1000304000, 1),  // PhysicalDeviceShaderMultipleWaitQueuesFeaturesQCOM
    newer(1000672000, 4),  // PhysicalDeviceShaderOCPMicroscalingTypesFeaturesEXT
    newer(1000558000, 1),  // PhysicalDeviceShaderRelaxedExtendedInstructionFeaturesKHR
    newer(1000564000, 1),  // PhysicalDeviceShaderReplicatedCompositesFeaturesEXT
    newer(1000305000, 1),  // PhysicalDeviceShaderSplitBarrierFeaturesEXT
    newer(1000662000, 1),  // PhysicalDeviceShaderSubgroupPartitionedFeaturesEXT
    newer(1000642000, 1),  // PhysicalDeviceShaderUniformBufferUnsizedArrayFeaturesEXT
    newer(1000387000, 1),  // PhysicalDeviceShaderUntypedPointersFeaturesKHR
    newer(1000460009, 6),  // PhysicalDeviceTensorFeaturesARM
    newer(1000288000, 1),  // PhysicalDeviceTextureCompressionASTC3DFeaturesEXT
    newer(1000674000, 1),  // PhysicalDeviceThrottleHintFeaturesSEC
    newer(1000547000, 1),  // PhysicalDeviceTileMemoryHeapFeaturesQCOM
    newer(1000309000, 14), // PhysicalDeviceTileShadingFeaturesQCOM
    newer(1000527000, 2),  // PhysicalDeviceUnifiedImageLayoutsFeaturesKHR
    newer(1000608000, 1),  // PhysicalDeviceVertexAttributeRobustnessFeaturesEXT
    newer(1000514000, 1),  // PhysicalDeviceVideoDecodeVP9FeaturesKHR
    newer(1000513004, 1),  // PhysicalDeviceVideoEncodeAV1FeaturesKHR
    newer(1000598000, 1),  // PhysicalDeviceVideoEncodeFeedback2FeaturesKHR
    newer(1000552004, 1),  // PhysicalDeviceVideoEncodeIntraRefreshFeaturesKHR
    newer(1000553009, 1),  // PhysicalDeviceVideoEncodeQuantizationMapFeaturesKHR
    newer(1000390000, 1),  // PhysicalDeviceVideoEncodeRgbConversionFeaturesVALVE
    newer(1000586000, 1),  // PhysicalDeviceVideoMaintenance2FeaturesKHR
    newer(55, 21),         // PhysicalDeviceVulkan14Features
    newer(1000620000, 1),  // PhysicalDeviceZeroInitializeDeviceMemoryFeaturesEXT
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
