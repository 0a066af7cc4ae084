//! pNext chains.

use std::ffi::c_void;

use ash::vk;

use crate::record;

/// A longer chain is a loop.
const LONGEST: usize = 1024;

/// Structures that the loader adds to chains, possibly several times.
const LOADER: [i32; 2] = [47, 48];

/// The structures of a chain.
///
/// # Safety
/// `p_next` is NULL or a valid chain that outlives the iterator.
pub unsafe fn walk(p_next: *const c_void) -> impl Iterator<Item = *mut vk::BaseOutStructure<'static>> {
    let mut next = p_next.cast_mut().cast::<vk::BaseOutStructure<'static>>();
    std::iter::from_fn(move || {
        let node = next;
        // SAFETY: the caller passes a valid chain; each structure begins with sType and pNext.
        next = unsafe { node.as_ref() }?.p_next;
        Some(node)
    })
    .take(LONGEST)
}

/// The sTypes of a chain. A repeated one is a violation.
///
/// # Safety
/// `p_next` is NULL or a chain that is valid during this call.
pub unsafe fn types(command: &str, p_next: *const c_void) -> Vec<i32> {
    // SAFETY: the caller passes NULL or a valid chain, which `walk` needs.
    let types: Vec<i32> = unsafe { walk(p_next) }
        // SAFETY: the caller passes NULL or a valid chain, so `walk` yields valid structures.
        .map(|node| unsafe { (*node).s_type.as_raw() })
        .collect();
    for (index, s_type) in types.iter().enumerate() {
        if types[..index].contains(s_type) && !LOADER.contains(s_type) {
            record::violation(format!("{command}: structure {s_type} stands in a chain twice"));
        }
    }
    types
}

/// The structure of type `T` in a chain.
///
/// # Safety
/// `p_next` is NULL or a valid chain that outlives `'a`.
pub unsafe fn find<'a, T: vk::TaggedStructure>(p_next: *const c_void) -> Option<&'a T> {
    // SAFETY: the caller passes NULL or a valid chain that outlives `'a`; a structure of this sType is a `T`.
    unsafe { walk(p_next).find(|&node| (*node).s_type == T::STRUCTURE_TYPE).map(|node| &*node.cast::<T>()) }
}
