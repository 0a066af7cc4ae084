//! Round trips: a create info is written, read and written again, and both documents are equal.

use std::ptr;

use ash::vk;
use proptest::prelude::*;

use crate::json::form::Json;
use crate::json::read::{Entry, parse};
use crate::json::table::{CREATE_INFOS, samples};
use crate::json::{ParsedDocument, write};

const HASH: u64 = 0x1234_5678_9abc_def0;

/// Makes a create info, writes it, reads it, and writes what was read.
macro_rules! round_trip {
    ($seed:expr, $type:ident, $list:ident, $write:path) => {{
        let mut samples = samples($seed);
        let info: vk::$type<'static> = Json::sample(&mut samples);
        // SAFETY: pointers lead into the memory of the samples.
        let written = unsafe { $write(HASH, &info) }.unwrap();
        let parsed = parse(&written).unwrap();
        let [Entry { hash, info }] = parsed.$list.as_slice() else { panic!("not one object") };
        assert_eq!(*hash, HASH);
        // SAFETY: pointers lead into the memory of what was read.
        let again = unsafe { $write(HASH, info) }.unwrap();
        assert_eq!(String::from_utf8(written), String::from_utf8(again));
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn objects_that_others_consist_of(seed: u64) {
        round_trip!(seed, SamplerCreateInfo, samplers, write::sampler);
        round_trip!(seed, DescriptorSetLayoutCreateInfo, set_layouts, write::set_layout);
        round_trip!(seed, PipelineLayoutCreateInfo, pipeline_layouts, write::pipeline_layout);
        round_trip!(seed, RenderPassCreateInfo, render_passes, write::render_pass);
        round_trip!(seed, RenderPassCreateInfo2, render_passes2, write::render_pass2);
    }

    #[test]
    fn pipelines(seed: u64) {
        round_trip!(seed, ComputePipelineCreateInfo, compute, write::compute);
        round_trip!(seed, GraphicsPipelineCreateInfo, graphics, write::graphics);
        round_trip!(seed, RayTracingPipelineCreateInfoKHR, ray_tracing, write::ray_tracing);
    }

    #[test]
    fn modules(words: Vec<u32>, flags: u32) {
        let info = vk::ShaderModuleCreateInfo::default();
        let info = info.code(&words).flags(vk::ShaderModuleCreateFlags::from_raw(flags));
        // SAFETY: the code is a slice.
        let written = unsafe { write::module(HASH, &info) }.unwrap();
        let parsed = parse(&written).unwrap();
        let read = &parsed.modules[0].info;
        prop_assert_eq!(read.code_size, words.len() * 4);
        prop_assert_eq!(read.flags, info.flags);
        // SAFETY: as long as it says.
        let code = (0..words.len()).map(|index| unsafe { *read.p_code.add(index) });
        prop_assert_eq!(code.collect::<Vec<_>>(), words);
    }
}

/// A sampler whose chain has the structures from `next` on.
fn with_chain(next: *const std::ffi::c_void) -> Vec<u8> {
    let info = vk::SamplerCreateInfo { p_next: next, ..Default::default() };
    // SAFETY: the callers' chains are valid.
    unsafe { write::sampler(HASH, &info) }.unwrap()
}

fn chain_of(parsed: &ParsedDocument) -> *const std::ffi::c_void {
    parsed.samplers[0].info.p_next
}

#[test]
fn each_structure_of_the_table_can_stand_in_a_chain() {
    for row in CREATE_INFOS {
        for seed in 0..32 {
            let mut samples = samples(seed);
            let link = (row.sample)(ptr::null_mut(), &mut samples);
            let written = with_chain(link);
            let s_type = format!("\"pNext\":[{{\"sType\":{}", row.s_type.as_raw());
            let document = String::from_utf8(written.clone()).unwrap();
            assert!(document.contains(&s_type), "{document}");
            let parsed = parse(&written).unwrap_or_else(|error| panic!("{error} in {document}"));
            assert_eq!(document, String::from_utf8(with_chain(chain_of(&parsed))).unwrap());
        }
    }
}

#[test]
fn a_chain_keeps_its_order() {
    let mut samples = samples(1);
    let chain = CREATE_INFOS.iter().rev().fold(ptr::null_mut(), |next, row| (row.sample)(next, &mut samples));
    let parsed = parse(&with_chain(chain)).unwrap();
    let mut next: *const vk::BaseInStructure<'_> = chain_of(&parsed).cast();
    for row in CREATE_INFOS {
        // SAFETY: the chain that was read.
        let link = unsafe { next.as_ref() }.unwrap();
        assert_eq!(link.s_type, row.s_type);
        next = link.p_next;
    }
    assert!(next.is_null());
}

#[test]
fn words_for_tools_are_left_out() {
    let feedback = vk::PipelineCreationFeedbackCreateInfo::default();
    let written = with_chain(ptr::from_ref(&feedback).cast());
    assert!(String::from_utf8(written).unwrap().contains("\"pNext\":[]"));
}
