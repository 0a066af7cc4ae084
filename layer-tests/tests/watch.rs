//! `vkstash watch`: programs are seen while they run, also where they hang, and at no cost of theirs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::IntoRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, answer, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::run;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Work};
use vkstash_model::counters::Count;
use vkstash_model::live::{COUNTERS, LINK, Live, SIZE};

/// A word that the code of one pipeline has.
const FIRST: u32 = 0x00c0_ffee;
/// Longer than any test.
const HANGS_MS: u64 = 3_600_000;

/// What `vkstash` prints with these arguments.
fn tool(env: &Env, arguments: &[&str]) -> String {
    let mut command = Command::new(paths::profile_folder().join("vkstash"));
    env.apply(&mut command);
    command.env("VKSTASH_LIBRARY", paths::layer_library()).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What is watched of this process. Null: nothing.
fn watched(env: &Env, pid: u32) -> Value {
    let programs: Value = serde_json::from_str(&tool(env, &["watch", "--once", "--json"])).unwrap();
    let found = programs.as_array().unwrap().iter().filter(|program| program["pid"] == pid);
    let found: Vec<_> = found.collect();
    assert!(found.len() <= 1, "{programs}");
    found.first().copied().cloned().unwrap_or_default()
}

/// The live page of this process as it is now. None: it has none open.
fn own_page() -> Option<Vec<u8>> {
    let mut links = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let link = links.find(|link| fs::read_link(link).is_ok_and(|target| target.as_os_str() == LINK))?;
    let mut page = vec![0; SIZE];
    File::open(link).unwrap().read_exact_at(&mut page, 0).unwrap();
    Some(page)
}

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions::default()).unwrap()
}

fn hanging() -> Value {
    json!({ "faults": [{ "command": "vkCreateComputePipelines", "word": FIRST, "hang_ms": HANGS_MS }] })
}

fn one() -> Work {
    Work { first: FIRST, count: 1, ..Work::default() }
}

/// The key that the stash has of the one pipeline.
fn recorded_key(scenario: &Scenario) -> String {
    let env = scenario.on(Driver::Test(json!({}))).unwrap().stash(scenario.folder().join("other"));
    run(scenario, &env, &one());
    let name: Value = serde_json::from_str(&tool(&env, &["list", "--json"])).unwrap();
    let name = name[0]["folder"].as_str().unwrap().to_owned();
    let shown: Value = serde_json::from_str(&tool(&env, &["show", &name, "--json"])).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    shown[0]["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_program_whose_compile_hangs_says_which_and_leaves_nothing_when_it_is_killed() {
    scenario(&[("work", work::step)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(hanging())) else { return };
        let key = recorded_key(scenario);
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
        let program = scenario.start("work", &env, &Work { first: FIRST - 1, count: 2, ..Work::default() });
        let mut seen = Value::Null;
        until("the second compile is shown", || {
            seen = watched(&env, program.pid());
            // The first pipeline may be met while it compiles.
            seen["pipelines"] == 1 && seen["calls"][0]["step"] == "compile"
        });
        let call = &seen["calls"][0];
        assert_eq!((seen["calls"].as_array().unwrap().len(), &call["worker"]), (1, &json!(false)), "{seen}");
        assert_eq!(call["key"], key[..16], "{seen}");
        // VK_SHADER_STAGE_COMPUTE_BIT.
        assert_eq!((&call["stages"], &call["thread"].is_u64()), (&json!(0x20), &true), "{seen}");
        assert_eq!((&seen["counters"]["compiled"], &seen["pipelines"]), (&json!(1), &json!(1)), "{seen}");
        assert!(env.stash_folder().join(seen["folder"].as_str().unwrap()).is_dir(), "{seen}");
        let text = tool(&env, &["watch", "--once"]);
        assert!(text.contains(&format!("  {} compute: compiling for ", &key[..8])), "{text}");

        let pid = program.pid();
        drop(program);
        assert_eq!(watched(&env, pid), Value::Null);
    });
}

/// A program that waits for the end of a file after its work.
fn wait_after_work(input: &Value) -> Value {
    let (work, file): (Work, PathBuf) = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    assert!(work.run(&device).all_made());
    until("the test has looked", || file.exists());
    json!(true)
}

#[test]
fn a_program_between_two_calls_shows_what_it_had_and_is_gone_with_its_end() {
    scenario(&[("step", wait_after_work), ("work", work::step)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        run(scenario, &env, &Work::default());
        let file = scenario.folder().join("looked");
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
        let program = scenario.start("step", &env, &(Work { count: 4, ..Work::default() }, &file));
        let pid = program.pid();
        let mut seen = Value::Null;
        until("all of its pipelines are made", || {
            seen = watched(&env, pid);
            seen["pipelines"] == 4 && seen["calls"] == json!([])
        });
        assert_eq!(
            (&seen["counters"]["served"], &seen["counters"]["compiled"]),
            (&json!(3), &json!(1)),
            "{seen}"
        );
        assert_eq!(seen["ready_percent"], 75.0, "{seen}");
        assert_eq!((&seen["unreadable"], &seen["workers"]), (&Value::Null, &json!(0)), "{seen}");
        fs::write(&file, "").unwrap();
        program.wait().ok();
        assert_eq!(watched(&env, pid), Value::Null);
    });
}

/// A program whose forked child creates pipelines on its parent's device. Whether the parent's counters and calls are
/// as before, and what the child's own page says of the process that has made it.
fn fork_and_compare(_: &Value) -> Value {
    let device = device();
    assert!(work().run(&device).all_made());
    let before = own_page().unwrap();
    // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: both take plain numbers.
        unsafe {
            libc::alarm(60);
            let made = Work { first: 900, ..work() }.run(&device).all_made();
            let own = Work { first: 1900, ..work() }.run(&self::device()).all_made();
            libc::_exit(if made && own { 7 } else { 8 });
        }
    }
    let mut status = 0;
    // SAFETY: waitpid writes to `status`, on this stack.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status}");
    let after = own_page().unwrap();
    let changing = COUNTERS * size_of::<u64>();
    let again = Work { first: 2900, ..work() }.run(&device).all_made();
    let last = own_page().unwrap();
    let compiled =
        [&before, &after, &last].map(|page| Live::of(page, page, page).unwrap().get(Count::Compiled));
    json!((before[changing..] == after[changing..], again, compiled))
}

fn work() -> Work {
    Work { count: 2, ..Work::default() }
}

#[test]
fn a_forked_child_does_not_write_to_its_parents_page() {
    scenario(&[("step", fork_and_compare)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
        let (is_same, goes_on, compiled): (bool, bool, [u64; 3]) = scenario.run_ok("step", &env, &()).value;
        assert!(is_same && goes_on);
        assert_eq!(compiled, [2, 2, 4], "the parent's page lives on");
    });
}

/// A forked child with a device of its own, and its parent: both say who they are, and wait for their end.
fn fork_and_wait(input: &Value) -> Value {
    let file: PathBuf = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    assert!(work().run(&device).all_made());
    // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let own = self::device();
        assert!(Work { first: 900, count: 1, ..work() }.run(&own).all_made());
        fs::write(file.with_extension("child"), std::process::id().to_string()).unwrap();
        until("the test has looked", || file.exists());
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waitpid writes to `status`, on this stack.
    unsafe { libc::waitpid(child, &mut status, 0) };
    json!(status)
}

#[test]
fn a_forked_child_with_a_device_has_a_page_of_its_own() {
    scenario(&[("step", fork_and_wait)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "0");
        let file = scenario.folder().join("looked");
        let parent = scenario.start("step", &env, &file);
        let mut child = 0;
        until("the child has a pipeline", || {
            let text = fs::read_to_string(file.with_extension("child")).unwrap_or_default();
            child = text.parse().unwrap_or_default();
            child != 0
        });
        let compiled = [parent.pid(), child].map(|pid| watched(&env, pid)["counters"]["compiled"].clone());
        assert_eq!(compiled, [json!(2), json!(1)]);
        fs::write(&file, "").unwrap();
        assert_eq!(parent.wait().ok(), json!(0));
    });
}

/// A program that closes all descriptors and has files of its own at their numbers. The content of those files, how
/// many pipelines it could make, and whether it is shown.
fn close_all(input: &Value) -> Value {
    let folder: PathBuf = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    assert!(work().run(&device).all_made() && own_page().is_some());
    let last = fs::read_dir("/proc/self/fd").unwrap().count() as i32 + 64;
    // SAFETY: close takes any number; closing the layer's descriptors is what this test is about.
    (3..=last).for_each(|number| _ = unsafe { libc::close(number) });
    let mut own = BTreeMap::new();
    for number in 3..=last {
        let path = folder.join(number.to_string());
        fs::write(&path, "own").unwrap();
        own.insert(File::options().read(true).write(true).open(&path).unwrap().into_raw_fd(), path);
    }
    let made = Work { first: 100, count: 20, ..Work::default() }.run(&device).all_made();
    let is_shown = own_page().is_some();
    drop(device);
    let is_intact = |(number, path): (&i32, &PathBuf)| {
        fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|target| target == *path)
            && fs::read(path).unwrap() == b"own"
    };
    answer(&json!((made, is_shown, own.iter().all(is_intact))));
    std::process::exit(0)
}

#[test]
fn a_program_that_closes_all_descriptors_goes_on_and_is_not_shown() {
    scenario(&[("step", close_all)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let folder = scenario.folder().join("own");
        fs::create_dir(&folder).unwrap();
        let seen: (bool, bool, bool) = scenario.run_ok("step", &env, &folder).value;
        assert_eq!(seen, (true, false, true));
    });
}

/// A program that only enumerates.
fn enumerate(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let before = own_page().is_some();
    assert!(!instance.physical_devices().is_empty());
    let enumerated = own_page().is_some();
    let _device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    json!([before, enumerated, own_page().is_some()])
}

#[test]
fn the_page_is_made_with_the_first_device_and_not_where_nothing_may_be_written() {
    scenario(&[("step", enumerate)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        assert_eq!(scenario.run_ok::<[bool; 3]>("step", &env, &()).value, [false, false, true]);
        // A limit below the page's size: no signal, and no page.
        let limited = env.file_size_limit(4096);
        assert_eq!(scenario.run("step", &limited, &()).ok(), json!([false, false, false]));
    });
}

#[test]
fn without_a_program_it_says_so() {
    scenario(&[], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        // Programs of other tests may run.
        let text = tool(&env, &["watch", "--once"]);
        assert!(!text.is_empty() && text.ends_with('\n'), "{text:?}");
        let programs: Value = serde_json::from_str(&tool(&env, &["watch", "--once", "--json"])).unwrap();
        assert!(programs.is_array());
    });
}
