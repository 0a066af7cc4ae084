//! Render passes.

use ash::vk;

use super::guard_page::{place, place_one};
use super::helpers::assert_all_differ;
use crate::capture::{SubpassUse, render_pass};
use crate::rebuild::tests::round_trip::Described;

#[test]
fn both_forms_of_a_render_pass_are_described_alike() {
    let attachments = [vk::AttachmentDescription {
        format: vk::Format::R8G8B8A8_UNORM,
        samples: vk::SampleCountFlags::TYPE_1,
        ..Default::default()
    }];
    let colors = [vk::AttachmentReference { attachment: 0, layout: vk::ImageLayout::GENERAL }];
    let subpasses = [vk::SubpassDescription::default().color_attachments(&colors)];
    let one = vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpasses);

    let attachments2 = [vk::AttachmentDescription2 {
        format: vk::Format::R8G8B8A8_UNORM,
        samples: vk::SampleCountFlags::TYPE_1,
        ..Default::default()
    }];
    let colors2 = [vk::AttachmentReference2 { layout: vk::ImageLayout::GENERAL, ..Default::default() }];
    let subpasses2 = [vk::SubpassDescription2::default().color_attachments(&colors2)];
    let two = vk::RenderPassCreateInfo2::default().attachments(&attachments2).subpasses(&subpasses2);
    // SAFETY: both are valid.
    let (one, two) =
        unsafe { (render_pass::render_pass(&one).unwrap(), render_pass::render_pass2(&two).unwrap()) };
    assert_eq!(one, two);
    assert_eq!(render_pass::uses(&one), [SubpassUse { color: true, depth_stencil: false }]);
}

/// One subpass of the second form, with something in every list.
struct Pass {
    attachment: vk::AttachmentDescription2<'static>,
    /// Input, colour, resolve, depth and stencil.
    references: [vk::AttachmentReference2<'static>; 4],
    preserve: u32,
    subpass: vk::SubpassDescription2<'static>,
    dependency: vk::SubpassDependency2<'static>,
    correlated: u32,
    flags: u32,
}

impl Pass {
    fn bytes(change: impl FnOnce(&mut Pass)) -> Vec<u8> {
        let mut p = Pass {
            attachment: Default::default(),
            references: Default::default(),
            preserve: 0,
            subpass: Default::default(),
            dependency: Default::default(),
            correlated: 0,
            flags: 0,
        };
        change(&mut p);
        let references = p.references.map(place_one);
        p.subpass.input_attachment_count = 1;
        p.subpass.p_input_attachments = references[0];
        p.subpass.color_attachment_count = 1;
        p.subpass.p_color_attachments = references[1];
        p.subpass.p_resolve_attachments = references[2];
        p.subpass.p_depth_stencil_attachment = references[3];
        p.subpass.preserve_attachment_count = 1;
        p.subpass.p_preserve_attachments = place(&[p.preserve]);
        let info = vk::RenderPassCreateInfo2 {
            flags: vk::RenderPassCreateFlags::from_raw(p.flags),
            attachment_count: 1,
            p_attachments: place_one(p.attachment),
            subpass_count: 1,
            p_subpasses: place_one(p.subpass),
            dependency_count: 1,
            p_dependencies: place_one(p.dependency),
            correlated_view_mask_count: 1,
            p_correlated_view_masks: place(&[p.correlated]),
            ..Default::default()
        };
        // SAFETY: the create info's arrays are those that `place` keeps, with their true counts.
        unsafe { render_pass::render_pass2(&info) }.unwrap().bytes()
    }
}

/// Changes a word behind the header.
fn change<T>(structure: &mut T, word: usize) {
    let first = size_of::<vk::BaseInStructure<'_>>() / 4;
    // SAFETY: a number of the structure.
    unsafe { *(&raw mut *structure).cast::<u32>().add(first + word) ^= 9 };
}

#[test]
fn every_part_of_a_render_pass_separates() {
    let mut captures = vec![("nothing".to_owned(), Ok(Pass::bytes(|_| {})))];
    let mut add = |name: String, bytes: Vec<u8>| captures.push((name, Ok(bytes)));
    (0..9)
        .for_each(|word| add(format!("attachment {word}"), Pass::bytes(|p| change(&mut p.attachment, word))));
    for index in 0..4 {
        (0..2).for_each(|word| {
            add(format!("reference {index} {word}"), Pass::bytes(|p| change(&mut p.references[index], word)));
        });
    }
    add("aspects".to_owned(), Pass::bytes(|p| change(&mut p.references[0], 2)));
    (0..3).for_each(|word| add(format!("subpass {word}"), Pass::bytes(|p| change(&mut p.subpass, word))));
    (0..8)
        .for_each(|word| add(format!("dependency {word}"), Pass::bytes(|p| change(&mut p.dependency, word))));
    add("preserve".to_owned(), Pass::bytes(|p| p.preserve = 1));
    add("correlated".to_owned(), Pass::bytes(|p| p.correlated = 1));
    add("flags".to_owned(), Pass::bytes(|p| p.flags = 1));
    assert_all_differ(captures);
}

#[test]
fn what_a_render_pass_ignores_joins() {
    let base = Pass::bytes(|_| {});
    for index in 1..4 {
        assert_eq!(base, Pass::bytes(|p| change(&mut p.references[index], 2)), "only inputs have aspects");
    }
    let barrier = place_one(vk::MemoryBarrier2::default());
    let with = |word: Option<usize>| {
        Pass::bytes(|p| {
            p.dependency.p_next = barrier.cast();
            word.into_iter().for_each(|word| change(&mut p.dependency, word));
        })
    };
    assert_ne!(base, with(None));
    for word in 2..6 {
        assert_eq!(with(None), with(Some(word)), "the barrier's masks replace the dependency's");
    }
}
