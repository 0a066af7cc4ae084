//! A program that enables one more feature than before: pipelines are made of what the stash has of the device without
//! it.

use std::process::Command;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{CoreFeatures, Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};

const STEPS: &[(&str, Step)] = &[("work", work::step), ("features", supported)];

/// The numbers of the features that the driver supports.
fn supported(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    json!(CoreFeatures::of(&instance, instance.physical_device()).enabled())
}

/// Enabled by the layer anyway, or makes every pipeline depend on the device's buffers (robustness is a part of the
/// driver's own key, so that a sibling's artifact is a miss).
const ROBUST_BUFFER_ACCESS: usize = 0;

/// VkDriverId of RADV, which is offered siblings' artifacts.
const RADV: u32 = 3;

fn on_radv(test: impl FnOnce(&Scenario, &Env, &[usize])) {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        let supported = scenario.run_ok::<Vec<usize>>("features", &env, &()).value;
        assert!(supported.len() > 50, "{supported:?}");
        test(scenario, &env, &supported);
    });
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Done> {
    let run = scenario.run_ok::<Done>("work", env, work);
    assert!(run.value.all_made(), "{:?}", run.value);
    run
}

fn program(shader: Shader) -> Work {
    Work { shader, count: 4, ..Work::default() }
}

#[test]
fn a_device_that_enables_more_is_served_what_was_made_without() {
    on_radv(|scenario, env, supported| {
        for shader in [Shader::Compute, Shader::RenderPass] {
            let env = &env.clone().stash(scenario.folder().join(format!("{shader:?}")));
            assert_eq!(run(scenario, env, &program(shader)).reports.sum("compiled"), 4);
            // Three of all; the ignored test has them all.
            let some = supported.iter().filter(|number| **number != ROBUST_BUFFER_ACCESS).step_by(30);
            for &number in some {
                let work = Work { features: vec![number], ..program(shader) };
                for _ in 0..2 {
                    let reports = run(scenario, env, &work).reports;
                    let seen = ["served", "from_sibling", "compiled"].map(|name| reports.sum(name));
                    assert_eq!(seen, [4, 4, 0], "{shader:?}, feature {number}: {reports:?}");
                }
            }
        }
    });
}

#[test]
fn habits_and_identifiers_are_served_too() {
    on_radv(|scenario, env, supported| {
        let feature = supported[supported.len() / 2];
        for (caches, code) in [
            (Caches::None, Code::Inline),
            (Caches::Shared, Code::Module),
            (Caches::Fresh, Code::Module),
            (Caches::None, Code::Identifier),
        ] {
            let env = &env.clone().stash(scenario.folder().join(format!("{caches:?} {code:?}")));
            let identifiers = code == Code::Identifier;
            let by_module = if identifiers { Code::Module } else { code };
            let first = Work { caches, code: by_module, identifiers, ..program(Shader::Compute) };
            run(scenario, env, &first);
            let second = Work { code, fail_on: identifiers, features: vec![feature], ..first };
            let reports = run(scenario, env, &second).reports;
            let seen = ["served", "from_sibling", "compiled"].map(|name| reports.sum(name));
            assert_eq!(seen, [4, 4, 0], "{caches:?} {code:?}: {reports:?}");
        }
    });
}

/// Asks for everything once workers have called the driver for all of it, or, where they make nothing, at once.
fn waits(input: &Value) -> Value {
    let (work, is_made): (Work, bool) = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    driver.wait_for_workers(if is_made { work.count.into() } else { 0 });
    serde_json::to_value(work.run(&device)).unwrap()
}

/// What a device without some features could create a device with them can create, and not the other way round.
#[test]
fn of_siblings_that_enable_less_workers_make_pipelines_and_of_others_they_do_not() {
    let steps: &[(&str, Step)] = &[("work", work::step), ("waits", waits)];
    let with = |features: &[usize]| Work {
        features: features.to_vec(),
        cache_control: true,
        ..program(Shader::Compute)
    };
    for (first, then, are_made) in
        [(&[1][..], &[1, 2][..], true), (&[1, 2], &[1], false), (&[1], &[2], false)]
    {
        scenario(steps, |scenario| {
            let env = scenario.on(Driver::Test(json!({ "driver_id": RADV }))).unwrap();
            run(scenario, &env, &with(first));
            let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
            for round in 2..4 {
                let ended = scenario.run_ok::<Done>("waits", &env, &(with(then), are_made));
                assert!(ended.value.all_made(), "{:?}", ended.value);
                // The system may interrupt a worker before its task ends, so that the program does not wait for it.
                let made = ["parked", "parked_unasked"].map(|name| ended.reports.sum(name));
                let expected = if are_made { 4 } else { 0 };
                let counters = ended.reports.counters();
                assert_eq!(made[0] + made[1], expected, "{first:?} {then:?}, run {round}: {counters:?}");
                assert_eq!(ended.reports.sum("compiled"), 0, "{first:?} {then:?}, run {round}: {counters:?}");
            }
        });
    }
}

/// What the driver refuses is compiled, and is the device's own from then on.
#[test]
fn what_the_driver_does_not_take_is_compiled_once() {
    on_radv(|scenario, env, _| {
        run(scenario, env, &program(Shader::Compute));
        let work = Work { features: vec![ROBUST_BUFFER_ACCESS], ..program(Shader::Compute) };
        let reports = run(scenario, env, &work).reports;
        let refused = reports.sum("sibling_not_taken");
        assert_eq!(reports.sum("from_sibling") + reports.sum("compiled"), 4, "{reports:?}");
        assert_eq!(refused, reports.sum("compiled"), "{reports:?}");
        assert_eq!(reports.sum("not_taken"), 0, "{reports:?}");
        let reports = run(scenario, env, &work).reports;
        assert_eq!((reports.sum("served"), reports.sum("compiled")), (4, 0), "{reports:?}");
        assert_eq!(reports.sum("sibling_not_taken"), 0, "{reports:?}");
    });
}

/// Two siblings of a device with robustness, of which the driver takes the artifacts of the older one alone.
#[test]
fn the_next_run_offers_first_what_was_taken_and_never_what_all_siblings_were_refused() {
    scenario(STEPS, |scenario| {
        let on = |ignore_blobs: bool| {
            let env = scenario.on(Driver::Test(json!({ "driver_id": RADV, "ignore_blobs": ignore_blobs })));
            env.unwrap().var("VKSTASH_TEST_ICD_RECORD", scenario.folder().join("record"))
        };
        let with = |features: &[usize]| Work {
            features: features.to_vec(),
            cache_control: true,
            ..program(Shader::Compute)
        };
        let seen = |run: &Run<Done>| {
            let counted = ["from_sibling", "sibling_not_taken", "compiled"].map(|name| run.reports.sum(name));
            (counted, offered(scenario))
        };
        for features in [&[ROBUST_BUFFER_ACCESS, 1][..], &[]] {
            assert_eq!(seen(&run(scenario, &on(false), &with(features))).0[2], 4, "{features:?}");
        }
        let work = with(&[ROBUST_BUFFER_ACCESS]);
        assert_eq!(seen(&run(scenario, &on(false), &work)), ([4, 4, 0], 8));
        for _ in 0..2 {
            assert_eq!(seen(&run(scenario, &on(false), &work)), ([4, 0, 0], 4), "what was taken comes first");
        }
        let asking = Work { fail_on: true, ..work };
        for (ignore_blobs, not_taken, offers) in [(true, 8, 8), (false, 0, 0)] {
            let asked = scenario.run_ok::<Done>("work", &on(ignore_blobs), &asking);
            assert!(asked.value.all_refused(), "{:?}", asked.value);
            assert_eq!(seen(&asked), ([0, not_taken, 0], offers), "ignores blobs: {ignore_blobs}");
        }
    });
}

/// How many caches the program's process has had the driver make of data.
fn offered(scenario: &Scenario) -> usize {
    let record = std::fs::read(scenario.folder().join("record")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let calls = record["calls"].as_array().unwrap().iter();
    calls.filter(|call| call["command"] == "vkCreatePipelineCache" && call["initial_size"] != 0).count()
}

/// What the program saves has what was served from a sibling, too.
#[test]
fn the_data_of_the_programs_cache_is_complete() {
    on_radv(|scenario, env, supported| {
        let first = Work { caches: Caches::Shared, feedback: true, ..program(Shader::Compute) };
        let lengths = |run: &Run<Done>| run.value.data.iter().map(Vec::len).collect::<Vec<_>>();
        let compiled = run(scenario, env, &first);
        let work = Work { features: vec![supported[supported.len() / 2]], ..first };
        let served = run(scenario, env, &work);
        assert_eq!(served.reports.sum("from_sibling"), 4, "{:?}", served.reports);
        assert!(lengths(&compiled)[0] > 1000);
        assert_eq!(lengths(&served), lengths(&compiled));
    });
}

/// A program of usual size, after an update that enables one feature more.
#[test]
fn of_many_pipelines_all_are_served() {
    on_radv(|scenario, env, supported| {
        let first = Work { count: 150, ..program(Shader::Compute) };
        run(scenario, env, &first);
        let feature = *supported.last().unwrap();
        let reports = run(scenario, env, &Work { features: vec![feature], ..first }).reports;
        println!("one feature more: {} of 150 are served in the first run", reports.sum("from_sibling"));
        assert_eq!((reports.sum("from_sibling"), reports.sum("compiled")), (150, 0), "{reports:?}");
    });
}

/// `vkstash-bench siblings` has a row for each class and kind of difference, and says what is not taken.
#[test]
fn what_the_driver_takes_is_measured_by_a_command() {
    on_radv(|_, _, _| {
        let output = Command::new(env!("CARGO_BIN_EXE_vkstash-bench"))
            .args(["siblings", "--driver", "radv", "--class", "render-pass,ray-tracing", "--toggled", "core"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        let row = |class: &str| {
            let found = rows.iter().find(|row| row.get(1) == Some(&class));
            found.unwrap_or_else(|| panic!("{text}"))
        };
        let counts =
            |class: &str| row(class)[3..=4].iter().map(|cell| cell.parse().unwrap()).collect::<Vec<u32>>();
        let (graphics, rays) = (counts("RenderPass"), counts("RayTracing"));
        assert!(graphics[1] > 100 && graphics[0] == graphics[1] - 1, "{text}");
        assert_eq!(row("RenderPass")[8], "robustBufferAccess", "{text}");
        assert!(rays[1] > 100 && rays[0] == rays[1], "{text}");
    });
}

/// Each feature of Vulkan 1.0 to 1.3 by itself, for docs/evidence/measurements.md: switched on, and switched off of
/// all.
#[test]
#[ignore = "it measures"]
fn all_features() {
    on_radv(|scenario, env, supported| {
        let without = |wanted: usize| supported.iter().copied().filter(|number| *number != wanted).collect();
        for shader in [Shader::Compute, Shader::RenderPass, Shader::DynamicRendering] {
            for base in [Vec::new(), supported.to_vec()] {
                let (mut taken, mut others) = (0, Vec::new());
                for (index, &number) in supported.iter().enumerate() {
                    let features = if base.is_empty() { vec![number] } else { without(number) };
                    // Each part is a sibling of those after it; beyond some dozens not all are looked at.
                    let stash = format!("{shader:?} {} {}", base.len(), index / 20);
                    let env = &env.clone().stash(scenario.folder().join(stash));
                    if index % 20 == 0 {
                        run(scenario, env, &Work { features: base.clone(), ..program(shader) });
                    }
                    let reports = run(scenario, env, &Work { features, ..program(shader) }).reports;
                    match reports.sum("from_sibling") {
                        4 => taken += 1,
                        _ => others.push((number, reports.counters())),
                    }
                }
                let (all, base) = (supported.len(), base.len());
                println!("{shader:?}, {base} features and one other: {taken} of {all} taken; {others:?}");
            }
        }
    });
}
