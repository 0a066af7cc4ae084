//! Readers and writers of structure members, for each kind of member that [`structure`](super::structure) names.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use ash::vk::SpecializationMapEntry;

use super::document::{Object, Value};
use super::encodings::{from_base64, to_base64};
use super::error::{ParseError, Problem, WriteError};
use super::form::{Json, Members};
use super::reader::Reader;
use super::writer::Writer;

/// The largest count of an array that a document may leave out because the state is dynamic. More than any device
/// allows, and small enough for who makes an array of that length.
pub const MOST_WITHOUT_ARRAY: u32 = 1 << 16;

/// The value as an object.
pub fn object(value: &Value) -> Result<&Object, ParseError> {
    if let Value::Object(object) = value { Ok(object) } else { refused(Problem::Kind("an object")) }
}

/// The value as an array.
pub fn array(value: &Value) -> Result<&[Value], ParseError> {
    if let Value::Array(array) = value { Ok(array) } else { refused(Problem::Kind("an array")) }
}

fn refused<T>(problem: Problem) -> Result<T, ParseError> {
    Err(ParseError::new(problem))
}

/// Refuses an object that has members other than these, or one of them twice.
pub fn only(object: &Object, names: &[&str], others: &[&str]) -> Result<(), ParseError> {
    let mut seen = 0u64;
    for (name, _) in object.iter() {
        let known = names.iter().chain(others).position(|&known| known == name);
        let Some(index) = known else {
            return Err(ParseError::new(Problem::UnknownMember).inside(name));
        };
        let bit = 1 << index;
        if seen & bit != 0 {
            return Err(ParseError::new(Problem::RepeatedMember).inside(name));
        }
        seen |= bit;
    }
    Ok(())
}

/// A member that must be there.
pub fn required<'a>(object: &'a Object, name: &str) -> Result<&'a Value, ParseError> {
    object.get(name).ok_or_else(|| ParseError::new(Problem::MissingMember).inside(name))
}

/// A string that must be there.
pub fn text<'a>(object: &'a Object, name: &str) -> Result<&'a str, ParseError> {
    let kind = || ParseError::new(Problem::Kind("a string")).inside(name);
    required(object, name)?.text().ok_or_else(kind)
}

/// A value that must be there.
pub fn read<T: Json>(object: &Object, name: &str, reader: &mut Reader) -> Result<T, ParseError> {
    T::read(required(object, name)?, reader).map_err(|error| error.inside(name))
}

/// A value that may be missing.
pub fn read_optional<T: Json>(
    object: &Object,
    name: &str,
    reader: &mut Reader,
) -> Result<Option<T>, ParseError> {
    object.get(name).map(|value| T::read(value, reader).map_err(|error| error.inside(name))).transpose()
}

/// A structure that the document tags with its type, although its place tells it. May be missing.
pub fn read_tagged<T: Members>(
    object: &Object,
    name: &str,
    reader: &mut Reader,
) -> Result<Option<T>, ParseError> {
    let mut tagged = |value| {
        let object = self::object(value)?;
        only(object, T::NAMES, &["sType"])?;
        T::read_members(object, reader)
    };
    object.get(name).map(|value| tagged(value).map_err(|error| error.inside(name))).transpose()
}

fn elements<T: Json>(value: &Value, reader: &mut Reader) -> Result<Vec<T>, ParseError> {
    let array = array(value)?;
    let mut elements = Vec::with_capacity(array.len());
    for (index, element) in array.iter().enumerate() {
        elements.push(T::read(element, reader).map_err(|error| error.inside(&index.to_string()))?);
    }
    Ok(elements)
}

/// An array and its length; a missing one is empty.
pub fn read_list<T: Json>(
    object: &Object,
    name: &str,
    reader: &mut Reader,
) -> Result<(u32, *const T), ParseError> {
    let Some(value) = object.get(name) else { return Ok((0, ptr::null())) };
    let list = elements(value, reader).map_err(|error| error.inside(name))?;
    let count = u32::try_from(list.len()).map_err(|_| ParseError::new(Problem::Range).inside(name))?;
    Ok((count, reader.arena.list(list)))
}

/// The map entries of specialization constants, which lie within `size` bytes of data.
pub fn read_entries(
    object: &Object,
    name: &str,
    size: usize,
    reader: &mut Reader,
) -> Result<(u32, *const SpecializationMapEntry), ParseError> {
    let Some(value) = object.get(name) else { return Ok((0, ptr::null())) };
    let list: Vec<SpecializationMapEntry> = elements(value, reader).map_err(|error| error.inside(name))?;
    let within = |entry: &SpecializationMapEntry| entry.size <= size.saturating_sub(entry.offset as usize);
    let range = |index: usize| ParseError::new(Problem::Range).inside(&index.to_string()).inside(name);
    if let Some(index) = list.iter().position(|entry| !within(entry)) {
        return Err(range(index));
    }
    let count = u32::try_from(list.len()).map_err(|_| range(list.len()))?;
    Ok((count, reader.arena.list(list)))
}

/// An array that may be missing, and whose length follows from another member.
pub fn read_sized<T: Json>(
    object: &Object,
    name: &str,
    expected: u64,
    reader: &mut Reader,
) -> Result<*const T, ParseError> {
    let Some(value) = object.get(name) else { return Ok(ptr::null()) };
    let mut sized = |value| {
        let found = array(value)?.len() as u64;
        if found != expected {
            return Err(ParseError::new(Problem::Length { found, expected }));
        }
        let list: Vec<T> = elements(value, reader)?;
        Ok(reader.arena.list(list).cast_const())
    };
    sized(value).map_err(|error| error.inside(name))
}

/// The same for an array that dynamic state replaces.
pub fn read_counted<T: Json>(
    object: &Object,
    name: &str,
    expected: u32,
    reader: &mut Reader,
) -> Result<*const T, ParseError> {
    if expected > MOST_WITHOUT_ARRAY {
        return Err(ParseError::new(Problem::Range).inside(name));
    }
    read_sized(object, name, expected.into(), reader)
}

/// A structure or number that may be missing.
pub fn read_pointer<T: Json>(
    object: &Object,
    name: &str,
    reader: &mut Reader,
) -> Result<*const T, ParseError> {
    let value: Option<T> = read_optional(object, name, reader)?;
    Ok(value.map_or(ptr::null(), |value| reader.arena.value(value).cast_const()))
}

/// A name that may be missing.
pub fn read_name(object: &Object, name: &str, reader: &mut Reader) -> Result<*const c_char, ParseError> {
    if !object.contains(name) {
        return Ok(ptr::null());
    }
    let kind = |_| ParseError::new(Problem::Kind("a name without NUL")).inside(name);
    let value = CString::new(text(object, name)?).map_err(kind)?.into_bytes_with_nul();
    Ok(reader.arena.list(value).cast_const().cast())
}

/// A name that must be there.
pub fn read_string(object: &Object, name: &str, reader: &mut Reader) -> Result<*const c_char, ParseError> {
    required(object, name)?;
    read_name(object, name, reader)
}

/// Bytes in base64.
pub fn read_bytes(
    object: &Object,
    name: &str,
    size: usize,
    reader: &mut Reader,
) -> Result<*const c_void, ParseError> {
    let bytes = from_base64(text(object, name)?).map_err(|error| error.inside(name))?;
    if bytes.len() != size {
        let length = Problem::Length { found: bytes.len() as u64, expected: size as u64 };
        return Err(ParseError::new(length).inside(name));
    }
    // What the map entries point to are numbers of up to eight bytes.
    let mut words = vec![0u64; size.div_ceil(8)];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(padded);
    }
    Ok(reader.arena.list(words).cast_const().cast())
}

/// # Safety
/// The pointers in `value` are valid.
pub unsafe fn write<T: Json>(writer: &mut Writer, name: &str, value: &T) -> Result<(), WriteError> {
    writer.name(name);
    // SAFETY: the pointers in `value` are valid (this function's # Safety section).
    unsafe { value.write(writer) }
}

/// # Safety
/// The pointers in `value` are valid.
pub unsafe fn write_tagged<T: Members>(
    writer: &mut Writer,
    name: &str,
    value: &T,
    s_type: i32,
) -> Result<(), WriteError> {
    writer.name(name);
    writer.open('{');
    writer.name("sType");
    writer.raw(s_type);
    // SAFETY: the pointers in `value` are valid (this function's # Safety section).
    unsafe { value.write_members(writer)? };
    writer.close('}');
    Ok(())
}

/// # Safety
/// `first` is NULL or valid for `count` elements.
pub unsafe fn write_list<T: Json>(
    writer: &mut Writer,
    name: &'static str,
    first: *const T,
    count: u64,
) -> Result<(), WriteError> {
    if first.is_null() && count > 0 {
        return Err(WriteError::Null(name));
    }
    writer.name(name);
    writer.open('[');
    for index in 0..usize::try_from(count).map_err(|_| WriteError::TooLong(name))? {
        writer.element();
        // SAFETY: `first` is valid for `count` elements (this function's # Safety section).
        unsafe { (*first.add(index)).write(writer)? };
    }
    writer.close(']');
    Ok(())
}

/// # Safety
/// `first` is NULL or valid for `count` elements.
pub unsafe fn write_sized<T: Json>(
    writer: &mut Writer,
    name: &'static str,
    first: *const T,
    count: u64,
) -> Result<(), WriteError> {
    if first.is_null() {
        return Ok(());
    }
    // SAFETY: `first` is valid for `count` elements (this function's # Safety section).
    unsafe { write_list(writer, name, first, count) }
}

/// # Safety
/// `first` is NULL or valid for `count` elements.
pub unsafe fn write_counted<T: Json>(
    writer: &mut Writer,
    name: &'static str,
    first: *const T,
    count: u32,
) -> Result<(), WriteError> {
    if count > MOST_WITHOUT_ARRAY {
        return Err(WriteError::TooLong(name));
    }
    // SAFETY: `first` is NULL or valid for `count` elements (this function's # Safety section).
    unsafe { write_sized(writer, name, first, count.into()) }
}

/// # Safety
/// `value` is NULL or valid.
pub unsafe fn write_pointer<T: Json>(
    writer: &mut Writer,
    name: &str,
    value: *const T,
) -> Result<(), WriteError> {
    // SAFETY: `value` is NULL or valid (this function's # Safety section).
    match unsafe { value.as_ref() } {
        // SAFETY: so are the pointers in it.
        Some(value) => unsafe { write(writer, name, value) },
        None => Ok(()),
    }
}

/// # Safety
/// `value` is NULL or a string that ends with NUL.
pub unsafe fn write_name(
    writer: &mut Writer,
    name: &'static str,
    value: *const c_char,
) -> Result<(), WriteError> {
    if value.is_null() {
        return Ok(());
    }
    // SAFETY: `value` is a string that ends with NUL (this function's # Safety section).
    let value = unsafe { CStr::from_ptr(value) }.to_str().map_err(|_| WriteError::NotUtf8(name))?;
    writer.name(name);
    writer.string(value);
    Ok(())
}

/// # Safety
/// `value` is NULL or a string that ends with NUL.
pub unsafe fn write_string(
    writer: &mut Writer,
    name: &'static str,
    value: *const c_char,
) -> Result<(), WriteError> {
    if value.is_null() {
        return Err(WriteError::Null(name));
    }
    // SAFETY: `value` is a string that ends with NUL (this function's # Safety section).
    unsafe { write_name(writer, name, value) }
}

/// # Safety
/// `first` is NULL or valid for `size` bytes.
pub unsafe fn write_bytes(
    writer: &mut Writer,
    name: &'static str,
    first: *const c_void,
    size: usize,
) -> Result<(), WriteError> {
    let bytes: &[u8] = match size {
        0 => &[],
        _ if first.is_null() => return Err(WriteError::Null(name)),
        // SAFETY: `first` is valid for `size` bytes (this function's # Safety section).
        _ => unsafe { std::slice::from_raw_parts(first.cast(), size) },
    };
    writer.name(name);
    writer.string(&to_base64(bytes));
    Ok(())
}
