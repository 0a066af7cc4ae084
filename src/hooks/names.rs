//! Names and tags of the device itself: the specification has the program give them while nobody else uses the device,
//! and the program does not know of workers.

use ash::vk;

use crate::background::gate;
use crate::hooks::inert::pass;
use crate::state::devices::live_devices;
use vkstash_host::guard::guard;

/// The hook of a command that names or tags an object, of which `$device` is the type of a device.
macro_rules! hook {
    ($name:ident, $command:literal, $field:ident, $info:ty, $device:expr) => {
        #[doc = concat!($command, ".")]
        pub unsafe extern "system" fn $name(handle: vk::Device, info: *const $info) -> vk::Result {
            // SAFETY: the program passes a live device, and destroys it only after this command has returned.
            let found = guard($command, || unsafe { live_devices::find(handle) }, || None);
            let Some(device) = found else {
                pass!(handle, $field(info));
            };
            let Some(next) = device.table.$field else {
                return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
            };
            // SAFETY: the device is live, and `info` points to a valid structure: the program's arguments of this
            // command, valid until it returns.
            let name = || unsafe { next(handle, info) };
            // SAFETY: a required pointer to a valid structure.
            if unsafe { (*info).object_type } != $device {
                return name();
            }
            let mut result = None;
            guard($command, || gate::without_workers(|| result = Some(name())), || ());
            result.unwrap_or_else(name)
        }
    };
}

hook!(
    name,
    "vkSetDebugUtilsObjectNameEXT",
    set_debug_utils_object_name,
    vk::DebugUtilsObjectNameInfoEXT<'_>,
    vk::ObjectType::DEVICE
);
hook!(
    tag,
    "vkSetDebugUtilsObjectTagEXT",
    set_debug_utils_object_tag,
    vk::DebugUtilsObjectTagInfoEXT<'_>,
    vk::ObjectType::DEVICE
);
hook!(
    marker_name,
    "vkDebugMarkerSetObjectNameEXT",
    debug_marker_set_object_name,
    vk::DebugMarkerObjectNameInfoEXT<'_>,
    vk::DebugReportObjectTypeEXT::DEVICE
);
hook!(
    marker_tag,
    "vkDebugMarkerSetObjectTagEXT",
    debug_marker_set_object_tag,
    vk::DebugMarkerObjectTagInfoEXT<'_>,
    vk::DebugReportObjectTypeEXT::DEVICE
);
