//! The memory of what was read: structures and arrays that point at each other.

use std::any::Any;
use std::ptr;

/// Grows, and frees everything at once. What it holds never moves.
#[derive(Default)]
pub struct Arena {
    /// Vectors of every type. A vector's elements stay where they are when the vector itself moves.
    kept: Vec<Box<dyn Any>>,
}

impl Arena {
    /// Keeps an array. NULL where it has no elements.
    pub fn list<T: 'static>(&mut self, mut values: Vec<T>) -> *mut T {
        if values.is_empty() {
            return ptr::null_mut();
        }
        values.shrink_to_fit();
        let first = values.as_mut_ptr();
        self.kept.push(Box::new(values));
        first
    }

    /// Keeps a single value.
    pub fn value<T: 'static>(&mut self, value: T) -> *mut T {
        self.list(Vec::from([value]))
    }
}
