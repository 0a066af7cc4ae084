//! Tests of the waits of a program's thread for the layer: while the stash is opened, and in vkDestroyDevice and
//! vkDestroyInstance.
//!
//! The tests compare amounts of work, not times. To print times:
//! `cargo test --release -p vkstash-layer-tests --test layer waits:: -- --ignored --nocapture`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::folder;
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::suite::files;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions};
use vkstash_layer_tests::work::Work;

/// What one process measured about itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// Bytes that the whole process read during its first module and pipeline.
    read_at_first: u64,
    /// Duration of the first module and pipeline in milliseconds.
    first_ms: f64,
    /// Duration of the same call again, when the stash is open.
    second_ms: f64,
    /// Bytes that the whole process read and wrote from there to the end of vkDestroyInstance.
    read_at_end: u64,
    written_at_end: u64,
    /// Durations of vkDestroyDevice and vkDestroyInstance.
    device_ms: f64,
    instance_ms: f64,
}

/// A counter of the kernel, in bytes. None if the kernel keeps no such counter or does not show it.
fn io_if_there(of: &str, counter: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{of}/io")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(counter)?.strip_prefix(": "))?;
    line.trim().parse().ok()
}

fn io(of: &str, counter: &str) -> u64 {
    io_if_there(of, counter).expect("the counters that the test has found before")
}

/// Whether the tests can see how much is read and written. If not, prints that the test is skipped.
fn sees_io(scenario: &Scenario) -> bool {
    let counters = [("self", "rchar"), ("self", "wchar")];
    let sees = counters.iter().all(|(of, counter)| io_if_there(of, counter).is_some());
    if !sees {
        scenario.not_here("/proc shows no counters of what is read and written");
    }
    sees
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A program that makes one pipeline, then the others, and ends in an orderly way.
fn program(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let mut seen = Seen::default();
    let one = Work { count: 1, ..work.clone() };
    let (before, began) = (io("self", "rchar"), Instant::now());
    one.run(&device);
    seen.first_ms = ms(began);
    seen.read_at_first = io("self", "rchar") - before;
    let began = Instant::now();
    one.run(&device);
    seen.second_ms = ms(began);
    let rest = Work { first: work.first + 1, count: work.count - 1, ..work };
    let done = rest.run(&device);
    assert!(done.all_made(), "{:?}", done.results);
    let raw = device.leave();
    let (read, written) = (io("self", "rchar"), io("self", "wchar"));
    let began = Instant::now();
    // SAFETY: the device's objects are destroyed, and `raw` is the last owner of the handle.
    unsafe { raw.destroy_device(None) };
    seen.device_ms = ms(began);
    let began = Instant::now();
    drop(Arc::into_inner(instance).expect("the last reference"));
    seen.instance_ms = ms(began);
    (seen.read_at_end, seen.written_at_end) = (io("self", "rchar") - read, io("self", "wchar") - written);
    serde_json::to_value(&seen).unwrap()
}

/// The counters of a run's report that the tests compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Reported {
    served: u64,
    compiled: u64,
    written: u64,
}

impl Reported {
    fn of(reports: &Reports) -> Reported {
        let (served, compiled) = (reports.sum("served"), reports.sum("compiled"));
        Reported { served, compiled, written: reports.store().written_records }
    }
}

/// A program that does its work on two devices, one after the other, and then lives on until its report has the
/// expected counters or `PATIENCE` is over.
fn living_program(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input["work"].clone()).unwrap();
    let expected: Option<Reported> = serde_json::from_value(input["expected"].clone()).unwrap();
    one_device(&work);
    one_device(&Work { first: work.first + work.count, ..work });
    let folder = PathBuf::from(std::env::var_os("VKSTASH_REPORT").unwrap());
    let began = Instant::now();
    loop {
        let reported = Reported::of(&Reports::read(&folder));
        // The second device writes again what both devices need and what is not on the disk yet.
        let enough = expected.is_none_or(|expected| {
            Reported { written: reported.written.min(expected.written), ..reported } == expected
        });
        if enough || began.elapsed() > PATIENCE {
            return serde_json::to_value(reported).unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn one_device(work: &Work) {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    assert!(work.run(&device).all_made());
}

fn run(scenario: &Scenario, env: &Env, work: &Work) -> Run<Seen> {
    scenario.run_ok("program", env, &json!({ "work": work }))
}

/// The limits that a user has: the test suites set longer ones.
fn as_usual(env: &Env) -> Env {
    env.clone().without_var(OPEN_MS).without_var(END_MS)
}

/// The segments of one part of a stash.
fn segments(stash: &Path, part: &str) -> Vec<PathBuf> {
    let of_part = |path: &PathBuf| {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        folder.to_string_lossy().starts_with(part)
    };
    files(stash, ".vks").into_iter().filter(of_part).collect()
}

/// Extends every file to that length with a hole. False if this file system has no sparse files.
fn lengthen(files: &[PathBuf], length: u64) -> bool {
    files.iter().all(|path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        let done = file.set_len(length).is_ok();
        done && file.metadata().unwrap().blocks() < 1 << 20
    })
}

/// Copies a part's only segment several times, as if so many processes had written the same records.
fn add_copies(stash: &Path, part: &str) {
    let [segment] = segments(stash, part).try_into().unwrap();
    for number in 0..COPIES {
        let name = format!("{number:016x}-00000001-0000000000000001.vks");
        fs::copy(&segment, segment.with_file_name(name)).unwrap();
    }
}

/// After this time the test gives up. No test measures with this value.
const PATIENCE: Duration = Duration::from_secs(300);
const OPEN_MS: &str = "VKSTASH_OPEN_MS";
const END_MS: &str = "VKSTASH_END_MS";
const TAIL: u64 = 64 << 30;
/// Enough copies that a merge is due, and too few for an urgent merge.
const COPIES: usize = 12;

/// However early the program stops waiting, the layer writes everything while the program lives, and the report says
/// so.
#[test]
fn a_program_that_does_not_wait_still_gets_its_records_written() {
    scenario(&[("program", living_program)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: 20, ..Work::default() };
        let run = |env: &Env, expected: Option<Reported>| -> Run<Reported> {
            scenario.run_ok("program", env, &json!({ "work": &work, "expected": expected }))
        };
        // The suites let a program wait, so the report is complete when the program's devices are destroyed.
        let [cold, warm] = [(); 2].map(|()| Reported::of(&run(&env, None).reports));
        assert_eq!((cold.compiled, warm.served), (40, 40), "{cold:?} {warm:?}");
        // What is served depends on the time for opening, which stays long.
        let ends = [("usual", env.clone().without_var(END_MS)), ("hurried", env.clone().var(END_MS, "0"))];
        for (name, env) in ends {
            let env = env.stash(scenario.folder().join(name));
            for expected in [cold, warm] {
                let seen = run(&env, Some(expected));
                let of = |reported: Reported| (reported.served, reported.compiled);
                assert_eq!(of(seen.value), of(expected), "{name}: {}", seen.stderr);
                assert!(seen.value.written >= expected.written, "{name}: {:?} {expected:?}", seen.value);
                // The program may have written more since that report.
                let ended = Reported::of(&seen.reports);
                assert_eq!(of(ended), of(expected), "{name}: as it was when it ended");
                assert!(ended.written >= seen.value.written, "{name}: {ended:?} {:?}", seen.value);
            }
        }
    });
}

#[test]
fn a_long_hole_at_the_end_of_a_segment_is_never_read() {
    scenario(&[("program", program)], |scenario| {
        if !sees_io(scenario) {
            return;
        }
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: 20, ..Work::default() };
        run(scenario, &env, &work);
        let usual = run(scenario, &env, &work).value;
        assert!(usual.read_at_first > 0 && usual.written_at_end > 0, "what is seen at all: {usual:?}");
        let stash = env.stash_folder();
        if !lengthen(&files(&stash, ".vks"), TAIL) {
            return scenario.not_here("no files with holes here");
        }
        let seen = run(scenario, &env, &work);
        let much = 8 << 20;
        assert!(seen.value.read_at_first < usual.read_at_first + much, "{seen:?} {usual:?}");
        assert!(seen.value.read_at_end < usual.read_at_end + much, "{seen:?} {usual:?}");
        assert!(seen.value.written_at_end < much, "{seen:?}");
        let counters = seen.reports.counters();
        assert_eq!(seen.reports.sum("served"), 21, "what stands before it is found: {counters:?}");
    });
}

/// Moves the segments of several processes into one stash: one segment of each process in each part. No record is in
/// two segments, so a merge has to copy every byte.
fn stash_of_many_processes(scenario: &Scenario, env: &Env, work: &Work) -> PathBuf {
    let folder = |number: usize| scenario.folder().join(format!("process-{number}"));
    for number in 0..=COPIES {
        let first = work.first + number as u32 * work.count;
        run(scenario, &env.clone().stash(folder(number)), &Work { first, ..work.clone() });
    }
    let stash = folder(0);
    for number in 1..=COPIES {
        for segment in files(&folder(number), ".vks") {
            fs::rename(&segment, stash.join(segment.strip_prefix(folder(number)).unwrap())).unwrap();
        }
    }
    stash
}

#[test]
fn a_merge_that_is_due_at_the_end_is_done_if_the_process_may_wait() {
    scenario(&[("program", program)], |scenario| {
        if !sees_io(scenario) {
            return;
        }
        // Four segments of such artifacts fit into the amount that one merge at a process's end may copy (8 MiB).
        let env = scenario.on(Driver::Test(json!({ "code_bytes": 900 << 10 }))).unwrap();
        let work = Work { count: 2, ..Work::default() };
        let stash = stash_of_many_processes(scenario, &env, &work);
        let artifacts = segments(&stash, "device-");
        let bytes: u64 = artifacts.iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(artifacts.len() > COPIES && bytes > 16 << 20, "{artifacts:?} {bytes}");
        let end = |name: &str, env: Env| {
            let copy = stash.with_file_name(name);
            folder::copy(&stash, &copy).unwrap();
            let seen = run(scenario, &env.stash(&copy), &work);
            (seen.value.read_at_end, seen.value.written_at_end, segments(&copy, "device-").len())
        };
        let patient = end("patient", env.clone());
        assert!(patient.0 > bytes / 2 && patient.1 > bytes / 2 && patient.2 < 8, "{patient:?} of {bytes}");
        // Without any time the layer starts no merge.
        let hurried = end("hurried", env.clone().var(END_MS, "0"));
        let little = 1 << 20;
        assert!(hurried.0 < little && hurried.1 < little, "{hurried:?}");
        assert!(hurried.2 >= artifacts.len(), "{hurried:?}");
        // In the usual time the layer merges a part, which depends on the disk. An interrupted merge loses nothing.
        let usual = end("usual", as_usual(&env));
        assert!(usual.0 < patient.0 + little && usual.1 < patient.1 + little, "{usual:?} {patient:?}");
        assert!(usual.2 >= patient.2, "{usual:?} {patient:?}");
        let env = env.stash(stash.with_file_name("usual"));
        for number in 0..=COPIES {
            let first = work.first + number as u32 * work.count;
            let next = run(scenario, &env, &Work { first, ..work.clone() });
            assert_eq!(next.reports.sum("served"), 3, "{number}: {:?}", next.reports.counters());
        }
    });
}

/// Median and maximum.
fn of(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:7.2} ({:.2})", values[values.len() / 2], values[values.len() - 1])
}

/// Runs the program several times, alternately without and with the layer, and prints how long it waited.
fn measure(scenario: &Scenario, env: &Env, what: &str, work: &Work, prepare: &dyn Fn()) {
    let rounds = std::env::var("VKSTASH_ROUNDS").map_or(25, |text| text.parse().unwrap());
    let mut waited: [[Vec<f64>; 3]; 2] = Default::default();
    let mut served = 0;
    for _ in 0..rounds {
        prepare();
        for (at, env) in [env.clone().without_layer(), env.clone()].iter().enumerate() {
            let seen = run(scenario, env, work);
            let Seen { first_ms, device_ms, instance_ms, .. } = seen.value;
            waited[at].iter_mut().zip([first_ms, device_ms, instance_ms]).for_each(|(all, ms)| all.push(ms));
            served = seen.reports.sum("served");
        }
    }
    println!(
        "{}, {what}; the last run was served {served}; median (most) of {rounds}, in ms",
        env.driver().name()
    );
    for (layer, waited) in ["without", "layer"].into_iter().zip(waited.iter_mut()) {
        let [first, device, instance] = waited.each_mut().map(|values| of(values));
        println!(
            "  {layer:8} first pipeline {first}  vkDestroyDevice {device}  vkDestroyInstance {instance}"
        );
    }
}

#[test]
#[ignore = "it measures"]
fn measure_how_long_a_programs_thread_waits() {
    scenario(&[("program", program)], |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv, Driver::Machine] {
            let Some(env) = scenario.on(driver) else { continue };
            let stash = scenario.folder().join(env.driver().name());
            let env = as_usual(&env).stash(&stash);
            let work = Work { count: 20, ..Work::default() };
            let fresh = || drop(fs::remove_dir_all(&stash));
            measure(scenario, &env, "an empty stash", &work, &fresh);
            measure(scenario, &env, "all served", &work, &|| ());
            let with_copies = || {
                fresh();
                run(scenario, &env.clone().var(END_MS, "100000"), &work);
                ["portable", "device-"].iter().for_each(|part| add_copies(&stash, part));
            };
            measure(scenario, &env, "all served, and merging is due", &work, &with_copies);
            let sparse = || {
                fresh();
                run(scenario, &env.clone().var(END_MS, "100000"), &work);
                lengthen(&files(&stash, ".vks"), TAIL);
            };
            measure(scenario, &env, "all served, 64 GiB of nothing in each file", &work, &sparse);
        }
    });
}
