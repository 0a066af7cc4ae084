//! Live objects of a device by handle.
//!
//! Reading takes no lock: every pipeline call looks up its modules and its layout. Handles need not be
//! unique (contract 7.2), so entries are counted.

use ash::vk::Handle;
use papaya::{HashMap, Operation, ResizeMode};
use rustc_hash::FxBuildHasher;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use vkstash_host::guard::tls_destroyed;
use vkstash_host::once::OnceLock;

/// An object without its type: so the code of the map, which is large, is compiled once and not for each type.
type Erased = Arc<dyn Any + Send + Sync>;

#[derive(Clone)]
struct Entry {
    created: u32,
    object: Erased,
}

type Live = HashMap<u64, Entry, FxBuildHasher>;

/// The live objects of one type.
pub struct Objects<T> {
    /// Made for the first object: the first map of a process asks the system for its processors, with 36 system calls
    /// that a program without objects would wait for.
    live: OnceLock<Live>,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Objects { live: OnceLock::new(), of: PhantomData }
    }
}

#[cold]
fn no_objects() -> Live {
    // Neither `compute` nor `update_or_insert` takes part in the map's incremental resizing, and nothing else
    // changes this one: each table that fills up would stay for ever, and every look-up would go through all
    // of them. Programs that make and destroy a module for each pipeline fill one every few dozen calls.
    HashMap::builder().hasher(FxBuildHasher).resize_mode(ResizeMode::Blocking).build()
}

/// Adds an object under a handle.
fn insert(live: &Live, handle: u64, object: Erased) {
    let first = Entry { created: 1, object: object.clone() };
    let again = |old: &Entry| Entry { created: old.created + 1, object: object.clone() };
    live.pin().update_or_insert(handle, again, first);
}

/// Takes one reference to a handle away. If it was the last one, the map drops the object later, when it sees fit.
fn remove(live: &Live, handle: u64) {
    live.pin().compute(handle, |entry| match entry {
        Some((_, entry)) if entry.created > 1 => {
            Operation::Insert(Entry { created: entry.created - 1, object: entry.object.clone() })
        }
        Some(_) => Operation::Remove,
        None => Operation::Abort(()),
    });
}

impl<T: Send + Sync + 'static> Objects<T> {
    /// An object was created. A handle that is live already gains a reference; the newest description counts.
    pub fn insert(&self, handle: impl Handle, object: T) {
        insert(self.live.get_or_init(no_objects), handle.as_raw(), Arc::new(object));
    }

    /// Whether one was ever created.
    pub fn were_created(&self) -> bool {
        self.live.get().is_some()
    }

    /// An object was destroyed.
    pub fn remove(&self, handle: impl Handle) {
        if let Some(live) = self.live.get().filter(|_| !tls_destroyed()) {
            remove(live, handle.as_raw());
        }
    }

    /// Reads a live object in place.
    pub fn read<R>(&self, handle: impl Handle, reader: impl FnOnce(&T) -> R) -> Option<R> {
        if tls_destroyed() {
            return None;
        }
        self.live.get()?.pin().get(&handle.as_raw())?.object.downcast_ref().map(reader)
    }

    /// Every live object.
    pub fn for_each(&self, mut reader: impl FnMut(&T)) {
        let Some(live) = self.live.get().filter(|_| !tls_destroyed()) else { return };
        live.pin().values().filter_map(|entry| entry.object.downcast_ref()).for_each(&mut reader);
    }

    /// A reference to a live object.
    pub fn get(&self, handle: impl Handle) -> Option<Arc<T>> {
        if tls_destroyed() {
            return None;
        }
        let object = self.live.get()?.pin().get(&handle.as_raw())?.object.clone();
        object.downcast().ok()
    }
}

#[cfg(test)]
mod tests {

    use ash::vk;

    use super::*;
    use crate::watched;

    #[test]
    fn a_handle_that_was_given_twice_lives_until_it_was_destroyed_twice() {
        let objects = Objects::default();
        let handle = vk::Sampler::from_raw(7);
        objects.insert(handle, "one");
        objects.insert(handle, "two");
        objects.remove(handle);
        assert_eq!(objects.read(handle, |text| *text), Some("two"));
        objects.remove(handle);
        assert_eq!(objects.read(handle, |text| *text), None);
        objects.remove(handle);
    }

    #[test]
    fn a_program_without_objects_pays_for_no_map() {
        let before = watched::held();
        let objects: Objects<u64> = Objects::default();
        let handle = vk::ShaderModule::from_raw(7);
        assert_eq!(objects.read(handle, |number| *number), None);
        assert!(objects.get(handle).is_none());
        objects.remove(handle);
        assert_eq!(watched::held(), before);
        objects.insert(handle, 1);
        assert!(watched::held() > before, "the first one makes the map");
    }

    /// A hundred objects that are made, looked up and destroyed one after the other.
    fn churn(objects: &Objects<u64>, block: u64) {
        for handle in block * 100..(block + 1) * 100 {
            // Addresses, as many drivers' handles are.
            let handle = vk::ShaderModule::from_raw(0x5600_0000_0000 + handle * 64);
            objects.insert(handle, 1);
            assert_eq!(objects.read(handle, |number| *number), Some(1));
            objects.remove(handle);
        }
    }

    /// What piles up is looked through at every look-up, and is memory.
    #[test]
    fn nothing_piles_up_in_a_program_that_makes_and_destroys_objects_for_hours() {
        let objects = Objects::default();
        let before = watched::held();
        (0..20).for_each(|block| churn(&objects, block));
        let soon = watched::held() - before;
        (20..300).for_each(|block| churn(&objects, block));
        let late = watched::held() - before;
        assert!(late < 4 * soon.max(16 << 10), "{soon} bytes at first, {late} later");
    }
}
