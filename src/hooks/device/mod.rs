//! vkCreateDevice, vkDestroyDevice.
//!
//! The only device feature that may be switched on for a program that did not ask is pipelineCreationCacheControl
//! (and graphicsPipelineLibrary, if the user wants that). What the layer emulates is taken out again before the driver
//! sees it ([`changes`]). If the driver's own cache is disabled, the driver is told. The program's structures are never
//! written to: what must change is copied.

mod changes;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ash::vk;

use crate::background::{driver_hits, gate, park, work};
use crate::faults;
use crate::loader::{self, Advanced, DeviceLink};
use crate::prewarm::{finish, update};
use crate::state::devices::decided::{Decided, IdentifierMode};
use crate::state::devices::device::Device;
use crate::state::devices::live_devices::{self, Entry};
use crate::state::process::dispatch::{DeviceTable, device_resolver, instance_resolver};
use crate::state::process::instance::{self, Instance, PhysicalDevice};
use crate::state::process::session;
use crate::state::process::switches::{self, CacheKinds};
use changes::{Changed, Enabled, Wanted};
use vkstash_host::guard::{contained, guard, keep_or_undo};
use vkstash_recipe::chain::Arena;
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_store::settings;

/// vkCreateDevice.
pub unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the loader passes the program's valid create info with its own link in the chain.
    let create = || unsafe { create(physical, &*info, allocator, device) };
    guard("vkCreateDevice", || gate::without_workers(create), || vk::Result::ERROR_INITIALIZATION_FAILED)
}

/// # Safety
/// `physical` is live, `info` is a valid create info with the loader's VkLayerDeviceCreateInfo in its chain,
/// `allocator` is NULL or valid, and `device` may be written.
unsafe fn create(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: `physical` is live and `info` has the loader's link in its chain; the link is advanced before
    // the next layer sees it (contract 1.10), and *pDevice is left to the layers below.
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
            return pass_through(physical, info, link.next(), next, allocator, device);
        }
        // Creating the device is the last step in here, so a failure leaves no device.
        let make = || Some(make(physical, info, &link, &instance, next, allocator, device));
        let Some((result, made)) = guard("vkCreateDevice", make, || None) else {
            link.rewind();
            return pass_through(physical, info, link.next(), next, allocator, device);
        };
        let Some(made) = made else { return result };
        let handle = *device;
        let (next, emulates) = (link.next().get_device_proc_addr, made.emulates());
        let calls_back = instance.has_allocator || !allocator.is_null() || changes::calls_back(info);
        let keep = || register(physical, handle, link.next(), instance, info, made, calls_back);
        // No other component keeps what the layer has promised in the driver's place.
        let pass_through = (!emulates).then_some(|| live_devices::insert(handle, Entry::Inert { next }));
        let undo = || destroy_below(next, handle, allocator);
        if keep_or_undo("vkCreateDevice", keep, pass_through, undo) {
            return result;
        }
        *device = vk::Device::null();
        vk::Result::ERROR_INITIALIZATION_FAILED
    }
}

/// The program's own call, and a device on which the layer does nothing.
///
/// # Safety
/// The arguments are those of vkCreateDevice, as the loader passed them; `link` is advanced.
unsafe fn pass_through(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    link: &DeviceLink,
    next: vk::PFN_vkCreateDevice,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: these are the loader's arguments of vkCreateDevice; `*device` is read only after success, when
    // it was written.
    unsafe {
        let result = next(physical, info, allocator, device);
        if result != vk::Result::SUCCESS {
            return result;
        }
        let (handle, next) = (*device, link.get_device_proc_addr);
        let keep = || live_devices::insert(handle, Entry::Inert { next });
        let undo = || destroy_below(next, handle, allocator);
        if keep_or_undo("vkCreateDevice", keep, None::<fn()>, undo) {
            return result;
        }
        *device = vk::Device::null();
        vk::Result::ERROR_INITIALIZATION_FAILED
    }
}

/// What was decided about a device that the driver has made.
struct Decisions {
    known: Arc<PhysicalDevice>,
    wanted: Wanted,
    enabled: Enabled,
}

impl Decisions {
    /// Whether the program was promised what the driver lacks.
    fn emulates(&self) -> bool {
        self.wanted.identifiers == IdentifierMode::Emulated || self.known.emulates_cache_control
    }
}

/// How long vkCreateDevice may look into the settings. If they are not known then, the driver keeps its cache.
const LOOK: Duration = Duration::from_millis(2);

/// Whether the program or the user has disabled the driver's own cache.
fn is_driver_cache_disabled(instance: &Instance) -> bool {
    let kind = CacheKinds::DRIVER_MANAGED;
    if switches::is_off(kind) {
        return true;
    }
    let Some(root) = &instance.config.root else { return false };
    let name = session::name_of(&instance.config, &instance.application.name);
    let began = Instant::now();
    settings::disabled_caches_unless(root, &name.folder, &|| began.elapsed() > faults::time_limit(LOOK))
        .has(kind)
}

/// # Safety
/// The arguments are those of vkCreateDevice, as the loader passed them; `link` is the create info's own.
unsafe fn make(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    link: &Advanced<DeviceLink>,
    instance: &Instance,
    next: vk::PFN_vkCreateDevice,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> (vk::Result, Option<Decisions>) {
    // SAFETY: `physical` is live, `info` and `allocator` are the program's, and `device` may be written (the
    // caller's # Safety section); `link` is that of this create info, already advanced.
    unsafe {
        let known = instance.physical_device(physical);
        faults::here("device wanted");
        let disabled = || {
            known.lists_binaries
                && is_driver_cache_disabled(instance)
                && instance.controls_internal_cache(physical, &known)
        };
        let wanted = Wanted::read(info, &known, disabled);
        let mut arena = Arena::default();
        let mut changed = Changed::new(info);
        let mut enabled = changed.apply(&wanted, &known, &mut arena);
        let mut result = next(physical, &changed.info, allocator, device);
        let mut tried = wanted;
        // What the program did not ask for may be to blame: once more without the least of it, then without any.
        while result != vk::Result::SUCCESS && tried.adds(&enabled) {
            tried = if tried.disable_internal_cache {
                Wanted { disable_internal_cache: false, ..tried }
            } else {
                Wanted { add_cache_control: false, ..tried }
            };
            link.rewind();
            changed = Changed::new(info);
            enabled = changed.apply(&tried, &known, &mut arena);
            result = next(physical, &changed.info, allocator, device);
        }
        (result, (result == vk::Result::SUCCESS).then_some(Decisions { known, wanted, enabled }))
    }
}

/// # Safety
/// `handle` was just created through `link`, of `physical`.
unsafe fn register(
    physical: vk::PhysicalDevice,
    handle: vk::Device,
    link: &DeviceLink,
    instance: Arc<Instance>,
    info: &vk::DeviceCreateInfo<'_>,
    Decisions { known, wanted, enabled }: Decisions,
    calls_back: bool,
) {
    let next = link.get_device_proc_addr;
    faults::here("device made");
    // SAFETY: `handle` was just created through `link`, so its vkGetDeviceProcAddr resolves its commands;
    // `info` is the valid create info of it.
    unsafe {
        let configuration = DeviceConfiguration::read(info, &instance.application);
        let has_shaders = wanted.hashed && configuration.enables(ash::ext::shader_object::NAME);
        let decided = Decided {
            cache_control: enabled.cache_control,
            identifiers: wanted.identifiers,
            shader_binaries: has_shaders.then(|| instance.shader_binaries(physical)).flatten(),
            configuration,
            calls_back,
        };
        let table = DeviceTable::load(device_resolver(next, handle));
        let device = Device::new(handle, next, table, instance, known, decided);
        let device = Arc::new(device);
        contained("the live page", || device.show());
        live_devices::insert(handle, Entry::Active(device.clone()));
        // If these fail, the device stays registered: vkDestroyDevice waits for workers only where it is.
        contained("background work", || park::start(&device));
        contained("background work", || driver_hits::start(&device));
        contained("the look for a driver update", || update::consider(&device));
        contained("what is done at the end", || finish::follow(&device));
    }
}

/// # Safety
/// `handle` is a live device of the next layer, whose look-up `next` is.
unsafe fn destroy_command(
    next: vk::PFN_vkGetDeviceProcAddr,
    handle: vk::Device,
) -> Option<vk::PFN_vkDestroyDevice> {
    // SAFETY: `handle` is live and `next` resolves its commands; the command of that name has the type
    // PFN_vkDestroyDevice.
    unsafe {
        let found = next(handle, c"vkDestroyDevice".as_ptr())?;
        Some(std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyDevice>(found))
    }
}

/// # Safety
/// `handle` is a live device of the next layer, whose look-up `next` is, and was made with this allocator.
unsafe fn destroy_below(
    next: vk::PFN_vkGetDeviceProcAddr,
    handle: vk::Device,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: `handle` is live, was created with `allocator`, and is not used after this call.
    unsafe {
        if let Some(destroy) = destroy_command(next, handle) {
            destroy(handle, allocator);
        }
    }
}

/// vkDestroyDevice.
pub unsafe extern "system" fn destroy_device(
    handle: vk::Device,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    if handle == vk::Device::null() {
        return;
    }
    let command = "vkDestroyDevice";
    // SAFETY: the program destroys a live device, once; its dispatch key is read before it is gone.
    let next = match guard(command, || unsafe { live_devices::remove(handle) }, || None) {
        Some(Entry::Active(device)) => {
            let next = device.table.destroy_device;
            // No worker is in the driver after this, and none enters it any more. The writer is joined with the last
            // reference to the stash, which the instance keeps (contract 1.11).
            // SAFETY: the device is alive, and the program has destroyed its pipelines
            // (VUID-vkDestroyDevice-device-05137).
            let leave = || unsafe { work::leave(&device) };
            if !guard(command, leave, || false) {
                // A worker uses both, or it is not known that none does.
                device.instance.keep();
                std::mem::forget(device);
                return;
            }
            let is_idle = device.work.listeners.has_no_creation();
            device.instance.last_device_was_idle.store(is_idle, Ordering::Relaxed);
            guard(command, || finish::leave(&device), || ());
            guard(command, || device.caches.close(), || ());
            let session = device.opened_session().cloned();
            guard(command, || drop(device), || ());
            guard(command, || session.into_iter().for_each(session::rest), || ());
            next
        }
        // SAFETY: the look-up is that of the next layer for this live device.
        Some(Entry::Inert { next }) => unsafe { destroy_command(next, handle) },
        None => None,
    };
    if let Some(next) = next {
        // SAFETY: the program passes a live device, which nothing uses any more, and an `allocator` that is NULL or
        // valid. Nothing of the layer uses the device any more either: it was removed above.
        let destroy = || unsafe { next(handle, allocator) };
        guard(command, || gate::without_workers(destroy), || ());
    }
}
