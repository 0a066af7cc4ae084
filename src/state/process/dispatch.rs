//! The next layer's commands, resolved once when an instance or a device is created (drivers-and-loaders
//! differ in what a late look-up does, so there is none). A command that no layer or driver below has is None.

use std::ffi::{CStr, c_char, c_void};

use ash::vk;

use crate::pipeline_binary;

/// vkCreateDataGraphPipelinesARM, which the bindings lack: device, deferred operation, cache, number and array of
/// create infos, allocator, pipelines.
pub type PfnCreateDataGraphPipelines = unsafe extern "system" fn(
    vk::Device,
    vk::DeferredOperationKHR,
    vk::PipelineCache,
    u32,
    *const c_void,
    *const vk::AllocationCallbacks<'_>,
    *mut vk::Pipeline,
) -> vk::Result;

macro_rules! table {
    ($(#[$doc:meta])* $table:ident { $($field:ident: $pfn:ty = $($name:literal)|+,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[allow(missing_docs, reason = "each field is the command of its name")]
        pub struct $table { $(pub $field: Option<$pfn>,)* }

        impl $table {
            /// Resolves every command.
            ///
            /// # Safety
            /// `resolve` returns, for a name, a pointer to the command of that name or None.
            pub unsafe fn load(resolve: impl Fn(&CStr) -> vk::PFN_vkVoidFunction) -> $table {
                $table {
                    $($field: {
                        let found: vk::PFN_vkVoidFunction = None $(.or_else(|| resolve($name)))+;
                        // SAFETY: a function pointer of the type that the registry gives this name.
                        found.map(|pointer| unsafe {
                            std::mem::transmute::<unsafe extern "system" fn(), $pfn>(pointer)
                        })
                    },)*
                }
            }
        }
    };
}

table! {
    /// Commands of an instance and its physical devices.
    InstanceTable {
        destroy_instance: vk::PFN_vkDestroyInstance = c"vkDestroyInstance",
        create_debug_utils_messenger: vk::PFN_vkCreateDebugUtilsMessengerEXT =
            c"vkCreateDebugUtilsMessengerEXT",
        create_debug_report_callback: vk::PFN_vkCreateDebugReportCallbackEXT =
            c"vkCreateDebugReportCallbackEXT",
        destroy_debug_utils_messenger: vk::PFN_vkDestroyDebugUtilsMessengerEXT =
            c"vkDestroyDebugUtilsMessengerEXT",
        destroy_debug_report_callback: vk::PFN_vkDestroyDebugReportCallbackEXT =
            c"vkDestroyDebugReportCallbackEXT",
        enumerate_device_extension_properties: vk::PFN_vkEnumerateDeviceExtensionProperties =
            c"vkEnumerateDeviceExtensionProperties",
        get_physical_device_properties: vk::PFN_vkGetPhysicalDeviceProperties =
            c"vkGetPhysicalDeviceProperties",
        get_physical_device_properties2: vk::PFN_vkGetPhysicalDeviceProperties2 =
            c"vkGetPhysicalDeviceProperties2",
        get_physical_device_properties2_khr: vk::PFN_vkGetPhysicalDeviceProperties2 =
            c"vkGetPhysicalDeviceProperties2KHR",
        get_physical_device_features2: vk::PFN_vkGetPhysicalDeviceFeatures2 =
            c"vkGetPhysicalDeviceFeatures2",
        get_physical_device_features2_khr: vk::PFN_vkGetPhysicalDeviceFeatures2 =
            c"vkGetPhysicalDeviceFeatures2KHR",
    }
}

table! {
    /// Commands of a device.
    DeviceTable {
        destroy_device: vk::PFN_vkDestroyDevice = c"vkDestroyDevice",
        get_device_queue: vk::PFN_vkGetDeviceQueue = c"vkGetDeviceQueue",
        get_device_queue2: vk::PFN_vkGetDeviceQueue2 = c"vkGetDeviceQueue2",
        queue_present: vk::PFN_vkQueuePresentKHR = c"vkQueuePresentKHR",
        set_debug_utils_object_name: vk::PFN_vkSetDebugUtilsObjectNameEXT = c"vkSetDebugUtilsObjectNameEXT",
        set_debug_utils_object_tag: vk::PFN_vkSetDebugUtilsObjectTagEXT = c"vkSetDebugUtilsObjectTagEXT",
        debug_marker_set_object_name: vk::PFN_vkDebugMarkerSetObjectNameEXT =
            c"vkDebugMarkerSetObjectNameEXT",
        debug_marker_set_object_tag: vk::PFN_vkDebugMarkerSetObjectTagEXT = c"vkDebugMarkerSetObjectTagEXT",
        create_shader_module: vk::PFN_vkCreateShaderModule = c"vkCreateShaderModule",
        destroy_shader_module: vk::PFN_vkDestroyShaderModule = c"vkDestroyShaderModule",
        create_sampler_ycbcr_conversion: vk::PFN_vkCreateSamplerYcbcrConversion =
            c"vkCreateSamplerYcbcrConversion" | c"vkCreateSamplerYcbcrConversionKHR",
        destroy_sampler_ycbcr_conversion: vk::PFN_vkDestroySamplerYcbcrConversion =
            c"vkDestroySamplerYcbcrConversion" | c"vkDestroySamplerYcbcrConversionKHR",
        create_sampler: vk::PFN_vkCreateSampler = c"vkCreateSampler",
        destroy_sampler: vk::PFN_vkDestroySampler = c"vkDestroySampler",
        create_descriptor_set_layout: vk::PFN_vkCreateDescriptorSetLayout = c"vkCreateDescriptorSetLayout",
        destroy_descriptor_set_layout: vk::PFN_vkDestroyDescriptorSetLayout = c"vkDestroyDescriptorSetLayout",
        create_pipeline_layout: vk::PFN_vkCreatePipelineLayout = c"vkCreatePipelineLayout",
        destroy_pipeline_layout: vk::PFN_vkDestroyPipelineLayout = c"vkDestroyPipelineLayout",
        create_render_pass: vk::PFN_vkCreateRenderPass = c"vkCreateRenderPass",
        create_render_pass2: vk::PFN_vkCreateRenderPass2 = c"vkCreateRenderPass2" | c"vkCreateRenderPass2KHR",
        destroy_render_pass: vk::PFN_vkDestroyRenderPass = c"vkDestroyRenderPass",
        create_pipeline_cache: vk::PFN_vkCreatePipelineCache = c"vkCreatePipelineCache",
        destroy_pipeline_cache: vk::PFN_vkDestroyPipelineCache = c"vkDestroyPipelineCache",
        get_pipeline_cache_data: vk::PFN_vkGetPipelineCacheData = c"vkGetPipelineCacheData",
        merge_pipeline_caches: vk::PFN_vkMergePipelineCaches = c"vkMergePipelineCaches",
        create_compute_pipelines: vk::PFN_vkCreateComputePipelines = c"vkCreateComputePipelines",
        create_graphics_pipelines: vk::PFN_vkCreateGraphicsPipelines = c"vkCreateGraphicsPipelines",
        create_ray_tracing_pipelines_khr: vk::PFN_vkCreateRayTracingPipelinesKHR =
            c"vkCreateRayTracingPipelinesKHR",
        create_pipeline_binaries: pipeline_binary::PfnCreate = c"vkCreatePipelineBinariesKHR",
        get_pipeline_key: pipeline_binary::PfnGetKey = c"vkGetPipelineKeyKHR",
        destroy_pipeline: vk::PFN_vkDestroyPipeline = c"vkDestroyPipeline",
        deferred_operation_join: vk::PFN_vkDeferredOperationJoinKHR = c"vkDeferredOperationJoinKHR",
        get_deferred_operation_result: vk::PFN_vkGetDeferredOperationResultKHR =
            c"vkGetDeferredOperationResultKHR",
        destroy_deferred_operation: vk::PFN_vkDestroyDeferredOperationKHR =
            c"vkDestroyDeferredOperationKHR",
        create_shaders: vk::PFN_vkCreateShadersEXT = c"vkCreateShadersEXT",
        destroy_shader: vk::PFN_vkDestroyShaderEXT = c"vkDestroyShaderEXT",
        get_shader_binary_data: vk::PFN_vkGetShaderBinaryDataEXT = c"vkGetShaderBinaryDataEXT",
        create_ray_tracing_pipelines_nv: vk::PFN_vkCreateRayTracingPipelinesNV =
            c"vkCreateRayTracingPipelinesNV",
        create_execution_graph_pipelines: vk::PFN_vkCreateExecutionGraphPipelinesAMDX =
            c"vkCreateExecutionGraphPipelinesAMDX",
        create_data_graph_pipelines: PfnCreateDataGraphPipelines = c"vkCreateDataGraphPipelinesARM",
        get_shader_module_identifier: vk::PFN_vkGetShaderModuleIdentifierEXT =
            c"vkGetShaderModuleIdentifierEXT",
        get_shader_module_create_info_identifier: vk::PFN_vkGetShaderModuleCreateInfoIdentifierEXT =
            c"vkGetShaderModuleCreateInfoIdentifierEXT",
    }
}

/// A look-up function of the next layer, as a closure for `load`.
pub fn instance_resolver(
    next: vk::PFN_vkGetInstanceProcAddr,
    instance: vk::Instance,
) -> impl Fn(&CStr) -> vk::PFN_vkVoidFunction {
    // SAFETY: the next layer's command, a live instance and a NULL-terminated name.
    move |name| unsafe { next(instance, name.as_ptr().cast::<c_char>()) }
}

/// Resolves device commands of the next layer by its vkGetDeviceProcAddr.
pub fn device_resolver(
    next: vk::PFN_vkGetDeviceProcAddr,
    device: vk::Device,
) -> impl Fn(&CStr) -> vk::PFN_vkVoidFunction {
    // SAFETY: the next layer's command, a live device and a NULL-terminated name.
    move |name| unsafe { next(device, name.as_ptr().cast::<c_char>()) }
}
