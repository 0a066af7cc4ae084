//! The schema's bytes never change: a new encoding is a new schema number and a new file.

use ash::vk::{self, GraphicsPipelineLibraryFlagsEXT as Subset};

use super::full::{Full, full_with};
use super::graphics::rich;
use super::guard_page::{place, place_one};
use super::helpers::{compute_info, encoded, handle, of_compute};
use super::libraries::SUBSETS;
use super::ray_tracing::Rays;
use crate::capture::LibraryTraits;
use vkstash_model::key;
use vkstash_model::recipe::Recipe;

/// A recipe with structures of numbers and structures with pointers in several chains.
fn with_structures() -> Vec<u8> {
    let mut full = rich();
    let scalings = [vk::ViewportWScalingNV { xcoeff: 1.0, ycoeff: -2.0 }];
    let mut scaling = vk::PipelineViewportWScalingStateCreateInfoNV::default()
        .viewport_w_scaling_enable(true)
        .viewport_w_scalings(&scalings);
    scaling.p_viewport_w_scalings = place(&scalings);
    full.viewport.p_next = place_one(scaling).cast();
    let table = [0.5, 0.25];
    let mut modulation = vk::PipelineCoverageModulationStateCreateInfoNV::default()
        .coverage_modulation_table_enable(true)
        .coverage_modulation_table(&table);
    modulation.p_coverage_modulation_table = place(&table);
    full.multisample.p_next = place_one(modulation).cast();
    let line = vk::PipelineRasterizationLineStateCreateInfoKHR::default().line_stipple_pattern(0xabcd);
    full.rasterization.p_next = place_one(line).cast();
    let robust = vk::PipelineRobustnessCreateInfoEXT::default()
        .storage_buffers(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS_2);
    full.extra.push(place_one(robust).cast());
    let rectangles =
        [vk::Rect2D { extent: vk::Extent2D { width: 300, height: 70_000 }, ..Default::default() }];
    let mut discard =
        vk::PipelineDiscardRectangleStateCreateInfoEXT::default().discard_rectangles(&rectangles);
    discard.p_discard_rectangles = place(&rectangles);
    full.extra.push(place_one(discard).cast());
    full.bytes()
}

fn ray_tracing() -> Vec<u8> {
    let rays = Rays {
        libraries: vec![handle(12), handle(11)],
        interface: Some(
            vk::RayTracingPipelineInterfaceCreateInfoKHR::default()
                .max_pipeline_ray_payload_size(32)
                .max_pipeline_ray_hit_attribute_size(8),
        ),
        dynamic: vec![vk::DynamicState::RAY_TRACING_PIPELINE_STACK_SIZE_KHR],
        ..Rays::default()
    };
    rays.bytes_after(|_| {}).unwrap()
}

fn recipes() -> Vec<Vec<u8>> {
    let graphics = full_with(|f| f.dynamic.push(vk::DynamicState::VIEWPORT));
    let mut recipes = vec![of_compute(&compute_info()).unwrap().0, graphics];
    recipes.extend(SUBSETS.map(|subset| Full::library(subset).bytes()));
    let traits = |subset: Subset| LibraryTraits {
        subsets: subset.as_raw(),
        discards: false,
        ..LibraryTraits::default()
    };
    recipes.push(Full::linking(&SUBSETS.map(traits)).bytes());
    recipes.extend([ray_tracing(), with_structures()]);
    recipes
}

/// Each line: a recipe's bytes and its key (VKSTASH_PUBLISH_GOLDEN=1 writes them).
#[test]
fn the_encoding_is_that_of_the_golden_file() {
    let mut hex = String::new();
    for bytes in recipes() {
        hex.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
        let digest = key::digest(key::RECIPE, &bytes);
        hex.push(' ');
        hex.extend(digest.iter().map(|byte| format!("{byte:02x}")));
        hex.push('\n');
        let decoded: Recipe<'_> = key::decode(&bytes).unwrap();
        assert_eq!(encoded(&decoded), bytes, "decoding loses nothing");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/recipes-2.txt");
    if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
        std::fs::write(path, &hex).unwrap();
    }
    assert_eq!(hex, std::fs::read_to_string(path).unwrap());
}

/// Whichever number it is that is too large, a length too: no memory is asked for that no bytes stand for
/// (scripts/asan.sh ends a process that asks for so much).
#[test]
fn a_length_is_not_believed() {
    for bytes in recipes() {
        for place in 0..bytes.len() {
            let mut huge = bytes[..place].to_vec();
            huge.push(253);
            huge.extend((1u64 << 42).to_le_bytes());
            huge.extend(&bytes[place + 1..]);
            // bincode cuts lengths to the width of a pointer: what is decoded then is a recipe all the same.
            let cut = cfg!(target_pointer_width = "32");
            if let Ok(decoded) = key::decode::<Recipe<'_>>(&huge) {
                assert!(cut || encoded(&decoded) != bytes);
            }
        }
    }
}

/// The model has no number whose width is that of a pointer, and lengths are encoded as variable-length integers.
#[test]
fn no_width_of_a_pointer_goes_into_the_encoding() {
    let model = include_str!("../../../../model/src/recipe.rs");
    assert!(model.contains("u64"));
    for word in ["usize", "isize", "*const", "*mut"] {
        assert!(!model.contains(word), "{word}");
    }
    assert_eq!(encoded(&vec![0_u8; 3]), [3, 0, 0, 0]);
    assert_eq!(encoded(&vec![0_u8; 300])[..3], [251, 0x2c, 1]);
}
