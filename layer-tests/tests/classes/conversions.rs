//! YCbCr conversions in immutable samplers, which are part of the layout and of the compiled code.

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::shaders;

use super::covered;
use super::draft::Draft;
use super::rig::Rig;

/// Model, chroma location and filter of each conversion.
const CONVERSIONS: [(vk::SamplerYcbcrModelConversion, vk::ChromaLocation, vk::Filter); 4] = [
    (vk::SamplerYcbcrModelConversion::YCBCR_709, vk::ChromaLocation::MIDPOINT, vk::Filter::NEAREST),
    (vk::SamplerYcbcrModelConversion::YCBCR_601, vk::ChromaLocation::MIDPOINT, vk::Filter::NEAREST),
    (vk::SamplerYcbcrModelConversion::YCBCR_709, vk::ChromaLocation::COSITED_EVEN, vk::Filter::NEAREST),
    (vk::SamplerYcbcrModelConversion::YCBCR_709, vk::ChromaLocation::MIDPOINT, vk::Filter::LINEAR),
];

/// The step: a pipeline whose layout has the conversion of this number, and a library of the same.
pub fn convert(input: &Value) -> Value {
    let rig = Rig::open();
    let eleven = vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    // samplerYcbcrConversion
    if !rig.feature(eleven, 10) {
        return Value::Null;
    }
    let (model, offset, filter) = CONVERSIONS[input.as_u64().unwrap() as usize];
    let raw = &rig.device.raw;
    let conversion = vk::SamplerYcbcrConversionCreateInfo::default()
        .format(vk::Format::G8_B8R8_2PLANE_420_UNORM)
        .ycbcr_model(model)
        .x_chroma_offset(offset)
        .y_chroma_offset(offset)
        .chroma_filter(filter);
    // SAFETY: a live device with the feature, and valid create infos; each object is destroyed once, after its last
    // use.
    unsafe {
        let conversion = raw.create_sampler_ycbcr_conversion(&conversion, None).unwrap();
        let mut converted = vk::SamplerYcbcrConversionInfo::default().conversion(conversion);
        let info = vk::SamplerCreateInfo::default()
            .min_filter(filter)
            .mag_filter(filter)
            .address_mode_u(vk::SamplerAddressMode::CLAMP_TO_EDGE)
            .address_mode_v(vk::SamplerAddressMode::CLAMP_TO_EDGE)
            .address_mode_w(vk::SamplerAddressMode::CLAMP_TO_EDGE)
            .push_next(&mut converted);
        let sampler = [raw.create_sampler(&info, None).unwrap()];
        let mut binding = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::COMBINED_IMAGE_SAMPLER)
            .stage_flags(vk::ShaderStageFlags::FRAGMENT)
            .immutable_samplers(&sampler)];
        binding[0].descriptor_count = 1;
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
        let set = [raw.create_descriptor_set_layout(&info, None).unwrap()];
        let layout = raw
            .create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default().set_layouts(&set), None)
            .unwrap();
        // The objects in a layout may be destroyed before the layout is used.
        raw.destroy_descriptor_set_layout(set[0], None);
        let mut draft = Draft::new(&rig);
        draft.layout = layout;
        draft.stages[1] = rig.stage(vk::ShaderStageFlags::FRAGMENT, &shaders::sampling());
        let (complete, _) = rig.graphics(vk::PipelineCache::null(), draft.complete());
        let mut results = vec![complete.as_raw()];
        if rig.has(ash::ext::graphics_pipeline_library::NAME) {
            let subset = vk::GraphicsPipelineLibraryFlagsEXT::FRAGMENT_SHADER;
            let library = draft.library(subset, vk::PipelineCreateFlags::empty());
            results.push(rig.graphics(vk::PipelineCache::null(), library).0.as_raw());
        }
        raw.destroy_pipeline_layout(layout, None);
        raw.destroy_sampler(sampler[0], None);
        raw.destroy_sampler_ycbcr_conversion(conversion, None);
        json!(results)
    }
}

#[test]
fn programs_that_differ_only_in_the_conversion_share_no_artifact() {
    scenario(&[("convert", convert)], |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe, Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash-{}", driver.name())));
            let mut made = 0;
            for number in 0..CONVERSIONS.len() {
                let without =
                    scenario.run_ok::<Value>("convert", &env.clone().without_layer(), &number).value;
                let Some(results) = without.as_array() else {
                    return scenario.skip(&format!("{}: no conversions", driver.name()));
                };
                made = results.len();
                assert!(results.iter().all(|result| result == 0), "{results:?}");
                let cold = scenario.run_ok::<Value>("convert", &env, &number);
                assert_eq!(cold.value, without);
                assert!(cold.reports.bypassed().is_empty(), "{:?}", cold.reports.bypassed());
                let counters = cold.reports.counters();
                assert_eq!(cold.reports.sum("served") + cold.reports.sum("not_taken"), 0, "{counters:?}");
                if driver == Driver::Radv {
                    assert_eq!(cold.reports.sum("compiled") as usize, made, "{counters:?}");
                }
            }
            for number in 0..CONVERSIONS.len() {
                let warm = scenario.run_ok::<Value>("convert", &env, &number);
                covered(&driver, &warm.reports, made);
            }
        }
    });
}
