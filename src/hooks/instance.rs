//! vkCreateInstance, vkDestroyInstance and the three look-ups.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use ash::vk;

use super::{device_command, identifier_command, instance_command, physical_device_command, wants};
use crate::config::{self, Config};
use crate::faults;
use crate::guard::{guard, keep_or_undo};
use crate::loader::{self, InstanceLink};
use crate::state::device::{self, Entry, IdentifierMode};
use crate::state::dispatch::{InstanceTable, instance_resolver};
use crate::state::instance::{self, Instance};
use crate::state::setup::Application;

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
    // SAFETY: the caller's contract.
    let Some(instance) =
        (handle != vk::Instance::null()).then(|| unsafe { instance::find(handle) }).flatten()
    else {
        // Before there is an instance only the global commands may be asked for.
        return own;
    };
    if own.is_some() {
        return own;
    }
    // SAFETY: a live instance and its next layer.
    let below = unsafe { (instance.next)(instance.handle, name.as_ptr()) };
    if instance.inert {
        return below;
    }
    // A hook stands for a command that somebody below has; the identifier commands may be ours alone, on some
    // device of this instance.
    let hook = physical_device_command(name).or_else(|| device_command(name)).filter(|_| below.is_some());
    hook.or(below).or_else(|| identifier_command(name))
}

/// vk_layerGetPhysicalDeviceProcAddr: our own commands, the next layer's for the rest (contract 1.8).
pub unsafe extern "system" fn get_physical_device_proc_addr(
    handle: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let look_up = || {
        // SAFETY: the loader passes a NULL-terminated name and a live instance.
        unsafe {
            let name = CStr::from_ptr(name);
            let instance = instance::find(handle)?;
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
            if instance_command(name).is_some() || device_command(name).is_some() { None } else { below }
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
            match device::entry(handle)? {
                Entry::Inert { next } => match name.to_bytes() {
                    b"vkGetDeviceProcAddr" | b"vkDestroyDevice" => device_command(name),
                    _ => next(handle, name.as_ptr()),
                },
                Entry::Active(device) => {
                    if let Some(own) = identifier_command(name) {
                        return match device.identifiers {
                            IdentifierMode::Emulated => Some(own),
                            IdentifierMode::Native => (device.next)(handle, name.as_ptr()),
                            IdentifierMode::Off => None,
                        };
                    }
                    let below = (device.next)(handle, name.as_ptr());
                    let hook = device_command(name).filter(|_| wants(&device, name));
                    hook.filter(|_| below.is_some()).or(below)
                }
            }
        }
    };
    guard("vkGetDeviceProcAddr", look_up, || None)
}

/// vkCreateInstance.
pub unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader passes the program's valid create info with its own link in the chain.
    let create = || unsafe { create(&*info, allocator, &mut *instance) };
    guard("vkCreateInstance", create, || vk::Result::ERROR_INITIALIZATION_FAILED)
}

/// # Safety
/// As vkCreateInstance, called by the loader.
unsafe fn create(
    info: &vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: &mut vk::Instance,
) -> vk::Result {
    // SAFETY: the caller's contract; the link is advanced before the next layer sees it (contract 1.10).
    unsafe {
        let Some(link) = loader::instance_link(info) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let link = link.next();
        let resolve = instance_resolver(link.get_instance_proc_addr, vk::Instance::null());
        let Some(next) = resolve(c"vkCreateInstance") else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next: vk::PFN_vkCreateInstance = std::mem::transmute(next);
        let result = next(info, allocator, instance);
        if result != vk::Result::SUCCESS {
            return result;
        }
        let handle = *instance;
        let keep = || register(handle, link, Some(info), config::inert());
        let pass_through = || register(handle, link, None, true);
        let undo = || {
            if let Some(destroy) = resolve_destroy(link, handle) {
                destroy(handle, allocator);
            }
        };
        if keep_or_undo("vkCreateInstance", keep, Some(pass_through), undo) {
            return result;
        }
        *instance = vk::Instance::null();
        vk::Result::ERROR_INITIALIZATION_FAILED
    }
}

/// Registers an instance; without its create info one that everything passes through.
///
/// # Safety
/// `handle` was just created through `link`.
unsafe fn register(
    handle: vk::Instance,
    link: &InstanceLink,
    info: Option<&vk::InstanceCreateInfo<'_>>,
    inert: bool,
) {
    if info.is_some() {
        faults::here("instance made");
    }
    // SAFETY: the caller's contract.
    unsafe {
        let table = InstanceTable::load(instance_resolver(link.get_instance_proc_addr, handle));
        let application = info.map(|info| Application::read(info)).unwrap_or_default();
        let extension = ash::khr::get_physical_device_properties2::NAME;
        let properties2 = application.api_version >= vk::API_VERSION_1_1
            || info.is_some_and(|info| enables(info, extension));
        instance::insert(Arc::new(Instance::new(
            handle,
            inert,
            link.get_instance_proc_addr,
            link.get_physical_device_proc_addr,
            table,
            application,
            if info.is_some() { Config::from_environment() } else { Config::default() },
            properties2,
        )));
    }
}

/// # Safety
/// `handle` was just created through `link`.
unsafe fn resolve_destroy(link: &InstanceLink, handle: vk::Instance) -> Option<vk::PFN_vkDestroyInstance> {
    // SAFETY: the caller's contract; the command of that name has that type.
    unsafe {
        let found = instance_resolver(link.get_instance_proc_addr, handle)(c"vkDestroyInstance")?;
        Some(std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyInstance>(found))
    }
}

/// # Safety
/// A valid create info.
unsafe fn enables(info: &vk::InstanceCreateInfo<'_>, extension: &CStr) -> bool {
    let names = info.pp_enabled_extension_names;
    let count = if names.is_null() { 0 } else { info.enabled_extension_count as usize };
    // SAFETY: the caller's contract: valid for its count, each a NULL-terminated string.
    (0..count).any(|index| unsafe { CStr::from_ptr(*names.add(index)) } == extension)
}

/// vkDestroyInstance.
pub unsafe extern "system" fn destroy_instance(
    handle: vk::Instance,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    if handle == vk::Instance::null() {
        return;
    }
    // SAFETY: the program destroys a live instance, once; its dispatch key is read before it is gone.
    let removed = guard("vkDestroyInstance", || unsafe { instance::remove(handle) }, || None);
    if let Some(destroy) = removed.and_then(|instance| instance.table.destroy_instance) {
        // SAFETY: the program's valid arguments.
        unsafe { destroy(handle, allocator) };
    }
}
