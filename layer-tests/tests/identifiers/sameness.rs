//! Identifiers depend only on the code.

use std::collections::BTreeSet;

use ash::vk;
use serde_json::{Value, json};

use super::*;
use vkstash_layer_tests::vulkan::{DeviceOptions, spirv};

fn codes() -> Vec<Vec<u32>> {
    let families: [fn(u32) -> Vec<u32>; 4] = [
        spirv::compute,
        spirv::compute_specialized,
        |value| spirv::vertex(value as f32),
        |value| spirv::fragment(value as f32),
    ];
    (0..8).flat_map(|value| families.map(|family| family(value))).collect()
}

/// Identifiers of all modules by both commands on two devices, one of which created the module first.
fn identifiers(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let options = DeviceOptions { cache_control: true, identifiers: true, ..DeviceOptions::default() };
    let devices = [(); 2].map(|()| Device::new(&instance, &options).unwrap());
    let codes = codes();
    let lists = devices.iter().flat_map(|device| {
        let of_info: Vec<_> = codes.iter().map(|code| device.identifier_of_code(code)).collect();
        let of_module = codes.iter().map(|code| device.identifier(device.module(code))).collect();
        [of_info, of_module]
    });
    json!(lists.collect::<Vec<_>>())
}

type Lists = Vec<Vec<Vec<u8>>>;

/// The list that all lists of a run must equal.
fn one(scenario: &Scenario, env: &Env) -> Vec<Vec<u8>> {
    let lists = scenario.run_ok::<Lists>("identifiers", env, &()).value;
    assert!(lists.iter().all(|list| *list == lists[0]), "commands and devices agree");
    let distinct: BTreeSet<_> = lists[0].iter().collect();
    assert_eq!(distinct.len(), lists[0].len(), "different code, different identifiers");
    lists[0].clone()
}

#[test]
fn emulated_identifiers_are_the_same_on_every_driver_device_and_process() {
    scenario(&[("identifiers", identifiers)], |scenario| {
        let mut first = None;
        for setting in emulated() {
            let Some(env) = setting.env_for_two_devices(scenario) else { continue };
            for folder in ["here", "elsewhere"] {
                let list = one(scenario, &env.clone().stash(scenario.folder().join(folder)));
                assert!(list.iter().all(|identifier| identifier.len() == 32));
                assert_eq!(first.get_or_insert(list.clone()), &list, "{:?}", setting.driver);
            }
        }
    });
}

#[test]
fn the_drivers_identifiers_are_the_same_as_without_the_layer() {
    each_with_two_devices(native(), &[("identifiers", identifiers)], |scenario, env, _| {
        let alone = one(scenario, &env.clone().without_layer());
        for _ in 0..2 {
            assert_eq!(one(scenario, env), alone);
        }
    });
}

/// Identifiers by create info of one code with different flags, with one word more, and with one word changed.
fn variants(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let options = DeviceOptions { cache_control: true, identifiers: true, ..DeviceOptions::default() };
    let device = Device::new(&instance, &options).unwrap();
    let extension = ash::ext::shader_module_identifier::Device::new(&instance.raw, &device.raw);
    let get = |flags: u32, code: &[u32]| {
        let flags = vk::ShaderModuleCreateFlags::from_raw(flags);
        let info = vk::ShaderModuleCreateInfo::default().flags(flags).code(code);
        let mut answer = vk::ShaderModuleIdentifierEXT { identifier: [0xaa; 32], ..Default::default() };
        // SAFETY: only the flags and words of the create info are read.
        unsafe {
            let query = extension.fp().get_shader_module_create_info_identifier_ext;
            query(device.raw.handle(), &info, &mut answer);
        }
        answer.identifier[..answer.identifier_size as usize].to_vec()
    };
    let code = spirv::compute(1);
    let (mut longer, mut changed) = (code.clone(), code.clone());
    longer.push(0);
    changed[8] ^= 1;
    let variants = [get(0, &code), get(1, &code), get(2, &code), get(0, &longer), get(0, &changed)];
    json!([variants, [get(0, &code), get(1, &code), get(2, &code), get(0, &longer), get(0, &changed)]])
}

#[test]
fn flags_and_every_word_count() {
    each(emulated(), &[("variants", variants)], |scenario, env, _| {
        let lists = scenario.run_ok::<Lists>("variants", env, &()).value;
        assert_eq!(lists[0], lists[1], "asked again");
        assert_eq!(lists[0].iter().collect::<BTreeSet<_>>().len(), lists[0].len());
    });
}

/// Forced: the driver's own commands are not called, and neither extension, structure nor stage reaches it.
#[test]
fn emulated_identifiers_never_reach_the_driver() {
    let drivers = [json!({}), json!({ "identifiers": true }), json!({ "identifiers": true, "driver_id": 3 })];
    let settings = drivers.map(|script| Setting::forced(test_driver(script))).to_vec();
    each(settings, &[("job", do_job)], |scenario, env, _| {
        for shader in [Shader::Compute, Shader::DynamicRendering] {
            for code in [Code::Identifier, Code::ModuleAndEmptyIdentifier, Code::Identifier] {
                let seen = run(scenario, env, Work { shader, code, ..Work::default() }).value;
                assert!(seen.calls("vkCreateDevice").count() > 0);
                for call in &seen.calls {
                    let command = call["command"].as_str().unwrap();
                    assert!(!command.contains("Identifier"), "{command}");
                    for chain in ["p_next", "stage_p_next"] {
                        let types = call[chain].as_array().into_iter().flatten();
                        let hers = [IDENTIFIER_FEATURES, IDENTIFIER_STAGE];
                        // The queries of a physical device may reach it.
                        let asked = command.starts_with("vkGetPhysicalDevice");
                        let strangers = types.filter(|s_type| hers.iter().any(|own| **s_type == *own));
                        assert!(asked || strangers.count() == 0, "{call}");
                    }
                }
            }
        }
    });
}
