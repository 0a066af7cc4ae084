//! VK_EXT_shader_module_identifier on a driver that lacks it, lavapipe.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::ptr;

use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env, Layer};
use vkstash_layer_tests::suite::{self, run};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::{Caches, Code, Feedback, Shader, Work};

fn on_lavapipe(step: fn(&Value) -> Value, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Lavapipe) {
            test(scenario, &env);
        }
    });
}

fn with_identifiers() -> DeviceOptions {
    DeviceOptions { identifiers: true, cache_control: true, ..DeviceOptions::default() }
}

/// Every way to list a device's extensions: (result of the second call, names).
fn listings(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let physical = instance.physical_device();
    let list = |layer: Option<&CStr>, less: u32| {
        let enumerate = instance.raw.fp_v1_0().enumerate_device_extension_properties;
        let layer = layer.map_or(ptr::null(), CStr::as_ptr);
        let mut count = 0;
        // SAFETY: a live physical device and the two-call idiom.
        unsafe {
            let first = enumerate(physical, layer, &mut count, ptr::null_mut());
            assert_eq!(first, vk::Result::SUCCESS);
            let all = count;
            count -= less.min(count);
            let mut list = vec![vk::ExtensionProperties::default(); all as usize];
            let second = enumerate(physical, layer, &mut count, list.as_mut_ptr());
            list.truncate(count as usize);
            let names =
                list.iter().map(|e| e.extension_name_as_c_str().unwrap().to_str().unwrap().to_owned());
            json!({ "all": all, "result": second.as_raw(), "names": names.collect::<Vec<_>>() })
        }
    };
    json!({
        "merged": list(None, 0),
        "short": list(None, 1),
        "own": list(Some(c"VK_LAYER_VKSTASH_pipeline_cache"), 0),
    })
}

fn names(listing: &Value) -> Vec<String> {
    serde_json::from_value(listing["names"].clone()).unwrap()
}

fn times_listed(listing: &Value) -> usize {
    names(listing).iter().filter(|name| *name == "VK_EXT_shader_module_identifier").count()
}

#[test]
fn the_extension_is_listed_once_beside_the_drivers_own() {
    on_lavapipe(listings, |scenario, env| {
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &()).value;
        assert_eq!(
            times_listed(&without["merged"]),
            0,
            "lavapipe has learnt identifiers: find another driver"
        );
        for layer in [Layer::Implicit, Layer::Explicit, Layer::Both] {
            let with = scenario.run_ok::<Value>("step", &env.clone().layer(layer), &()).value;
            assert_eq!(times_listed(&with["merged"]), 1);
            let mut expected = names(&without["merged"]);
            expected.push("VK_EXT_shader_module_identifier".to_owned());
            expected.sort();
            let mut found = names(&with["merged"]);
            found.sort();
            assert_eq!(found, expected);
            assert_eq!(with["merged"]["result"], 0);
        }
    });
}

#[test]
fn a_short_listing_is_incomplete() {
    on_lavapipe(listings, |scenario, env| {
        let short = scenario.run_ok::<Value>("step", env, &()).value["short"].clone();
        assert_eq!(short["result"], vk::Result::INCOMPLETE.as_raw());
        assert_eq!(names(&short).len() as u64, short["all"].as_u64().unwrap() - 1);
    });
}

#[test]
fn the_layers_own_list_holds_nothing_but_the_extension() {
    on_lavapipe(listings, |scenario, env| {
        let env = env.clone().layer(Layer::Explicit);
        let own = scenario.run_ok::<Value>("step", &env, &()).value["own"].clone();
        assert_eq!(own["result"], 0);
        assert!(names(&own).iter().all(|name| name == "VK_EXT_shader_module_identifier"), "{own}");
    });
}

fn support(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let supported = instance.identifier_support(instance.physical_device());
    let device = Device::new(&instance, &with_identifiers()).map(|device| {
        let commands = [c"vkGetShaderModuleIdentifierEXT", c"vkGetShaderModuleCreateInfoIdentifierEXT"];
        commands.map(|name| device.has_command(name))
    });
    let without = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let without = [c"vkGetShaderModuleIdentifierEXT", c"vkGetShaderModuleCreateInfoIdentifierEXT"]
        .map(|name| without.has_command(name));
    json!({ "support": supported, "commands": device.unwrap(), "commands_when_off": without })
}

#[test]
fn feature_uuid_and_commands_are_there_for_those_who_enable_the_extension_only() {
    on_lavapipe(support, |scenario, env| {
        let first = scenario.run_ok::<Value>("step", env, &()).value;
        let (feature, uuid): (bool, [u8; 16]) = serde_json::from_value(first["support"].clone()).unwrap();
        assert!(feature);
        assert_ne!(uuid, [0; 16]);
        assert_eq!(first["commands"], json!([true, true]));
        assert_eq!(first["commands_when_off"], json!([false, false]));
        let second = scenario.run_ok::<Value>("step", env, &()).value;
        assert_eq!(first, second, "constant over processes");
    });
}

/// Identifiers of some modules, by both commands, on two devices.
fn identifiers(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let devices = [(); 2].map(|()| Device::new(&instance, &with_identifiers()).unwrap());
    let codes: Vec<_> = (0..20)
        .flat_map(|value| {
            [spirv::compute(value), spirv::compute_specialized(value), spirv::vertex(value as f32)]
        })
        .collect();
    let all: Vec<_> = devices
        .iter()
        .flat_map(|device| {
            let by_module =
                codes.iter().map(|code| device.identifier(device.module(code))).collect::<Vec<_>>();
            let by_info = codes.iter().map(|code| device.identifier_of_code(code)).collect();
            [by_module, by_info]
        })
        .collect();
    json!(all)
}

#[test]
fn identifiers_depend_on_the_code_alone() {
    on_lavapipe(identifiers, |scenario, env| {
        let first = scenario.run_ok::<Vec<Vec<Vec<u8>>>>("step", env, &()).value;
        for other in &first {
            assert_eq!(other, &first[0], "both commands and both devices agree");
        }
        assert!(first[0].iter().all(|identifier| (1..=32).contains(&identifier.len())));
        let distinct: BTreeSet<_> = first[0].iter().collect();
        assert_eq!(distinct.len(), first[0].len(), "different code, different identifiers");
        let elsewhere = env.clone().stash(scenario.folder().join("elsewhere"));
        let second = scenario.run_ok::<Vec<Vec<Vec<u8>>>>("step", &elsewhere, &()).value;
        assert_eq!(first, second, "constant over processes");
    });
}

#[test]
fn unknown_identifiers_return_compile_required() {
    suite::on(Driver::Lavapipe, |scenario, env| {
        let random = (0u32..32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8);
        let all: Vec<Vec<u8>> = [1, 2, 8, 16, 20, 31, 32]
            .iter()
            .flat_map(|&size| [vec![0; size], vec![0xff; size], random.clone().take(size).collect()])
            .collect();
        for shader in [Shader::Compute, Shader::RenderPass] {
            for bytes in &all {
                let work =
                    Work { shader, code: Code::Bytes, bytes: bytes.clone(), count: 1, ..Work::default() };
                let outcome = run(scenario, env, &work);
                assert!(outcome.value.all_refused(), "{bytes:?}: {outcome:?}");
            }
        }
    });
}

/// Lavapipe's cache data is empty, so nothing can be served; but the request must not reach the driver, which would
/// get a stage without code.
#[test]
fn a_request_by_identifier_alone_does_not_reach_the_driver() {
    suite::on(Driver::Lavapipe, |scenario, env| {
        for shader in [Shader::Compute, Shader::RenderPass, Shader::DynamicRendering] {
            for flags2 in [false, true] {
                run(scenario, env, &Work { shader, identifiers: true, ..Work::default() });
                let work = Work { shader, flags2, code: Code::Identifier, batch: 2, ..Work::default() };
                let outcome = run(scenario, env, &work);
                assert!(outcome.value.all_refused(), "{outcome:?}");
                assert_eq!(outcome.reports.sum("identifier_requests"), 3);
            }
        }
    });
}

#[test]
fn an_identifier_of_an_unknown_structure_does_not_reach_the_driver_without_code() {
    suite::on(Driver::Lavapipe, |scenario, env| {
        let work = Work { code: Code::Identifier, unknown_structure: true, ..Work::default() };
        let outcome = run(scenario, env, &work);
        assert!(outcome.value.all_refused(), "{outcome:?}");
        assert_eq!(outcome.reports.sum("bypassed"), 3);
    });
}

#[test]
fn an_empty_identifier_beside_a_module_is_ignored() {
    suite::on(Driver::Lavapipe, |scenario, env| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            let work = Work { shader, code: Code::ModuleAndEmptyIdentifier, ..Work::default() };
            let outcome = run(scenario, env, &work);
            assert!(outcome.value.all_made(), "{outcome:?}");
        }
    });
}

#[test]
fn a_driver_without_cache_data_runs_as_without_the_layer() {
    suite::on(Driver::Lavapipe, |scenario, env| {
        for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering] {
            let work = Work { shader, feedback: true, ..Work::default() };
            let without = run(scenario, &env.clone().without_layer(), &work);
            for _ in 0..2 {
                let with = run(scenario, env, &work);
                assert_eq!(with.value.made, without.value.made);
                assert_eq!(with.value.results, without.value.results);
                assert_eq!(with.value.feedback, without.value.feedback, "{shader:?}");
                assert_eq!(with.reports.sum("served"), 0);
            }
        }
    });
}

#[test]
fn identifiers_can_be_switched_off() {
    on_lavapipe(listings, |scenario, env| {
        let env = env.clone().var("VKSTASH_IDENTIFIERS", "off");
        let list = scenario.run_ok::<Value>("step", &env, &()).value;
        assert_eq!(times_listed(&list["merged"]), 0);
    });
}

/// VALID must be set or cleared for the pipeline and each of its stages, whoever answers (contract 3.7): the
/// program's storage is uninitialised.
#[test]
fn feedback_of_a_pipeline_that_was_not_created_is_initialised() {
    for shader in [Shader::Compute, Shader::RenderPass] {
        suite::on(Driver::Lavapipe, |scenario, env| {
            let work = Work { shader, code: Code::Identifier, feedback: true, ..Work::default() };
            let outcome = run(scenario, env, &work);
            assert!(outcome.value.all_refused(), "{outcome:?}");
            for feedback in &outcome.value.feedback {
                let sane = |flags: u32| flags & 1 == 0 || flags == 1;
                assert!(sane(feedback.pipeline), "{feedback:?}");
                assert!(feedback.stages.iter().all(|&flags| sane(flags)), "{feedback:?}");
            }
        });
    }
}

/// If the layer's identifiers replace the driver's, a request by identifier alone takes the code from the stash.
#[test]
fn forced_identifiers_are_served_on_a_driver_with_identifiers() {
    for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering] {
        suite::on(Driver::Radv, |scenario, env| {
            for flags2 in [false, true] {
                let stash = scenario.folder().join(format!("flags2 {flags2}"));
                let env = env.clone().var("VKSTASH_IDENTIFIERS", "emulate").stash(stash);
                let by_module = Work { shader, flags2, identifiers: true, ..Work::default() };
                let by_identifier = Work { code: Code::Identifier, ..by_module.clone() };
                let cold = run(scenario, &env, &by_identifier);
                assert!(cold.value.all_refused(), "{cold:?}");
                run(scenario, &env, &by_module);
                for caches in [Caches::None, Caches::Fresh] {
                    let work = Work { caches, feedback: true, ..by_identifier.clone() };
                    let warm = run(scenario, &env, &work);
                    assert!(warm.value.all_made(), "{warm:?}");
                    suite::assert_all_served(&warm, 3);
                    assert_eq!(warm.reports.sum("identifier_served"), 3);
                    assert!(!warm.value.feedback.iter().any(Feedback::says_hit), "{warm:?}");
                }
            }
        });
    }
}

#[test]
fn emulated_identifiers_are_the_same_on_every_driver() {
    scenario(&[("step", identifiers)], |scenario| {
        let (Some(radv), Some(lavapipe)) =
            (scenario.on_two_devices(Driver::Radv), scenario.on(Driver::Lavapipe))
        else {
            return;
        };
        let radv = radv.var("VKSTASH_IDENTIFIERS", "emulate");
        let ask = |env: &Env| scenario.run_ok::<Vec<Vec<Vec<u8>>>>("step", env, &()).value;
        assert_eq!(ask(&radv), ask(&lavapipe));
    });
}

#[test]
fn a_driver_with_identifiers_keeps_its_own_identifiers() {
    scenario(&[("support", support), ("identifiers", identifiers)], |scenario| {
        let Some(env) = scenario.on_two_devices(Driver::Radv) else { return };
        let alone = env.clone().without_layer();
        for step in ["support", "identifiers"] {
            let with = scenario.run_ok::<Value>(step, &env, &()).value;
            assert_eq!(with, scenario.run_ok::<Value>(step, &alone, &()).value, "{step}");
        }
    });
}

/// A program of Vulkan 1.0 without the extension that the queries need, and one of 1.1.
fn old(input: &Value) -> Value {
    let api_version = input.as_u64().unwrap() as u32;
    let instance = Instance::new(&InstanceOptions { api_version, ..Default::default() }).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    json!(Work::default().run(&device).all_made())
}

#[test]
fn old_programs_run() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("step", old)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            for api in [vk::API_VERSION_1_0, vk::API_VERSION_1_1, vk::API_VERSION_1_2] {
                for _ in 0..2 {
                    assert!(scenario.run_ok::<bool>("step", &env, &api).value);
                }
            }
        });
    }
}
