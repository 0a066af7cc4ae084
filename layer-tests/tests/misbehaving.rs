//! Drivers that break the contract as real ones do: in each habit, with workers and without, the program gets what it
//! gets without the layer, and no memory of anybody's is overwritten. The layer's own buffers stand between guard words
//! in a debug build.
//!
//! A default script of the test driver misbehaves wherever a correct caller notices nothing, so all suites run on such
//! drivers.

use std::path::PathBuf;

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::parked::{late, run_parked, traced, until_parked, with_parking};
use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Caches, Done, Work};
use vkstash_model::record::Kind;
use vkstash_store::stash::inspect::list_applications;

const STEPS: &[(&str, Step)] =
    &[("program", program), ("saver", saver), ("empty", empty), ("work", work::step), ("late", late)];

/// Pipelines of a program.
const COUNT: u32 = 4;
/// Bytes by which a size that was told may be too large (src/serve/complete_data.rs).
const PADDING: usize = 64;
/// No cache has more data.
const MOST: usize = 1 << 14;

/// A misbehaviour, with the driver of which it was seen.
struct Case {
    name: &'static str,
    script: Value,
    /// The driver's cache data holds pipelines, and it takes them back.
    keeps: bool,
    /// The driver writes more than a short buffer has room for.
    overruns: bool,
}

fn drivers() -> Vec<Case> {
    let of = |name, script, keeps, overruns| Case { name, script, keeps, overruns };
    vec![
        of("keeps to the contract", json!({ "overruns": false, "counts_entries": false }), true, false),
        of("NVIDIA 580.159: all data where none fits", json!({ "counts_entries": false }), true, true),
        of("RADV 25.0: empty data of 36 bytes", json!({ "overruns": false }), true, false),
        of("header only", json!({ "cache_data": "header_only", "counts_entries": false }), false, false),
        of("header and a count of 0", json!({ "cache_data": "header_only" }), false, false),
        of("0 bytes", json!({ "cache_data": "empty" }), false, false),
        of("a size left alone", json!({ "cache_data": "size_untouched" }), false, false),
        of("no data but an error", json!({ "cache_data": "error" }), false, false),
        of("lavapipe: COMPILE_REQUIRED for what it has", json!({ "denies": true }), false, true),
    ]
}

#[derive(Serialize, Deserialize)]
struct Program {
    caches: Caches,
    initial: Vec<u8>,
    /// A trace, and the pipelines that workers are to have parked before the first creation.
    parked: Option<(PathBuf, u64)>,
}

/// An answer to vkGetPipelineCacheData.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Read {
    room: usize,
    result: i32,
    size: usize,
    /// Of the data.
    digest: [u8; 32],
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    results: Vec<i32>,
    reads: Vec<Read>,
    /// The last whole data, which the program would keep in a file.
    kept: Vec<u8>,
    /// More was written than there was room for.
    overrun: bool,
    violations: Value,
}

/// Creates pipelines, and asks for the data of their cache after each of them, with buffers of all kinds.
fn program(input: &Value) -> Value {
    let Program { caches, initial, parked } = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let options = Work { cache_control: true, ..Work::default() }.device_options();
    let device = Device::new(&instance, &options).unwrap();
    if let Some((trace, count)) = parked {
        until_parked(&json!(trace), count);
    }
    let mut seen = Seen::default();
    let shared = (caches == Caches::Shared).then(|| device.cache(&initial));
    for first in 1..=COUNT {
        let fresh = (caches == Caches::Fresh).then(|| device.cache(&[]));
        let cache = shared.or(fresh);
        let work = Work { first, count: 1, ..Work::default() };
        seen.results.extend(work.run_through(&device, cache.unwrap_or_default()).results);
        if let Some(cache) = cache {
            read_in_every_way(&device, cache, &mut seen);
        }
        fresh.into_iter().for_each(|cache| device.destroy_cache(cache));
    }
    shared.into_iter().for_each(|cache| device.destroy_cache(cache));
    drop(device);
    seen.violations = driver.take_record()["violations"].take();
    serde_json::to_value(seen).unwrap()
}

fn read_in_every_way(device: &Device, cache: vk::PipelineCache, seen: &mut Seen) {
    let get = |size: &mut usize, data: *mut u8| {
        // SAFETY: a live cache; NULL, or a buffer that is larger than everything that the driver has.
        unsafe {
            let get = device.raw.fp_v1_0().get_pipeline_cache_data;
            get(device.raw.handle(), cache, size, data.cast()).as_raw()
        }
    };
    let mut full = 0;
    let result = get(&mut full, std::ptr::null_mut());
    // A program that has a file may be told some bytes more than the data has.
    let (mut exact, mut buffer) = (full, vec![0; 2 * MOST]);
    if get(&mut exact, buffer.as_mut_ptr()) == 0 && full - exact <= PADDING {
        full = exact;
    }
    seen.reads.push(Read { room: usize::MAX, result, size: full, digest: [0; 32] });
    assert!(full < MOST);
    for room in [full, full + 100, 0, 31, 32, 35, 36, 47, 48, 100, full / 2, full.saturating_sub(1)] {
        let mut buffer = vec![0xaa; 2 * MOST];
        let mut size = room;
        let result = get(&mut size, buffer.as_mut_ptr());
        seen.overrun |= buffer[room..].iter().any(|byte| *byte != 0xaa);
        let data = &buffer[..size.min(room)];
        seen.reads.push(Read { room, result, size, digest: Sha256::digest(data).into() });
        if result == 0 {
            seen.kept = data.to_vec();
        }
    }
}

/// The artifacts that were ever written.
fn artifacts(env: &Env) -> u64 {
    let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    application.parts.iter().filter_map(|part| part.records.get(Kind::Artifact.name())).sum()
}

/// A program that loads what it has kept, or none: three runs, with and without the layer.
fn three_runs(scenario: &Scenario, env: &Env, driver: &Case, caches: Caches, loads: bool, parks: bool) {
    let case = format!("{}, {caches:?}, loads {loads}, parks {parks}", driver.name);
    let run = |env: &Env, initial: &[u8], parked| -> Run<Seen> {
        scenario.run_ok("program", env, &Program { caches, initial: initial.to_vec(), parked })
    };
    let mut initial = Vec::new();
    for number in 1..=3 {
        let without = run(&env.clone().without_layer(), &initial, None);
        assert_eq!(without.value.overrun, driver.overruns && caches != Caches::None, "{case}: the driver");
        // What is parked has been served once before, and a loaded cache has all of it.
        let (env, trace) = traced(scenario, env);
        let waits = parks && driver.keeps && !loads && number == 3;
        let with = run(&env, &initial, waits.then(|| (trace, u64::from(COUNT))));
        let counters = with.reports.counters();
        let expected = Seen { overrun: false, ..without.value };
        assert_eq!(with.value, expected, "{case}, run {number}: {counters:?} {}", with.stderr);
        assert!(!with.stderr.contains("panicked"), "{case}: {}", with.stderr);
        if waits {
            assert_eq!(with.reports.sum("parked"), u64::from(COUNT), "{case}: {counters:?}");
        } else if driver.keeps && !loads && number > 1 && !parks {
            assert_eq!(with.reports.sum("served"), u64::from(COUNT), "{case}: {counters:?}");
        }
        if loads {
            initial = expected.kept;
        }
    }
    let recorded = artifacts(env);
    assert_eq!(recorded > 0, driver.keeps || driver.name.starts_with("lavapipe"), "{case}: {recorded}");
}

fn on_misbehaving_drivers(caches: Caches, loads: bool) {
    scenario(STEPS, |scenario| {
        for (number, driver) in drivers().iter().enumerate() {
            let env = scenario.on(Driver::Test(driver.script.clone())).unwrap();
            for parks in [false, true] {
                let env = env.clone().stash(scenario.folder().join(format!("stash {number} {parks}")));
                let env = if parks { with_parking(&env) } else { env.var("VKSTASH_BACKGROUND_WORKERS", "0") };
                three_runs(scenario, &env, driver, caches, loads, parks);
            }
        }
    });
}

#[test]
fn no_cache() {
    on_misbehaving_drivers(Caches::None, false);
}

#[test]
fn a_fresh_cache_for_each_pipeline() {
    on_misbehaving_drivers(Caches::Fresh, false);
}

#[test]
fn one_cache_for_all() {
    on_misbehaving_drivers(Caches::Shared, false);
}

#[test]
fn a_loaded_cache() {
    on_misbehaving_drivers(Caches::Shared, true);
}

/// Saves a cache's data again and again while another thread creates a pipeline with the cache, for which the driver
/// waits. Says whether more was written than there was room for.
fn saver(input: &Value) -> Value {
    let file: PathBuf = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &Work::default().device_options()).unwrap();
    let cache = device.cache(&[]);
    let create = || Work { first: SLOW, count: 1, ..Work::default() }.run_through(&device, cache).results;
    let driver = TestDriver::open();
    let begun = || {
        let record = driver.take_record();
        record["calls"].as_array().unwrap().iter().any(|call| call["command"] == "vkCreateComputePipelines")
    };
    let overrun = std::thread::scope(|scope| {
        let creation = scope.spawn(create);
        // A call that begins between the layer's questions would not be noticed (docs/process.md).
        until("the creation is under way", begun);
        let (mut overrun, mut last, mut grown) = (false, 0, 0);
        while grown < 5 {
            let get = device.raw.fp_v1_0().get_pipeline_cache_data;
            let mut size = 0;
            // SAFETY: a live cache, and NULL.
            let result = unsafe { get(device.raw.handle(), cache, &mut size, std::ptr::null_mut()) };
            assert_eq!(result, vk::Result::SUCCESS);
            let (room, mut buffer) = (size, vec![0xaa_u8; 1 << 16]);
            // SAFETY: a live cache, and a buffer that is larger than everything that the driver has.
            let result = unsafe { get(device.raw.handle(), cache, &mut size, buffer.as_mut_ptr().cast()) };
            assert!(result.as_raw() >= 0 && size <= room, "{result} {size} {room}");
            overrun |= buffer[room..].iter().any(|byte| *byte != 0xaa);
            grown += u32::from(room > last && last > 0);
            last = room;
        }
        std::fs::write(&file, []).unwrap();
        assert_eq!(creation.join().unwrap(), [0]);
        overrun
    });
    device.destroy_cache(cache);
    json!(overrun)
}

/// The constant of the pipeline for which the driver waits.
const SLOW: u32 = 0x51_0e;

#[test]
fn a_cache_that_grows_between_size_and_data() {
    scenario(STEPS, |scenario| {
        let file = scenario.folder().join("go on");
        let fault = json!({ "command": "vkCreateComputePipelines", "word": SLOW, "until": file });
        let script = json!({ "grows_in_use": true, "faults": [fault] });
        let env = scenario.on(Driver::Test(script)).unwrap().var("VKSTASH_BACKGROUND_WORKERS", "0");
        for (env, expected) in [(env.clone().without_layer(), true), (env, false)] {
            let saved = scenario.run_ok::<bool>("saver", &env, &file);
            assert_eq!(saved.value, expected, "{}", saved.stderr);
            std::fs::remove_file(&file).unwrap();
        }
    });
}

/// The data of an empty cache.
fn empty(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &Work::default().device_options()).unwrap();
    let cache = device.cache(&[]);
    let data = device.cache_data(cache);
    device.destroy_cache(cache);
    json!(data)
}

#[test]
fn a_cache_that_is_loaded_with_empty_data_is_empty() {
    scenario(STEPS, |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv] {
            let Some(env) = scenario.on(driver) else { continue };
            let initial_data = scenario.run_ok::<Vec<u8>>("empty", &env.clone().without_layer(), &()).value;
            assert_eq!(initial_data.len(), 36);
            let stash = scenario.folder().join(env.driver().name());
            let env = env.stash(stash);
            let work = Work { count: COUNT, caches: Caches::Shared, initial_data, ..Work::default() };
            for _ in 0..2 {
                assert!(scenario.run_ok::<Done>("work", &env, &work).value.all_made());
            }
            let third = run_parked(scenario, &with_parking(&env), &work, u64::from(COUNT));
            assert_eq!(third.reports.sum("parked"), u64::from(COUNT), "{:?}", third.reports.counters());
        }
    });
}
