//! Tests of what a player is told of a session: of the first one, of the next, before one that follows an update of the
//! driver, and after it. The figures are those of `stats --json`; the words are the tool's.

use std::process::Output;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::updates::{tool, updated};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::Work;

/// Longer than any machine takes away the processor between two calls.
const COMPILE_US: u64 = 300_000;
const STUTTER_NS: u64 = 20_000_000;

fn presenting_device() -> (Device, vk::PFN_vkQueuePresentKHR) {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let extensions = Vec::from([ash::khr::swapchain::NAME]);
    let device = Device::new(&instance, &DeviceOptions { extensions, ..DeviceOptions::default() }).unwrap();
    let get = device.instance.raw.fp_v1_0().get_device_proc_addr;
    // SAFETY: a live device, and the pointer is cast to the type that belongs to the name.
    let present = unsafe {
        let found = get(device.raw.handle(), c"vkQueuePresentKHR".as_ptr()).unwrap();
        std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkQueuePresentKHR>(found)
    };
    (device, present)
}

/// Presents four frames after the first; pipelines are created in the first three, on another thread if the input says
/// so.
fn plays(on_another_thread: &Value) -> Value {
    let (device, present) = presenting_device();
    // SAFETY: the device was created with this queue.
    let queue = unsafe { device.raw.get_device_queue(0, 0) };
    let presents = || {
        // SAFETY: a live queue; the driver of these tests wants no swapchain.
        let _ = unsafe { present(queue, &vk::PresentInfoKHR::default()) };
    };
    presents();
    for first in 0..4 {
        let work = Work { first, count: u32::from(first < 3), ..Work::default() };
        if on_another_thread == &json!(true) {
            std::thread::scope(|scope| assert!(scope.spawn(|| work.run(&device).all_made()).join().unwrap()));
        } else {
            assert!(work.run(&device).all_made());
        }
        presents();
    }
    json!(true)
}

/// Pipelines, and no frames: one, if the input does not say how many.
fn computes(count: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let count = count.as_u64().unwrap_or(1) as u32;
    assert!(Work { count, ..Work::default() }.run(&device).all_made());
    json!(true)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn stats(env: &Env, arguments: &[&str]) -> String {
    let ended = tool(env, &[&["stats"], arguments].concat()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    text(&ended.stdout).to_owned()
}

/// The application's name and its sessions, the latest first.
fn history(env: &Env) -> (String, Vec<Value>) {
    let json: Value = serde_json::from_str(&stats(env, &["--json"])).unwrap();
    let [application] = json["applications"].as_array().unwrap().as_slice() else { panic!("{json:#}") };
    let name = application["name"].as_str().unwrap().to_owned();
    (name, application["history"].as_array().unwrap().clone())
}

fn number(session: &Value, name: &str) -> u64 {
    session[name].as_u64().unwrap_or_else(|| panic!("{name} of {session:#}"))
}

/// A span as people read it, up to a minute.
fn span(nanos: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| nanos >= *unit) else {
        return "0 s".to_owned();
    };
    let tenths = (nanos * 10 + unit / 2) / unit;
    match tenths {
        10_000.. => span(nanos.div_ceil(1000 * unit) * 1000 * unit),
        100.. => format!("{} {name}", (nanos + unit / 2) / unit),
        _ if tenths % 10 == 0 => format!("{} {name}", tenths / 10),
        _ => format!("{}.{} {name}", tenths / 10, tenths % 10),
    }
}

fn long(session: &Value) -> String {
    let stutters = number(session, "stutters");
    let things = if stutters == 1 { "stutter" } else { "stutters" };
    let (longest, waited) = (number(session, "longest_stutter_ns"), number(session, "waited_ns"));
    let (longest, waited) = (span(longest), span(waited));
    format!("{stutters} {things} of 20 ms or more, the longest {longest}, {waited} of waiting")
}

/// What is to be said of a session that has presented, and stuttered or not.
fn expected(session: &Value) -> String {
    let others = number(session, "other_threads_ns");
    let others = match others >= STUTTER_NS {
        true => format!(", {} of waiting on other threads", span(others)),
        false => String::new(),
    };
    let head = match number(session, "stutters") {
        0 => format!("no stutters from compiling, longest wait {}", span(number(session, "longest_wait_ns"))),
        _ => long(session),
    };
    let (ready, pipelines) = (number(session, "ready"), number(session, "pipelines"));
    format!("{head}{others}; {ready} of {pipelines} pipelines were ready")
}

#[test]
fn the_four_situations_of_a_player() {
    scenario(&[("plays", plays)], |scenario| {
        let script = json!({ "extensions": ["VK_KHR_swapchain"], "compile_us": COMPILE_US });
        let Some(env) = scenario.on(Driver::Test(script.clone())) else { return };
        let play = |env: &Env| -> Vec<String> {
            let mut command = tool(&env.clone().without_layer(), &["run", "--"]);
            command.arg(std::env::current_exe().unwrap());
            let ended: Output = scenario.as_step(&mut command, "plays", &json!(null)).output().unwrap();
            assert!(ended.status.success(), "{ended:?}");
            let lines = text(&ended.stderr).lines().filter_map(|line| line.strip_prefix("vkstash: "));
            lines.map(str::to_owned).collect()
        };

        let said = play(&env);
        let (name, sessions) = history(&env);
        let [first] = sessions.as_slice() else { panic!("{sessions:?}") };
        assert_eq!((number(first, "pipelines"), number(first, "ready")), (3, 0), "{first:#}");
        assert_eq!((number(first, "frames"), number(first, "stutters")), (4, 3), "{first:#}");
        let nothing = format!("{name}: the first session: nothing could be ready yet");
        assert_eq!(said, [nothing, format!("{name}: {}", expected(first))]);

        let said = play(&env);
        let (_, sessions) = history(&env);
        let [second, first] = sessions.as_slice() else { panic!("{sessions:?}") };
        assert_eq!((number(second, "ready"), number(second, "frames")), (3, 4), "{second:#}");
        let [verdict] = said.as_slice() else { panic!("{said:?}") };
        let (beginning, end) = (format!("{name}: {}; first session, today ", expected(second)), long(first));
        assert!(verdict.starts_with(&beginning) && verdict.ends_with(&format!(": {end}")), "{verdict}");
        let listed = stats(&env, &[]);
        assert!(
            listed.starts_with(&format!("{name}: {}; last run just now\n", expected(second))),
            "{listed}"
        );

        // Before the first session after an update.
        let env = updated(scenario, &env, &script);
        let listed = stats(&env, &[&name]);
        let not_ready = listed.lines().nth(2).unwrap();
        assert!(not_ready.starts_with("  not ready: ") && not_ready.contains(" is new here, and has 0 of "));
        assert!(not_ready.ends_with(&format!("; about 1 s: vkstash prewarm {name}")), "{listed}");

        // And after it, because nobody has done so.
        let said = play(&env);
        let (_, sessions) = history(&env);
        let again =
            format!("{name}: the driver was updated before this session: 3 of 3 pipelines compiled again; ");
        assert!(said.iter().any(|line| line.starts_with(&again)), "{said:?}");
        let last = said.last().unwrap();
        assert!(last.starts_with(&format!("{name}: {}; first session, ", expected(&sessions[0]))), "{last}");
        let listed = stats(&env, &[&name]);
        let rows: Vec<_> = listed.lines().filter(|line| line.starts_with("  today ")).collect();
        assert_eq!(rows.len(), 3, "{listed}");
        assert!(rows[0].ends_with(" 0 of 3  first after the update"), "{listed}");
        assert!(rows[1].ends_with(" 3 of 3") && rows[2].ends_with(" 0 of 3  first session"), "{listed}");
        assert!(listed.contains("\n  saved so far: up to "), "{listed}");
    });
}

#[test]
fn what_is_small_is_said_to_be_small() {
    scenario(&[("computes", computes)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        scenario.run_ok::<Value>("computes", &env, &json!(null));
        let (name, sessions) = history(&env);
        let all = number(&sessions[0], "calls_ns") + number(&sessions[0], "saved_ns");
        // On a machine that is as busy as that it is something.
        let small = format!("{name}: nothing to gain: {} in all; 0 of 1 pipeline was ready; ", span(all));
        let large = format!("{name}: 1 call of 20 ms or more, ");
        let expected = if all < STUTTER_NS { small } else { large };
        assert!(stats(&env, &[]).starts_with(&expected), "{expected}: {}", stats(&env, &[]));
    });
}

/// The frame is as long, but it is not the presenting thread that compiles.
#[test]
fn what_other_threads_compile_is_waiting_and_no_stutter() {
    scenario(&[("plays", plays)], |scenario| {
        let script = json!({ "extensions": ["VK_KHR_swapchain"], "compile_us": COMPILE_US });
        let Some(env) = scenario.on(Driver::Test(script)) else { return };
        scenario.run_ok::<Value>("plays", &env, &json!(true));
        let (_, sessions) = history(&env);
        let session = &sessions[0];
        assert_eq!((number(session, "stutters"), number(session, "waited_ns")), (0, 0), "{session:#}");
        assert!(number(session, "other_threads_ns") >= 3 * COMPILE_US * 1000, "{session:#}");
        assert_eq!((number(session, "calls"), number(session, "long_calls")), (3, 3), "{session:#}");
        assert!(number(session, "played_ns") >= 3 * COMPILE_US * 1000, "{session:#}");
        assert!(session["is_over"] == true && session["goes_on"] == false, "{session:#}");
    });
}

/// Creates a pipeline, and is killed.
fn is_killed(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    assert!(Work { count: 1, ..Work::default() }.run(&device).all_made());
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
    // SAFETY: this ends the process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    json!(null)
}

#[test]
fn a_session_that_goes_on_is_told_from_one_that_was_killed() {
    scenario(&[("is killed", is_killed)], |scenario| {
        let Some(env) = scenario.on(Driver::Test(json!({}))) else { return };
        let mut command = tool(&env.clone().without_layer(), &["run", "--"]);
        command.arg(std::env::current_exe().unwrap()).stdin(std::process::Stdio::piped());
        let mut running = scenario.as_step(&mut command, "is killed", &json!(null)).spawn().unwrap();
        let state = || {
            let json: Value = serde_json::from_str(&stats(&env, &["--json"])).unwrap();
            let session = json["applications"][0]["history"][0].clone();
            (session["pipelines"] == 1).then(|| (session["goes_on"] == true, session["is_over"] == true))
        };
        until("the pipeline is reported", || state().is_some());
        assert_eq!(state(), Some((true, false)));
        let listed = stats(&env, &["-v"]);
        assert!(listed.contains("  first session\n"), "{listed}");
        std::io::Write::write_all(running.stdin.as_mut().unwrap(), b"!").unwrap();
        let ended = running.wait_with_output().unwrap();
        let said = text(&ended.stderr).lines().last().unwrap();
        assert!(said.ends_with("; it did not end in order, so its last seconds may be missing"), "{said}");
        assert_eq!(state(), Some((false, false)));
    });
}

#[test]
fn the_pipeline_that_a_program_died_of_stands_before_the_verdict() {
    scenario(&[("computes", computes)], |scenario| {
        let faults = json!([{ "command": "vkCreateComputePipelines", "call": 2, "die": "kill" }]);
        let Some(dies) = scenario.on(Driver::Test(json!({ "faults": faults }))) else { return };
        let computes = |env: &Env| -> Output {
            let mut command = tool(&env.clone().without_layer(), &["run", "--"]);
            command.arg(std::env::current_exe().unwrap());
            scenario.as_step(&mut command, "computes", &json!(3)).output().unwrap()
        };
        let died = computes(&dies);
        assert!(!died.status.success(), "{died:?}");
        let json: Value = serde_json::from_str(&stats(&dies, &["--json"])).unwrap();
        let application = &json["applications"][0];
        let (name, death) = (application["name"].as_str().unwrap(), &application["deaths"][0]);
        assert_eq!((&death["stages"], &death["deaths"]), (&json!(32), &json!(1)), "{application:#}");
        let key = &death["key"].as_str().unwrap()[..8];
        let line = format!("died while compiling {key} (compute): ");
        let said = text(&died.stderr);
        assert!(said.contains(&format!("vkstash: {name}: {line}")), "{line}: {said}");
        assert!(!said.contains("created no pipeline\n"), "{said}");
        let listed = stats(&dies, &[name]);
        assert!(listed.contains(&format!("\n  {line}")), "{line}: {listed}");

        // The next one dies of it, too, and has recorded before what it is made of.
        let again = computes(&dies);
        let said = text(&again.stderr);
        let shows = format!(
            "{line}`vkstash show {name} {key}` shows it, and `vkstash export {key}.foz {name} {key}` "
        );
        assert!(!again.status.success() && said.contains(&shows), "{shows}: {said}");
        let shown = tool(&dies, &["show", name, key]).output().unwrap();
        assert!(shown.status.success() && text(&shown.stdout).contains("died twice"), "{shown:?}");

        // The next session goes well, and nothing is said any more.
        let env = scenario.on(Driver::Test(json!({}))).unwrap().stash(dies.stash_folder());
        let well = computes(&env);
        assert!(well.status.success() && !text(&well.stderr).contains("while compiling"), "{well:?}");
        assert!(!stats(&env, &["-v"]).contains("while compiling"), "{}", stats(&env, &["-v"]));
    });
}
