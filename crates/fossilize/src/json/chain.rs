//! pNext chains: arrays of structures, each with its sType.

use std::ffi::c_void;
use std::ptr;

use ash::vk::{self, BaseInStructure, StructureType as S};

use super::document::{Object, Value};
use super::error::{ParseError, Problem, WriteError};
use super::form::Chained;
use super::members::{array, object, only, read};
use super::reader::Reader;
#[cfg(test)]
use super::samples::Samples;
use super::writer::Writer;

/// A structure that may stand in chains.
pub struct KnownStructure {
    /// Which one it is.
    pub s_type: vk::StructureType,
    /// Reads one, and puts it before another.
    read: fn(&Object, *mut c_void, &mut Reader) -> Result<*mut c_void, ParseError>,
    /// Writes the members of one.
    write: unsafe fn(*const c_void, &mut Writer) -> Result<(), WriteError>,
    /// One for tests, before another.
    #[cfg(test)]
    pub sample: fn(*mut c_void, &mut Samples) -> *mut c_void,
}

/// A row of a table.
pub const fn known<T: Chained>() -> KnownStructure {
    KnownStructure {
        s_type: T::STRUCTURE_TYPE,
        read: |object, next, reader| {
            only(object, T::NAMES, &["sType"])?;
            let mut link = T::read_members(object, reader)?;
            link.set_next(next);
            Ok(reader.arena.value(link).cast())
        },
        write: write_as::<T>,
        #[cfg(test)]
        sample: |next, samples| {
            let mut link = T::sample_members(samples);
            link.set_next(next);
            samples.keep(link).cast()
        },
    }
}

/// # Safety
/// `link` points to a valid `T`.
unsafe fn write_as<T: Chained>(link: *const c_void, writer: &mut Writer) -> Result<(), WriteError> {
    // SAFETY: `link` points to a valid `T` (this function's # Safety section).
    unsafe { (*link.cast::<T>()).write_members(writer) }
}

/// Reads the chain that the value of `pNext` describes, with the structures of a table.
pub fn read_chain(
    table: &[KnownStructure],
    value: &Value,
    reader: &mut Reader,
) -> Result<*mut c_void, ParseError> {
    let mut next = ptr::null_mut();
    for (index, link) in array(value)?.iter().enumerate().rev() {
        let mut link = || {
            let link = object(link)?;
            let s_type: i32 = read(link, "sType", reader)?;
            match table.iter().find(|known| known.s_type.as_raw() == s_type) {
                Some(known) => (known.read)(link, next, reader),
                None => Err(ParseError::new(Problem::Structure(s_type))),
            }
        };
        next = link().map_err(|error| error.inside(&index.to_string()))?;
    }
    Ok(next)
}

/// Writes a chain. What does not tell how the object behaves is left out, as Fossilize does.
///
/// # Safety
/// `first` is NULL or points to the first structure of a valid chain.
pub unsafe fn write_chain(
    table: &[KnownStructure],
    first: *const c_void,
    writer: &mut Writer,
) -> Result<(), WriteError> {
    writer.open('[');
    let mut next: *const BaseInStructure<'_> = first.cast();
    // SAFETY: a link of a valid chain starts with sType and pNext (this function's # Safety section).
    while let Some(link) = unsafe { next.as_ref() } {
        let s_type = link.s_type;
        if !left_out(s_type) {
            let known = table.iter().find(|known| known.s_type == s_type);
            let known = known.ok_or(WriteError::Structure(s_type))?;
            writer.element();
            writer.open('{');
            writer.name("sType");
            writer.raw(s_type.as_raw());
            // SAFETY: sType says that this is the row's structure.
            unsafe { (known.write)(next.cast(), writer)? };
            writer.close('}');
        }
        next = link.p_next;
    }
    writer.close(']');
    Ok(())
}

/// Refuses a chain that holds more than what is left out.
///
/// # Safety
/// `first` is NULL or points to the first structure of a valid chain.
pub unsafe fn nothing_in(first: *const c_void) -> Result<(), WriteError> {
    let mut next: *const BaseInStructure<'_> = first.cast();
    // SAFETY: a link of a valid chain starts with sType and pNext (this function's # Safety section).
    while let Some(link) = unsafe { next.as_ref() } {
        if !left_out(link.s_type) {
            return Err(WriteError::Structure(link.s_type));
        }
        next = link.p_next;
    }
    Ok(())
}

/// Answers of the driver, words for tools, and what a stage's module says better: a stage without one is refused.
fn left_out(s_type: vk::StructureType) -> bool {
    matches!(
        s_type,
        S::PIPELINE_CREATION_FEEDBACK_CREATE_INFO
            | S::SHADER_MODULE_VALIDATION_CACHE_CREATE_INFO_EXT
            | S::DEBUG_UTILS_OBJECT_NAME_INFO_EXT
            | S::VALIDATION_FEATURES_EXT
            | S::RENDER_PASS_CREATION_FEEDBACK_CREATE_INFO_EXT
            | S::RENDER_PASS_SUBPASS_FEEDBACK_CREATE_INFO_EXT
            | S::OPAQUE_CAPTURE_DESCRIPTOR_DATA_CREATE_INFO_EXT
            | S::SHADER_MODULE_CREATE_INFO
            | S::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT
            | vkstash_model::newer::PIPELINE_BINARY_INFO
    )
}
