//! Libraries that the layer makes of the parts of graphics pipelines, and what it has linked of them
//! (VKSTASH_FAST_LINK).
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use rustc_hash::{FxHashMap, FxHashSet};

use vkstash_store::base::sync::Mutex;
use vkstash_store::format::record::Key;

/// The most libraries of a device: what is beyond is compiled as without them.
const MOST: usize = 8192;

/// Those of one device.
#[derive(Default)]
pub struct FastLinks {
    /// By the keys of their recipes. They live as long as the device.
    libraries: Mutex<FxHashMap<Key, vk::Pipeline>>,
    /// The pipelines that were linked fast: in this run they are never made in another way, because two that are
    /// created alike must do the same.
    linked: Mutex<FxHashSet<Key>>,
    /// The program makes graphics pipeline libraries of its own: what it asks for as a whole is to be optimized.
    are_the_programs: AtomicBool,
}

impl FastLinks {
    /// The library of this key.
    pub fn library(&self, key: &Key) -> Option<vk::Pipeline> {
        self.libraries.lock().get(key).copied()
    }

    /// Keeps a new library, and returns the one that is to be used. Some in the second place: that one is not needed.
    pub fn keep(&self, key: Key, library: vk::Pipeline) -> (vk::Pipeline, Option<vk::Pipeline>) {
        let mut libraries = self.libraries.lock();
        let kept = *libraries.entry(key).or_insert(library);
        // Another thread may have made it at the same time.
        (kept, (kept != library).then_some(library))
    }

    /// Whether no more libraries may be made.
    pub fn is_full(&self) -> bool {
        self.libraries.lock().len() >= MOST
    }

    /// The program makes libraries itself: no pipeline is linked fast for it that was not before.
    pub fn leave_to_program(&self) {
        self.are_the_programs.store(true, Ordering::Relaxed);
    }

    /// Whether a pipeline may be linked fast.
    pub fn may_link(&self, key: &Key) -> bool {
        !self.are_the_programs.load(Ordering::Relaxed) || self.has_linked(key)
    }

    /// Whether this pipeline was linked fast in this run.
    pub fn has_linked(&self, key: &Key) -> bool {
        self.linked.lock().contains(key)
    }

    /// Whether any pipeline was.
    pub fn have_linked(&self) -> bool {
        !self.linked.lock().is_empty()
    }

    /// This pipeline was linked fast. False: it was before.
    pub fn note_linked(&self, key: &Key) -> bool {
        self.linked.lock().insert(*key)
    }

    /// All libraries, of which none is used from now on.
    pub fn take(&self) -> Vec<vk::Pipeline> {
        self.libraries.lock().drain().map(|(_, library)| library).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle as _;

    #[test]
    fn of_two_libraries_of_one_key_the_first_is_kept() {
        let links = FastLinks::default();
        let [first, second] = [1, 2].map(vk::Pipeline::from_raw);
        assert_eq!(links.keep([1; 32], first), (first, None));
        assert_eq!(links.keep([1; 32], second), (first, Some(second)));
        assert_eq!((links.library(&[1; 32]), links.library(&[2; 32])), (Some(first), None));
        assert_eq!((links.take(), links.take().len()), (vec![first], 0));
    }

    #[test]
    fn of_a_program_with_libraries_only_what_was_linked_is_linked() {
        let links = FastLinks::default();
        assert!(links.note_linked(&[1; 32]) && !links.note_linked(&[1; 32]));
        assert_eq!([1, 2].map(|byte| links.may_link(&[byte; 32])), [true, true]);
        links.leave_to_program();
        assert_eq!([1, 2].map(|byte| links.may_link(&[byte; 32])), [true, false]);
    }
}
