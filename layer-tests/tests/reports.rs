//! Reports of runs contain all counts, however the program ends.

use std::ffi::c_void;
use std::fs;
use std::path::PathBuf;
use std::ptr;
use std::time::{Duration, Instant};

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{self, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::{PATIENCE, own_threads};
use vkstash_layer_tests::work::Work;
use vkstash_model::variables;
use vkstash_store::reports::totals::Totals;
use vkstash_store::stash::inspect::list_applications;

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions::default()).unwrap()
}

/// What a program does before it ends abruptly.
#[derive(Clone, Serialize, Deserialize)]
struct Killed {
    work: Work,
    /// The number of pipelines that the report must contain by then, with any outcome.
    count: u64,
    /// Whether the process ends by SIGKILL; otherwise by `_exit`.
    kill: bool,
}

fn asked(reports: &Reports) -> u64 {
    let all = ["served", "driver_had", "compiled", "compiled_unrecorded", "compile_required", "bypassed"];
    all.iter().map(|counter| reports.sum(counter)).sum()
}

/// This process's report for its parent, and the one in the stash.
fn own_reports() -> [Reports; 2] {
    let folder = |name| PathBuf::from(std::env::var_os(name).unwrap());
    let applications = fs::read_dir(folder(variables::DIR)).into_iter().flatten().flatten();
    let in_stash = applications.flat_map(|entry| Reports::read(&entry.path().join("runs")).0);
    let mine = in_stash.filter(|report| report.pid == std::process::id()).collect();
    [Reports::read(&folder(variables::REPORT)), Reports(mine)]
}

/// Creates pipelines twice, with a pause, waits for the report, and is killed.
fn killed(input: &Value) -> Value {
    let Killed { work, count, kill } = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    let before = own_threads();
    work.run(&device);
    // By now everything is recorded, so only the counts cause another report.
    std::thread::sleep(Duration::from_millis(300));
    work.run(&device);
    let started = Instant::now();
    // The two files are written one after the other.
    while own_reports().iter().any(|report| asked(report) < count) && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    child::answer(&json!(before));
    // SAFETY: kill and _exit take plain numbers; they end the process.
    unsafe {
        if kill {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        libc::_exit(0)
    }
}

/// The totals of all runs in the stash.
fn totals(env: &Env) -> Totals {
    let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    application.runs
}

fn total(totals: &Totals, counter: &str) -> u64 {
    totals.devices.iter().filter_map(|device| device.counters.get(counter)).sum()
}

/// Both reports of a program that ends abruptly contain its counts.
fn assert_reported(scenario: &Scenario, env: &Env, work: &Work, counter: &str) {
    for (number, kill) in [true, false].into_iter().enumerate() {
        let env = env.clone().report(scenario.folder().join(format!("{counter}-{number}")));
        let count = 2 * u64::from(work.count);
        let outcome = scenario.run("killed", &env, &Killed { work: work.clone(), count, kill });
        assert_eq!(outcome.signal(), kill.then_some(libc::SIGKILL), "{}", outcome.ending());
        assert_eq!(outcome.value, json!([]), "a thread before the first pipeline");
        assert_eq!(outcome.reports.0.len(), 1, "{}", outcome.ending());
        assert_eq!(outcome.reports.sum(counter), count, "{:?}", outcome.reports);
        let runs = totals(&env);
        assert_eq!(runs.runs, number as u64 + 1);
        assert_eq!(total(&runs, counter), count * runs.runs, "{runs:?}");
        let program = std::env::current_exe().unwrap();
        assert_eq!(Some(program.to_string_lossy().into_owned()), runs.last.map(|run| run.program));
    }
}

#[test]
fn a_killed_program_on_a_driver_without_cache_data_is_reported() {
    for driver in [Driver::Lavapipe, Driver::Test(json!({ "cache_data": "header_only" }))] {
        scenario(&[("killed", killed)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            let work = Work { count: 12, ..Work::default() };
            assert_reported(scenario, &env, &work, "compiled_unrecorded");
            let runs = totals(&env);
            assert!(total(&runs, "nothing_kept") > 0, "{runs:?}");
            assert!(total(&runs, "compile_ns") > 0, "{runs:?}");
        });
    }
}

#[test]
fn a_killed_program_whose_pipelines_are_all_bypassed_is_reported() {
    for driver in [Driver::Radv, Driver::Test(json!({}))] {
        scenario(&[("killed", killed)], |scenario| {
            let Some(env) = scenario.on(driver) else { return };
            let work = Work { unknown_structure: true, ..Work::default() };
            assert_reported(scenario, &env, &work, "bypassed");
        });
    }
}

/// Several devices of one program, one after the other.
fn devices_in_turn(input: &Value) -> Value {
    let count = input.as_u64().unwrap();
    let made = |_| Work::default().run(&device()).all_made();
    json!((0..count).map(made).collect::<Vec<_>>())
}

#[test]
fn a_process_with_several_devices_is_one_run() {
    for driver in [Driver::Radv, Driver::Lavapipe] {
        scenario(&[("devices", devices_in_turn)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            for run in 1..=2 {
                let outcome = scenario.run_ok::<Vec<bool>>("devices", &env, &4);
                assert_eq!(outcome.value, [true; 4]);
                let [report] = outcome.reports.0.as_slice() else { panic!("{:?}", outcome.reports) };
                assert_eq!(report.devices.len(), 1, "{report:?}");
                assert_eq!(asked(&outcome.reports), 12, "{report:?}");
                let runs = totals(&env);
                assert_eq!(runs.runs, run, "{runs:?}");
                let counted =
                    total(&runs, "served") + total(&runs, "compiled") + total(&runs, "compiled_unrecorded");
                assert_eq!(counted, 12 * run, "{runs:?}");
                if driver == Driver::Radv && run == 1 {
                    // Each device's store wrote records, and the report counts all of them.
                    let (all, last) = (&report.store, outcome.reports.store());
                    assert_eq!(all, &last);
                    assert_eq!(total(&runs, "compiled"), 3, "{runs:?}");
                    assert!(all.written_records >= 10, "{all:?}");
                }
            }
        });
    }
}

/// Creates the same pipelines repeatedly on one device.
fn again_and_again(input: &Value) -> Value {
    let device = device();
    let times = input.as_u64().unwrap();
    json!((0..times).all(|_| Work { count: 2, ..Work::default() }.run(&device).all_made()))
}

/// A driver compiles once what a program requests many times, and has it in memory then.
#[test]
fn a_pipeline_that_is_requested_often_counts_as_saved_once() {
    scenario(&[("again", again_and_again)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({ "compile_us": 300_000 }))) else { return };
        let run = |times: u64| scenario.run_ok::<bool>("again", &env, &times).reports;
        let cold = run(3);
        assert_eq!((cold.sum("compiled"), cold.sum("saved_ns")), (2, 0), "{cold:?}");
        let compiled = cold.sum("compile_ns");
        for times in [1, 50] {
            let warm = run(times);
            assert_eq!(warm.sum("served"), 2 * times, "{warm:?}");
            let saved = warm.sum("saved_ns");
            assert!(saved > 0 && saved <= compiled, "{times}: {saved} of {compiled}");
        }
    });
}

/// A compute pipeline with these flags, and this structure in its chain.
fn make_compute(flags: vk::PipelineCreateFlags, structure: *const c_void) -> Value {
    let device = device();
    let stage = vk::PipelineShaderStageCreateInfo {
        stage: vk::ShaderStageFlags::COMPUTE,
        module: device.module(&spirv::compute(1)),
        p_name: c"main".as_ptr(),
        ..Default::default()
    };
    let info = vk::ComputePipelineCreateInfo {
        p_next: structure,
        flags,
        stage,
        layout: device.compute_layout(),
        ..Default::default()
    };
    // SAFETY: a create info with live objects; the test driver ignores the flag and the structure.
    let (result, _) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
    json!(result.as_raw())
}

/// A flag without a structure.
fn captures_for_replay(_: &Value) -> Value {
    let flag = vk::PipelineCreateFlags::RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_KHR;
    make_compute(flag, ptr::null())
}

/// VkCustomResolveCreateInfoEXT, which the bindings lack and which does not belong to compute pipelines.
fn resolves_by_itself(_: &Value) -> Value {
    let structure = vk::BaseInStructure {
        s_type: vk::StructureType::from_raw(1_000_628_002),
        ..vk::BaseInStructure::default()
    };
    make_compute(vk::PipelineCreateFlags::empty(), (&raw const structure).cast())
}

#[test]
fn a_bypass_names_a_structure_that_is_newer_than_the_bindings() {
    scenario(&[("step", resolves_by_itself)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let outcome = scenario.run_ok::<i32>("step", &env, &());
        assert_eq!(outcome.value, 0);
        let line = "a pipeline bypasses the stash: unknown_structure (VkCustomResolveCreateInfoEXT);";
        assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
    });
}

#[test]
fn a_bypass_without_a_structure_blames_none() {
    scenario(&[("step", captures_for_replay)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let outcome = scenario.run_ok::<i32>("step", &env.var("VKSTASH_LOG", "info"), &());
        assert_eq!(outcome.value, 0);
        let bypassed = outcome.reports.bypassed();
        assert_eq!((bypassed[0].reason.as_str(), bypassed[0].s_type), ("not_cacheable", 0));
        let told: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("bypasses")).collect();
        assert!(told[0].ends_with("a pipeline bypasses the stash: not_cacheable"), "{told:?}");
    });
}
