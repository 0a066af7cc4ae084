//! Live devices, found by dispatch key.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use ash::vk;
use ash::vk::Handle as _;

use super::device::Device;
use crate::faults;
use crate::loader::dispatch_key;
use vkstash_host::forks::PerProcess;
use vkstash_host::guard::{guard_within, tls_destroyed};
use vkstash_host::signals::Uncancelled;
use vkstash_host::sync::{Mutex, MutexGuard};

/// A registered device.
#[derive(Clone)]
pub enum Entry {
    /// The layer works on it.
    Active(Arc<Device>),
    /// The layer passes everything through.
    Inert {
        /// The next layer's look-up.
        next: vk::PFN_vkGetDeviceProcAddr,
    },
}

/// What the list holds. A look-up may be the last that has the list, so it must not own a device: the last reference
/// may join threads, and that has to happen in vkDestroyDevice or vkDestroyInstance (contract 1.11).
#[derive(Clone)]
enum Registered {
    Active(Weak<Device>),
    Inert(vk::PFN_vkGetDeviceProcAddr),
}

/// Sorted by dispatch key. Programs have one device or two, and a map would cost every program what [`Objects`] says.
///
/// [`Objects`]: crate::state::objects::by_handle::Objects
type Registry = Vec<(usize, Registered)>;
static DEVICES: ArcSwapOption<Registry> = ArcSwapOption::const_empty();
/// The strong references to the devices; touched only when one is created or destroyed, and in exit handlers.
static OWNERS: PerProcess<Owners> = PerProcess::empty();

type Owners = Mutex<BTreeMap<usize, Entry>>;

/// Changes before [`OWNERS`] gives up a device, and when it gets one.
static GENERATION: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    /// The device of this thread's last call. It has no destructor, so exit handlers may use it.
    static LAST: Cell<Last> = const { Cell::new(Last { key: 0, generation: 0, device: ptr::null() }) };
}

/// A look-up that need not be made again: programs make one call after the other on the same device, and a count of
/// references would be a cache line that all their threads write.
#[derive(Clone, Copy)]
struct Last {
    key: usize,
    /// 0: nothing was looked up.
    generation: usize,
    device: *const Device,
}

impl Last {
    /// The device, if it is still registered under this key.
    ///
    /// # Safety
    /// `key` is the dispatch key of a live device, which the program does not destroy before the result was used.
    unsafe fn of(key: usize) -> Option<*const Device> {
        let Last { key: known, generation, device } = LAST.get();
        if known != key || generation != GENERATION.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the generation is the same, so `OWNERS` still owns the device. It gives it up in vkDestroyDevice,
        // with which the program synchronises its calls on the device (its host access rule).
        unsafe { (*device).is_of_this_process() }.then_some(device)
    }
}

/// A device for the duration of one call of the program's.
pub enum Found {
    /// Owned by the registry until the program destroys the device, after the call.
    Live(*const Device),
    /// Looked up.
    Counted(Arc<Device>),
}

impl Deref for Found {
    type Target = Device;

    fn deref(&self) -> &Device {
        match self {
            // SAFETY: the contract of `find`: the device is not destroyed before the call is over.
            Found::Live(device) => unsafe { &**device },
            Found::Counted(device) => device,
        }
    }
}

fn owners() -> MutexGuard<'static, BTreeMap<usize, Entry>> {
    OWNERS.get_or_make(of_parents).lock()
}

/// A forked child's own, with its parent's devices, which exit handlers look up here. Without them where a thread of
/// the parent held the lock at the fork: nobody will release it in the child.
fn of_parents(parents: Option<&Owners>) -> Owners {
    let known = parents.map(|parents| match parents.try_lock() {
        Some(known) => known.clone(),
        None => BTreeMap::new(),
    });
    Mutex::new(known.unwrap_or_default())
}

/// Registers a device.
///
/// # Safety
/// `handle` is a live device.
pub unsafe fn insert(handle: vk::Device, entry: Entry) {
    // SAFETY: `handle` is a live device, which begins with the loader's dispatch table pointer.
    let key = unsafe { dispatch_key(handle) };
    let registered = match &entry {
        Entry::Active(device) => Registered::Active(Arc::downgrade(device)),
        Entry::Inert { next } => Registered::Inert(*next),
    };
    GENERATION.fetch_add(1, Ordering::AcqRel);
    owners().insert(key, entry);
    register(key, Some(registered));
}

/// Replaces what is registered for a key. In a copy of the list: a look-up waits for nobody.
fn register(key: usize, registered: Option<Registered>) {
    DEVICES.rcu(|devices| {
        let mut devices = devices.as_deref().cloned().unwrap_or_default();
        devices.retain(|(other, _)| *other != key);
        if let Some(registered) = &registered {
            let at = devices.partition_point(|(other, _)| *other < key);
            devices.insert(at, (key, registered.clone()));
        }
        Some(Arc::new(devices))
    });
}

/// What is registered for a device.
///
/// # Safety
/// `handle` is a live device.
pub unsafe fn entry(handle: vk::Device) -> Option<Entry> {
    // SAFETY: `handle` is a live device; its dispatch table pointer is read, and nothing else of it.
    let key = unsafe { dispatch_key(handle) };
    if tls_destroyed() {
        return owners().get(&key).cloned();
    }
    let devices = DEVICES.load();
    let devices = devices.as_ref()?;
    let at = devices.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    match &devices[at].1 {
        Registered::Active(device) => {
            let device = device.upgrade()?;
            let here = device.is_of_this_process();
            Some(Entry::Active(if here { device } else { adopt(key, device) }))
        }
        Registered::Inert(next) => Some(Entry::Inert { next: *next }),
    }
}

/// A forked child goes on with its parent's device.
#[cold]
fn adopt(key: usize, parents: Arc<Device>) -> Arc<Device> {
    let mut owners = owners();
    if let Some(Entry::Active(known)) = owners.get(&key) {
        if known.is_of_this_process() {
            return known.clone();
        }
    }
    let device = Arc::new(parents.in_child());
    GENERATION.fetch_add(1, Ordering::AcqRel);
    register(key, Some(Registered::Active(Arc::downgrade(&device))));
    // Neither reference to the parent's device is ever dropped: what it holds is the parent's to close.
    std::mem::forget(owners.insert(key, Entry::Active(device.clone())));
    std::mem::forget(parents);
    device
}

/// The device, where the layer works on it.
///
/// # Safety
/// `handle` is a live device, and the program does not destroy it before the result is dropped.
pub unsafe fn find(handle: vk::Device) -> Option<Found> {
    // SAFETY: `handle` is a live device, which the program does not destroy before the result is dropped.
    unsafe { find_within(&Uncancelled::begin(), handle) }
}

/// The device of a queue.
///
/// # Safety
/// `queue` is one of a live device, which the program does not destroy before the result is dropped.
pub unsafe fn find_of_queue(queue: vk::Queue) -> Option<Found> {
    // SAFETY: a queue begins with the pointer to its device's dispatch table (contract 1.10), and the look-up reads
    // nothing else of the object.
    unsafe { find(vk::Device::from_raw(queue.as_raw())) }
}

/// [`find`] where the thread cannot be cancelled.
///
/// # Safety
/// As [`find`].
pub unsafe fn find_within(uncancelled: &Uncancelled, handle: vk::Device) -> Option<Found> {
    // Every hook begins with this look-up, and has no driver command to fall back on before it.
    // SAFETY: `handle` is live, so its dispatch key can be read; the program destroys it only when the hook
    // has dropped what was found.
    let look_up = || unsafe {
        faults::here("device looked up");
        let key = dispatch_key(handle);
        if let Some(device) = Last::of(key) {
            return Some(Found::Live(device));
        }
        let generation = GENERATION.load(Ordering::Acquire);
        let found = counted(entry(handle))?;
        LAST.set(Last { key, generation, device: &raw const *found });
        Some(found)
    };
    // Everything fails without it, so there is a second way.
    // SAFETY: a live device (the caller's contract).
    let again = || counted(owners().get(&unsafe { dispatch_key(handle) }).cloned());
    guard_within(uncancelled, "the look-up of a device", look_up, || {
        guard_within(uncancelled, "the look-up of a device", again, || None)
    })
}

fn counted(entry: Option<Entry>) -> Option<Found> {
    match entry {
        Some(Entry::Active(device)) => Some(Found::Counted(device)),
        _ => None,
    }
}

/// Forgets a device; dropping what is returned ends its work.
///
/// # Safety
/// `handle` is a live device.
pub unsafe fn remove(handle: vk::Device) -> Option<Entry> {
    // SAFETY: `handle` is live: vkDestroyDevice goes down only after the device was removed here.
    let (key, removed) = unsafe { (dispatch_key(handle), entry(handle)) };
    GENERATION.fetch_add(1, Ordering::AcqRel);
    if !tls_destroyed() {
        register(key, None);
    }
    // The entry is not dropped under the lock: the caller holds a reference of its own.
    let owned = owners().remove(&key);
    drop(owned);
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "system" fn next(_: vk::Device, _: *const std::ffi::c_char) -> vk::PFN_vkVoidFunction {
        None
    }

    #[test]
    fn a_child_has_its_parents_devices_and_waits_for_no_thread_of_its_parent() {
        let parents = Owners::new(BTreeMap::from([(1, Entry::Inert { next })]));
        let known = |owners: Owners| owners.into_inner().len();
        assert_eq!(known(of_parents(Some(&parents))), 1);
        let _held = parents.lock();
        assert_eq!(known(of_parents(Some(&parents))), 0);
        assert_eq!(known(of_parents(None)), 0);
    }
}
