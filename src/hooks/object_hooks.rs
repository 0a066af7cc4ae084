//! Hooks that create and destroy the objects which pipelines are made of: described when they are created.

/// Defines the create hook of one type of object. `$keep` gets the device, the handle, the create info, and whether
/// there is an allocator.
macro_rules! create_hook {
    ($create:ident, $keep:path, $info:ty, $handle:ty, $name:literal) => {
        #[doc = concat!("vkCreate", $name, ".")]
        pub unsafe extern "system" fn $create(
            handle: ash::vk::Device,
            info: *const $info,
            allocator: *const ash::vk::AllocationCallbacks<'_>,
            object: *mut $handle,
        ) -> ash::vk::Result {
            // SAFETY: the program passes a live device, and destroys it only after this command has returned.
            let Some(device) = (unsafe { $crate::state::devices::live_devices::find(handle) }) else {
                $crate::hooks::inert::pass!(handle, $create(info, allocator, object));
            };
            let Some(next) = device.table.$create else { return ash::vk::Result::ERROR_UNKNOWN };
            // SAFETY: `info`, `allocator` and `object` are the program's arguments of this command, valid until it
            // returns.
            let result = unsafe { next(handle, info, allocator, object) };
            if result == ash::vk::Result::SUCCESS {
                // SAFETY: a valid create info; the driver has written the handle.
                let describe = || unsafe {
                    if device.describes() {
                        $keep(&device, *object, &*info, !allocator.is_null());
                    }
                };
                vkstash_host::guard::guard(concat!("vkCreate", $name), describe, || ());
            }
            result
        }
    };
}

/// Defines the destroy hook of one type of object. `$forget` gets the device and the handle. False: the driver keeps
/// the object for now.
macro_rules! destroy_hook {
    ($destroy:ident, $forget:path, $handle:ty, $name:literal) => {
        #[doc = concat!("vkDestroy", $name, ".")]
        pub unsafe extern "system" fn $destroy(
            handle: ash::vk::Device,
            object: $handle,
            allocator: *const ash::vk::AllocationCallbacks<'_>,
        ) {
            // SAFETY: the program passes a live device, and destroys it only after this command has returned.
            let Some(device) = (unsafe { $crate::state::devices::live_devices::find(handle) }) else {
                $crate::hooks::inert::pass!(handle, $destroy(object, allocator));
            };
            // Forgotten first: the driver may give the handle to another thread at once.
            let forget = || $forget(&device, object);
            let goes_down = vkstash_host::guard::guard(concat!("vkDestroy", $name), forget, || true);
            if let Some(next) = device.table.$destroy.filter(|_| goes_down) {
                // SAFETY: `object` is NULL or an object that nothing uses any more, and `allocator` NULL or valid: the
                // program's arguments of this command.
                unsafe { next(handle, object, allocator) };
            }
        }
    };
}

pub(super) use {create_hook, destroy_hook};
