//! Samplers, colour conversions and layouts.

use ash::vk;

use super::guard_page::{forbidden, place_one};
use super::helpers::{assert_all_differ, handle, named};
use super::hosts::converted;
use crate::capture::objects;
use crate::chain::Refusal;
use crate::rebuild::tests::round_trip::Described;
use vkstash_model::counters::BypassReason;

#[test]
fn set_layouts_read_samplers_only_where_there_are_some() {
    let binding = |number, kind, count| vk::DescriptorSetLayoutBinding {
        binding: number,
        descriptor_type: kind,
        descriptor_count: count,
        p_immutable_samplers: forbidden(),
        ..Default::default()
    };
    let bindings = [
        binding(1, vk::DescriptorType::UNIFORM_BUFFER, 4),
        binding(0, vk::DescriptorType::COMBINED_IMAGE_SAMPLER, 0),
    ];
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    let unknown = |_, _| Err(Refusal::plain(BypassReason::UnknownObject));
    // SAFETY: valid where it may be read.
    let layout = unsafe { objects::set_layout(&info, unknown) }.unwrap();
    let numbers: Vec<_> = layout.bindings.iter().map(|binding| binding.binding).collect();
    assert_eq!(numbers, [0, 1], "sorted: the order of bindings means nothing");

    let samplers = [handle::<vk::Sampler>(1), handle::<vk::Sampler>(2)];
    let sampled = [vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::SAMPLER)
        .immutable_samplers(&samplers)];
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&sampled);
    // SAFETY: `info` borrows its bindings, and `linear` has no chain.
    let described = unsafe {
        let linear = vk::SamplerCreateInfo::default().mag_filter(vk::Filter::LINEAR);
        objects::set_layout(&info, |_, _| {
            objects::sampler(&linear, |_| Err(Refusal::plain(BypassReason::UnknownObject)))
        })
    };
    assert_eq!(described.unwrap().bindings[0].immutable_samplers.len(), 2);
}

/// The words of a create info behind its header.
fn words<T>(first: usize) -> std::ops::Range<usize> {
    first / 4..size_of::<T>() / 4
}

fn with_word<T: Default + Copy>(word: usize) -> T {
    let mut info = T::default();
    // SAFETY: a word of a structure of numbers; 1 is a legal pattern of all of them.
    unsafe { *(&raw mut info).cast::<u32>().add(word) = 9 };
    info
}

#[test]
fn every_word_of_a_sampler_and_of_a_conversion_separates() {
    let header = size_of::<vk::BaseInStructure<'_>>();
    let mut captures = vec![("nothing".to_owned(), of_sampler(&vk::SamplerCreateInfo::default()))];
    // 16 words of members; the rest is padding.
    for word in words::<vk::SamplerCreateInfo<'_>>(header).take(16) {
        captures.push((format!("word {word}"), of_sampler(&with_word(word))));
    }
    assert_all_differ(captures);
    let conversion = |info: &vk::SamplerYcbcrConversionCreateInfo<'_>| {
        // SAFETY: pNext of `info` is NULL, and all members behind it are numbers.
        unsafe { objects::conversion(info) }.map(|conversion| conversion.bytes())
    };
    let mut captures = vec![("nothing".to_owned(), conversion(&Default::default()))];
    for word in words::<vk::SamplerYcbcrConversionCreateInfo<'_>>(header).take(11) {
        captures.push((format!("word {word}"), conversion(&with_word(word))));
    }
    assert_all_differ(captures);
}

fn of_sampler(info: &vk::SamplerCreateInfo<'_>) -> Result<Vec<u8>, Refusal> {
    // SAFETY: pNext of `info` is NULL, and the members behind it are numbers or a handle that is not followed.
    unsafe { objects::sampler(info, converted) }.map(|sampler| sampler.bytes())
}

#[test]
fn every_part_of_a_binding_separates() {
    let of = |binding: vk::DescriptorSetLayoutBinding<'_>, flags: u32| {
        let bindings = [binding];
        let info = vk::DescriptorSetLayoutCreateInfo::default()
            .bindings(&bindings)
            .flags(vk::DescriptorSetLayoutCreateFlags::from_raw(flags));
        // SAFETY: `info` borrows `bindings`, which live until the call returns.
        let layout = unsafe {
            objects::set_layout(&info, |_, sampler| {
                let key = named(sampler)?;
                let info = vk::SamplerCreateInfo::default().max_lod(f32::from(key[0]));
                objects::sampler(&info, converted)
            })
        };
        layout.map(|layout| layout.bytes())
    };
    let samplers = [handle::<vk::Sampler>(1), handle(2)];
    let turned = [samplers[1], samplers[0]];
    let base = vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::COMBINED_IMAGE_SAMPLER)
        .descriptor_count(2);
    assert_all_differ(vec![
        ("nothing".to_owned(), of(base, 0)),
        ("flags".to_owned(), of(base, 1)),
        ("number".to_owned(), of(base.binding(1), 0)),
        ("type".to_owned(), of(base.descriptor_type(vk::DescriptorType::STORAGE_BUFFER), 0)),
        ("count".to_owned(), of(base.descriptor_count(3), 0)),
        ("stages".to_owned(), of(base.stage_flags(vk::ShaderStageFlags::COMPUTE), 0)),
        ("samplers".to_owned(), of(base.immutable_samplers(&samplers), 0)),
        ("samplers' order".to_owned(), of(base.immutable_samplers(&turned), 0)),
    ]);
}

#[test]
fn every_part_of_a_pipeline_layout_separates_and_the_order_of_ranges_does_not() {
    let of = |flags: u32, sets: &[u64], ranges: &[(u32, u32, u32)]| {
        let sets: Vec<_> = sets.iter().map(|&set| handle::<vk::DescriptorSetLayout>(set)).collect();
        let ranges: Vec<_> = ranges
            .iter()
            .map(|&(stages, offset, size)| vk::PushConstantRange {
                stage_flags: vk::ShaderStageFlags::from_raw(stages),
                offset,
                size,
            })
            .collect();
        let info = vk::PipelineLayoutCreateInfo {
            flags: vk::PipelineLayoutCreateFlags::from_raw(flags),
            set_layout_count: sets.len() as u32,
            p_set_layouts: super::guard_page::place(&sets),
            push_constant_range_count: ranges.len() as u32,
            p_push_constant_ranges: super::guard_page::place(&ranges),
            ..Default::default()
        };
        // SAFETY: both arrays lie in memory that `place` keeps, with their true counts. The set layouts have no
        // bindings, and their flags name them.
        let layout = unsafe {
            objects::pipeline_layout(&*place_one(info), |set| {
                let flags = u32::from(named(set)?[0]);
                Ok(vkstash_model::recipe::SetLayout { flags, bindings: Vec::new() })
            })
        };
        layout.map(|layout| layout.bytes())
    };
    let base: (&[u64], &[(u32, u32, u32)]) = (&[1, 2], &[(1, 0, 4), (2, 4, 4)]);
    assert_all_differ(vec![
        ("nothing".to_owned(), of(0, base.0, base.1)),
        ("flags".to_owned(), of(2, base.0, base.1)),
        ("set".to_owned(), of(0, &[1, 3], base.1)),
        ("no handle".to_owned(), of(0, &[1, 0], base.1)),
        ("sets' order".to_owned(), of(0, &[2, 1], base.1)),
        ("no sets".to_owned(), of(0, &[], base.1)),
        ("stages".to_owned(), of(0, base.0, &[(1, 0, 4), (3, 4, 4)])),
        ("offset".to_owned(), of(0, base.0, &[(1, 0, 4), (2, 8, 4)])),
        ("size".to_owned(), of(0, base.0, &[(1, 0, 4), (2, 4, 8)])),
        ("no ranges".to_owned(), of(0, base.0, &[])),
    ]);
    assert_eq!(of(0, base.0, base.1), of(0, base.0, &[(2, 4, 4), (1, 0, 4)]));
}
