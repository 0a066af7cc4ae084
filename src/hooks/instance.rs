//! vkCreateInstance, vkDestroyInstance.

use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;

use crate::background::{gate, work};
use crate::config::{self, Config, OfProcess};
use crate::faults;
use crate::loader::{self, InstanceLink};
use crate::log;
use crate::state::process::dispatch::{InstanceTable, instance_resolver};
use crate::state::process::excluded;
use crate::state::process::instance::{self, Instance};
use crate::state::process::session;
use vkstash_host::guard::{guard, keep_or_undo};
use vkstash_recipe::application::Application;
use vkstash_store::reports::runs;

/// vkCreateInstance.
pub unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader passes the program's valid create info with its own link in the chain.
    let create = || unsafe { create(&*info, allocator, &mut *instance) };
    guard("vkCreateInstance", || gate::without_workers(create), || vk::Result::ERROR_INITIALIZATION_FAILED)
}

/// vkEnumerateInstanceVersion, for layers above that ask before there is an instance, and so before this layer knows
/// the next one. The loader that called them knows best; each one that has the command is of version 1.1 at least.
pub unsafe extern "system" fn enumerate_version(version: *mut u32) -> vk::Result {
    // SAFETY: a NUL-terminated name; nothing is loaded. The command of this name has this type.
    let ask = || unsafe {
        let loader = libc::dlopen(c"libvulkan.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if loader.is_null() {
            return None;
        }
        let command = libc::dlsym(loader, c"vkEnumerateInstanceVersion".as_ptr());
        let command: Option<vk::PFN_vkEnumerateInstanceVersion> = std::mem::transmute(command);
        let answer = command.map(|command| command(version));
        libc::dlclose(loader);
        answer
    };
    guard("vkEnumerateInstanceVersion", ask, || None).unwrap_or_else(|| {
        // SAFETY: valid for one number (VUID-vkEnumerateInstanceVersion-pApiVersion-parameter).
        unsafe { *version = vk::API_VERSION_1_1 };
        vk::Result::SUCCESS
    })
}

/// # Safety
/// `info` is a valid create info with the loader's VkLayerInstanceCreateInfo in its chain, and `allocator` is NULL or
/// valid.
unsafe fn create(
    info: &vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: &mut vk::Instance,
) -> vk::Result {
    // SAFETY: `info` has the loader's link in its chain, `allocator` is the program's; the link is advanced
    // before the next layer sees it (contract 1.10).
    unsafe {
        let Some(link) = loader::instance_link(info) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        if link.has_copies {
            log::init();
            tracing::warn!("the layer is enabled under several names: the first one counts");
        }
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
        let has_allocator = !allocator.is_null();
        let keep = || register(handle, link, Some(info), config::inert(), has_allocator);
        let pass_through = || register(handle, link, None, true, has_allocator);
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
    has_allocator: bool,
) {
    if info.is_some() {
        faults::here("instance made");
    }
    // SAFETY: `handle` was just created through `link`, whose vkGetInstanceProcAddr therefore resolves its
    // commands; `info` is the valid create info of it.
    unsafe {
        let table = InstanceTable::load(instance_resolver(link.get_instance_proc_addr, handle));
        let application = info.map(|info| Application::read(info)).unwrap_or_default();
        let extension = ash::khr::get_physical_device_properties2::NAME;
        let properties2 = application.api_version >= vk::API_VERSION_1_1
            || info.is_some_and(|info| enables(info, extension));
        let config = if info.is_some() { from_environment() } else { Config::default() };
        let inert = inert || excluded::is_left_alone(&config, &application.name);
        instance::insert(Arc::new(Instance::new(
            handle,
            inert,
            link.get_instance_proc_addr,
            link.get_physical_device_proc_addr,
            table,
            application,
            config,
            properties2,
            has_allocator,
        )));
    }
}

/// Reads the environment: here only, on the program's thread. What other threads ask for later is read, too.
fn from_environment() -> Config {
    OfProcess::get();
    let config = Config::from_environment();
    config.report.iter().for_each(|folder| runs::note_instance(folder));
    config
}

/// # Safety
/// `handle` was just created through `link`.
unsafe fn resolve_destroy(link: &InstanceLink, handle: vk::Instance) -> Option<vk::PFN_vkDestroyInstance> {
    // SAFETY: `handle` was just created through `link`; the command of that name has the type
    // PFN_vkDestroyInstance.
    unsafe {
        let found = instance_resolver(link.get_instance_proc_addr, handle)(c"vkDestroyInstance")?;
        Some(std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyInstance>(found))
    }
}

/// # Safety
/// `info` is a valid VkInstanceCreateInfo.
unsafe fn enables(info: &vk::InstanceCreateInfo<'_>, extension: &CStr) -> bool {
    let names = info.pp_enabled_extension_names;
    let count = if names.is_null() { 0 } else { info.enabled_extension_count as usize };
    // SAFETY: ppEnabledExtensionNames has enabledExtensionCount NULL-terminated strings
    // (VUID-VkInstanceCreateInfo-ppEnabledExtensionNames-parameter).
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
    let Some(instance) = removed else {
        return guard("vkDestroyInstance", || session::release(handle), || ());
    };
    let left = guard("vkDestroyInstance", || work::leave_instance(&instance), || false);
    if !left || instance.is_kept() {
        log::init();
        tracing::warn!("a background task does not end; its instance is not destroyed");
    } else if let Some(destroy) = instance.table.destroy_instance {
        // SAFETY: the program passes a live instance, which nothing uses any more, and an `allocator` that is NULL or
        // valid. The layer's own tasks on it have ended, or it is not destroyed.
        let destroy = || unsafe { destroy(handle, allocator) };
        guard("vkDestroyInstance", || gate::without_workers(destroy), || ());
    }
    guard("vkDestroyInstance", || session::release(handle), || ());
}
