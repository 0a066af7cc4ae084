//! A small program that translates shaders: sessions keep what it has translated, identifiers let it create pipelines
//! without the translation. Three runs: cold, warm, and after a new version of the translator.

use std::sync::Arc;

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use vkstash_layer_tests::api::{Api, Session};
use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

const COUNT: u32 = 5;

/// What a run had to do.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    /// Sources that were translated.
    translated: u32,
    /// Translations that were read from the session.
    read: u32,
    /// Pipelines that were created by identifier alone.
    by_identifier: u32,
}

/// The sources: a language of one statement.
fn sources() -> impl Iterator<Item = String> {
    (0..COUNT).map(|number| format!("store {} values", 20 + number))
}

/// The translator: SPIR-V from a source.
fn translate(source: &str) -> Vec<u32> {
    let words: Vec<_> = source.split(' ').collect();
    let ["store", count, "values"] = words[..] else { panic!("syntax error: {source}") };
    spirv::compute_storing(count.parse().unwrap())
}

/// The translation of a source: from the session, or made and stored.
fn translation(session: &Session<'_>, source: &str, done: &mut Done) -> Vec<u32> {
    if let Some(bytes) = session.find(source.as_bytes()) {
        done.read += 1;
        return bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
    }
    done.translated += 1;
    let code = translate(source);
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_ne_bytes()).collect();
    session.store(source.as_bytes(), &bytes);
    code
}

/// Creates a pipeline of code, or of an identifier alone; that must not compile.
fn create(device: &Device, layout: vk::PipelineLayout, code: Option<&[u32]>, identifier: &[u8]) -> bool {
    let mut named = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(identifier);
    let mut stage =
        vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).name(c"main");
    let mut flags = vk::PipelineCreateFlags::empty();
    match code {
        Some(code) => stage.module = device.module(code),
        None => {
            stage = stage.push_next(&mut named);
            flags = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        }
    }
    let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout);
    // SAFETY: a valid create info, whose chain is on this stack.
    let (result, _) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
    assert!(result == vk::Result::SUCCESS || code.is_none(), "{result:?}");
    result == vk::Result::SUCCESS
}

/// One run of the program, with this version of the translator.
fn program(input: &Value) -> Value {
    let version = serde_json::from_value(input.clone()).unwrap();
    let api = Api::load();
    let session = api.session(version);
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let options = DeviceOptions { identifiers: true, cache_control: true, ..DeviceOptions::default() };
    let device = Arc::new(Device::new(&instance, &options).unwrap());
    let layout = device.compute_layout();
    let mut done = Done::default();
    for source in sources() {
        let name = [b"identifier of ", source.as_bytes()].concat();
        if let Some(identifier) = session.find(&name) {
            if create(&device, layout, None, &identifier) {
                done.by_identifier += 1;
                continue;
            }
        }
        let code = translation(&session, &source, &mut done);
        let (identifier, _) = api.identifier(&code);
        if session.find(&name).is_none() {
            session.store(&name, &identifier);
        }
        assert!(create(&device, layout, Some(&code), &identifier));
    }
    serde_json::to_value(done).unwrap()
}

fn run(scenario: &Scenario, env: &Env, version: u64) -> Run<Done> {
    scenario.run_ok("program", env, &version)
}

#[test]
fn a_translator_translates_once_a_version_and_compiles_once_a_shader() {
    scenario(&[("program", program)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let env = env.var("VKSTASH_IDENTIFIERS", "emulate").var("VKSTASH_BACKGROUND", "disabled");
        let count = u64::from(COUNT);
        let cold = run(scenario, &env, 1);
        assert_eq!(cold.value, Done { translated: COUNT, ..Done::default() });
        assert_eq!(cold.reports.sum("compiled"), count, "{:?}", cold.reports.counters());
        let warm = run(scenario, &env, 1);
        assert_eq!(warm.value, Done { by_identifier: COUNT, ..Done::default() });
        assert_eq!(warm.reports.sum("identifier_served"), count, "{:?}", warm.reports.counters());
        // The new version wipes the session. What it translates to is the same, so the stash has the pipelines.
        let bumped = run(scenario, &env, 2);
        assert_eq!(bumped.value, Done { translated: COUNT, ..Done::default() });
        let counters = bumped.reports.counters();
        assert_eq!(
            (bumped.reports.sum("compiled"), bumped.reports.sum("served")),
            (0, count),
            "{counters:?}"
        );
        assert_eq!(run(scenario, &env, 2).value, warm.value);
        // The pipelines are gone, the translations are not.
        let kinds = vkstash_store::settings::CacheKinds::COMPILATIONS;
        vkstash_store::maintenance::clear::clear(&env.stash_folder(), None, kinds).unwrap();
        let cleared = run(scenario, &env, 2);
        assert_eq!(cleared.value, Done { read: COUNT, ..Done::default() });
        assert_eq!(cleared.reports.sum("compiled"), count, "{:?}", cleared.reports.counters());
    });
}
