//! Live devices, found by dispatch key.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError, Weak};

use ash::vk;
use rustc_hash::FxBuildHasher;

use super::device::Device;
use crate::faults;
use crate::guard::{guard, tls_destroyed};
use crate::loader::dispatch_key;
use vkstash_store::base::util::lock;
use vkstash_store::forks::PerProcess;

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

/// What the map holds. It frees what is removed from it when it sees fit, so it must not own a device: the
/// last reference may join threads, and that has to happen in vkDestroyDevice or vkDestroyInstance (contract 1.11).
#[derive(Clone)]
enum Registered {
    Active(Weak<Device>),
    Inert(vk::PFN_vkGetDeviceProcAddr),
}

type Registry = papaya::HashMap<usize, Registered, FxBuildHasher>;
static DEVICES: LazyLock<Registry> = LazyLock::new(|| Registry::with_hasher(FxBuildHasher));
/// Who owns the devices; touched only when one is created or destroyed, and in exit handlers.
static OWNERS: PerProcess<Owners> = PerProcess::empty();

type Owners = Mutex<BTreeMap<usize, Entry>>;

fn owners() -> MutexGuard<'static, BTreeMap<usize, Entry>> {
    lock(OWNERS.get_or_make(of_parents))
}

/// A forked child's own, with its parent's devices, which exit handlers look up here. Without them where a thread of
/// the parent held the lock at the fork: nobody will release it in the child.
fn of_parents(parents: Option<&Owners>) -> Owners {
    let known = parents.map(|parents| match parents.try_lock() {
        Ok(known) => known.clone(),
        Err(TryLockError::Poisoned(known)) => known.into_inner().clone(),
        Err(TryLockError::WouldBlock) => BTreeMap::new(),
    });
    Mutex::new(known.unwrap_or_default())
}

/// Registers a device.
///
/// # Safety
/// `handle` is live.
pub unsafe fn insert(handle: vk::Device, entry: Entry) {
    // SAFETY: the caller's contract.
    let key = unsafe { dispatch_key(handle) };
    let registered = match &entry {
        Entry::Active(device) => Registered::Active(Arc::downgrade(device)),
        Entry::Inert { next } => Registered::Inert(*next),
    };
    owners().insert(key, entry);
    DEVICES.pin().insert(key, registered);
}

/// What is registered for a device.
///
/// # Safety
/// `handle` is live.
pub unsafe fn entry(handle: vk::Device) -> Option<Entry> {
    // SAFETY: the caller's contract.
    let key = unsafe { dispatch_key(handle) };
    if tls_destroyed() {
        return owners().get(&key).cloned();
    }
    match DEVICES.pin().get(&key)? {
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
    DEVICES.pin().insert(key, Registered::Active(Arc::downgrade(&device)));
    // Neither reference to the parent's is ever dropped: what it holds is the parent's to close.
    std::mem::forget(owners.insert(key, Entry::Active(device.clone())));
    std::mem::forget(parents);
    device
}

/// The device, where the layer works on it.
///
/// # Safety
/// `handle` is live.
pub unsafe fn find(handle: vk::Device) -> Option<Arc<Device>> {
    // Every hook begins with it, and has nothing to fall back on before.
    // SAFETY: the caller's contract.
    let look_up = || unsafe {
        faults::here("device looked up");
        entry(handle)
    };
    // Everything fails without it, so there is a second way.
    // SAFETY: a live device (the caller's contract).
    let again = || owners().get(&unsafe { dispatch_key(handle) }).cloned();
    match guard("the look-up of a device", look_up, || guard("the look-up of a device", again, || None)) {
        Some(Entry::Active(device)) => Some(device),
        _ => None,
    }
}

/// Forgets a device; dropping what is returned ends its work.
///
/// # Safety
/// `handle` is live.
pub unsafe fn remove(handle: vk::Device) -> Option<Entry> {
    // SAFETY: the caller's contract.
    let (key, removed) = unsafe { (dispatch_key(handle), entry(handle)) };
    if !tls_destroyed() {
        DEVICES.pin().remove(&key);
    }
    // Not dropped under the lock: the caller holds a reference of its own.
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
        let known = |owners: Owners| owners.into_inner().unwrap().len();
        assert_eq!(known(of_parents(Some(&parents))), 1);
        let _held = parents.lock().unwrap();
        assert_eq!(known(of_parents(Some(&parents))), 0);
        assert_eq!(known(of_parents(None)), 0);
    }
}
