//! Drivers whose caches keep nothing: recipes, modules, uses and the costs of compiles are recorded without artifacts,
//! and the program notices nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder::configure;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::{self, Caches, Code, Done, Shader, Work};
use vkstash_model::app_name::AppName;
use vkstash_model::recipe;
use vkstash_model::record::{Key, Kind, UseRecord};
use vkstash_store::maintenance;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};
use vkstash_store::stash::open::Stash;

const STEPS: &[(&str, Step)] =
    &[("work", work::step), ("calls", calls), ("killed", killed), ("twice", twice), ("parked", parked)];

/// The test driver, which says that it is lavapipe and gives cache data without pipelines.
fn test_driver(more: Value) -> Driver {
    let mut script = json!({ "cache_data": "header_only", "driver_id": 13 });
    script.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Driver::Test(script)
}

fn on_drivers(test: impl Fn(&Scenario, &Env)) {
    on(&[Driver::Lavapipe, test_driver(json!({}))], test);
}

fn on(drivers: &[Driver], test: impl Fn(&Scenario, &Env)) {
    scenario(STEPS, |scenario| {
        for (number, driver) in drivers.iter().enumerate() {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            // Nothing is made before the program asks: what is recorded is to be seen alone.
            let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
            test(scenario, &env.stash(scenario.folder().join(format!("stash-{number}"))));
        }
    });
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> child::Run<Done> {
    scenario.run_ok("work", env, work)
}

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &Work::default().device_options()).unwrap()
}

/// All records of a stash with one application, by kind; of the device parts together.
struct Records(BTreeMap<Kind, BTreeMap<Key, Vec<u8>>>);

impl Records {
    fn of(root: &Path) -> Records {
        let application = application(root);
        let name = AppName { display: application.display, folder: application.folder };
        let stash = Stash::open_patiently(root, &name).unwrap();
        let headers = application.parts.iter().filter_map(|part| part.device.as_ref());
        let devices = headers.map(|header| stash.device(header).unwrap());
        let mut records: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for part in devices.chain([stash.portable().clone()]) {
            for kind in Kind::ALL {
                part.for_each(kind, &mut |key, payload| {
                    records.entry(kind).or_default().insert(*key, payload.to_vec());
                });
            }
        }
        Records(records)
    }

    fn count(&self, kind: Kind) -> usize {
        self.0.get(&kind).map_or(0, BTreeMap::len)
    }

    fn keys(&self, kind: Kind) -> Vec<Key> {
        self.0.get(&kind).into_iter().flat_map(BTreeMap::keys).copied().collect()
    }

    /// The keys in the order of their first use.
    fn in_order_of_use(&self) -> Vec<Key> {
        let uses = self.0.get(&Kind::Use).into_iter().flatten();
        let mut uses: Vec<_> =
            uses.map(|(key, payload)| (UseRecord::decode(payload).unwrap().sequence, *key)).collect();
        uses.sort_unstable();
        uses.into_iter().map(|(_, key)| key).collect()
    }

    /// Modules and descriptions, which the same program writes once.
    fn descriptions(&self) -> BTreeMap<Kind, BTreeMap<Key, Vec<u8>>> {
        let described =
            [Kind::Module, Kind::Layout, Kind::RenderPass, Kind::Recipe, Kind::DeviceConfiguration];
        self.0.clone().into_iter().filter(|(kind, _)| described.contains(kind)).collect()
    }
}

fn application(root: &Path) -> ApplicationInfo {
    let [application] = list_applications(root).unwrap().try_into().unwrap();
    application
}

/// The number of records on disk, superseded ones included.
fn written(root: &Path, kind: Kind) -> u64 {
    application(root).parts.iter().filter_map(|part| part.records.get(kind.name())).sum()
}

/// There are recipes, uses and costs of so many pipelines, and nothing that could be served.
fn assert_recorded(records: &Records, count: usize) {
    let recipes = records.keys(Kind::Recipe);
    assert_eq!(recipes.len(), count);
    assert_eq!(records.keys(Kind::Use), recipes);
    assert_eq!(records.keys(Kind::Cost), recipes);
    for kind in [Kind::Artifact, Kind::Same, Kind::Verified] {
        assert_eq!(records.count(kind), 0, "{kind:?}");
    }
}

#[test]
fn one_run_leaves_recipes_modules_uses_and_costs_and_a_second_one_adds_nothing() {
    on_drivers(|scenario, env| {
        let kinds = [
            (Shader::Compute, Code::Module, 3, 0),
            (Shader::Compute, Code::Inline, 3, 0),
            (Shader::Specialized, Code::Module, 1, 0),
            (Shader::RenderPass, Code::Module, 4, 1),
            (Shader::DynamicRendering, Code::Module, 4, 0),
        ];
        for (shader, code, modules, passes) in kinds {
            let env = env.clone().stash(env.stash_folder().join(format!("{shader:?}-{code:?}")));
            let work = Work { shader, code, ..Work::default() };
            let first = run(scenario, &env, &work);
            assert!(first.value.all_made());
            let records = Records::of(&env.stash_folder());
            assert_recorded(&records, 3);
            assert_eq!(records.count(Kind::Module), modules, "{shader:?}");
            assert_eq!(records.count(Kind::RenderPass), passes, "{shader:?}");
            assert_eq!(records.count(Kind::Layout), 1);
            assert!(records.0[&Kind::Cost].values().all(|payload| payload.len() == 4));
            for again in 2..4 {
                let seen = run(scenario, &env, &work);
                let sum = |counter| seen.reports.sum(counter);
                assert_eq!((sum("compiled_unrecorded"), sum("nothing_kept"), sum("modules_new")), (3, 3, 0));
                for wrong in ["compiled", "served", "offered", "bypassed", "dropped", "not_taken"] {
                    assert_eq!(sum(wrong), 0, "{wrong}, run {again}");
                }
                let later = Records::of(&env.stash_folder());
                assert_recorded(&later, 3);
                assert_eq!(later.descriptions(), records.descriptions());
                for kind in
                    [Kind::Recipe, Kind::Module, Kind::Layout, Kind::RenderPass, Kind::DeviceConfiguration]
                {
                    assert_eq!(written(&env.stash_folder(), kind), records.count(kind) as u64, "{kind:?}");
                }
            }
        }
    });
}

#[test]
fn the_order_of_first_use_is_that_of_the_latest_run() {
    on_drivers(|scenario, env| {
        let of_one = |first| {
            let env = env.clone().stash(env.stash_folder().join(format!("only-{first}")));
            run(scenario, &env, &Work { first, count: 1, ..Work::default() });
            Records::of(&env.stash_folder()).keys(Kind::Recipe)[0]
        };
        let keys = [1, 2, 3].map(of_one);
        let env = env.clone().stash(env.stash_folder().join("all"));
        run(scenario, &env, &Work::default());
        assert_eq!(Records::of(&env.stash_folder()).in_order_of_use(), keys);
        // In the next run the third pipeline comes first.
        scenario.run_ok::<Value>("twice", &env, &json!([3, 1]));
        let [first, second, third] = keys;
        let order = Records::of(&env.stash_folder()).in_order_of_use();
        let place = |key| order.iter().position(|found| *found == key).unwrap();
        assert!(place(third) < place(first), "{order:?}");
        assert!(order.contains(&second));
    });
}

/// Creates single pipelines of these constants, one after the other, on one device.
fn twice(input: &Value) -> Value {
    let firsts: Vec<u32> = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    for first in firsts {
        assert!(Work { first, count: 1, ..Work::default() }.run(&device).all_made());
    }
    json!(null)
}

/// The driver's record: its calls without the threads, and the pipelines that lived.
fn calls(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let (done, [mut record, after]) = work.recorded();
    assert_eq!(after["violations"], json!([]));
    // The layer enumerates and asks before there is a device, and the size before the data of a cache (contract 4.8).
    let asks = |call: &Value| {
        let name = call["command"].as_str().unwrap_or_default();
        name.contains("Pipeline") && name != "vkGetPipelineCacheData"
    };
    let calls: Vec<_> =
        record["calls"].as_array().unwrap().iter().filter(|call| asks(call)).cloned().collect();
    json!({
        "done": done,
        "calls": calls,
        "violations": record["violations"].take(),
        "pipelines": record["pipelines"].take(),
        "compiles": record["compiles"].take(),
    })
}

#[test]
fn the_driver_gets_the_programs_own_calls() {
    on(&[test_driver(json!({})), test_driver(json!({ "cache_control": false }))], |scenario, env| {
        for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
            for (shader, flags2, code) in [
                (Shader::Compute, false, Code::Module),
                (Shader::Compute, true, Code::Inline),
                (Shader::RenderPass, false, Code::Module),
                (Shader::DynamicRendering, true, Code::Module),
            ] {
                let work = Work { shader, caches, flags2, code, feedback: true, ..Work::default() };
                let without = scenario.run_ok::<Value>("calls", &env.clone().without_layer(), &work).value;
                assert_eq!(without["violations"], json!([]));
                for _ in 0..2 {
                    let with = scenario.run_ok::<Value>("calls", env, &work).value;
                    assert_eq!(with, without, "{work:?}");
                }
            }
        }
    });
}

#[test]
fn a_program_gets_what_it_gets_without_the_layer() {
    on_drivers(|scenario, env| {
        for shader in [Shader::Compute, Shader::RenderPass, Shader::DynamicRendering] {
            for (caches, batch, derivatives) in
                [(Caches::None, 1, false), (Caches::Fresh, 3, true), (Caches::Shared, 2, false)]
            {
                for threads in [1, 3] {
                    let work = Work {
                        shader,
                        caches,
                        batch,
                        derivatives,
                        threads,
                        feedback: true,
                        ..Work::default()
                    };
                    let without = run(scenario, &env.clone().without_layer(), &work).value;
                    for _ in 0..2 {
                        assert_eq!(run(scenario, env, &work).value, without, "{work:?}");
                    }
                }
            }
        }
        // The flags of derivatives are part of a recipe.
        assert_recorded(&Records::of(&env.stash_folder()), 18);
    });
}

#[test]
fn requests_that_forbid_compiling_are_answered_by_the_driver_and_cost_nothing() {
    on_drivers(|scenario, env| {
        let work = Work { fail_on: true, ..Work::default() };
        let without = run(scenario, &env.clone().without_layer(), &work).value;
        assert_eq!(run(scenario, env, &work).value, without);
        assert_eq!(Records::of(&env.stash_folder()).count(Kind::Cost), 0);
    });
}

/// The driver does not say which one it is: the first compiles show that its caches keep nothing.
#[test]
fn compiles_that_leave_nothing_are_recorded_before_the_driver_is_known() {
    let driver = Driver::Test(json!({ "cache_data": "header_only" }));
    on(&[driver], |scenario, env| {
        for count in [7, 20] {
            let seen = run(scenario, env, &Work { count, ..Work::default() });
            assert_recorded(&Records::of(&env.stash_folder()), count as usize);
            assert_eq!(seen.reports.sum("compiled_unrecorded"), u64::from(count));
        }
    });
}

/// The driver has pipelines on its own disk. Nothing is recorded of them while background work is disabled, which alone
/// can use it.
#[test]
fn what_the_driver_had_leaves_its_recipe() {
    scenario(STEPS, |scenario| {
        let disk = scenario.folder().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let driver = Driver::Test(json!({ "disk_cache": true, "disk_cache_dir": disk }));
        let Some(env) = scenario.on(driver) else { return };
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
        let work = Work::default();
        run(scenario, &env.clone().without_layer(), &work);
        let disabled = env.clone().var("VKSTASH_BACKGROUND", "disabled");
        for (env, recipes) in [(&disabled, 0), (&env, 3), (&env, 3)] {
            let seen = run(scenario, env, &work);
            assert_eq!(seen.reports.sum("driver_had"), 3, "{:?}", seen.reports.counters());
            let records = Records::of(&env.stash_folder());
            assert_eq!(records.keys(Kind::Use), records.keys(Kind::Recipe));
            let kinds = [Kind::Recipe, Kind::Found, Kind::Artifact, Kind::Cost];
            assert_eq!(kinds.map(|kind| records.count(kind)), [recipes, recipes, 0, 0]);
            assert_eq!(written(&env.stash_folder(), Kind::Recipe), recipes as u64);
        }
    });
}

#[test]
fn a_driver_with_artifacts_gets_no_costs() {
    on(&[Driver::Radv, Driver::Test(json!({}))], |scenario, env| {
        for _ in 0..2 {
            run(scenario, env, &Work::default());
        }
        let records = Records::of(&env.stash_folder());
        assert_eq!((records.count(Kind::Recipe), records.count(Kind::Cost)), (3, 0));
    });
}

/// Creates pipelines, waits until they are recorded, and is killed.
fn killed(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    assert!(work.run(&device).all_made());
    let root = PathBuf::from(std::env::var_os("VKSTASH_DIR").unwrap());
    let started = Instant::now();
    let all_written = || {
        let all = list_applications(&root).unwrap();
        let parts = || all.iter().flat_map(|application| &application.parts);
        let count = |kind: &str| parts().filter_map(|part| part.records.get(kind)).sum::<u64>();
        ["recipe", "use", "cost"].into_iter().all(|kind| count(kind) >= u64::from(work.count))
    };
    while !all_written() && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    child::answer(&json!(null));
    // SAFETY: kill takes plain numbers; it ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("SIGKILL cannot be caught")
}

#[test]
fn what_a_killed_program_recorded_is_there() {
    on_drivers(|scenario, env| {
        let work = Work { count: 5, ..Work::default() };
        let outcome = scenario.run("killed", env, &work);
        assert_eq!(outcome.signal(), Some(libc::SIGKILL), "{}", outcome.ending());
        assert_recorded(&Records::of(&env.stash_folder()), 5);
        run(scenario, env, &work);
        assert_recorded(&Records::of(&env.stash_folder()), 5);
        assert_eq!(written(&env.stash_folder(), Kind::Recipe), 5);
    });
}

#[test]
fn without_background_work_nothing_is_recorded() {
    on_drivers(|scenario, env| {
        for value in ["disabled", "profiling"] {
            let disabled = env.clone().var("VKSTASH_BACKGROUND", value);
            for shader in [Shader::Compute, Shader::RenderPass] {
                let work = Work { shader, ..Work::default() };
                let seen = run(scenario, &disabled, &work);
                assert_eq!(seen.reports.sum("compiled_unrecorded"), 3);
                assert_eq!(seen.reports.sum("modules"), 0, "modules are not hashed");
            }
            let all = application(&env.stash_folder());
            assert!(all.parts.iter().all(|part| part.records.is_empty()), "{:?}", all.parts);
        }
        let root = env.stash_folder();
        for mode in ["disabled", "profiling"] {
            configure(&root, &format!("background = '{mode}'\n"));
            let seen = run(scenario, env, &Work::default());
            let counts = ["compiled_unrecorded", "modules"].map(|name| seen.reports.sum(name));
            assert_eq!(counts, [3, 0], "{mode} is stored");
            let all = application(&root);
            assert!(all.parts.iter().all(|part| part.records.is_empty()), "{:?}", all.parts);
        }
        // What was recorded before stays. The environment comes before the settings, and the application's before that
        // of all.
        run(
            scenario,
            &env.clone().var("VKSTASH_BACKGROUND", "allowed"),
            &Work { count: 1, ..Work::default() },
        );
        let folder = application(&root).folder;
        let allowed = format!("background = 'profiling'\n[application.{folder}]\nbackground = 'allowed'\n");
        configure(&root, &allowed);
        run(scenario, env, &Work::default());
        run(
            scenario,
            &env.clone().var("VKSTASH_BACKGROUND", "disabled"),
            &Work { first: 7, ..Work::default() },
        );
        assert_recorded(&Records::of(&env.stash_folder()), 3);
    });
}

/// What is evicted is gone when segments are merged, which takes four of a size.
#[test]
fn the_module_policy_applies_to_modules_and_descriptions_stay() {
    on_drivers(|scenario, env| {
        for (policy, modules) in [("all", 12), ("1", 3), ("none", 0)] {
            let env = env.clone().stash(env.stash_folder().join(policy));
            let root = env.stash_folder();
            for first in [1, 100, 200, 300] {
                run(scenario, &env, &Work { first, ..Work::default() });
            }
            configure(&root, &format!("modules = '{policy}'\n"));
            maintenance::run(&root, recipe::modules_of).unwrap();
            let records = Records::of(&root);
            assert_recorded(&records, 12);
            assert_eq!(records.count(Kind::Module), modules, "{policy}");
            // The program passes the code again.
            let seen = run(scenario, &env, &Work::default());
            assert_eq!(seen.reports.sum("modules_new"), if policy == "all" { 0 } else { 3 }, "{policy}");
        }
    });
}

/// The driver takes 100 times as long from the second run on.
#[test]
fn a_cost_is_replaced_when_it_has_changed_and_once_in_a_run() {
    scenario(STEPS, |scenario| {
        let with = |compile_us: u64| {
            let driver = test_driver(json!({ "compile_us": compile_us }));
            let env = scenario.on(driver)?.var("VKSTASH_BACKGROUND_WORKERS", "0");
            Some(env.stash(scenario.folder().join("stash")))
        };
        let (Some(fast), Some(slow)) = (with(20_000), with(2_000_000)) else { return };
        let cost = || {
            let records = Records::of(&fast.stash_folder());
            let [payload] = records.0[&Kind::Cost].values().collect::<Vec<_>>().try_into().unwrap();
            u32::from_le_bytes(payload.as_slice().try_into().unwrap())
        };
        scenario.run_ok::<Value>("twice", &fast, &json!([1, 1, 1]));
        let first = cost();
        assert!(first >= 20_000, "{first}");
        assert_eq!(written(&fast.stash_folder(), Kind::Cost), 1);
        scenario.run_ok::<Value>("twice", &slow, &json!([1, 1]));
        assert!(cost() >= 2_000_000, "{} after {first}", cost());
        assert_eq!(written(&fast.stash_folder(), Kind::Cost), 2);
    });
}

/// Creates a device, and one module, with which workers begin; gives them time; then asks for the pipeline.
fn parked(input: &Value) -> Value {
    let device = Arc::new(device());
    device.module(&spirv::compute(u32::MAX));
    std::thread::sleep(Duration::from_millis(input.as_u64().unwrap()));
    assert!(Work { count: 1, ..Work::default() }.run(&device).all_made());
    Value::Null
}

/// The machine was busy when the first run compiled. A worker compiles in a small part of that time.
#[test]
fn a_cost_is_lowered_by_the_compile_of_a_worker() {
    scenario(STEPS, |scenario| {
        let with = |compile_us: u64, workers: &str| {
            let driver = test_driver(json!({ "compile_us": compile_us }));
            let env = scenario.on(driver)?.var("VKSTASH_BACKGROUND_WORKERS", workers);
            Some(env.stash(scenario.folder().join("stash")))
        };
        let (Some(slow), Some(fast)) = (with(1_000_000, "0"), with(0, "1")) else { return };
        run(scenario, &slow, &Work { count: 1, ..Work::default() });
        let cost = || {
            let records = Records::of(&fast.stash_folder());
            let [payload] = records.0[&Kind::Cost].values().collect::<Vec<_>>().try_into().unwrap();
            u32::from_le_bytes(payload.as_slice().try_into().unwrap())
        };
        let first = cost();
        assert!(first >= 1_000_000, "{first}");
        for wait_ms in [300, 1_000, 4_000, 16_000] {
            let seen = scenario.run_ok::<Value>("parked", &fast, &json!(wait_ms));
            if seen.reports.sum("parked") == 1 {
                let saved = seen.reports.sum("saved_ns");
                assert!(saved < u64::from(first) * 500, "{saved} ns saved, {first} us before");
                assert!(cost() < first / 2, "{} us, {first} before", cost());
                return;
            }
        }
        panic!("nothing was parked");
    });
}
