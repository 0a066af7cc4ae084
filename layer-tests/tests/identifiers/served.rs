//! Pipelines by identifier: across devices and processes, with code of every origin, and identifiers that were never
//! issued.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

/// Settings in which artifacts are kept and identifiers can be served.
fn serving() -> Vec<Setting> {
    let emulated = emulated().into_iter().filter(|setting| setting.driver != Driver::Lavapipe);
    emulated.chain(native()).collect()
}

/// The first device creates the pipelines by module, the second one by identifier; the first one may be destroyed
/// before.
fn two_devices(input: &Value) -> Value {
    let (work, destroy): (Work, bool) = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let by_module = Work { code: Code::Module, identifiers: true, ..work.clone() };
    let mut first = Some(Device::new(&instance, &work.device_options()).unwrap());
    assert!(by_module.run(first.as_ref().unwrap()).all_made());
    if destroy {
        first = None;
    }
    let second = Device::new(&instance, &work.device_options()).unwrap();
    let done = work.run(&second);
    drop((first, second));
    answer(done, instance)
}

#[test]
fn pipelines_of_one_device_are_served_to_another_by_identifier() {
    each_with_two_devices(serving(), &[("job", two_devices)], |scenario, env, setting| {
        let mut first = 1;
        for destroy in [false, true] {
            for shader in [Shader::Compute, Shader::DynamicRendering] {
                let work = Work { shader, code: Code::Identifier, first, ..Work::default() };
                first += 10;
                let run = scenario.run_ok::<Seen>("job", env, &(work, destroy));
                let seen = &run.value;
                assert_eq!(seen.violations, Vec::<String>::new());
                assert!(seen.done.all_made(), "{:?} {:?}", setting.driver, seen.done.results);
                assert_eq!(run.reports.sum("identifier_served"), 3, "{:?}", run.reports.counters());
                assert_eq!(run.reports.sum("compiled"), 3, "{:?}", run.reports.counters());
            }
        }
    });
}

#[test]
fn pipelines_of_one_process_are_served_to_another_by_identifier() {
    each(serving(), &[("job", do_job)], |scenario, env, setting| {
        for (shader, flags2) in
            [(Shader::Compute, false), (Shader::Specialized, true), (Shader::RenderPass, false)]
        {
            // A device with other features has a part of its own.
            let first = 1 + 100 * u32::from(flags2);
            let by_identifier = Work { shader, flags2, first, code: Code::Identifier, ..Work::default() };
            let cold = run(scenario, env, by_identifier.clone());
            assert!(cold.value.done.all_refused(), "{:?} {:?}", setting.driver, cold.value.done.results);
            let counts = ["identifier_requests", "identifier_served"].map(|name| cold.reports.sum(name));
            assert_eq!(counts, [3, 0], "{:?} {:?}", setting.driver, cold.reports.counters());
            run(scenario, env, Work { code: Code::Module, identifiers: true, ..by_identifier.clone() });
            for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
                let warm = run(scenario, env, Work { caches, ..by_identifier.clone() });
                assert!(warm.value.done.all_made(), "{:?} {caches:?}", setting.driver);
                assert_eq!(warm.reports.sum("identifier_served"), 3, "{:?}", warm.reports.counters());
                assert_eq!(warm.value.compiles, 0);
            }
        }
    });
}

/// Inline code has the identifier that a module of it would have.
#[test]
fn pipelines_of_inline_code_are_served_by_identifier() {
    let emulated = emulated().into_iter().filter(|setting| setting.driver != Driver::Lavapipe).collect();
    each(emulated, &[("job", do_job)], |scenario, env, _| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            let by_identifier = Work { shader, flags2: true, code: Code::Identifier, ..Work::default() };
            run(scenario, env, Work { code: Code::Inline, identifiers: true, ..by_identifier.clone() });
            let warm = run(scenario, env, by_identifier);
            assert!(warm.value.done.all_made(), "{:?}", warm.value.done.results);
            assert_eq!(warm.reports.sum("identifier_served"), 3);
        }
    });
}

/// The number of calls of each creating command.
fn creations(seen: &Seen) -> BTreeMap<&str, usize> {
    let mut commands = BTreeMap::new();
    for command in seen.calls.iter().filter_map(|call| call["command"].as_str()) {
        if command.starts_with("vkCreate") || command.contains("PipelineCache") {
            *commands.entry(command).or_default() += 1;
        }
    }
    commands
}

/// A driver with identifiers of its own needs no code beside an artifact: it gets the same calls as for a request
/// with code.
#[test]
fn a_served_request_by_identifier_costs_the_driver_no_more_than_one_with_code() {
    each(
        vec![Setting::auto(test_driver(json!({ "identifiers": true })))],
        &[("job", do_job)],
        |scenario, env, _| {
            for shader in [Shader::Compute, Shader::RenderPass] {
                for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
                    let inline = Work { shader, caches, flags2: true, identifiers: true, ..Work::default() };
                    let inline = Work { code: Code::Inline, ..inline };
                    let by_identifier = Work { code: Code::Identifier, ..inline.clone() };
                    run(scenario, env, inline.clone());
                    let inline = run(scenario, env, inline);
                    let by_identifier = run(scenario, env, by_identifier);
                    assert!(by_identifier.value.done.all_made(), "{:?}", by_identifier.reports);
                    assert_eq!([&inline, &by_identifier].map(|run| run.reports.sum("served")), [3, 3]);
                    assert_eq!(
                        creations(&by_identifier.value),
                        creations(&inline.value),
                        "{shader:?} {caches:?}"
                    );
                }
            }
        },
    );
}

/// Sizes and contents of requests that were not answered with COMPILE_REQUIRED. The code of real identifiers, and
/// pipelines of it, are in the stash.
fn unknown_identifiers(input: &Value) -> Value {
    let sizes: Vec<usize> = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let mut served = Vec::new();
    for shader in [Shader::Compute, Shader::RenderPass] {
        let work = Work { shader, code: Code::Bytes, count: 1, feedback: true, ..Work::default() };
        let device = Device::new(&instance, &work.device_options()).unwrap();
        assert!(Work { code: Code::Module, ..work.clone() }.run(&device).all_made());
        let real = device.identifier_of_code(&vkstash_layer_tests::vulkan::spirv::compute(1));
        for &size in &sizes {
            let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ size as u64;
            let noise = std::iter::repeat_with(move || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) as u8
            });
            // A part of an issued identifier, and one with bytes appended, were not issued either.
            let part = real.iter().copied().chain([0; 64]).take(size).collect();
            let mut contents =
                vec![vec![0; size], vec![1; size], vec![0xff; size], noise.take(size).collect()];
            if size != real.len() {
                contents.push(part);
            }
            for bytes in contents {
                let done = Work { bytes: bytes.clone(), ..work.clone() }.run(&device);
                if !done.all_refused() {
                    served.push(json!([size, bytes, done]));
                }
            }
        }
    }
    json!(served)
}

#[test]
fn unknown_identifiers_miss_whatever_their_size() {
    let old = Setting::auto(test_driver(json!({ "driver_id": 3 })));
    let settings = [emulated(), vec![old]].concat();
    each_with_two_devices(
        settings,
        &[("unknown identifiers", unknown_identifiers)],
        |scenario, env, setting| {
            // 0 is no identifier, 33 and more are invalid: neither may cause harm.
            let sizes: Vec<usize> = (0..=33).chain([64]).collect();
            for _ in 0..2 {
                let served = scenario.run_ok::<Value>("unknown identifiers", env, &sizes).value;
                assert_eq!(served, json!([]), "{:?}", setting.driver);
            }
        },
    );
}

#[test]
fn a_driver_with_identifiers_refuses_unknown_ones_itself() {
    each_with_two_devices(
        native(),
        &[("unknown identifiers", unknown_identifiers)],
        |scenario, env, setting| {
            let sizes: Vec<usize> = (1..=32).collect();
            for _ in 0..2 {
                let served = scenario.run_ok::<Value>("unknown identifiers", env, &sizes).value;
                assert_eq!(served, json!([]), "{:?}", setting.driver);
            }
        },
    );
}

#[test]
fn an_empty_identifier_with_an_invalid_pointer_beside_a_module_is_ignored() {
    each([emulated(), native()].concat(), &[("job", do_job)], |scenario, env, _| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            for fail_on in [false, true] {
                let work = Work { shader, fail_on, code: Code::ModuleAndEmptyIdentifier, ..Work::default() };
                let seen = run(scenario, env, work);
                assert_eq!(seen.reports.sum("identifier_requests"), 0);
                let may_be_refused = *env.driver() == Driver::Lavapipe && fail_on;
                assert!(may_be_refused || seen.value.done.all_made(), "{:?}", seen.value.done.results);
            }
        }
    });
}

/// The layer answers in place of the driver, so it must write feedback (contract 3.7).
#[test]
fn feedback_of_a_refused_identifier_is_initialised() {
    each(emulated(), &[("job", do_job)], |scenario, env, _| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            let work = Work { shader, code: Code::Identifier, feedback: true, ..Work::default() };
            let seen = run(scenario, env, work).value.done;
            assert!(seen.all_refused());
            assert_eq!(seen.feedback.len(), 3);
            let silent =
                |feedback: &Feedback| feedback.stages.iter().chain([&feedback.pipeline]).all(|&f| f <= 1);
            assert!(seen.feedback.iter().all(silent), "{:?}", seen.feedback);
        }
    });
}
