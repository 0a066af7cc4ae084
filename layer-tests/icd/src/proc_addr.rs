//! The driver's entry points: interface version, and commands by name.

use std::ffi::{CStr, c_char};

use ash::vk;

use crate::{
    binaries, caches, compute, config, deferred, device, executables, forks, graphics, identifiers, instance,
    messengers, physical, pipelines, ray_tracing, record, shader_objects, simple,
};

/// A command of any signature.
type Command = unsafe extern "system" fn();

macro_rules! table {
    ($name:expr, $($command:literal => $function:expr,)*) => {
        match $name {
            // SAFETY: the loader casts the pointer back to the signature of the named command.
            $($command => Some(unsafe { std::mem::transmute::<*const (), Command>($function as *const ()) }),)*
            _ => None,
        }
    };
}

fn global(name: &[u8]) -> Option<Command> {
    table! { name,
        b"vkGetInstanceProcAddr" => vk_icdGetInstanceProcAddr,
        b"vkEnumerateInstanceVersion" => instance::enumerate_instance_version,
        b"vkEnumerateInstanceExtensionProperties" => instance::enumerate_instance_extension_properties,
        b"vkCreateInstance" => create_instance,
        b"vkDestroyInstance" => instance::destroy_instance,
        b"vkEnumeratePhysicalDevices" => instance::enumerate_physical_devices,
        b"vkGetDeviceProcAddr" => get_device_proc_addr,
    }
}

fn physical(name: &[u8]) -> Option<Command> {
    table! { name,
        b"vkCreateDevice" => device::create_device,
        b"vkCreateDebugUtilsMessengerEXT" => messengers::create_utils,
        b"vkDestroyDebugUtilsMessengerEXT" => messengers::destroy_utils,
        b"vkCreateDebugReportCallbackEXT" => messengers::create_report,
        b"vkDestroyDebugReportCallbackEXT" => messengers::destroy_report,
        b"vkEnumerateDeviceExtensionProperties" => physical::enumerate_extensions,
        b"vkGetPhysicalDeviceProperties" => physical::get_properties,
        b"vkGetPhysicalDeviceProperties2" => physical::get_properties2,
        b"vkGetPhysicalDeviceProperties2KHR" => physical::get_properties2,
        b"vkGetPhysicalDeviceFeatures" => physical::get_features,
        b"vkGetPhysicalDeviceFeatures2" => physical::get_features2,
        b"vkGetPhysicalDeviceFeatures2KHR" => physical::get_features2,
        b"vkGetPhysicalDeviceQueueFamilyProperties" => physical::get_queue_families,
        b"vkGetPhysicalDeviceQueueFamilyProperties2" => physical::get_queue_families2,
        b"vkGetPhysicalDeviceQueueFamilyProperties2KHR" => physical::get_queue_families2,
        b"vkGetPhysicalDeviceMemoryProperties" => physical::get_memory,
        b"vkGetPhysicalDeviceMemoryProperties2" => physical::get_memory2,
        b"vkGetPhysicalDeviceMemoryProperties2KHR" => physical::get_memory2,
        b"vkGetPhysicalDeviceFormatProperties" => physical::get_format,
        b"vkGetPhysicalDeviceFormatProperties2" => physical::get_format2,
        b"vkGetPhysicalDeviceFormatProperties2KHR" => physical::get_format2,
        b"vkGetPhysicalDeviceImageFormatProperties" => physical::get_image_format,
        b"vkGetPhysicalDeviceImageFormatProperties2" => physical::get_image_format,
        b"vkGetPhysicalDeviceImageFormatProperties2KHR" => physical::get_image_format,
        b"vkGetPhysicalDeviceSparseImageFormatProperties" => physical::get_sparse_format,
        b"vkGetPhysicalDeviceSparseImageFormatProperties2" => physical::get_sparse_format2,
        b"vkGetPhysicalDeviceSparseImageFormatProperties2KHR" => physical::get_sparse_format2,
    }
}

fn on_device(name: &[u8]) -> Option<Command> {
    table! { name,
        b"vkGetDeviceProcAddr" => get_device_proc_addr,
        b"vkDestroyDevice" => device::destroy_device,
        b"vkGetDeviceQueue" => device::get_queue,
        b"vkGetDeviceQueue2" => device::get_queue2,
        b"vkSetDebugUtilsObjectNameEXT" => device::set_name,
        b"vkSetDebugUtilsObjectTagEXT" => device::set_tag,
        b"vkDebugMarkerSetObjectNameEXT" => device::set_marker_name,
        b"vkDebugMarkerSetObjectTagEXT" => device::set_marker_tag,
        b"vkQueuePresentKHR" => device::present,
        b"vkDeviceWaitIdle" => device::wait_idle,
        b"vkCreateShaderModule" => simple::create_module,
        b"vkDestroyShaderModule" => simple::destroy_module,
        b"vkCreateSampler" => simple::create_sampler,
        b"vkDestroySampler" => simple::destroy_sampler,
        b"vkCreateDescriptorSetLayout" => simple::create_set_layout,
        b"vkDestroyDescriptorSetLayout" => simple::destroy_set_layout,
        b"vkCreatePipelineLayout" => simple::create_pipeline_layout,
        b"vkDestroyPipelineLayout" => simple::destroy_pipeline_layout,
        b"vkCreateRenderPass" => simple::create_render_pass,
        b"vkCreateRenderPass2" => simple::create_render_pass2,
        b"vkCreateRenderPass2KHR" => simple::create_render_pass2,
        b"vkDestroyRenderPass" => simple::destroy_render_pass,
        b"vkCreatePipelineCache" => caches::create,
        b"vkDestroyPipelineCache" => caches::destroy,
        b"vkGetPipelineCacheData" => caches::get_data,
        b"vkMergePipelineCaches" => caches::merge,
        b"vkCreateDataGraphPipelinesARM" => caches::create_data_graphs,
        b"vkCreateExecutionGraphPipelinesAMDX" => caches::create_execution_graphs,
        b"vkCreateComputePipelines" => compute::create,
        b"vkCreateGraphicsPipelines" => graphics::create,
        b"vkCreateRayTracingPipelinesKHR" => ray_tracing::create,
        b"vkCreateDeferredOperationKHR" => deferred::create,
        b"vkDestroyDeferredOperationKHR" => deferred::destroy,
        b"vkDeferredOperationJoinKHR" => deferred::join,
        b"vkGetDeferredOperationResultKHR" => deferred::get_result,
        b"vkGetDeferredOperationMaxConcurrencyKHR" => deferred::max_concurrency,
        b"vkCreatePipelineBinariesKHR" => binaries::create,
        b"vkDestroyPipelineBinaryKHR" => binaries::destroy,
        b"vkGetPipelineKeyKHR" => binaries::get_key,
        b"vkGetPipelineBinaryDataKHR" => binaries::get_data,
        b"vkReleaseCapturedPipelineDataKHR" => binaries::release,
        b"vkGetPipelineExecutablePropertiesKHR" => executables::properties,
        b"vkGetPipelineExecutableStatisticsKHR" => executables::statistics,
        b"vkGetPipelineExecutableInternalRepresentationsKHR" => executables::representations,
        b"vkCreateShadersEXT" => shader_objects::create,
        b"vkDestroyShaderEXT" => shader_objects::destroy,
        b"vkGetShaderBinaryDataEXT" => shader_objects::get_data,
        b"vkDestroyPipeline" => pipelines::destroy,
        b"vkGetShaderModuleIdentifierEXT" => identifiers::of_module,
        b"vkGetShaderModuleCreateInfoIdentifierEXT" => identifiers::of_create_info,
    }
}

/// Whether the driver has a command.
pub fn has(name: &str) -> bool {
    let name = name.as_bytes();
    global(name).or_else(|| physical(name)).or_else(|| on_device(name)).is_some()
}

/// vkCreateInstance. The script is loaded here, where the commands that its faults can name are known.
unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Instance,
) -> vk::Result {
    record::save_at_exit();
    forks::watch();
    if let Err(error) = config::load(has) {
        record::violation(format!("VKSTASH_TEST_ICD: {error}"));
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    // SAFETY: `info`, `callbacks` and `out` are the arguments of vkCreateInstance, valid until it returns.
    unsafe { instance::create_instance(info, callbacks, out) }
}

/// # Safety
/// `name` is NULL or a NUL-terminated string that lives for `'a`.
unsafe fn text<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return &[];
    }
    // SAFETY: the caller passes a NUL-terminated string or NULL, which was handled above.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// Interface version 5: newer loaders negotiate down to it, older ones are not supported.
///
/// # Safety
/// `version` points to a number that can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> vk::Result {
    // SAFETY: the loader passes a pointer to a number that can be read and written.
    unsafe { *version = (*version).min(5) };
    vk::Result::SUCCESS
}

/// Every command by name.
///
/// # Safety
/// `name` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetInstanceProcAddr(
    _: vk::Instance,
    name: *const c_char,
) -> Option<Command> {
    // SAFETY: the loader passes a NUL-terminated string.
    let name = unsafe { text(name) };
    global(name).or_else(|| physical(name)).or_else(|| on_device(name))
}

/// Physical device commands by name.
///
/// # Safety
/// `name` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetPhysicalDeviceProcAddr(
    _: vk::Instance,
    name: *const c_char,
) -> Option<Command> {
    // SAFETY: the loader passes a NUL-terminated string.
    physical(unsafe { text(name) })
}

/// vkGetDeviceProcAddr. Commands of an extension that is not enabled have no address.
unsafe extern "system" fn get_device_proc_addr(handle: vk::Device, name: *const c_char) -> Option<Command> {
    // SAFETY: the program passes a NUL-terminated string.
    let name = unsafe { text(name) };
    let device = crate::handles::device("vkGetDeviceProcAddr", handle)?;
    let needs = match name {
        b"vkGetShaderModuleIdentifierEXT" | b"vkGetShaderModuleCreateInfoIdentifierEXT" => {
            "VK_EXT_shader_module_identifier"
        }
        b"vkCreateRayTracingPipelinesKHR" => "VK_KHR_ray_tracing_pipeline",
        b"vkCreateDeferredOperationKHR"
        | b"vkDestroyDeferredOperationKHR"
        | b"vkDeferredOperationJoinKHR"
        | b"vkGetDeferredOperationResultKHR"
        | b"vkGetDeferredOperationMaxConcurrencyKHR" => "VK_KHR_deferred_host_operations",
        b"vkCreatePipelineBinariesKHR"
        | b"vkDestroyPipelineBinaryKHR"
        | b"vkGetPipelineKeyKHR"
        | b"vkGetPipelineBinaryDataKHR"
        | b"vkReleaseCapturedPipelineDataKHR" => "VK_KHR_pipeline_binary",
        b"vkGetPipelineExecutablePropertiesKHR"
        | b"vkGetPipelineExecutableStatisticsKHR"
        | b"vkGetPipelineExecutableInternalRepresentationsKHR" => "VK_KHR_pipeline_executable_properties",
        b"vkCreateShadersEXT" | b"vkDestroyShaderEXT" | b"vkGetShaderBinaryDataEXT" => "VK_EXT_shader_object",
        b"vkCreateRenderPass2KHR" => "VK_KHR_create_renderpass2",
        b"vkQueuePresentKHR" => "VK_KHR_swapchain",
        _ => "",
    };
    if !needs.is_empty() && !device.extensions.contains(needs) {
        return None;
    }
    on_device(name)
}
