//! Table of the hooked commands, and the three look-ups of commands.
//!
//! Which commands are hooked is decided statically here. Everything else is the next layer's own pointer, so
//! drawing costs nothing.

use std::ffi::{CStr, c_char};

use ash::vk;

use super::{
    binaries, caches, device, identifiers, instance, layouts, messengers, modules, names, passed_by,
    physical, pipelines, queues, ray_tracing, render_passes, shaders,
};
use crate::api::functions::{self, VkstashFunction};
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices::Entry;
use crate::state::process::dispatch::PfnCreateDataGraphPipelines;
use crate::{pipeline_binary, state};
use vkstash_host::guard::guard;

/// A hook as the loader wants it.
macro_rules! erased {
    ($hook:path as $pfn:ty) => {{
        let typed: $pfn = $hook;
        // SAFETY: function pointers of all types have one representation; the loader casts it back to the
        // type that belongs to the name.
        Some(unsafe { std::mem::transmute::<$pfn, unsafe extern "system" fn()>(typed) })
    }};
}

/// Instance-level commands that this layer owns, device look-up included.
fn instance_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkGetInstanceProcAddr" => {
            erased!(get_instance_proc_addr as vk::PFN_vkGetInstanceProcAddr)
        }
        b"vkGetDeviceProcAddr" => erased!(get_device_proc_addr as vk::PFN_vkGetDeviceProcAddr),
        b"vkCreateInstance" => erased!(instance::create_instance as vk::PFN_vkCreateInstance),
        b"vkDestroyInstance" => erased!(instance::destroy_instance as vk::PFN_vkDestroyInstance),
        b"vkCreateDevice" => erased!(device::create_device as vk::PFN_vkCreateDevice),
        b"vkDestroyDevice" => erased!(device::destroy_device as vk::PFN_vkDestroyDevice),
        _ => None,
    }
}

/// Global commands that layers above ask for before there is an instance.
fn global_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkEnumerateInstanceVersion" => {
            erased!(instance::enumerate_version as vk::PFN_vkEnumerateInstanceVersion)
        }
        _ => None,
    }
}

/// Physical-device commands that this layer owns, beside vkCreateDevice.
fn physical_device_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkEnumerateDeviceExtensionProperties" => {
            erased!(physical::enumerate_extensions as vk::PFN_vkEnumerateDeviceExtensionProperties)
        }
        b"vkGetPhysicalDeviceFeatures2" => {
            erased!(physical::get_features2 as vk::PFN_vkGetPhysicalDeviceFeatures2)
        }
        b"vkGetPhysicalDeviceFeatures2KHR" => {
            erased!(physical::get_features2_khr as vk::PFN_vkGetPhysicalDeviceFeatures2)
        }
        b"vkGetPhysicalDeviceProperties2" => {
            erased!(physical::get_properties2 as vk::PFN_vkGetPhysicalDeviceProperties2)
        }
        b"vkGetPhysicalDeviceProperties2KHR" => {
            erased!(physical::get_properties2_khr as vk::PFN_vkGetPhysicalDeviceProperties2)
        }
        _ => None,
    }
}

/// Instance-level commands that this layer hooks wherever the next layer has them.
fn messenger_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkCreateDebugUtilsMessengerEXT" => {
            erased!(messengers::create_utils as vk::PFN_vkCreateDebugUtilsMessengerEXT)
        }
        b"vkCreateDebugReportCallbackEXT" => {
            erased!(messengers::create_report as vk::PFN_vkCreateDebugReportCallbackEXT)
        }
        b"vkDestroyDebugUtilsMessengerEXT" => {
            erased!(messengers::destroy_utils as vk::PFN_vkDestroyDebugUtilsMessengerEXT)
        }
        b"vkDestroyDebugReportCallbackEXT" => {
            erased!(messengers::destroy_report as vk::PFN_vkDestroyDebugReportCallbackEXT)
        }
        _ => None,
    }
}

/// Device-level commands that this layer hooks wherever the next layer has them.
fn device_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkGetDeviceProcAddr" => erased!(get_device_proc_addr as vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => erased!(device::destroy_device as vk::PFN_vkDestroyDevice),
        b"vkGetDeviceQueue" => erased!(queues::get as vk::PFN_vkGetDeviceQueue),
        b"vkGetDeviceQueue2" => erased!(queues::get2 as vk::PFN_vkGetDeviceQueue2),
        b"vkSetDebugUtilsObjectNameEXT" => erased!(names::name as vk::PFN_vkSetDebugUtilsObjectNameEXT),
        b"vkSetDebugUtilsObjectTagEXT" => erased!(names::tag as vk::PFN_vkSetDebugUtilsObjectTagEXT),
        b"vkDebugMarkerSetObjectNameEXT" => {
            erased!(names::marker_name as vk::PFN_vkDebugMarkerSetObjectNameEXT)
        }
        b"vkDebugMarkerSetObjectTagEXT" => {
            erased!(names::marker_tag as vk::PFN_vkDebugMarkerSetObjectTagEXT)
        }
        _ => object_command(name).or_else(|| pipeline_command(name)),
    }
}

/// Commands that create and destroy what pipelines are made of, and pipeline caches.
fn object_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkCreateShaderModule" => erased!(modules::create_shader_module as vk::PFN_vkCreateShaderModule),
        b"vkDestroyShaderModule" => erased!(modules::destroy_shader_module as vk::PFN_vkDestroyShaderModule),
        b"vkCreateSamplerYcbcrConversion" | b"vkCreateSamplerYcbcrConversionKHR" => {
            erased!(layouts::create_sampler_ycbcr_conversion as vk::PFN_vkCreateSamplerYcbcrConversion)
        }
        b"vkDestroySamplerYcbcrConversion" | b"vkDestroySamplerYcbcrConversionKHR" => {
            erased!(layouts::destroy_sampler_ycbcr_conversion as vk::PFN_vkDestroySamplerYcbcrConversion)
        }
        b"vkCreateSampler" => erased!(layouts::create_sampler as vk::PFN_vkCreateSampler),
        b"vkDestroySampler" => erased!(layouts::destroy_sampler as vk::PFN_vkDestroySampler),
        b"vkCreateDescriptorSetLayout" => {
            erased!(layouts::create_descriptor_set_layout as vk::PFN_vkCreateDescriptorSetLayout)
        }
        b"vkDestroyDescriptorSetLayout" => {
            erased!(layouts::destroy_descriptor_set_layout as vk::PFN_vkDestroyDescriptorSetLayout)
        }
        b"vkCreatePipelineLayout" => {
            erased!(layouts::create_pipeline_layout as vk::PFN_vkCreatePipelineLayout)
        }
        b"vkDestroyPipelineLayout" => {
            erased!(layouts::destroy_pipeline_layout as vk::PFN_vkDestroyPipelineLayout)
        }
        b"vkCreateRenderPass" => erased!(render_passes::create_render_pass as vk::PFN_vkCreateRenderPass),
        b"vkCreateRenderPass2" | b"vkCreateRenderPass2KHR" => {
            erased!(render_passes::create_render_pass2 as vk::PFN_vkCreateRenderPass2)
        }
        b"vkDestroyRenderPass" => erased!(render_passes::destroy_render_pass as vk::PFN_vkDestroyRenderPass),
        b"vkCreatePipelineCache" => erased!(caches::create as vk::PFN_vkCreatePipelineCache),
        b"vkDestroyPipelineCache" => erased!(caches::destroy as vk::PFN_vkDestroyPipelineCache),
        b"vkGetPipelineCacheData" => erased!(caches::get_data as vk::PFN_vkGetPipelineCacheData),
        b"vkMergePipelineCaches" => erased!(caches::merge as vk::PFN_vkMergePipelineCaches),
        _ => None,
    }
}

/// Commands that create and destroy pipelines and pipeline binaries, and those that end deferred creation.
fn pipeline_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkCreateComputePipelines" => {
            erased!(pipelines::create_compute as vk::PFN_vkCreateComputePipelines)
        }
        b"vkCreateGraphicsPipelines" => {
            erased!(pipelines::create_graphics as vk::PFN_vkCreateGraphicsPipelines)
        }
        b"vkCreateRayTracingPipelinesKHR" => {
            erased!(ray_tracing::create_khr as vk::PFN_vkCreateRayTracingPipelinesKHR)
        }
        b"vkCreateRayTracingPipelinesNV" => {
            erased!(passed_by::create_ray_tracing as vk::PFN_vkCreateRayTracingPipelinesNV)
        }
        b"vkCreateExecutionGraphPipelinesAMDX" => {
            erased!(passed_by::create_execution_graphs as vk::PFN_vkCreateExecutionGraphPipelinesAMDX)
        }
        b"vkCreateDataGraphPipelinesARM" => {
            erased!(passed_by::create_data_graphs as PfnCreateDataGraphPipelines)
        }
        b"vkDeferredOperationJoinKHR" => {
            erased!(ray_tracing::join as vk::PFN_vkDeferredOperationJoinKHR)
        }
        b"vkGetDeferredOperationResultKHR" => {
            erased!(ray_tracing::result as vk::PFN_vkGetDeferredOperationResultKHR)
        }
        b"vkDestroyDeferredOperationKHR" => {
            erased!(ray_tracing::destroy_operation as vk::PFN_vkDestroyDeferredOperationKHR)
        }
        b"vkCreateShadersEXT" => erased!(shaders::create as vk::PFN_vkCreateShadersEXT),
        b"vkDestroyShaderEXT" => erased!(shaders::destroy as vk::PFN_vkDestroyShaderEXT),
        CREATE_BINARIES => erased!(binaries::create as pipeline_binary::PfnCreate),
        GET_PIPELINE_KEY => erased!(binaries::get_key as pipeline_binary::PfnGetKey),
        DESTROY_PIPELINE => erased!(pipelines::destroy as vk::PFN_vkDestroyPipeline),
        _ => None,
    }
}

/// Hooked only on a device that can have pipeline libraries, so that no other device pays for the look-up.
const DESTROY_PIPELINE: &[u8] = b"vkDestroyPipeline";

/// Hooked only on a device whose identifiers are the layer's.
const CREATE_BINARIES: &[u8] = b"vkCreatePipelineBinariesKHR";
/// Hooked only on a device whose identifiers are the layer's, as [`CREATE_BINARIES`].
const GET_PIPELINE_KEY: &[u8] = b"vkGetPipelineKeyKHR";

/// Whether this device needs the hook of a command that not all devices need.
fn wants(device: &Device, name: &CStr) -> bool {
    match name.to_bytes() {
        DESTROY_PIPELINE => device.has_libraries,
        CREATE_BINARIES | GET_PIPELINE_KEY => device.decided.identifiers == IdentifierMode::Emulated,
        _ => true,
    }
}

/// The identifier commands: the layer's only on a device that enabled an extension which the driver lacks
/// (contract 1.9).
fn identifier_command(name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkGetShaderModuleIdentifierEXT" => {
            erased!(identifiers::of_module as vk::PFN_vkGetShaderModuleIdentifierEXT)
        }
        b"vkGetShaderModuleCreateInfoIdentifierEXT" => {
            erased!(identifiers::of_create_info as vk::PFN_vkGetShaderModuleCreateInfoIdentifierEXT)
        }
        _ => None,
    }
}

/// Commands that are hooked on devices alone: a pointer that vkGetInstanceProcAddr gives is for devices, too, on which
/// the layer does nothing, and whose next layer cannot be found by a queue. The loader's own pointers lead to those of
/// the device.
fn queue_command(device: &Device, name: &CStr) -> vk::PFN_vkVoidFunction {
    match name.to_bytes() {
        b"vkQueuePresentKHR" if device.keeps_timeline() => {
            queues::gives_present(device);
            erased!(queues::present as vk::PFN_vkQueuePresentKHR)
        }
        _ => None,
    }
}

/// A function of the C API, which vkGetDeviceProcAddr alone gives: for a name that it does not know, the loader's
/// vkGetInstanceProcAddr gives a function that takes a device first.
fn c_function(name: &CStr) -> vk::PFN_vkVoidFunction {
    functions::of_name(name).and_then(|function| erased!(function as VkstashFunction))
}

/// vkGetInstanceProcAddr.
pub unsafe extern "system" fn get_instance_proc_addr(
    handle: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader passes a NULL-terminated name and NULL or a live instance.
    guard("vkGetInstanceProcAddr", || unsafe { look_up(handle, CStr::from_ptr(name)) }, || None)
}

/// # Safety
/// `handle` is NULL or live.
unsafe fn look_up(handle: vk::Instance, name: &CStr) -> vk::PFN_vkVoidFunction {
    let own = instance_command(name);
    // SAFETY: `handle` is a live instance here: NULL is ruled out before `find` reads its dispatch table pointer.
    let Some(instance) =
        (handle != vk::Instance::null()).then(|| unsafe { state::process::instance::find(handle) }).flatten()
    else {
        // Before there is an instance only the global commands may be asked for.
        return own.or_else(|| global_command(name));
    };
    if own.is_some() {
        return own;
    }
    // SAFETY: a live instance and its next layer.
    let below = unsafe { (instance.next)(instance.handle, name.as_ptr()) };
    if instance.inert {
        return below;
    }
    // A hook stands for a command that somebody below has; the identifier commands may be the layer's alone, on some
    // device of this instance.
    let hook =
        physical_device_command(name).or_else(|| device_command(name)).or_else(|| messenger_command(name));
    let hook = hook.filter(|_| below.is_some());
    hook.or(below).or_else(|| identifier_command(name))
}

/// vk_layerGetPhysicalDeviceProcAddr: the layer's commands, the next layer's for the rest (contract 1.8).
pub unsafe extern "system" fn get_physical_device_proc_addr(
    handle: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let look_up = || {
        // SAFETY: the loader passes a NULL-terminated name and a live instance.
        unsafe {
            let name = CStr::from_ptr(name);
            let instance = state::process::instance::find(handle)?;
            let below = instance.next_physical.and_then(|next| next(instance.handle, name.as_ptr()));
            if name == c"vkCreateDevice" {
                return instance_command(name);
            }
            let own = physical_device_command(name);
            if own.is_some() {
                // The loader may ask for a command that the chain knows by vkGetInstanceProcAddr alone.
                let known = below.or_else(|| (instance.next)(instance.handle, name.as_ptr()));
                return if instance.inert { below } else { own.filter(|_| known.is_some()) };
            }
            // Other commands that this layer owns are no physical-device commands.
            let owned = [instance_command(name), device_command(name), messenger_command(name)];
            if owned.iter().any(Option::is_some) { None } else { below }
        }
    };
    guard("vk_layerGetPhysicalDeviceProcAddr", look_up, || None)
}

/// vkGetDeviceProcAddr.
pub unsafe extern "system" fn get_device_proc_addr(
    handle: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let look_up = || {
        // SAFETY: the loader passes a NULL-terminated name and a live device.
        unsafe {
            let name = CStr::from_ptr(name);
            if name.to_bytes().starts_with(b"vkstash_") {
                return c_function(name);
            }
            match state::devices::live_devices::entry(handle)? {
                Entry::Inert { next } => match name.to_bytes() {
                    b"vkGetDeviceProcAddr" | b"vkDestroyDevice" => device_command(name),
                    _ => next(handle, name.as_ptr()),
                },
                Entry::Active(device) => {
                    if let Some(own) = identifier_command(name) {
                        return match device.decided.identifiers {
                            IdentifierMode::Emulated => Some(own),
                            IdentifierMode::Native => (device.next)(handle, name.as_ptr()),
                            IdentifierMode::Off => None,
                        };
                    }
                    let below = (device.next)(handle, name.as_ptr());
                    let hook = device_command(name).or_else(|| queue_command(&device, name));
                    let hook = hook.filter(|_| wants(&device, name));
                    hook.filter(|_| below.is_some()).or(below)
                }
            }
        }
    };
    guard("vkGetDeviceProcAddr", look_up, || None)
}
