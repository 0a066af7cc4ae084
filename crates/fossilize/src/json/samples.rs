//! Values for the tests of this folder, made from the same descriptions as reading and writing.

use std::ffi::c_void;

use ash::vk;

use super::arena::Arena;

/// Makes a chain.
pub type SampleChain = fn(&mut Samples) -> *mut c_void;

/// A sequence of numbers, and the memory of what was made of them.
pub struct Samples {
    state: u64,
    arena: Arena,
    chain: SampleChain,
    /// How many chains the one being made is inside of.
    depth: u32,
}

impl Samples {
    /// Equal seeds make equal values.
    pub fn new(seed: u64, chain: SampleChain) -> Self {
        Samples { state: seed, arena: Arena::default(), chain, depth: 0 }
    }

    /// The next number (splitmix64).
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    /// Keeps an array of a length.
    pub fn list<T: 'static>(&mut self, length: u64, make: fn(&mut Samples) -> T) -> *mut T {
        let values = (0..length).map(|_| make(self)).collect();
        self.arena.list(values)
    }

    /// Specialization constants within `size` bytes of data.
    pub fn entries(&mut self, size: usize) -> (u32, *const vk::SpecializationMapEntry) {
        let entry = |samples: &mut Self| {
            let offset = samples.below(size as u64 + 1) as u32;
            let constant_id = samples.word() as u32;
            vk::SpecializationMapEntry { constant_id, offset, size: size - offset as usize }
        };
        let entries: Vec<_> = (0..self.below(4)).map(|_| entry(self)).collect();
        (entries.len() as u32, self.arena.list(entries))
    }

    /// Keeps a value, or is NULL.
    pub fn maybe<T: 'static>(&mut self, make: fn(&mut Samples) -> T) -> *mut T {
        let length = self.below(2);
        self.list(length, make)
    }

    /// Keeps a value.
    pub fn keep<T: 'static>(&mut self, value: T) -> *mut T {
        self.arena.value(value)
    }

    /// A chain, which is empty where it is inside of two others.
    pub fn chain(&mut self) -> *mut c_void {
        if self.depth == 2 {
            return std::ptr::null_mut();
        }
        self.depth += 1;
        let first = (self.chain)(self);
        self.depth -= 1;
        first
    }
}
