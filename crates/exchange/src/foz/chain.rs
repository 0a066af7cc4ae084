//! Structures that Fossilize keeps in other chains than Vulkan.

use std::ffi::c_void;
use std::ptr;

use ash::vk;
use vkstash_recipe::chain;

/// Takes the first structure of a type out of a chain, which begins with the one that `head` points to.
///
/// # Safety
/// The chain is valid, its memory may be changed, and nothing else reads it during this call.
pub(super) unsafe fn unlink(
    head: &mut *const c_void,
    s_type: vk::StructureType,
) -> Option<*const vk::BaseInStructure<'static>> {
    let mut link: *mut *const c_void = ptr::from_mut(head);
    // SAFETY: the nodes of a valid chain, which this function alone uses.
    unsafe {
        for node in chain::walk(*head) {
            if (*node).s_type == s_type {
                *link = (*node).p_next.cast();
                return Some(node.cast());
            }
            link = (&raw const (*node).p_next).cast_mut().cast();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_taken_out_wherever_it_stands() {
        let wanted = vk::StructureType::SAMPLER_YCBCR_CONVERSION_INFO;
        let other = vk::StructureType::SAMPLER_CUSTOM_BORDER_COLOR_CREATE_INFO_EXT;
        for place in 0..3 {
            let mut nodes = [other; 3].map(|s_type| vk::BaseOutStructure { s_type, ..Default::default() });
            nodes[place].s_type = wanted;
            let first = nodes.as_mut_ptr();
            let mut head: *const c_void = first.cast();
            // SAFETY: three structures that live during this call, linked one to the next.
            let (taken, left) = unsafe {
                (0..2).for_each(|at| (*first.add(at)).p_next = first.add(at + 1));
                let taken = unlink(&mut head, wanted);
                (taken, chain::walk(head).map(|node| (*node).s_type).collect::<Vec<_>>())
            };
            // SAFETY: within the array.
            assert_eq!(taken, Some(unsafe { first.add(place) }.cast_const().cast()));
            assert_eq!(left, [other; 2]);
            // SAFETY: what is left of the chain.
            assert_eq!(unsafe { unlink(&mut head, wanted) }, None);
        }
    }
}
