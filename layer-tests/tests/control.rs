//! Control over kinds of caches: by the program, through the C API, and by the user, in the settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::api::{Api, CLEAR, COMPILATIONS, CONVERSIONS, DISABLE, ENABLE, Statistics};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder::configure;
use vkstash_layer_tests::suite::{assert_all_served, run};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Work};
use vkstash_store::settings::CacheKinds;
use vkstash_store::stash::inspect::list_applications;

const COUNT: u32 = 4;

fn works(seed: u32) -> Work {
    Work { count: COUNT, first: seed, ..Work::default() }
}

/// What a program does, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Act {
    /// Creates pipelines.
    Work(Work),
    /// Controls caches; answers with the result.
    Control(u32, u32),
    /// Stores what the settings disable, and creates pipelines until the layer has noticed.
    Store(PathBuf, u32),
}

/// The line of a configuration file that disables these kinds.
fn disabled(kinds: CacheKinds) -> String {
    format!("disabled-caches = '{}'\n", kinds.text())
}

/// Runs the acts. Returns the statistics after each of them.
fn acts(input: &Value) -> Value {
    let acts: Vec<Act> = serde_json::from_value(input.clone()).unwrap();
    let api = Api::load();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Arc::new(Device::new(&instance, &works(0).device_options()).unwrap());
    let mut all = Vec::new();
    for act in acts {
        match act {
            Act::Work(work) => assert!(work.run(&device).all_made()),
            Act::Control(kinds, control) => {
                assert_eq!(api.control(kinds, control), 0, "{kinds} {control}");
            }
            Act::Store(root, kinds) => {
                configure(&root, &disabled(CacheKinds(kinds)));
                let began = Instant::now();
                loop {
                    let before = api.statistics().missed_in_stash;
                    assert!(works(0).run(&device).all_made());
                    // What was recorded before is asked of the stash, or not.
                    let misses = api.statistics().missed_in_stash > before;
                    if misses == (kinds & COMPILATIONS != 0) {
                        break;
                    }
                    assert!(began.elapsed() < Duration::from_secs(500), "it follows");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        all.push(api.statistics());
    }
    serde_json::to_value(all).unwrap()
}

fn controlled(test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("work", work::step), ("acts", acts)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let env = env.var("VKSTASH_DEVELOPER_MODE", "1").var("VKSTASH_BACKGROUND", "disabled");
        test(scenario, &env);
    });
}

#[test]
fn a_program_disables_and_enables_what_is_compiled() {
    controlled(|scenario, env| {
        let done = scenario.run_ok::<Vec<Statistics>>(
            "acts",
            env,
            &[
                Act::Work(works(0)),
                Act::Control(COMPILATIONS, DISABLE),
                Act::Work(works(100)),
                Act::Control(COMPILATIONS, ENABLE),
                Act::Work(works(200)),
            ],
        );
        let count = u64::from(COUNT);
        let of = |at: usize| done.value[at];
        assert_eq!(done.reports.sum("compiled_unrecorded"), count);
        assert_eq!(done.reports.sum("nothing_kept"), 0, "the driver keeps it; the user does not want it");
        assert_eq!(done.reports.sum("switched_off"), count);
        assert_eq!(of(0), Statistics { created: count, missed_in_stash: count, missed_anywhere: count });
        assert_eq!((of(2).missed_anywhere, of(4).missed_anywhere), (2 * count, 3 * count));
        // The next run finds what was recorded, and nothing else.
        assert_all_served(&run(scenario, env, &works(0)), COUNT);
        assert_all_served(&run(scenario, env, &works(200)), COUNT);
        assert_eq!(run(scenario, env, &works(100)).reports.sum("compiled"), count);
        let served = scenario.run_ok::<Vec<Statistics>>("acts", env, &[Act::Work(works(0))]);
        assert_eq!(served.value[0], Statistics { created: count, missed_in_stash: 0, missed_anywhere: 0 });
    });
}

#[test]
fn clearing_takes_what_was_compiled_and_leaves_the_rest() {
    controlled(|scenario, env| {
        run(scenario, env, &works(0));
        let records = |kind: &str| -> u64 {
            let applications = list_applications(&env.stash_folder()).unwrap();
            let parts = applications.iter().flat_map(|of| &of.parts);
            parts.map(|part| part.records.get(kind).copied().unwrap_or(0)).sum()
        };
        assert_eq!((records("artifact"), records("recipe") > 0), (u64::from(COUNT), true));
        let modules = records("module");
        assert!(modules > 0);
        scenario.run_ok::<Vec<Statistics>>("acts", env, &[Act::Control(COMPILATIONS, CLEAR)]);
        assert_eq!((records("artifact"), records("module")), (0, modules));
        scenario.run_ok::<Vec<Statistics>>("acts", env, &[Act::Control(CONVERSIONS, CLEAR)]);
        assert_eq!((records("artifact"), records("module"), records("recipe") > 0), (0, 0, true));
        let again = run(scenario, env, &works(0));
        assert_eq!(again.reports.sum("compiled"), u64::from(COUNT), "{:?}", again.reports.counters());
        assert_all_served(&run(scenario, env, &works(0)), COUNT);
    });
}

/// The program clears what it has recorded itself, while it goes on.
#[test]
fn what_a_program_has_cleared_it_compiles_again() {
    controlled(|scenario, env| {
        let count = u64::from(COUNT);
        let done = scenario.run_ok::<Vec<Statistics>>(
            "acts",
            env,
            &[
                Act::Work(works(0)),
                Act::Work(works(0)),
                Act::Control(COMPILATIONS | CONVERSIONS, CLEAR),
                Act::Work(works(0)),
                Act::Work(works(0)),
            ],
        );
        let missed = |at: usize| done.value[at].missed_anywhere;
        assert_eq!([0, 1, 3, 4].map(missed), [count, count, 2 * count, 2 * count], "{:?}", done.value);
        assert_all_served(&run(scenario, env, &works(0)), COUNT);
    });
}

#[test]
fn a_running_program_follows_the_settings() {
    controlled(|scenario, env| {
        let root = env.stash_folder();
        let done = scenario.run_ok::<Vec<Statistics>>(
            "acts",
            env,
            &[Act::Work(works(0)), Act::Store(root.clone(), COMPILATIONS)],
        );
        assert_eq!(done.value[0].created, u64::from(COUNT));
        // The next run begins with that.
        let next = run(scenario, env, &works(0));
        let counted = next.reports.counters();
        assert_eq!((next.reports.sum("served"), next.reports.sum("compiled")), (0, 0), "{counted:?}");
        configure(&root, "");
        assert_all_served(&run(scenario, env, &works(0)), COUNT);
    });
}

#[test]
fn disabled_conversions_are_not_kept() {
    controlled(|scenario, env| {
        let root = env.stash_folder();
        configure(&root, &disabled(CacheKinds::CONVERSIONS));
        let first = run(scenario, env, &works(0));
        assert_eq!(first.reports.sum("compiled"), u64::from(COUNT), "{:?}", first.reports.counters());
        let applications = list_applications(&root).unwrap();
        let modules: u64 =
            applications.iter().flat_map(|of| &of.parts).filter_map(|part| part.records.get("module")).sum();
        assert_eq!(modules, 0);
        assert_all_served(&run(scenario, env, &works(0)), COUNT);
    });
}

/// Creates a pipeline with a cache, which the driver has filled before while nothing was recorded, if the input says
/// so. Gives the number of pipelines in each cache that was created from data.
fn fills_a_cache(input: &Value) -> Value {
    let api = Api::load();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &works(0).device_options()).unwrap();
    let cache = device.cache(&[]);
    if input == true {
        assert_eq!(api.control(COMPILATIONS, DISABLE), 0);
        assert!(works(0).run_through(&device, cache).all_made());
        assert_eq!(api.control(COMPILATIONS, ENABLE), 0);
    }
    assert!(Work { count: 1, ..works(100) }.run_through(&device, cache).all_made());
    let record = driver.take_record();
    device.destroy_cache(cache);
    let calls = record["calls"].as_array().unwrap().iter();
    let created =
        calls.filter(|call| call["command"] == "vkCreatePipelineCache" && call["initial_size"] != 0);
    json!(created.map(|call| call["initial_entries"].clone()).collect::<Vec<_>>())
}

#[test]
fn what_the_driver_has_put_into_a_cache_meanwhile_is_in_no_artifact() {
    scenario(&[("fills", fills_a_cache)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let env = env.var("VKSTASH_DEVELOPER_MODE", "1").var("VKSTASH_BACKGROUND", "disabled");
        let filled = scenario.run_ok::<Vec<u32>>("fills", &env, &true);
        assert_eq!(filled.reports.sum("compiled"), 1, "{:?}", filled.reports.counters());
        let served = scenario.run_ok::<Vec<u32>>("fills", &env, &false);
        assert_eq!(served.reports.sum("served"), 1, "{:?}", served.reports.counters());
        assert_eq!(served.value, [1]);
    });
}
