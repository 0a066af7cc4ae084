//! Graphics pipeline libraries and links of them.

use ash::vk::{self, GraphicsPipelineLibraryFlagsEXT as Subset};

use super::changes::assert_changes;
use super::full::Full;
use super::helpers::handle;
use crate::capture::LibraryTraits;

/// The four subsets.
pub const SUBSETS: [Subset; 4] = [
    Subset::VERTEX_INPUT_INTERFACE,
    Subset::PRE_RASTERIZATION_SHADERS,
    Subset::FRAGMENT_SHADER,
    Subset::FRAGMENT_OUTPUT_INTERFACE,
];

/// Every combination of them.
pub fn combinations() -> impl Iterator<Item = Subset> {
    (0..16).map(Subset::from_raw)
}

#[test]
fn every_combination_of_subsets_counts_its_own_state_and_no_other() {
    let mut seen = Vec::new();
    for subsets in combinations() {
        for render_pass in [0, 6] {
            let mut full = Full::library(subsets);
            full.info.render_pass = handle(render_pass);
            assert_changes(&full);
            let bytes = full.bytes();
            assert!(render_pass != 0 || !seen.contains(&bytes), "{subsets:?}");
            seen.push(bytes);
        }
    }
}

#[test]
fn a_library_of_all_subsets_is_not_a_pipeline() {
    let all = Subset::from_raw(15);
    let complete = Full { subsets: Some(all), ..Full::dynamic_rendering() };
    assert_eq!(complete.bytes(), Full::dynamic_rendering().bytes(), "no structure means all of them");
    assert_ne!(complete.bytes(), Full::library(all).bytes());
    let mut nothing = Full::dynamic_rendering();
    nothing.info.flags = vk::PipelineCreateFlags::LIBRARY_KHR;
    assert_eq!(nothing.bytes(), Full::library(Subset::empty()).bytes(), "a library without it has none");
}

#[test]
fn a_link_is_its_libraries_in_any_order_its_layout_and_its_flags() {
    let traits = |subsets: Subset| LibraryTraits {
        subsets: subsets.as_raw(),
        discards: false,
        ..LibraryTraits::default()
    };
    let link = Full::linking(&SUBSETS.map(traits));
    assert_changes(&link);
    let (base, options) = link.capture_after(|_| {}).unwrap();
    assert!(options.linked && options.nothing_to_compile && !options.library);
    assert_eq!(options.traits.subsets, 15);
    let mut other = link.clone();
    other.libraries.rotate_left(1);
    assert_eq!(base, other.bytes());
    other.libraries.pop();
    assert_ne!(base, other.bytes());
    let flags = [
        vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT,
        vk::PipelineCreateFlags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT,
    ];
    for flag in flags {
        assert_ne!(base, link.bytes_after(|info| info.flags = flag).unwrap());
    }
    let (_, options) = link.capture_after(|info| info.flags = flags[0]).unwrap();
    assert!(!options.nothing_to_compile);
    let without = link.bytes_after(|info| info.layout = vk::PipelineLayout::null()).unwrap();
    assert_ne!(base, without);
}

#[test]
fn a_link_may_add_subsets_of_its_own() {
    for discards in [false, true] {
        let pre = LibraryTraits {
            subsets: Subset::PRE_RASTERIZATION_SHADERS.as_raw(),
            discards,
            ..LibraryTraits::default()
        };
        let mut link = Full { libraries: vec![handle(11)], ..Full::dynamic_rendering() };
        link.known.libraries = vec![(handle(11), pre)];
        link.subsets = Some(Subset::FRAGMENT_SHADER | Subset::FRAGMENT_OUTPUT_INTERFACE);
        link.keep_own_stages();
        let mattered = assert_changes(&link);
        assert_eq!(mattered > 40, !discards, "{mattered}: a library that discards leaves no fragment state");
        let (_, options) = link.capture_after(|_| {}).unwrap();
        assert_eq!(
            options.traits,
            LibraryTraits { subsets: 2 | 4 | 8, discards, ..LibraryTraits::default() }
        );
    }
}

#[test]
fn what_a_library_is_remembered_for_follows_from_its_state() {
    for dynamic in [false, true] {
        let mut library = Full::library(Subset::PRE_RASTERIZATION_SHADERS);
        library.rasterization.rasterizer_discard_enable = vk::TRUE;
        if dynamic {
            library.dynamic.push(vk::DynamicState::RASTERIZER_DISCARD_ENABLE);
        }
        let (_, options) = library.capture_after(|_| {}).unwrap();
        assert!(options.library && !options.linked && !options.nothing_to_compile);
        assert_eq!(
            options.traits,
            LibraryTraits { subsets: 2, discards: !dynamic, ..LibraryTraits::default() }
        );
    }
    for subset in [Subset::VERTEX_INPUT_INTERFACE, Subset::FRAGMENT_OUTPUT_INTERFACE] {
        let (_, options) = Full::library(subset).capture_after(|_| {}).unwrap();
        assert!(options.nothing_to_compile);
    }
}
