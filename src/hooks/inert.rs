//! Calls on a device on which the layer does nothing. They come to a hook only by a pointer that vkGetInstanceProcAddr
//! gave, which does not know of devices.

use ash::vk;

use crate::state::devices::live_devices::{self, Entry};
use crate::state::process::dispatch::{DeviceTable, device_resolver};

/// The commands of the next layer. Looked up in each call: this is no usual device.
///
/// # Safety
/// `handle` is live.
pub unsafe fn table(handle: vk::Device) -> Option<DeviceTable> {
    // SAFETY: `handle` is a live device, and `next` is the vkGetDeviceProcAddr that was registered for it.
    unsafe {
        match live_devices::entry(handle)? {
            Entry::Inert { next } => Some(DeviceTable::load(device_resolver(next, handle))),
            Entry::Active(_) => None,
        }
    }
}

/// A return type of commands that can say that nothing is known of the device.
pub trait Unknown {
    /// The value that a command returns where nothing is known of the device.
    fn unknown() -> Self;
}

impl Unknown for () {
    fn unknown() {}
}

impl Unknown for vk::Result {
    fn unknown() -> vk::Result {
        vk::Result::ERROR_UNKNOWN
    }
}

/// Ends a hook: the next layer gets the program's call as it is.
macro_rules! pass {
    ($handle:ident, $command:ident($($argument:ident),*)) => {{
        let table = || {
            // SAFETY: the program passes a live device, and destroys it only after this command has returned.
            unsafe { $crate::hooks::inert::table($handle) }
        };
        let table = vkstash_host::guard::guard(stringify!($command), table, || None);
        return match table.and_then(|table| table.$command) {
            // SAFETY: the device is live, and the arguments are those that the program passes to the same command,
            // valid until it returns.
            Some(next) => unsafe { next($handle, $($argument),*) },
            None => $crate::hooks::inert::Unknown::unknown(),
        };
    }};
}

pub(super) use pass;
