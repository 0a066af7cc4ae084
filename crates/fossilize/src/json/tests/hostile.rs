//! Documents that are not what they should be are refused with a reason.

use ash::vk;

use super::golden::ALL;
use crate::json::error::{Problem, WriteError};
use crate::json::read::parse;
use crate::json::write;

/// The reason, as users read it.
fn refusal(document: &[u8]) -> String {
    match parse(document) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The golden document with its first `from` replaced by `to`.
fn changed(index: usize, from: &str, to: &str) -> String {
    let document = std::str::from_utf8(ALL[index]).unwrap();
    assert!(document.contains(from), "{from}");
    refusal(document.replacen(from, to, 1).as_bytes())
}

/// Reads a document, and writes what was read, which follows all pointers. Nothing of it ends the program.
fn read_and_follow(document: &[u8]) {
    let Ok(parsed) = parse(document) else { return };
    // SAFETY: the pointers of what was read are valid as long as it lives.
    unsafe {
        parsed.modules.iter().for_each(|entry| drop(write::module(1, &entry.info)));
        parsed.samplers.iter().for_each(|entry| drop(write::sampler(1, &entry.info)));
        parsed.set_layouts.iter().for_each(|entry| drop(write::set_layout(1, &entry.info)));
        parsed.pipeline_layouts.iter().for_each(|entry| drop(write::pipeline_layout(1, &entry.info)));
        parsed.render_passes.iter().for_each(|entry| drop(write::render_pass(1, &entry.info)));
        parsed.render_passes2.iter().for_each(|entry| drop(write::render_pass2(1, &entry.info)));
        parsed.compute.iter().for_each(|entry| drop(write::compute(1, &entry.info)));
        parsed.graphics.iter().for_each(|entry| drop(write::graphics(1, &entry.info)));
        parsed.ray_tracing.iter().for_each(|entry| drop(write::ray_tracing(1, &entry.info)));
        parsed.application.iter().for_each(|it| drop(write::application(&it.info, &it.features)));
    }
}

#[test]
fn prefixes_and_flipped_bits() {
    for document in ALL {
        assert!(parse(document).is_ok());
        for end in 0..document.len() {
            read_and_follow(&document[..end]);
        }
        let mut flipped = document.to_vec();
        for index in 0..flipped.len() {
            for mask in [1, 0x80] {
                flipped[index] ^= mask;
                read_and_follow(&flipped);
                flipped[index] ^= mask;
            }
        }
    }
}

#[test]
fn other_values_in_the_place_of_numbers() {
    for document in ALL {
        let document = std::str::from_utf8(document).unwrap();
        let starts = document.match_indices([':', ',', '[']).map(|(index, _)| index + 1);
        for start in starts {
            let digits = document[start..].bytes().take_while(|byte| b"-.0123456789".contains(byte)).count();
            for value in ["1", "64", "4294967295", "-1", "1e39", "[]"].iter().filter(|_| digits > 0) {
                let changed = format!("{}{value}{}", &document[..start], &document[start + digits..]);
                read_and_follow(changed.as_bytes());
            }
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, end) in [("[", "]"), ("{\"pNext\":", "}")] {
        let document =
            format!("{{\"version\":6,\"samplers\":{}1{}}}", open.repeat(10_000), end.repeat(10_000));
        assert!(refusal(document.as_bytes()).contains("recursion limit"));
    }
}

#[test]
fn versions() {
    assert_eq!(refusal(br#"{"version":4}"#), "/version: version 4 of the format; 5 and 6 are known");
    assert_eq!(refusal(br#"{"version":5}"#), "accepted");
    assert_eq!(refusal(br#"{"version":7}"#), "/version: version 7 of the format; 5 and 6 are known");
    assert_eq!(refusal(b"{}"), "/version: missing");
    assert_eq!(refusal(b"[]"), ": not an object");
}

#[test]
fn wrong_members() {
    let sampler = "/samplers/00000000000000a1";
    assert_eq!(changed(1, "\"minLod\":0.0,", ""), format!("{sampler}/minLod: missing"));
    assert_eq!(changed(1, "\"minLod\"", "\"minLad\""), format!("{sampler}/minLad: an unknown member"));
    assert_eq!(changed(1, "\"minLod\"", "\"maxLod\""), format!("{sampler}/maxLod: there twice"));
    assert_eq!(changed(1, ":1.5", ":\"x\""), format!("{sampler}/maxAnisotropy: not a number"));
    assert_eq!(changed(1, ":1.5", ":1e300"), format!("{sampler}/maxAnisotropy: out of range"));
    assert_eq!(changed(1, "\"flags\":0", "\"flags\":-1"), format!("{sampler}/flags: out of range"));
    assert_eq!(changed(1, "\"flags\":0", "\"flags\":4294967296"), format!("{sampler}/flags: out of range"));
    assert_eq!(changed(1, "000000a1", "g"), "/samplers/00000000g: not a hash");
    assert_eq!(changed(1, "00000000000000a1", "+1"), "/samplers/+1: not a hash");
    let colour = format!("{sampler}/pNext/0/customBorderColor");
    assert_eq!(changed(1, "[1,2,3,", "[1,2,"), format!("{colour}: 3 elements instead of 4"));
}

#[test]
fn an_unknown_structure_is_named() {
    assert_eq!(
        changed(1, "1000287000", "1000411000"),
        "/samplers/00000000000000a1/pNext/0: VkPhysicalDeviceBorderColorSwizzleFeaturesEXT in a chain is unknown"
    );
    assert!(changed(1, "1000287000", "77").ends_with("/pNext/0: sType 77 in a chain is unknown"));
    assert!(changed(1, "1000287000", "1000156001").contains("VkSamplerYcbcrConversionInfo"));
}

#[test]
fn arrays_are_as_long_as_their_counts() {
    let long = |text: &str| text.contains("elements instead of");
    assert!(long(&changed(2, "\"descriptorCount\":2", "\"descriptorCount\":4000000000")));
    assert!(long(&changed(
        4,
        "\"resolveAttachments\":[",
        "\"resolveAttachments\":[{\"attachment\":0,\"layout\":0},"
    )));
    assert!(long(&changed(7, "\"sampleMask\":[4294967295,", "\"sampleMask\":[")));
    assert!(long(&changed(7, "\"scissorCount\":2", "\"scissorCount\":3")));
    assert!(long(&changed(7, "\"vertexBindingDivisorCount\":1", "\"vertexBindingDivisorCount\":2")));
    assert!(long(&changed(6, "\"dataSize\":5", "\"dataSize\":6")));
    assert!(changed(7, "\"viewportCount\":1", "\"viewportCount\":4000000000").contains("out of range"));
}

#[test]
fn specialization_stays_within_its_data() {
    assert!(changed(6, "\"offset\":4,\"size\":1", "\"offset\":4,\"size\":2").contains("out of range"));
    let overflow = changed(6, "\"offset\":4,\"size\":1", "\"offset\":4,\"size\":18446744073709551615");
    assert!(overflow.contains("out of range"));
}

#[test]
fn code_is_as_long_as_it_says() {
    assert!(changed(0, "\"codeSize\":8", "\"codeSize\":18446744073709551612").contains("instead of"));
    assert!(changed(0, "\"codeSize\":8", "\"codeSize\":7").contains("out of range"));
    let packed = |offset: u64, size: u64| {
        let header = r#"{"version":6,"shaderModules":{"1":{"flags":0,"codeSize":4,"#;
        refusal(format!("{header}\"varintOffset\":{offset},\"varintSize\":{size}}}}}}}\0\x01").as_bytes())
    };
    assert_eq!(packed(0, 1), "accepted");
    assert_eq!(packed(u64::MAX, 2), "/shaderModules/1/varintSize: out of range");
    assert_eq!(packed(1, 1), "/shaderModules/1/varintSize: out of range");
    assert_eq!(packed(0, 0), "/shaderModules/1/codeSize: malformed varint");
}

/// Fossilize's recorder leaves out what dynamic state replaces.
#[test]
fn what_the_recorder_leaves_out_may_be_missing() {
    let document = std::str::from_utf8(ALL[7]).unwrap();
    let start = document.find(",\n\"sampleLocationsEnable").unwrap() + ",\n\"sampleLocationsEnable\":1".len();
    let end = start + document[start..].find("]}}").unwrap() + 2;
    let shorter = format!("{}{}", &document[..start], &document[end..]);
    assert_eq!(refusal(shorter.as_bytes()), "accepted");
    assert_eq!(
        changed(1, "{\"sType\":1000287000,", "{\"sType\":1000226001},{\"sType\":1000287000,"),
        "accepted"
    );
}

#[test]
fn names_have_no_nul() {
    assert!(changed(6, "\"main\"", "\"ma\\u0000in\"").contains("not a name without NUL"));
}

#[test]
fn long_texts_are_refused_unread() {
    let document = vec![b' '; (16 << 20) + 1];
    assert_eq!(parse(&document).err().unwrap().problem, Problem::TooLong(document.len()));
}

#[test]
fn what_fossilize_has_no_form_for_is_not_written() {
    let conversion = vk::SamplerYcbcrConversionInfo::default();
    let info = vk::SamplerCreateInfo { p_next: (&raw const conversion).cast(), ..Default::default() };
    // SAFETY: a valid chain.
    let error = unsafe { write::sampler(1, &info) }.unwrap_err();
    assert_eq!(error, WriteError::Structure(vk::StructureType::SAMPLER_YCBCR_CONVERSION_INFO));
    let layout =
        vk::PipelineLayoutCreateInfo { p_next: (&raw const conversion).cast(), ..Default::default() };
    // SAFETY: a valid chain.
    assert!(unsafe { write::pipeline_layout(1, &layout) }.is_err());
    let infinite = vk::SamplerCreateInfo { max_lod: f32::INFINITY, ..Default::default() };
    // SAFETY: no pointers.
    assert_eq!(unsafe { write::sampler(1, &infinite) }, Err(WriteError::NotFinite));
    let stage = vk::PipelineShaderStageCreateInfo::default().name(c"main");
    // SAFETY: the name is a string.
    let error = unsafe { write::compute(1, &vk::ComputePipelineCreateInfo::default().stage(stage)) };
    assert_eq!(error, Err(WriteError::Null("module")));
}
