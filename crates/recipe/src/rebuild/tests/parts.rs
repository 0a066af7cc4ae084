//! Cases that tests of capture do not reach: objects made of random parts, both forms of render passes, code that is
//! given in several ways, and members about which the recipe says nothing.

use ash::vk::{self, DynamicState as D, Handle};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::round_trip::{Described, Everything, round_trip};
use crate::capture::LibraryTraits;
use crate::capture::tests::full::Full;
use crate::capture::tests::helpers::{Known, encoded, handle};
use crate::capture::tests::random::ray_tracing_pipelines;
use crate::capture::tests::ray_tracing::Rays;
use crate::rebuild::render_pass::{Form, render_pass};
use crate::rebuild::{RebuildError, StageCode, compute, graphics};
use vkstash_model::identifier::module_identity;
use vkstash_model::key;
use vkstash_model::recipe::*;
use vkstash_model::structures::{Handling, TABLE};

/// Structures of numbers, sorted as capture sorts them.
fn extensions() -> impl Strategy<Value = Vec<OwnedExtension>> {
    let plain: Vec<(i32, usize)> = TABLE
        .iter()
        .filter_map(|row| match row.handling {
            Handling::Plain(length) => Some((row.structure.s_type.as_raw(), length)),
            _ => None,
        })
        .collect();
    let one = (select(plain), any::<[u8; 40]>())
        .prop_map(|((s_type, length), bytes)| OwnedExtension { s_type, members: bytes[..length].to_vec() });
    vec(one, 0..3).prop_map(|mut all| {
        all.sort_unstable();
        all
    })
}

fn samplers() -> impl Strategy<Value = Sampler> {
    let conversion = (any::<[u32; 11]>(), extensions())
        .prop_map(|(members, extensions)| YcbcrConversion { members, extensions });
    (any::<(u32, [u32; 15])>(), option::of(conversion), extensions()).prop_map(
        |((flags, members), conversion, extensions)| Sampler { flags, members, conversion, extensions },
    )
}

fn bindings() -> impl Strategy<Value = Binding> {
    let kinds = [
        vk::DescriptorType::SAMPLER,
        vk::DescriptorType::COMBINED_IMAGE_SAMPLER,
        vk::DescriptorType::STORAGE_BUFFER,
        vk::DescriptorType::MUTABLE_EXT,
        vk::DescriptorType::INLINE_UNIFORM_BLOCK,
    ];
    let parts = (select(kinds.to_vec()), any::<[u32; 3]>(), vec(samplers(), 0..3), vec(any::<i32>(), 0..3));
    parts.prop_map(|(kind, [count, stages, flags], samplers, mut mutable_types)| {
        mutable_types.sort_unstable();
        let samples =
            kind == vk::DescriptorType::SAMPLER || kind == vk::DescriptorType::COMBINED_IMAGE_SAMPLER;
        let immutable_samplers = if samples { samplers } else { Vec::new() };
        Binding {
            binding: 0,
            descriptor_type: kind.as_raw(),
            // A count of 0 has no samplers, and a count without samplers may be any for types without them.
            count: if samples { immutable_samplers.len() as u32 } else { count },
            stages,
            flags: flags & 3,
            immutable_samplers,
            mutable_types: if kind == vk::DescriptorType::MUTABLE_EXT { mutable_types } else { Vec::new() },
        }
    })
}

fn layouts() -> impl Strategy<Value = PipelineLayout> {
    let set = (any::<u32>(), btree_map(any::<u32>(), bindings(), 0..4)).prop_map(|(flags, bindings)| {
        let numbered = bindings.into_iter().map(|(binding, given)| Binding { binding, ..given });
        SetLayout { flags, bindings: numbered.collect() }
    });
    (any::<u32>(), vec(option::of(set), 0..4), vec(any::<(u32, u32, u32)>(), 0..4)).prop_map(
        |(flags, sets, mut push_constants)| {
            push_constants.sort_unstable();
            PipelineLayout { schema: SCHEMA, flags, sets, push_constants }
        },
    )
}

const ATTACHMENTS: u32 = 3;

/// Extensions only where the second form is wanted.
fn maybe(second: bool) -> BoxedStrategy<Vec<OwnedExtension>> {
    if second { extensions().boxed() } else { Just(Vec::new()).boxed() }
}

fn references(second: bool, inputs: bool) -> impl Strategy<Value = Reference> {
    let attachment = select(vec![0, 1, ATTACHMENTS - 1, vk::ATTACHMENT_UNUSED]);
    (attachment, any::<i32>(), any::<u32>(), maybe(second)).prop_map(
        move |(attachment, layout, aspects, extensions)| Reference {
            attachment,
            layout,
            aspects: if inputs { aspects & 7 } else { 0 },
            extensions,
        },
    )
}

fn subpasses(second: bool) -> impl Strategy<Value = Subpass> {
    let colors = (0..3_usize, any::<bool>()).prop_flat_map(move |(count, resolved)| {
        let resolves = if resolved { count } else { 0 };
        (vec(references(second, false), count), vec(references(second, false), resolves))
    });
    let resolve = (any::<(u32, u32)>(), option::of(references(second, false)));
    let rate = (option::of(references(second, false)), any::<(u32, u32)>());
    let chained = (option::of(resolve), option::of(rate), maybe(second));
    let rest = (option::of(references(second, false)), vec(0..ATTACHMENTS, 0..3));
    (any::<[u32; 3]>(), vec(references(second, true), 0..3), colors, rest, chained).prop_map(
        move |(
            members,
            inputs,
            (colors, resolves),
            (depth_stencil, preserve),
            (resolve, rate, extensions),
        )| {
            Subpass {
                members,
                inputs,
                colors,
                resolves,
                depth_stencil,
                depth_stencil_resolve: resolve.filter(|_| second).map(|((d, s), a)| (d, s, a)),
                shading_rate: rate.filter(|_| second).map(|(a, (w, h))| (a, w, h)),
                preserve,
                extensions,
            }
        },
    )
}

fn passes() -> impl Strategy<Value = RenderPass> {
    any::<bool>().prop_flat_map(|second| {
        let attachment = (any::<[u32; 9]>(), maybe(second))
            .prop_map(|(members, extensions)| Attachment { members, extensions });
        let ends = select(vec![0, 1, vk::SUBPASS_EXTERNAL]);
        let dependency = (ends.clone(), ends, any::<[u32; 5]>(), any::<i32>(), maybe(second)).prop_map(
            |(from, to, [a, b, c, d, flags], view_offset, extensions)| {
                // A barrier takes the place of the masks.
                let barrier = vk::StructureType::MEMORY_BARRIER_2.as_raw();
                let replaced = extensions.iter().any(|extension| extension.s_type == barrier);
                let [a, b, c, d] = [a, b, c, d].map(|mask| if replaced { 0 } else { mask });
                Dependency { members: [from, to, a, b, c, d, flags], view_offset, extensions }
            },
        );
        (
            any::<u32>(),
            vec(attachment, ATTACHMENTS as usize),
            vec(subpasses(second), 2..4),
            vec(dependency, 0..3),
            vec(any::<u32>(), 0..3),
            extensions(),
        )
            .prop_map(
                |(flags, attachments, subpasses, dependencies, correlated_views, extensions)| RenderPass {
                    schema: SCHEMA,
                    flags,
                    attachments,
                    subpasses,
                    dependencies,
                    correlated_views,
                    extensions,
                },
            )
    })
}

/// `rays` with groups whose shaders are among its stages.
pub fn among_its_stages(mut rays: Rays) -> Rays {
    let count = rays.stages.len() as u32 + 1;
    let fit = |shader: u32| if shader % count + 1 == count { vk::SHADER_UNUSED_KHR } else { shader % count };
    for group in &mut rays.groups {
        group.general_shader = fit(group.general_shader);
        group.closest_hit_shader = fit(group.closest_hit_shader);
        group.any_hit_shader = fit(group.any_hit_shader);
        group.intersection_shader = fit(group.intersection_shader);
    }
    rays
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layouts_come_back(layout in layouts()) {
        layout.bytes();
        for set in layout.sets.iter().flatten() {
            set.bytes();
            for sampler in set.bindings.iter().flat_map(|binding| &binding.immutable_samplers) {
                sampler.bytes();
                sampler.conversion.iter().for_each(|conversion| _ = conversion.bytes());
            }
        }
    }

    #[test]
    fn render_passes_come_back(pass in passes()) {
        prop_assert_eq!(pass.rebuilt(), Ok(encoded(&pass)));
    }

    /// As the random pipelines of the tests of capture, whose groups name any shaders.
    #[test]
    fn groups_of_shaders_that_are_there_come_back(rays in ray_tracing_pipelines()) {
        let rays = among_its_stages(rays);
        let bytes = rays.bytes_after(|_| {}).unwrap();
        let recipe: Recipe<'_> = key::decode(&bytes).unwrap();
        prop_assert_eq!(round_trip(&recipe, &Everything::new(&Known::default())), Ok(Ok(bytes.clone())));
    }
}

fn plain_pass() -> RenderPass {
    let reference = Reference { attachment: 0, layout: 1, aspects: 0, extensions: Vec::new() };
    let subpass = Subpass {
        members: [0, 0, 3],
        inputs: vec![reference.clone()],
        colors: vec![reference],
        resolves: Vec::new(),
        depth_stencil: None,
        depth_stencil_resolve: None,
        shading_rate: None,
        preserve: Vec::new(),
        extensions: Vec::new(),
    };
    RenderPass {
        schema: SCHEMA,
        flags: 0,
        attachments: vec![Attachment { members: [0; 9], extensions: Vec::new() }],
        subpasses: vec![subpass],
        dependencies: Vec::new(),
        correlated_views: vec![3],
        extensions: Vec::new(),
    }
}

#[test]
fn the_first_form_is_used_where_it_can_say_everything() {
    let form = |pass: &RenderPass| {
        pass.bytes();
        matches!(render_pass(pass, super::round_trip::UNLIMITED), Ok(Form::First(_)))
    };
    let pass = plain_pass();
    assert!(form(&pass), "an input attachment without aspects is legal there alone (02800)");
    let layout = OwnedExtension {
        s_type: vk::StructureType::ATTACHMENT_REFERENCE_STENCIL_LAYOUT.as_raw(),
        members: vec![0; 4],
    };
    type Change = fn(&mut Subpass, OwnedExtension);
    let changes: [Change; 4] = [
        |subpass, layout| subpass.colors[0].extensions.push(layout),
        |subpass, _| subpass.depth_stencil_resolve = Some((1, 1, None)),
        |subpass, _| subpass.shading_rate = Some((None, 8, 8)),
        |subpass, layout| {
            let reference = Reference { extensions: vec![layout], ..subpass.colors[0].clone() };
            subpass.depth_stencil = Some(reference);
        },
    ];
    for change in changes {
        let mut changed = pass.clone();
        change(&mut changed.subpasses[0], layout.clone());
        assert!(!form(&changed));
    }
}

fn decoded(bytes: &[u8]) -> Recipe<'_> {
    key::decode(bytes).unwrap()
}

fn stage_of(code: Code<'_>) -> Stage<'_> {
    Stage {
        flags: 0,
        stage: vk::ShaderStageFlags::COMPUTE.as_raw(),
        code,
        entry_point: Bytes(b"main"),
        specialization: Default::default(),
        mappings: Default::default(),
        extensions: Extensions::default(),
    }
}

fn compute_of(stage: Stage<'_>, flags: u64) -> Compute<'_> {
    Compute { flags, stage, layout: Some([7; 32]), extensions: Extensions::default() }
}

#[test]
fn code_is_a_module_or_stands_in_the_stage() {
    let flags = vk::ShaderModuleCreateFlags::empty();
    let code = vec![0x0723_0203, 5];
    let bytes: Vec<u8> = code.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    let mut device = Everything::new(&Known::default());
    device.inline.push((flags, code));
    let recipe = compute_of(stage_of(Code::Module(module_identity(flags, &bytes))), 0);
    let rebuilt = compute::compute(&recipe, &device).unwrap();
    assert_eq!(rebuilt.info().stage.module, vk::ShaderModule::null());
    assert!(!rebuilt.info().stage.p_next.is_null());
    let recipe = Recipe { schema: SCHEMA, pipeline: Pipeline::Compute(recipe) };
    assert_eq!(round_trip(&recipe, &device), Ok(Ok(encoded(&recipe))));
}

#[test]
fn an_identifier_forbids_compiling_and_is_only_its_own_driver_s() {
    let device = Everything::new(&Known::default());
    let named = |algorithm| stage_of(Code::Native { algorithm, identifier: Bytes(&[1, 2, 3]) });
    for flags in [0, 1_u64 << 40] {
        let recipe = compute_of(named([9; 16]), flags);
        let rebuilt = compute::compute(&recipe, &device).unwrap();
        let fails = rebuilt.info().flags.contains(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED);
        assert_eq!(fails, flags == 0, "or in the structure of the longer flags");
        let recipe = Recipe { schema: SCHEMA, pipeline: Pipeline::Compute(recipe) };
        assert_eq!(round_trip(&recipe, &device), Ok(Ok(encoded(&recipe))));
    }
    let foreign = compute::compute(&compute_of(named([8; 16]), 0), &device);
    assert_eq!(foreign.err(), Some(RebuildError::ForeignIdentifier));
}

#[test]
fn a_value_is_aligned_to_its_size() {
    let values: [&[u8]; 4] = [&[1], &[2; 8], &[3; 2], &[4; 4]];
    let mut stage = stage_of(Code::Module([1; 32]));
    stage.specialization = (0..).zip(values).map(|(id, value)| (id, Bytes(value))).collect();
    let device = Everything::new(&Known::default());
    let rebuilt = compute::compute(&compute_of(stage, 0), &device).unwrap();
    // SAFETY: what was rebuilt points to an array of that many entries.
    let entries = unsafe {
        let info = &*rebuilt.info().stage.p_specialization_info;
        assert_eq!(info.data_size, 24);
        std::slice::from_raw_parts(info.p_map_entries, info.map_entry_count as usize)
    };
    let places: Vec<_> = entries.iter().map(|entry| (entry.offset, entry.size)).collect();
    assert_eq!(places, [(0, 1), (8, 8), (16, 2), (20, 4)]);
}

/// A pipeline in which everything of the blended attachments is dynamic: capture reads none, and RADV all the same.
#[test]
fn blended_attachments_that_nobody_reads_are_there() {
    let dynamic = [D::COLOR_BLEND_ENABLE_EXT, D::COLOR_BLEND_EQUATION_EXT, D::COLOR_WRITE_MASK_EXT];
    let mut full = Full { dynamic: dynamic.to_vec(), ..Full::default() };
    full.dynamic.push(D::COLOR_WRITE_ENABLE_EXT);
    let enables = [1, 1];
    let mut writes = vk::PipelineColorWriteCreateInfoEXT::default().color_write_enables(&enables);
    full.blend.p_next = (&raw mut writes).cast_const().cast();
    full.blends.resize(2, Default::default());
    let bytes = full.bytes();
    let recipe = decoded(&bytes);
    let Pipeline::Graphics(described) = &recipe.pipeline else { unreachable!() };
    let device = Everything::new(&full.known);
    let (rebuilt, _) = graphics::graphics(described, &device).unwrap();
    // SAFETY: what was rebuilt points to these structures; the only one in the chain says which attachments are
    // written.
    unsafe {
        let blend = &*rebuilt.info().p_color_blend_state;
        assert_eq!((blend.attachment_count, blend.p_attachments.is_null()), (2, false));
        let writes = &*blend.p_next.cast::<vk::PipelineColorWriteCreateInfoEXT<'_>>();
        assert_eq!((writes.attachment_count, writes.p_color_write_enables.is_null()), (2, false));
    }
}

/// The specification asks for legal values even where the state is dynamic.
#[test]
fn what_is_dynamic_has_a_legal_value() {
    let mut full = Full::default();
    full.tessellate();
    full.mask.push(!0);
    for (samples, words) in [(64, 2), (4, 1)] {
        full.multisample.rasterization_samples = vk::SampleCountFlags::from_raw(samples);
        full.dynamic = vec![D::PATCH_CONTROL_POINTS_EXT, D::RASTERIZATION_SAMPLES_EXT];
        let bytes = full.bytes();
        let recipe = decoded(&bytes);
        let Pipeline::Graphics(described) = &recipe.pipeline else { unreachable!() };
        let device = Everything::new(&full.known);
        let (rebuilt, _) = graphics::graphics(described, &device).unwrap();
        // SAFETY: what was rebuilt points to these structures.
        let (points, samples) = unsafe {
            let info = rebuilt.info();
            (
                (*info.p_tessellation_state).patch_control_points,
                (*info.p_multisample_state).rasterization_samples,
            )
        };
        assert_eq!(points, 1);
        assert_eq!(samples.as_raw().div_ceil(32), words, "as many as the mask has words for");
    }
}

#[test]
fn state_is_null_where_dynamic_states_allow_it() {
    type Piece = fn(&mut vk::GraphicsPipelineCreateInfo<'static>);
    let pieces: &[(&[D], Piece)] = &[
        (&[D::PRIMITIVE_TOPOLOGY, D::PRIMITIVE_RESTART_ENABLE], |i| {
            i.p_input_assembly_state = std::ptr::null()
        }),
        (&[D::PATCH_CONTROL_POINTS_EXT], |i| i.p_tessellation_state = std::ptr::null()),
        (&[D::VIEWPORT_WITH_COUNT, D::SCISSOR_WITH_COUNT], |i| i.p_viewport_state = std::ptr::null()),
        (&graphics::WITHOUT_RASTERIZATION, |i| i.p_rasterization_state = std::ptr::null()),
        (&graphics::WITHOUT_MULTISAMPLE, |i| i.p_multisample_state = std::ptr::null()),
        (&graphics::WITHOUT_DEPTH_STENCIL, |i| i.p_depth_stencil_state = std::ptr::null()),
        (&graphics::WITHOUT_COLOR_BLEND, |i| i.p_color_blend_state = std::ptr::null()),
    ];
    for (states, leave_out) in pieces {
        let mut full = Full { dynamic: states.to_vec(), ..Full::default() };
        full.tessellate();
        let bytes = full.bytes_after(leave_out).unwrap();
        let device = Everything::new(&full.known);
        assert_eq!(round_trip(&decoded(&bytes), &device), Ok(Ok(bytes.clone())));
        full.dynamic.pop();
        let bytes = full.bytes_after(leave_out).unwrap();
        let missing = Err(RebuildError::Contradiction("state that is missing"));
        assert_eq!(round_trip(&decoded(&bytes), &device), missing, "{states:?}");
    }
}

/// Workers make what another thread decoded.
#[test]
fn what_was_rebuilt_may_change_threads() {
    fn is_send<T: Send>(_: &T) {}
    let device = Everything::new(&Known::default());
    let rebuilt = compute::compute(&compute_of(stage_of(Code::Module([1; 32])), 0), &device).unwrap();
    is_send(&rebuilt);
    assert_ne!(rebuilt.info().stage.module, handle(0));
    assert!(matches!(crate::rebuild::Device::module(&device, &[1; 32]), Some(StageCode::Module(_))));
}

#[test]
fn a_link_of_independent_sets_names_the_layout_that_they_make_or_is_not_rebuilt() {
    for (independent, with_layout, expected) in [
        (false, true, Ok(())),
        (false, false, Ok(())),
        (true, true, Ok(())),
        (true, false, Err(RebuildError::LinkWithoutLayout)),
    ] {
        let traits = |subsets, has_independent_sets| LibraryTraits {
            subsets,
            has_independent_sets,
            ..LibraryTraits::default()
        };
        // Capture knows nothing of sets.
        let link = Full::linking(&[traits(1 | 8, false), traits(2, false), traits(4, false)]);
        let rebuilt = Full::linking(&[traits(1 | 8, false), traits(2, independent), traits(4, independent)]);
        let bytes = match with_layout {
            true => link.bytes(),
            false => link.bytes_after(|info| info.layout = vk::PipelineLayout::null()).unwrap(),
        };
        let recipe = decoded(&bytes);
        let Pipeline::Graphics(recipe) = &recipe.pipeline else { panic!("{recipe:?}") };
        let device = Everything::new(&rebuilt.known);
        let rebuilt = graphics::graphics(recipe, &device);
        let has_layout = |rebuilt: &vk::GraphicsPipelineCreateInfo<'_>| !rebuilt.layout.is_null();
        if let Ok((rebuilt, traits)) = &rebuilt {
            assert_eq!(has_layout(rebuilt.info()), with_layout);
            assert_eq!(traits.has_independent_sets, independent);
        }
        assert_eq!(rebuilt.map(|_| ()), expected, "{independent} {with_layout}");
    }
}
