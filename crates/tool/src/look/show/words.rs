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

/// The name of a value of Vulkan's as people read it: `triangle list`, `depth bias`; of flags, `vertex, fragment`, or
/// `none`. A number without a name stays a number.
pub(super) fn spoken(value: impl Debug) -> String {
    match format!("{value:?}") {
        empty if empty.is_empty() => "none".to_owned(),
        name => name.to_lowercase().replace(" | ", ", ").replace('_', " "),
    }
}

/// Formats as Vulkan names them: `R8G8B8A8_UNORM, D32_SFLOAT`.
pub(super) fn formats(items: impl Iterator<Item = vk::Format>) -> String {
    items.map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_words_and_unknown_ones_are_numbers() {
        assert_eq!(spoken(vk::PrimitiveTopology::TRIANGLE_LIST), "triangle list");
        assert_eq!(spoken(vk::ShaderStageFlags::VERTEX | vk::ShaderStageFlags::FRAGMENT), "vertex, fragment");
        assert_eq!(spoken(vk::CullModeFlags::NONE), "none");
        assert_eq!(spoken(vk::CompareOp::from_raw(99)), "99");
        assert_eq!(formats([vk::Format::R8G8B8A8_UNORM].into_iter()), "R8G8B8A8_UNORM");
    }
}
