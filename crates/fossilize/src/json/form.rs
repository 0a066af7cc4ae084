//! Traits of types that have a form in JSON: values, structures, and structures that stand in pNext chains.

use std::ffi::c_void;

use ash::vk::TaggedStructure;

use super::document::{Object, Value};
use super::error::{ParseError, WriteError};
use super::reader::Reader;
#[cfg(test)]
use super::samples::Samples;
use super::writer::Writer;

/// A value with a form in JSON.
pub trait Json: Copy + 'static {
    /// Reads the value.
    fn read(value: &Value, reader: &mut Reader) -> Result<Self, ParseError>;

    /// Writes the value.
    ///
    /// # Safety
    /// Each pointer in it is NULL, or valid for as many elements as its count says, or the first structure of a valid
    /// chain. Pointers that Vulkan would not follow are no exception.
    unsafe fn write(&self, writer: &mut Writer) -> Result<(), WriteError>;

    /// A value for tests.
    #[cfg(test)]
    fn sample(samples: &mut Samples) -> Self;
}

/// The members of a structure, without sType and pNext.
pub trait Members: Copy + 'static {
    /// Their names in JSON.
    const NAMES: &'static [&'static str];

    /// Reads the members of an object.
    fn read_members(object: &Object, reader: &mut Reader) -> Result<Self, ParseError>;

    /// Writes the members of an object.
    ///
    /// # Safety
    /// As for [`Json::write`].
    unsafe fn write_members(&self, writer: &mut Writer) -> Result<(), WriteError>;

    /// A structure for tests, without a chain.
    #[cfg(test)]
    fn sample_members(samples: &mut Samples) -> Self;
}

/// A structure that starts with sType and pNext.
pub trait Chained: Members + TaggedStructure {
    /// Sets pNext.
    fn set_next(&mut self, next: *mut c_void);
}
