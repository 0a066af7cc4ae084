//! Queues: getting one is most programs' first command on a device, and presenting ends a frame.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use ash::vk;

use crate::hooks::inert::pass;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use crate::state::process::frames::Presented;
use vkstash_host::guard::guard;

/// vkGetDeviceQueue.
pub unsafe extern "system" fn get(handle: vk::Device, family: u32, index: u32, queue: *mut vk::Queue) {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_device_queue(family, index, queue));
    };
    if let Some(next) = device.table.get_device_queue {
        // SAFETY: the program passes a family and an index of a queue of this live device, and a place for the handle.
        unsafe { next(handle, family, index, queue) };
    }
    guard("vkGetDeviceQueue", || device.work.listeners.note_command(), || ());
}

/// vkGetDeviceQueue2.
pub unsafe extern "system" fn get2(
    handle: vk::Device,
    info: *const vk::DeviceQueueInfo2<'_>,
    queue: *mut vk::Queue,
) {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_device_queue2(info, queue));
    };
    if let Some(next) = device.table.get_device_queue2 {
        // SAFETY: the program passes a valid `info`, which names a queue of this live device, and a place for the
        // handle.
        unsafe { next(handle, info, queue) };
    }
    guard("vkGetDeviceQueue2", || device.work.listeners.note_command(), || ());
}

/// The next layer's vkQueuePresentKHR, as long as all devices that were given the hook have the same one: then a
/// look-up that fails costs the program no picture.
static ONLY_PRESENT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Devices have different ones.
static HAS_SEVERAL: AtomicBool = AtomicBool::new(false);

/// The hook of vkQueuePresentKHR is given out for this device.
pub fn gives_present(device: &Device) {
    if let Some(next) = device.table.queue_present {
        let next = next as *mut ();
        let known = ONLY_PRESENT.compare_exchange(ptr::null_mut(), next, Ordering::AcqRel, Ordering::Acquire);
        if known.is_err_and(|known| known != next) {
            HAS_SEVERAL.store(true, Ordering::Release);
        }
    }
}

fn only_present() -> Option<vk::PFN_vkQueuePresentKHR> {
    if HAS_SEVERAL.load(Ordering::Acquire) {
        return None;
    }
    let next = ONLY_PRESENT.load(Ordering::Acquire);
    // SAFETY: what is not NULL came from a pointer of this type in `gives_present`.
    (!next.is_null()).then(|| unsafe { mem::transmute::<*mut (), vk::PFN_vkQueuePresentKHR>(next) })
}

/// vkQueuePresentKHR.
pub unsafe extern "system" fn present(queue: vk::Queue, info: *const vk::PresentInfoKHR<'_>) -> vk::Result {
    // SAFETY: the program passes a queue of a live device, and destroys that only after this command has returned.
    let device = unsafe { live_devices::find_of_queue(queue) };
    let next = device.as_ref().and_then(|device| device.table.queue_present);
    let Some(next) = next.or_else(only_present) else {
        return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
    };
    if let Some(device) = &device {
        let presented = device.frames().present();
        if presented != Presented::default() {
            guard("vkQueuePresentKHR", || device.note(presented), || ());
        }
    }
    // SAFETY: the program passes a live queue of the device that `next` belongs to, and a valid `info`.
    unsafe { next(queue, info) }
}
