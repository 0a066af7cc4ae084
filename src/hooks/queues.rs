//! Queues: getting one is most programs' first command on a device.

use ash::vk;

use crate::guard::guard;
use crate::hooks::inert::pass;
use crate::state::live_devices;

/// vkGetDeviceQueue.
pub unsafe extern "system" fn get(handle: vk::Device, family: u32, index: u32, queue: *mut vk::Queue) {
    // SAFETY: a live device.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_device_queue(family, index, queue));
    };
    if let Some(next) = device.table.get_device_queue {
        // SAFETY: the program's valid arguments.
        unsafe { next(handle, family, index, queue) };
    }
    guard("vkGetDeviceQueue", || device.first_command.note(), || ());
}

/// vkGetDeviceQueue2.
pub unsafe extern "system" fn get2(
    handle: vk::Device,
    info: *const vk::DeviceQueueInfo2<'_>,
    queue: *mut vk::Queue,
) {
    // SAFETY: a live device.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_device_queue2(info, queue));
    };
    if let Some(next) = device.table.get_device_queue2 {
        // SAFETY: the program's valid arguments.
        unsafe { next(handle, info, queue) };
    }
    guard("vkGetDeviceQueue2", || device.first_command.note(), || ());
}
