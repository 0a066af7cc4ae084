//! Features and extensions of a translator's device.

use std::ffi::CStr;

use ash::{ext, khr, vk};

use crate::corpus::Failure;
use crate::vulkan::{IDENTIFIER_EXTENSION, Instance, features};

/// Enables what translators enable: the features that the shaders use, if the device has them; the features that the
/// habits need; and identifiers if the device has cache control.
pub(super) fn device(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    flags2: bool,
) -> Result<(ash::Device, Option<ext::shader_module_identifier::Device>), Failure> {
    let mut extensions: Vec<&CStr> = vec![khr::pipeline_library::NAME, ext::graphics_pipeline_library::NAME];
    if flags2 {
        extensions.push(khr::maintenance5::NAME);
    }
    for name in &extensions {
        if !instance.has(physical, name) {
            return Err(format!("the device lacks {}", name.to_string_lossy()).into());
        }
    }
    let mut have11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut have12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut have13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut libraries = vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT::default();
    let mut have = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut have11)
        .push_next(&mut have12)
        .push_next(&mut have13)
        .push_next(&mut libraries);
    // SAFETY: a live physical device of Vulkan 1.3 with the extension, and a valid chain.
    unsafe { instance.raw.get_physical_device_features2(physical, &mut have) };
    let core = have.features;
    if have13.dynamic_rendering == 0 || libraries.graphics_pipeline_library == 0 {
        return Err("the device lacks dynamic rendering or pipeline libraries".into());
    }
    let identifiers = have13.pipeline_creation_cache_control != 0
        && instance.has(physical, IDENTIFIER_EXTENSION)
        && instance.identifier_support(physical).0;

    let (mut on11, mut on12) = (features::eleven(&have11), features::twelve(&have12));
    let mut on13 = features::thirteen(&have13)
        .dynamic_rendering(true)
        .pipeline_creation_cache_control(have13.pipeline_creation_cache_control != 0);
    let mut identifier =
        vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default().shader_module_identifier(true);
    let mut five = vk::PhysicalDeviceMaintenance5FeaturesKHR::default().maintenance5(true);
    let mut libraries =
        vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT::default().graphics_pipeline_library(true);
    let mut enabled = vk::PhysicalDeviceFeatures2::default()
        .features(features::core(&core))
        .push_next(&mut on11)
        .push_next(&mut on12)
        .push_next(&mut on13)
        .push_next(&mut libraries);
    if flags2 {
        // Each device with the extension has its feature.
        enabled = enabled.push_next(&mut five);
    }
    if identifiers {
        extensions.push(IDENTIFIER_EXTENSION);
        enabled = enabled.push_next(&mut identifier);
    }
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queue)
        .enabled_extension_names(&names)
        .push_next(&mut enabled);
    // SAFETY: a live physical device; every enabled feature and extension was queried before.
    let device = unsafe { instance.raw.create_device(physical, &info, None) }?;
    let commands = identifiers.then(|| ext::shader_module_identifier::Device::new(&instance.raw, &device));
    Ok((device, commands))
}
