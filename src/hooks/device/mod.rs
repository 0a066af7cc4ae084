//! vkCreateDevice, vkDestroyDevice.
//!
//! Of device features only pipelineCreationCacheControl may be switched on for a program that did not ask (and
//! pipelineBinaries, if the user wants that), and what the layer emulates is taken out again before the driver
//! sees it ([`changes`]). The program's structures are never written to: what must change is copied.

mod changes;

use std::sync::Arc;

use ash::vk;

use crate::guard::guard;
use crate::loader::{self, DeviceLink};
use crate::recipe::chain::Arena;
use crate::state::device::{self, Decided, Device, Entry};
use crate::state::dispatch::{DeviceTable, device_resolver, instance_resolver};
use crate::state::instance::{self, Instance, PhysicalDevice};
use crate::state::policy;
use crate::state::setup::Setup;
use changes::{Changed, Wanted};

/// vkCreateDevice.
pub unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the loader passes the program's valid create info with its own link in the chain.
    let create = || unsafe { create(physical, &*info, allocator, device) };
    guard("vkCreateDevice", create, || vk::Result::ERROR_INITIALIZATION_FAILED)
}

/// # Safety
/// As vkCreateDevice, called by the loader.
unsafe fn create(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the caller's contract; the link is advanced before the next layer sees it (contract 1.10), and
    // *pDevice is left to the layers below.
    unsafe {
        let Some(instance) = instance::find(physical) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let Some(link) = loader::device_link(info) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let resolve = instance_resolver(link.next().get_instance_proc_addr, instance.handle);
        let Some(next) = resolve(c"vkCreateDevice") else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next: vk::PFN_vkCreateDevice = std::mem::transmute(next);
        if instance.inert {
            let result = next(physical, info, allocator, device);
            if result == vk::Result::SUCCESS {
                device::insert(*device, Entry::Inert { next: link.next().get_device_proc_addr });
            }
            return result;
        }
        let known = instance.physical_device(physical);
        let wanted = Wanted::read(info, &known, &instance.config);
        let mut arena = Arena::default();
        let mut changed = Changed::new(info);
        let mut enabled = changed.apply(&wanted, &known, &mut arena);
        let mut result = next(physical, &changed.info, allocator, device);
        let added = (enabled.cache_control && !wanted.enabled.cache_control)
            || (enabled.binaries && !wanted.enabled.binaries);
        if result != vk::Result::SUCCESS && added {
            // A feature that the program did not ask for may be to blame: once more without any.
            link.rewind();
            changed = Changed::new(info);
            let bare = Wanted { add_cache_control: false, add_binaries: false, ..wanted };
            enabled = changed.apply(&bare, &known, &mut arena);
            result = next(physical, &changed.info, allocator, device);
        }
        if result == vk::Result::SUCCESS {
            let decided = Decided {
                cache_control: enabled.cache_control,
                identifiers: wanted.identifiers,
                binaries: enabled.binaries
                    && (instance.config.binaries || policy::of(known.driver).prefers_binaries),
                setup: Setup::read(info, &instance.application),
            };
            register(*device, link.next(), instance, known, decided);
        }
        result
    }
}

/// # Safety
/// `handle` was just created through `link`.
unsafe fn register(
    handle: vk::Device,
    link: &DeviceLink,
    instance: Arc<Instance>,
    physical: Arc<PhysicalDevice>,
    decided: Decided,
) {
    let next = link.get_device_proc_addr;
    // SAFETY: the caller's contract.
    unsafe {
        let table = DeviceTable::load(device_resolver(next, handle));
        let device = Device::new(handle, next, table, instance, physical, decided);
        device::insert(handle, Entry::Active(Arc::new(device)));
    }
}

/// vkDestroyDevice.
pub unsafe extern "system" fn destroy_device(
    handle: vk::Device,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let destroy = || {
        if handle == vk::Device::null() {
            return;
        }
        // SAFETY: the program destroys a live device, once; its dispatch key is read before it is gone.
        // Threads are joined with the last reference to the stash, before the call goes down (contract 1.11).
        unsafe {
            let next = match device::remove(handle) {
                Some(Entry::Active(device)) => {
                    let next = device.table.destroy_device;
                    device.drop_companions();
                    drop(device);
                    next
                }
                Some(Entry::Inert { next }) => {
                    let pointer = next(handle, c"vkDestroyDevice".as_ptr());
                    pointer.map(|pointer| {
                        std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyDevice>(pointer)
                    })
                }
                None => None,
            };
            if let Some(next) = next {
                next(handle, allocator);
            }
        }
    };
    guard("vkDestroyDevice", destroy, || ());
}
