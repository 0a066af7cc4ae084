//! Walking pNext chains, and copying them where a call must be changed.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use ash::vk;
use smallvec::SmallVec;

use vkstash_host::sort;
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{Bytes, Extension, Extensions, Flattened, Words};
use vkstash_model::structures::{self, Handling};

/// Why a create info has no recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, as it is counted.
    pub reason: BypassReason,
    /// The structure to blame, 0 where none is.
    pub s_type: i32,
}

impl Refusal {
    /// A refusal that no structure is to blame for.
    pub const fn plain(reason: BypassReason) -> Refusal {
        Refusal { reason, s_type: 0 }
    }
}

/// More than any program chains (feature queries chain well over a hundred); a longer one is a loop.
const LONGEST: usize = 1024;

/// The structures of a chain. A loop ends after as many as no program chains.
///
/// # Safety
/// `p_next` is NULL or a valid pNext chain that outlives the iterator (VUID-*-pNext-pNext).
pub unsafe fn walk(p_next: *const c_void) -> impl Iterator<Item = *const vk::BaseInStructure<'static>> {
    let mut next = p_next.cast::<vk::BaseInStructure<'static>>();
    std::iter::from_fn(move || {
        let node = next;
        // SAFETY: the caller vouches for the chain; every structure in it starts with sType and pNext.
        next = unsafe { node.as_ref() }?.p_next;
        Some(node)
    })
    .take(LONGEST)
}

/// What capture makes of a special structure in a chain.
pub enum Special {
    /// The structure does not belong in this chain.
    Foreign,
    /// The structure was read into the recipe, or changes nothing that the driver makes.
    Read,
    /// The structure goes into the recipe as these words.
    Words(Words),
}

/// Sorts a chain by the table: plain structures are returned, ignored ones skipped, special ones given to
/// `special`.
///
/// # Safety
/// As [`walk`]; the chain outlives `'a`.
pub unsafe fn scan<'a>(
    p_next: *const c_void,
    mut special: impl FnMut(&'a vk::BaseInStructure<'a>) -> Result<Special, Refusal>,
) -> Result<Extensions<'a>, Refusal> {
    let mut extensions = Extensions::default();
    // SAFETY: `p_next` is NULL or a valid chain that outlives `'a`, and so the iterator.
    for (index, node) in unsafe { walk(p_next) }.enumerate() {
        // SAFETY: `walk` yields pointers to structures of a chain that lives for `'a`.
        let base: &'a vk::BaseInStructure<'a> = unsafe { &*node.cast() };
        let unknown = Refusal { reason: BypassReason::UnknownStructure, s_type: base.s_type.as_raw() };
        let row = structures::find(base.s_type).filter(|_| index + 1 < LONGEST).ok_or(unknown)?;
        match row.handling {
            Handling::Ignored => {}
            Handling::Bypass(reason) => return Err(Refusal { reason, ..unknown }),
            Handling::Special => match special(base)? {
                Special::Foreign => return Err(unknown),
                Special::Read => {}
                Special::Words(words) => {
                    extensions.flattened.push(Flattened { s_type: base.s_type.as_raw(), words });
                }
            },
            Handling::Plain(length) => {
                // SAFETY: the table gives the size of the members behind the header of a structure of this
                // sType (contract 7.1); they are initialised numbers without padding.
                let members = unsafe {
                    std::slice::from_raw_parts(
                        node.cast::<u8>().add(size_of::<vk::BaseInStructure<'_>>()),
                        length,
                    )
                };
                extensions.plain.push(Extension { s_type: base.s_type.as_raw(), members: Bytes(members) });
            }
        }
    }
    sort::sort(&mut extensions.plain);
    sort::sort(&mut extensions.flattened);
    Ok(extensions)
}

/// A chain in which no special structure belongs.
///
/// # Safety
/// As [`scan`].
pub unsafe fn scan_plain<'a>(p_next: *const c_void) -> Result<Extensions<'a>, Refusal> {
    // SAFETY: `p_next` is NULL or a valid chain that outlives `'a`; the closure dereferences nothing.
    unsafe { scan(p_next, |_| Ok(Special::Foreign)) }
}

/// Refuses a chain with any structure that could matter, plain ones too: no recipe would have them.
///
/// # Safety
/// As [`scan`].
pub unsafe fn scan_empty(p_next: *const c_void) -> Result<(), Refusal> {
    // SAFETY: `p_next` is NULL or a valid chain; the plain structures are not kept beyond this call.
    refuse_plain(&unsafe { scan_plain(p_next) }?)
}

/// Refuses a chain of which the plain structures would be lost.
pub fn refuse_plain(extensions: &Extensions<'_>) -> Result<(), Refusal> {
    match extensions.plain.first() {
        Some(plain) => Err(Refusal { reason: BypassReason::UnknownStructure, s_type: plain.s_type }),
        None => Ok(()),
    }
}

/// Room for copies of structures. Its address must not change while copies are in use, which the borrow of
/// the pointers it gives out cannot say: keep it in a local variable of the function that makes the call.
pub struct Arena {
    fixed: [MaybeUninit<u64>; 64],
    used: usize,
    spill: Vec<Box<[u64]>>,
}

impl Default for Arena {
    fn default() -> Self {
        // Most calls copy nothing.
        Arena { fixed: [const { MaybeUninit::uninit() }; 64], used: 0, spill: Vec::new() }
    }
}

impl Arena {
    /// Copies `size` bytes.
    ///
    /// # Safety
    /// `source` is readable for `size` bytes.
    pub unsafe fn copy(&mut self, source: *const c_void, size: usize) -> *mut c_void {
        let words = size.div_ceil(8);
        let target: *mut u64 = if self.used + words <= self.fixed.len() {
            let start = self.used;
            self.used += words;
            self.fixed[start..].as_mut_ptr().cast()
        } else {
            self.spill.push(vec![0; words].into_boxed_slice());
            self.spill.last_mut().map_or(std::ptr::null_mut(), |block| block.as_mut_ptr())
        };
        // SAFETY: `target` has room for `words` 64-bit words, the caller vouches for `source`, and fresh
        // room does not overlap what the program owns.
        unsafe { std::ptr::copy_nonoverlapping(source.cast::<u8>(), target.cast::<u8>(), size) };
        target.cast()
    }
}

/// What [`copy_chain`] does with one structure.
pub enum Edit {
    /// Copied as it is, or as the callback changed it.
    Keep,
    /// The copy of the chain lacks the structure.
    Drop,
}

/// Copies a chain into `arena`, letting `edit` change or drop structures of the copy, and returns its head.
/// None if a structure stands in it whose size nobody knows: then the chain can't be copied.
///
/// # Safety
/// As [`walk`]; `size_of_type` tells the true size of the structures it knows.
pub unsafe fn copy_chain(
    arena: &mut Arena,
    p_next: *const c_void,
    size_of_type: impl Fn(vk::StructureType) -> Option<usize>,
    mut edit: impl FnMut(*mut vk::BaseOutStructure<'static>) -> Edit,
) -> Option<*const c_void> {
    let mut copies: SmallVec<[*mut vk::BaseOutStructure<'static>; 8]> = SmallVec::new();
    // SAFETY: `p_next` is NULL or a valid chain that is not changed while it is copied.
    for node in unsafe { walk(p_next) } {
        // SAFETY: `walk` yields valid structures.
        let size = size_of_type(unsafe { (*node).s_type })?;
        // SAFETY: a structure of this sType has this size.
        let copy = unsafe { arena.copy(node.cast(), size) }.cast();
        if matches!(edit(copy), Edit::Keep) {
            copies.push(copy);
        }
    }
    let mut head = std::ptr::null_mut();
    for &copy in copies.iter().rev() {
        // SAFETY: `copy` points to the copy of a chained structure in the arena.
        unsafe { (*copy).p_next = head };
        head = copy;
    }
    Some(head.cast_const().cast())
}

/// Size of a structure of the table, for [`copy_chain`].
pub fn table_size(s_type: vk::StructureType) -> Option<usize> {
    structures::find(s_type).map(|row| row.structure.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_structure_refuses_and_is_named() {
        let stranger = vk::BaseInStructure { s_type: vk::StructureType::from_raw(123), ..Default::default() };
        // SAFETY: a chain of one valid structure.
        let scanned = unsafe { scan((&raw const stranger).cast(), |_| Ok(Special::Read)) };
        assert_eq!(scanned, Err(Refusal { reason: BypassReason::UnknownStructure, s_type: 123 }));
    }

    #[test]
    fn a_loop_ends() {
        let mut feedback = vk::PipelineCreationFeedbackCreateInfo::default();
        feedback.p_next = (&raw const feedback).cast();
        // SAFETY: every structure in the (endless) chain is valid.
        assert!(unsafe { scan_plain(feedback.p_next) }.is_err());
    }

    #[test]
    fn plain_structures_are_sorted_so_that_their_order_does_not_matter() {
        let size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo {
            required_subgroup_size: 32,
            ..Default::default()
        };
        let robust = vk::PipelineRobustnessCreateInfoEXT::default();
        let (mut one, mut two) = ((size, robust), (size, robust));
        one.0.p_next = (&raw mut one.1).cast();
        two.1.p_next = (&raw const two.0).cast();
        // SAFETY: both chains are valid and live on this stack frame.
        let scans = unsafe { (scan_plain((&raw const one.0).cast()), scan_plain((&raw const two.1).cast())) };
        assert_eq!(scans.0, scans.1);
        assert_eq!(scans.0.map(|extensions| extensions.plain.len()), Ok(2));
    }

    #[test]
    fn a_copied_chain_can_lose_and_change_structures_and_the_original_stays() {
        let flags = vk::PipelineCreateFlags2CreateInfoKHR {
            flags: vk::PipelineCreateFlags2KHR::from_raw(1),
            ..Default::default()
        };
        let robust =
            vk::PipelineRobustnessCreateInfoEXT { p_next: (&raw const flags).cast(), ..Default::default() };
        let mut arena = Arena::default();
        // SAFETY: a valid chain; the table knows both sizes; the cast follows the sType.
        let head = unsafe {
            copy_chain(&mut arena, (&raw const robust).cast(), table_size, |node| {
                if (*node).s_type == vk::StructureType::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT {
                    return Edit::Drop;
                }
                let copy = node.cast::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>();
                (*copy).flags = vk::PipelineCreateFlags2KHR::from_raw(5);
                Edit::Keep
            })
        };
        let copy = head.map(|head| head.cast::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>());
        // SAFETY: the head of the copied chain is the only structure that was kept.
        assert_eq!(copy.map(|copy| unsafe { (*copy).flags.as_raw() }), Some(5));
        assert_eq!(flags.flags.as_raw(), 1);
    }
}
