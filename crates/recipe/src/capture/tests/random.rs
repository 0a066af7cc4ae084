//! Properties of random pipelines of every kind.

use ash::vk::{self, DynamicState as D, GraphicsPipelineLibraryFlagsEXT as Subset};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::changes::CHANGES;
use super::full::{Full, Rendering};
use super::graphics::STATES;
use super::guard_page::{place, place_one};
use super::helpers::{compute_info, encoded, handle, of_compute, shader};
use super::ray_tracing::{self, Rays, group};
use crate::capture::{LibraryTraits, SubpassUse};
use vkstash_model::key;
use vkstash_model::recipe::Recipe;

/// Decoding loses nothing, and another encoding is the same bytes.
fn assert_round_trip(bytes: &[u8]) {
    let again = encoded(&key::decode::<Recipe<'_>>(bytes).unwrap());
    assert_eq!(again, bytes);
    let (one, two): (Recipe<'_>, Recipe<'_>) = (key::decode(bytes).unwrap(), key::decode(&again).unwrap());
    assert_eq!(one, two);
}

/// State from random numbers: every bit pattern is fine for capture, but for the sample count.
fn state(mut full: Full, numbers: &[u32]) -> Full {
    let mut next = numbers.iter().copied().cycle();
    let mut number = || next.next().unwrap_or(0);
    full.rasterization.depth_clamp_enable = number() & 1;
    full.rasterization.rasterizer_discard_enable = u32::from(number() % 5 == 0);
    full.rasterization.polygon_mode = vk::PolygonMode::from_raw(number() as i32 & 3);
    full.rasterization.line_width = f32::from_bits(number());
    full.input_assembly.topology = vk::PrimitiveTopology::from_raw(number() as i32 & 15);
    full.multisample.rasterization_samples = vk::SampleCountFlags::from_raw(1 << (number() % 4));
    full.multisample.min_sample_shading = f32::from_bits(number());
    full.depth_stencil.depth_compare_op = vk::CompareOp::from_raw(number() as i32 & 7);
    full.depth_stencil.front.reference = number();
    full.blend.logic_op = vk::LogicOp::from_raw(number() as i32 & 15);
    full.blend.blend_constants = [0; 4].map(|_| f32::from_bits(number()));
    let count = |number: u32| number as usize % 4;
    full.bindings = (0..count(number()) as u32)
        .map(|binding| vk::VertexInputBindingDescription { binding, stride: number(), ..Default::default() })
        .collect();
    full.attributes = (0..2 * count(number()) as u32)
        .map(|location| vk::VertexInputAttributeDescription {
            location,
            offset: number(),
            ..Default::default()
        })
        .collect();
    full.divisors = (0..count(number()) as u32)
        .map(|binding| vk::VertexInputBindingDivisorDescriptionKHR { binding, divisor: number() })
        .collect();
    full.viewports
        .resize(count(number()), vk::Viewport { x: f32::from_bits(number()), ..Default::default() });
    full.scissors.resize(count(number()), vk::Rect2D::default());
    full.blends.resize(count(number()), Default::default());
    full.mask.truncate(count(number()));
    full
}

prop_compose! {
    /// A complete pipeline, a library of any subsets, or a link that may add some.
    pub fn graphics_pipelines()(
        numbers in vec(any::<u32>(), 40),
        dynamic in subsequence(STATES, 0..STATES.len()),
        kind in 0..4_u32,
        subsets in 0..16_u32,
        passes in any::<[bool; 6]>(),
        discards in any::<bool>(),
        mesh in any::<bool>(),
        colors in vec(0..3_i32, 0..3),
        flags2 in proptest::option::of(0..2_u64),
    ) -> Full {
        let subsets = Subset::from_raw(subsets);
        let mut full = match kind {
            0 => Full::default(),
            1 => Full::dynamic_rendering(),
            2 => Full::library(subsets),
            _ => {
                let traits = LibraryTraits { subsets: 15 & !subsets.as_raw(), discards, ..LibraryTraits::default() };
                let mut link = Full::linking(&[traits, LibraryTraits::default()]);
                link.stages = Full::default().stages;
                link.subsets = Some(subsets);
                link.rendering = Some(Rendering::default());
                link
            }
        };
        if passes[0] && kind != 1 {
            full.info.render_pass = handle(6);
        }
        if let Some(rendering) = &mut full.rendering {
            rendering.colors = colors.iter().map(|&format| vk::Format::from_raw(format)).collect();
            rendering.depth = vk::Format::from_raw(i32::from(passes[3]));
        }
        // The member's flags must still say LIBRARY where nothing replaces them.
        full.flags2 = flags2.filter(|_| kind != 2);
        full.known.subpass = SubpassUse { color: passes[1], depth_stencil: passes[2] };
        full.known.advanced_blend = passes[4];
        let pre_rasterization = full.pre_rasterization();
        if mesh && passes[5] && pre_rasterization {
            full.stages[0].stage = vk::ShaderStageFlags::MESH_EXT;
        } else if mesh && pre_rasterization {
            full.tessellate();
        }
        full.dynamic = dynamic;
        full.keep_own_stages();
        state(full, &numbers)
    }
}

prop_compose! {
    pub fn ray_tracing_pipelines()(
        stages in vec(1..99_u64, 1..6),
        groups in vec((0..3_i32, any::<[u32; 4]>()), 1..5),
        libraries in vec(1..99_u64, 0..4),
        interface in proptest::option::of(any::<(u32, u32)>()),
        recursion in any::<u32>(),
    ) -> Rays {
        let group = |&(ty, [a, b, c, d]): &(i32, [u32; 4])| {
            group(vk::RayTracingShaderGroupTypeKHR::from_raw(ty))
                .general_shader(a).closest_hit_shader(b).any_hit_shader(c).intersection_shader(d)
        };
        let mut rays = Rays {
            stages: stages.iter().map(|&module| shader(vk::ShaderStageFlags::RAYGEN_KHR, module)).collect(),
            groups: groups.iter().map(group).collect(),
            libraries: libraries.into_iter().map(handle).collect(),
            interface: interface.map(|(payload, attributes)| {
                vk::RayTracingPipelineInterfaceCreateInfoKHR::default()
                    .max_pipeline_ray_payload_size(payload)
                    .max_pipeline_ray_hit_attribute_size(attributes)
            }),
            ..Rays::default()
        };
        rays.info.max_pipeline_ray_recursion_depth = recursion;
        rays
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphics(full in graphics_pipelines(), choices in vec(0..CHANGES.len(), 12)) {
        let bytes = full.bytes();
        prop_assert_eq!(&bytes, &full.bytes());
        assert_round_trip(&bytes);
        for change in choices.into_iter().map(|choice| &CHANGES[choice]) {
            let mut changed = full.clone();
            (change.make)(&mut changed);
            prop_assert_eq!(changed.bytes() != bytes, (change.matters)(&full), "{}", change.name);
        }
    }

    #[test]
    fn graphics_without_order(full in graphics_pipelines()) {
        let mut shuffled = full.clone();
        shuffled.backwards = true;
        shuffled.bindings.reverse();
        let middle = shuffled.attributes.len() / 2;
        shuffled.attributes.rotate_left(middle);
        shuffled.divisors.reverse();
        shuffled.dynamic.reverse();
        shuffled.libraries.reverse();
        prop_assert_eq!(full.bytes(), shuffled.bytes());
    }

    #[test]
    fn rays(rays in ray_tracing_pipelines()) {
        let bytes = rays.bytes_after(|_| {}).unwrap();
        prop_assert_eq!(&bytes, &rays.bytes_after(|_| {}).unwrap());
        assert_round_trip(&bytes);
        let same = rays.stages.iter().rev().zip(&rays.stages).all(|(a, b)| a.module == b.module);
        for (name, make) in ray_tracing::CHANGES.iter().filter(|(name, _)| !name.ends_with("order")) {
            let mut changed = rays.clone();
            make(&mut changed);
            let moved = *name != "stage module" || rays.stages[0].module != changed.stages[0].module;
            prop_assert_eq!(bytes != changed.bytes_after(|_| {}).unwrap(), moved, "{}", name);
        }
        let mut turned = rays.clone();
        turned.stages.reverse();
        prop_assert_eq!(bytes == turned.bytes_after(|_| {}).unwrap(), same);
    }

    #[test]
    fn compute(
        constants in vec((any::<u32>(), any::<u32>()), 0..8),
        unnamed in any::<[u8; 5]>(),
        module in 1..u64::MAX,
        flags in any::<u64>(),
    ) {
        let mut constants = constants;
        constants.sort_by_key(|constant| constant.0);
        constants.dedup_by_key(|constant| constant.0);
        // Values one after the other in this order, behind bytes that nobody names.
        let of = |constants: &[(u32, u32)], unnamed: &[u8]| {
            let mut data = unnamed.to_vec();
            let mut entries = Vec::new();
            for &(constant_id, value) in constants {
                let offset = data.len() as u32;
                entries.push(vk::SpecializationMapEntry { constant_id, offset, size: 4 });
                data.extend(value.to_le_bytes());
            }
            let info = vk::SpecializationInfo {
                map_entry_count: entries.len() as u32,
                p_map_entries: place(&entries),
                data_size: data.len(),
                p_data: place(&data).cast(),
                ..Default::default()
            };
            let mut stage = shader(vk::ShaderStageFlags::COMPUTE, module);
            stage.p_specialization_info = place_one(info);
            of_compute(&compute_info().stage(stage)).unwrap().0
        };
        let bytes = of(&constants, &[]);
        assert_round_trip(&bytes);
        let turned: Vec<_> = constants.iter().rev().copied().collect();
        prop_assert_eq!(&bytes, &of(&turned, &unnamed));
        for index in 0..constants.len() {
            let mut changed = constants.clone();
            changed[index].1 ^= 1;
            prop_assert_ne!(&bytes, &of(&changed, &[]));
        }
        // Any flags: a recipe or a refusal, never a panic.
        let mut info = compute_info();
        let flags = vk::PipelineCreateFlags2KHR::from_raw(flags);
        info.p_next = place_one(vk::PipelineCreateFlags2CreateInfoKHR { flags, ..Default::default() }).cast();
        if let Ok((bytes, _)) = of_compute(&info) {
            assert_round_trip(&bytes);
        }
    }

    /// What is read back from a damaged or strange file: an error or a recipe, never a panic.
    #[test]
    fn decoding_anything(
        bytes in vec(any::<u8>(), 0..200), full in graphics_pipelines(), place in any::<prop::sample::Index>(),
    ) {
        let _ = key::decode::<Recipe<'_>>(&bytes);
        let mut damaged = full.bytes();
        let index = place.index(damaged.len());
        damaged[index] ^= bytes.first().copied().unwrap_or(1);
        let _ = key::decode::<Recipe<'_>>(&damaged);
        damaged.truncate(index);
        prop_assert!(key::decode::<Recipe<'_>>(&damaged).is_err());
    }
}

/// The generator reaches what it should.
#[test]
fn all_dynamic_states_of_the_list_are_different() {
    let mut states: Vec<i32> = STATES.iter().map(|state: &D| state.as_raw()).collect();
    states.sort_unstable();
    states.dedup();
    assert_eq!(states.len(), STATES.len());
}
