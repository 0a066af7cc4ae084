//! Names and numbers as they are printed.

use std::fmt::Debug;

use ash::vk;

/// Digits of a key in lists.
pub(super) const DIGITS: usize = 12;

const LIBRARY: u64 = vk::PipelineCreateFlags::LIBRARY_KHR.as_raw() as u64;

/// Whether these flags are a library's.
pub(super) fn is_library(flags: u64) -> bool {
    flags & LIBRARY != 0
}

/// The names of flags; `NONE` where none is set.
pub(super) fn or_none(flags: impl Debug) -> String {
    let text = format!("{flags:?}");
    if text.is_empty() { "NONE".to_owned() } else { text }
}

/// `A, B, C`.
pub(super) fn list(items: impl Iterator<Item = impl Debug>) -> String {
    items.map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ")
}
