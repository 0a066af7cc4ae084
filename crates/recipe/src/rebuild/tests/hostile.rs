//! Encodings that somebody has changed: an error, or something that capture can read. Nothing of it is ever handed to a
//! program, for its key is not that of a recipe that capture writes.

use ash::vk::{self, DynamicState as D};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde::de::DeserializeOwned;
use smallvec::smallvec;

use super::parts::among_its_stages;
use super::round_trip::{Described, Everything, UNLIMITED, round_trip};
use crate::capture::tests::full::Full;
use crate::capture::tests::helpers::{Known, encoded, handle};
use crate::capture::tests::random::{graphics_pipelines, ray_tracing_pipelines};
use crate::rebuild::{Limits, RebuildError, objects, render_pass};
use vkstash_model::key;
use vkstash_model::newer;
use vkstash_model::recipe::*;

/// The device limits of lavapipe.
const LIMITS: Limits = Limits {
    viewports: 16,
    vertex_bindings: 32,
    vertex_attributes: 32,
    color_attachments: 8,
    sets: 8,
    discard_rectangles: 4,
    sample_locations: 32,
};

/// Rebuilds what is still a recipe. What capture says of it comes back, too.
fn survive(bytes: &[u8], known: &Known) {
    let Ok(recipe) = key::decode::<Recipe<'_>>(bytes) else { return };
    for limits in [LIMITS, UNLIMITED] {
        let device = Everything { limits, ..Everything::new(known) };
        if let Ok(Ok(again)) = round_trip(&recipe, &device) {
            let device = Everything { limits, ..Everything::new(known) };
            let recipe = key::decode::<Recipe<'_>>(&again).unwrap();
            // Capture leaves out what the driver ignores, of which a changed recipe may hold more.
            assert_eq!(round_trip(&recipe, &device), Ok(Ok(again.clone())));
        }
    }
}

/// Changes some bytes, and puts lengths and other large numbers in.
fn damage(bytes: &mut Vec<u8>, changes: &[(Index, u8, bool)]) {
    for &(place, byte, number) in changes {
        let place = place.index(bytes.len());
        match number {
            false => bytes[place] = byte,
            true => {
                let large = (u64::MAX >> (byte % 64)).to_le_bytes();
                bytes.splice(place..=place, [253].into_iter().chain(large));
            }
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(Index, u8, bool)>> {
    // Small numbers hit counts and flags.
    let byte = prop_oneof![0..4_u8, any::<u8>()];
    vec((any::<Index>(), byte, prop::bool::weighted(0.1)), 1..4)
}

fn objects_survive<T: Described + DeserializeOwned>(object: &T, changes: &[(Index, u8, bool)]) {
    let mut bytes = encoded(object);
    damage(&mut bytes, changes);
    if let Ok(object) = key::decode::<T>(&bytes) {
        let _ = object.rebuilt();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_graphics_pipelines(full in graphics_pipelines(), changes in changes()) {
        let mut bytes = full.bytes();
        damage(&mut bytes, &changes);
        survive(&bytes, &full.known);
    }

    #[test]
    fn damaged_ray_tracing_pipelines(rays in ray_tracing_pipelines(), changes in changes()) {
        let mut bytes = among_its_stages(rays).bytes_after(|_| {}).unwrap();
        damage(&mut bytes, &changes);
        survive(&bytes, &Known::default());
    }

    /// Every structure with pointers, with any numbers.
    #[test]
    fn structures_of_any_words(
        (s_type, host) in proptest::sample::select(FLATTENED),
        words in vec(prop_oneof![8 => 0..3_u32, 1 => any::<u32>()], 1..12),
        dynamic in proptest::sample::subsequence(DYNAMIC, 0..DYNAMIC.len()),
    ) {
        let full = Full { dynamic, ..Full::dynamic_rendering() };
        let bytes = full.bytes();
        let mut recipe: Recipe<'_> = key::decode(&bytes).unwrap();
        let Pipeline::Graphics(graphics) = &mut recipe.pipeline else { unreachable!() };
        let flattened = smallvec![Flattened { s_type: s_type.as_raw(), words: words.into() }];
        match host {
            Host::Pipeline => graphics.extensions.flattened = flattened,
            Host::Viewport => graphics.viewport.as_mut().unwrap().extensions.flattened = flattened,
            Host::Multisample => graphics.multisample.as_mut().unwrap().extensions.flattened = flattened,
            Host::Blend => graphics.color_blend.as_mut().unwrap().extensions.flattened = flattened,
        }
        survive(&encoded(&recipe), &full.known);
    }

    #[test]
    fn damaged_objects(changes in changes()) {
        objects_survive(&layout(), &changes);
        objects_survive(&layout().sets[0].clone().unwrap(), &changes);
        objects_survive(&sampler(), &changes);
        objects_survive(&pass(), &changes);
    }
}

use vk::StructureType as S;

/// The chain in which a structure stands.
#[derive(Clone, Copy, Debug)]
enum Host {
    Pipeline,
    Viewport,
    Multisample,
    Blend,
}

const FLATTENED: &[(S, Host)] = &[
    (S::PIPELINE_DISCARD_RECTANGLE_STATE_CREATE_INFO_EXT, Host::Pipeline),
    (S::RENDERING_ATTACHMENT_LOCATION_INFO_KHR, Host::Pipeline),
    (S::RENDERING_INPUT_ATTACHMENT_INDEX_INFO_KHR, Host::Pipeline),
    (S::ATTACHMENT_SAMPLE_COUNT_INFO_AMD, Host::Pipeline),
    (newer::CUSTOM_RESOLVE, Host::Pipeline),
    (S::PIPELINE_VIEWPORT_W_SCALING_STATE_CREATE_INFO_NV, Host::Viewport),
    (S::PIPELINE_VIEWPORT_SWIZZLE_STATE_CREATE_INFO_NV, Host::Viewport),
    (S::PIPELINE_VIEWPORT_EXCLUSIVE_SCISSOR_STATE_CREATE_INFO_NV, Host::Viewport),
    (S::PIPELINE_VIEWPORT_SHADING_RATE_IMAGE_STATE_CREATE_INFO_NV, Host::Viewport),
    (S::PIPELINE_VIEWPORT_COARSE_SAMPLE_ORDER_STATE_CREATE_INFO_NV, Host::Viewport),
    (newer::DEPTH_CLAMP_CONTROL, Host::Viewport),
    (S::PIPELINE_SAMPLE_LOCATIONS_STATE_CREATE_INFO_EXT, Host::Multisample),
    (S::PIPELINE_COVERAGE_MODULATION_STATE_CREATE_INFO_NV, Host::Multisample),
    (S::PIPELINE_COLOR_WRITE_CREATE_INFO_EXT, Host::Blend),
];

const DYNAMIC: &[D] = &[
    D::VIEWPORT_W_SCALING_NV,
    D::VIEWPORT_SWIZZLE_NV,
    D::EXCLUSIVE_SCISSOR_NV,
    D::VIEWPORT_SHADING_RATE_PALETTE_NV,
    D::VIEWPORT_COARSE_SAMPLE_ORDER_NV,
    D::SAMPLE_LOCATIONS_EXT,
    D::COVERAGE_MODULATION_TABLE_NV,
    D::COLOR_WRITE_ENABLE_EXT,
    D::DISCARD_RECTANGLE_EXT,
];

fn sampler() -> Sampler {
    let conversion = YcbcrConversion { members: [1; 11], extensions: Vec::new() };
    let reduction =
        OwnedExtension { s_type: S::SAMPLER_REDUCTION_MODE_CREATE_INFO.as_raw(), members: vec![1, 0, 0, 0] };
    Sampler { flags: 0, members: [2; 15], conversion: Some(conversion), extensions: vec![reduction] }
}

fn layout() -> PipelineLayout {
    let binding = |binding, kind: vk::DescriptorType, samplers| Binding {
        binding,
        descriptor_type: kind.as_raw(),
        count: 1,
        stages: 1,
        flags: 1,
        immutable_samplers: samplers,
        mutable_types: Vec::new(),
    };
    let set = SetLayout {
        flags: 0,
        bindings: vec![
            binding(0, vk::DescriptorType::COMBINED_IMAGE_SAMPLER, vec![sampler()]),
            Binding { mutable_types: vec![1, 2], ..binding(1, vk::DescriptorType::MUTABLE_EXT, Vec::new()) },
        ],
    };
    PipelineLayout { schema: SCHEMA, flags: 0, sets: vec![Some(set), None], push_constants: vec![(1, 0, 4)] }
}

fn pass() -> RenderPass {
    let reference = Reference { attachment: 0, layout: 1, aspects: 0, extensions: Vec::new() };
    let subpass = Subpass {
        members: [0; 3],
        inputs: vec![Reference { aspects: 1, ..reference.clone() }],
        colors: vec![reference.clone()],
        resolves: vec![reference.clone()],
        depth_stencil: Some(reference.clone()),
        depth_stencil_resolve: Some((1, 1, Some(reference.clone()))),
        shading_rate: Some((Some(reference), 8, 8)),
        preserve: vec![0],
        extensions: Vec::new(),
    };
    RenderPass {
        schema: SCHEMA,
        flags: 0,
        attachments: vec![Attachment { members: [1; 9], extensions: Vec::new() }],
        subpasses: vec![subpass],
        dependencies: vec![Dependency { members: [0; 7], view_offset: 0, extensions: Vec::new() }],
        correlated_views: vec![1],
        extensions: Vec::new(),
    }
}

/// What a change makes of a graphics pipeline on a device with these limits.
fn refusal(limits: Limits, full: &Full, change: impl FnOnce(&mut Graphics<'_>)) -> Option<RebuildError> {
    let bytes = full.bytes();
    let mut recipe: Recipe<'_> = key::decode(&bytes).unwrap();
    let Pipeline::Graphics(graphics) = &mut recipe.pipeline else { unreachable!() };
    change(graphics);
    round_trip(&recipe, &Everything { limits, ..Everything::new(&full.known) }).err()
}

#[test]
fn no_driver_gets_more_than_it_has_room_for() {
    let limit = |change: fn(&mut Graphics<'_>)| {
        let mut full = Full::dynamic_rendering();
        full.known.advanced_blend = true;
        assert_eq!(refusal(UNLIMITED, &full, change), None);
        let refused = refusal(LIMITS, &full, change);
        assert!(matches!(refused, Some(RebuildError::Limit(_))), "{refused:?}");
    };
    limit(|g| {
        let viewport = g.viewport.as_mut().unwrap();
        viewport.viewport_count = 17;
        viewport.viewports = smallvec![[0; 6]; 17];
    });
    limit(|g| {
        let viewport = g.viewport.as_mut().unwrap();
        viewport.scissor_count = 17;
        viewport.scissors = smallvec![(0, 0, 1, 1); 17];
    });
    limit(|g| {
        let blend = g.color_blend.as_mut().unwrap();
        blend.attachment_count = 9;
        blend.attachments = smallvec![[0; 8]; 9];
    });
    limit(|g| g.vertex_input.as_mut().unwrap().bindings = smallvec![(32, 0, 0)]);
    limit(|g| g.vertex_input.as_mut().unwrap().bindings = smallvec![(0, 0, 0); 33]);
    limit(|g| g.vertex_input.as_mut().unwrap().attributes = smallvec![(32, 0, 0, 0)]);
    limit(|g| g.vertex_input.as_mut().unwrap().attributes = smallvec![(0, 32, 0, 0)]);
    limit(|g| g.vertex_input.as_mut().unwrap().divisors = smallvec![(32, 0)]);
    limit(|g| {
        g.target = Target::Dynamic { view_mask: 0, color: smallvec![1; 9], depth: 1, stencil: 0 };
    });
    let mut sets = layout();
    sets.sets.resize(9, None);
    let made = |limits| objects::pipeline_layout(&sets, limits, |_| Some(handle(1))).err();
    assert_eq!((made(UNLIMITED), made(LIMITS)), (None, Some(RebuildError::Limit("descriptor sets"))));
}

#[test]
fn an_array_is_as_long_as_its_count() {
    let contradicts = |full: &Full, change: fn(&mut Graphics<'_>)| {
        let refused = refusal(UNLIMITED, full, change);
        let typed = matches!(refused, Some(RebuildError::Contradiction(_) | RebuildError::Structure(_)));
        assert!(typed, "{refused:?}");
    };
    let full = Full::dynamic_rendering();
    contradicts(&full, |g| g.viewport.as_mut().unwrap().viewport_count = 2);
    contradicts(&full, |g| g.viewport.as_mut().unwrap().scissors.clear());
    contradicts(&full, |g| g.color_blend.as_mut().unwrap().attachments.clear());
    contradicts(&full, |g| g.multisample.as_mut().unwrap().samples = 64);
    contradicts(&full, |g| g.stages[0].entry_point = Bytes(b"a\0b"));
    contradicts(&full, |g| g.stages[1].stage = g.stages[0].stage);
    contradicts(&full, |g| g.stages[0].stage = 3);
    contradicts(&full, |g| g.stages.clear());
    contradicts(&full, |g| g.layout = None);
    contradicts(&full, |g| g.target = Target::None);
    contradicts(&full, |g| g.vertex_input = None);
    contradicts(&full, |g| g.rasterization = None);
    contradicts(&full, |g| g.tessellation = Some(tessellation()));
    contradicts(&full, |g| g.dynamic = smallvec![1, 1]);
    contradicts(&full, |g| g.dynamic = smallvec![1_999_999_999]);
    contradicts(&full, |g| g.subsets = 16);
    // The driver reads what is not dynamic: a count without its array.
    let scaling = S::PIPELINE_VIEWPORT_W_SCALING_STATE_CREATE_INFO_NV.as_raw();
    let wild = Flattened { s_type: scaling, words: smallvec![1, 4, 0] };
    let bytes = full.bytes();
    let mut recipe: Recipe<'_> = key::decode(&bytes).unwrap();
    let Pipeline::Graphics(graphics) = &mut recipe.pipeline else { unreachable!() };
    graphics.viewport.as_mut().unwrap().extensions.flattened = smallvec![wild];
    let refused = round_trip(&recipe, &Everything::new(&full.known)).err();
    assert_eq!(refused, Some(RebuildError::Structure(scaling)));
}

fn tessellation<'a>() -> Tessellation<'a> {
    Tessellation { flags: 0, patch_control_points: 3, extensions: Extensions::default() }
}

#[test]
fn what_names_nothing_is_refused() {
    type Change = fn(&mut RenderPass);
    let changes: [Change; 8] = [
        |p| p.subpasses[0].colors[0].attachment = 1,
        |p| p.subpasses[0].inputs[0].attachment = 1,
        |p| p.subpasses[0].depth_stencil.as_mut().unwrap().attachment = 1,
        |p| p.subpasses[0].depth_stencil_resolve.as_mut().unwrap().2.as_mut().unwrap().attachment = 1,
        |p| p.subpasses[0].shading_rate.as_mut().unwrap().0.as_mut().unwrap().attachment = 1,
        |p| p.subpasses[0].preserve[0] = vk::ATTACHMENT_UNUSED,
        |p| p.dependencies[0].members[1] = 1,
        |p| p.subpasses[0].resolves = vec![p.subpasses[0].colors[0].clone(); 2],
    ];
    pass().bytes();
    for change in changes {
        let mut pass = pass();
        change(&mut pass);
        let refused = render_pass::render_pass(&pass, UNLIMITED).err();
        assert!(matches!(refused, Some(RebuildError::Contradiction(_))), "{refused:?}");
    }
    let old = RenderPass { schema: 1, ..pass() };
    assert_eq!(render_pass::render_pass(&old, UNLIMITED).err(), Some(RebuildError::Schema(1)));
    let without = objects::sampler(&sampler(), vk::SamplerYcbcrConversion::null()).err();
    assert!(matches!(without, Some(RebuildError::Contradiction(_))));
}

/// An arena has an end: a list of many constants of many bytes each does not take all the memory.
#[test]
fn more_than_any_pipeline_needs_is_no_memory() {
    let bytes = vec![1; 1 << 20];
    let stage = Stage {
        flags: 0,
        stage: 32,
        code: Code::Module([1; 32]),
        entry_point: Bytes(b"main"),
        specialization: (0..100).map(|id| (id, Bytes(&bytes))).collect(),
        mappings: Default::default(),
        extensions: Extensions::default(),
    };
    let compute = Compute { flags: 0, stage, layout: Some([1; 32]), extensions: Extensions::default() };
    let recipe = Recipe { schema: SCHEMA, pipeline: Pipeline::Compute(compute) };
    let device = Everything::new(&Known::default());
    assert_eq!(round_trip(&recipe, &device), Err(RebuildError::Memory));
}
