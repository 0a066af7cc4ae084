//! The memory of what was rebuilt: structures and arrays that point at each other.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use ash::vk::{self, TaggedStructure};
use vkstash_host::memory;

use super::RebuildError;

/// More bytes than any create info takes.
const LARGEST: usize = 64 << 20;

/// Words of one piece of memory; larger arrays have a piece of their own. In tests everything has: AddressSanitizer
/// sees who reads behind its end (scripts/asan.sh).
const PIECE: usize = if cfg!(test) { 1 } else { 512 };

/// A create info with everything that it points to.
pub struct Rebuilt<'a, I> {
    info: I,
    /// Keeps the memory that the create info points to.
    _arena: Arena,
    /// Inline SPIR-V stays the caller's.
    _source: PhantomData<&'a ()>,
}

impl<I> Rebuilt<'_, I> {
    /// A create info whose pointers lead into this arena.
    pub(super) fn new(info: I, arena: Arena) -> Self {
        Rebuilt { info, _arena: arena, _source: PhantomData }
    }

    /// The create info. Copies of it are valid as long as this value lives.
    pub fn info(&self) -> &I {
        &self.info
    }
}

/// An array and its length; NULL where it has no elements.
#[derive(Clone, Copy)]
pub struct List<T> {
    /// How many elements.
    pub count: u32,
    /// The first element.
    pub pointer: *const T,
}

/// Grows, and frees everything at once. What it holds never moves.
pub struct Arena {
    pieces: Vec<Vec<u64>>,
    /// The unused rest of the newest piece.
    next: *mut u64,
    /// Words of that rest.
    left: usize,
    /// Bytes of all pieces.
    taken: usize,
}

// SAFETY: `next` points into a piece, and the arena owns its pieces.
unsafe impl Send for Arena {}

impl Default for Arena {
    fn default() -> Self {
        Arena { pieces: Vec::new(), next: ptr::null_mut(), left: 0, taken: 0 }
    }
}

impl Arena {
    /// Room for `count` elements, aligned for `T`.
    fn room<T>(&mut self, count: usize) -> Result<*mut T, RebuildError> {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        self.words(count, size_of::<T>()).map(<*mut u64>::cast)
    }

    /// Room for `count` elements of this size: one function for all types.
    #[inline(never)]
    fn words(&mut self, count: usize, size: usize) -> Result<*mut u64, RebuildError> {
        let words = count.checked_mul(size).ok_or(RebuildError::Memory)?.div_ceil(8).max(1);
        if words > self.left {
            let length = words.max(PIECE);
            self.taken = self.taken.saturating_add(length.saturating_mul(8));
            if self.taken > LARGEST || !memory::reserve(&mut self.pieces, 1) {
                return Err(RebuildError::Memory);
            }
            let mut piece = Vec::new();
            if !memory::lengthen(&mut piece, length) {
                return Err(RebuildError::Memory);
            }
            (self.next, self.left) = (piece.as_mut_ptr(), length);
            self.pieces.push(piece);
        }
        let start = self.next;
        // SAFETY: `left` words are unused from `next` on, and at least `words` are left.
        self.next = unsafe { start.add(words) };
        self.left -= words;
        Ok(start)
    }

    /// A structure, or another single value.
    pub fn place<T: Copy>(&mut self, value: T) -> Result<*mut T, RebuildError> {
        let place = self.room(1)?;
        // SAFETY: `room` gives memory for one value that nothing else points to.
        unsafe { ptr::write(place, value) };
        Ok(place)
    }

    /// An array, made of what an iterator gives.
    pub fn list<S, T: Copy>(
        &mut self,
        from: impl ExactSizeIterator<Item = S>,
        mut make: impl FnMut(&mut Arena, S) -> Result<T, RebuildError>,
    ) -> Result<List<T>, RebuildError> {
        let length = from.len();
        let length32 = u32::try_from(length).map_err(|_| RebuildError::Memory)?;
        if length == 0 {
            return Ok(List { count: 0, pointer: ptr::null() });
        }
        let place: *mut T = self.room(length)?;
        let mut made = 0;
        for element in from.take(length) {
            let value = make(self, element)?;
            // SAFETY: `room` gave memory for `length` elements, and no more than that are taken.
            unsafe { place.add(made).write(value) };
            made += 1;
        }
        if made != length {
            return Err(RebuildError::Contradiction("a list is shorter than it says"));
        }
        Ok(List { count: length32, pointer: place })
    }

    /// A copy of a list of values.
    pub fn copy<T: Copy>(&mut self, values: &[T]) -> Result<List<T>, RebuildError> {
        self.list(values.iter(), |_, &value| Ok(value))
    }

    /// An array of equal elements.
    pub fn repeat<T: Copy>(&mut self, value: T, count: u32) -> Result<List<T>, RebuildError> {
        self.list(0..count as usize, |_, _| Ok(value))
    }

    /// Zeroed bytes, aligned for every number.
    pub fn zeroed(&mut self, bytes: usize) -> Result<*mut u8, RebuildError> {
        let place: *mut u8 = self.room::<u64>(bytes.div_ceil(8))?.cast();
        // SAFETY: `room` gave at least so many bytes.
        unsafe { ptr::write_bytes(place, 0, bytes) };
        Ok(place)
    }
}

/// A pNext chain.
pub struct Chain(*mut vk::BaseOutStructure<'static>);

impl Default for Chain {
    fn default() -> Self {
        Chain(ptr::null_mut())
    }
}

impl Chain {
    /// Puts a structure in front.
    pub fn push<T: TaggedStructure + Copy>(
        &mut self,
        arena: &mut Arena,
        structure: T,
    ) -> Result<(), RebuildError> {
        let node = arena.place(structure)?.cast();
        // SAFETY: a tagged structure starts with sType and pNext, and this copy is in the arena.
        unsafe { self.link(node) };
        Ok(())
    }

    /// Puts a structure of the arena in front.
    ///
    /// # Safety
    /// `node` points to a structure that starts with sType and pNext and may be written to.
    pub unsafe fn link(&mut self, node: *mut vk::BaseOutStructure<'static>) {
        // SAFETY: `node` points to a writable structure that starts with sType and pNext (the caller's #
        // Safety section).
        unsafe { (*node).p_next = self.0 };
        self.0 = node;
    }

    /// The first structure, or NULL.
    pub fn head(&self) -> *const c_void {
        self.0.cast_const().cast()
    }
}
