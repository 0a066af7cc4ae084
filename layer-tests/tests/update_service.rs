//! The service that compiles again what an update of a driver has made useless (`vkstash prewarm --after-update`): it
//! needs no hand, gives way to programs, and is no reason to blame a driver.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use serde_json::{Value, json};
use vkstash_layer_tests::child::{Running, Scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::{assert_all_served, on, run};
use vkstash_layer_tests::updates::{tool, updated};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::Work;
use vkstash_store::stash::inspect::{PartInfo, list_applications};

/// Words that nothing but these modules has.
const FIRST: u32 = 0x5eed_0001;
/// Longer than any test.
const HANGS_MS: u64 = 3_600_000;

/// The service, for which programs of other tests are no reason to wait.
fn service(env: &Env) -> Command {
    tool(env, &["prewarm", "--after-update", "--at-once", "--under-test", "--timeout", "3600"])
}

fn said(output: &Output) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{out}{err} ({})", output.status)
}

fn marked(count: u32) -> Work {
    Work { first: FIRST, count, ..Work::default() }
}

/// What the note of drivers says last.
fn noted(env: &Env) -> Value {
    let text = fs::read_to_string(env.stash_folder().join("drivers.json")).unwrap_or_default();
    let noted: Value = serde_json::from_str(&text).unwrap_or_default();
    noted["records"].as_array().and_then(|records| records.last()).cloned().unwrap_or_default()
}

fn records(env: &Env, kind: &str) -> u64 {
    kept(env, 2, kind)
}

/// Cut off while it was created. Nobody reads it, and merging removes it.
fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn guard_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(guard_files(&path));
        } else if path.extension().is_some_and(|end| end == "vkg") && !is_temporary(&path) {
            found.push(path);
        }
    }
    found
}

/// The processes that it has started and that run.
fn children(service: &Child) -> Vec<String> {
    let pid = service.id();
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().map(str::to_owned));
    }
    found
}

fn kill(program: Running) {
    // SAFETY: the call takes two numbers; the process was not waited for, so its number is still its own.
    unsafe { libc::kill(program.pid() as libc::pid_t, libc::SIGKILL) };
    program.wait();
}

fn signal(service: &Child, signal: libc::c_int) {
    // SAFETY: the call takes two numbers; the process was not waited for, so its number is still its own.
    unsafe { libc::kill(service.id() as libc::pid_t, signal) };
}

#[test]
fn after_an_update_everything_is_ready_without_a_hand() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = marked(8);
        run(scenario, env, &work);
        let updated = updated(scenario, env, &json!({}));
        let output = service(&updated).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("8 made"), "{}", said(&output));
        assert_all_served(&run(scenario, &updated, &work), work.count);
        let again = service(&updated).output().unwrap();
        assert!(said(&again).contains("everything is ready that can be"), "{}", said(&again));
        assert!(!said(&again).contains("made"), "{}", said(&again));
    });
}

#[test]
fn the_settings_switch_it_off() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(3));
        let updated = updated(scenario, env, &json!({}));
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        let of_one = &*format!("[application.\"{program}\"]\nbackground = \"disabled\"\n");
        let rows = [
            ("updates = false\n", "switch it off"),
            ("background = \"disabled\"\n", "switch it off"),
            (of_one, "everything is ready that can be"),
        ];
        for (settings, why) in rows {
            fs::write(env.stash_folder().join("config.toml"), settings).unwrap();
            let output = service(&updated).output().unwrap();
            assert!(output.status.success() && said(&output).contains(why), "{settings}: {}", said(&output));
            assert_eq!(records(&updated, "artifact"), 0, "{settings}");
        }
    });
}

/// The program hangs in a compile, and so does a worker, so that both run as long as the test needs them.
#[test]
fn it_waits_for_a_program_gives_way_to_one_and_goes_on_after_it() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = marked(8);
        run(scenario, env, &work);
        let command = "vkCreateComputePipelines";
        let hangs = [0x0ddba11, FIRST + 5]
            .map(|word| json!({ "command": command, "word": word, "hang_ms": HANGS_MS }));
        let hanging = updated(scenario, env, &json!({ "faults": hangs }));
        let other = Work { first: 0x0ddba11, count: 1, ..Work::default() };
        let begin = || {
            let program = scenario.start("work", &hanging, &other);
            let pid = program.pid().to_string();
            until("the program is seen", || {
                let watched = tool(&hanging, &["watch", "--once", "--json"]).output().unwrap();
                String::from_utf8_lossy(&watched.stdout).contains(&pid)
            });
            program
        };
        let first = begin();
        let errors = scenario.folder().join("errors");
        let mut service = service(&hanging).stderr(fs::File::create(&errors).unwrap()).spawn().unwrap();
        let waits = "waits: a program with the layer runs";
        let times = || fs::read_to_string(&errors).unwrap().matches(waits).count();
        until("it waits", || times() == 1);
        assert_eq!(records(&hanging, "artifact"), 0, "a program runs");
        let is_at_work =
            |service: &Child| noted(&hanging)["is_at_work"] == true && !children(service).is_empty();
        kill(first);
        until("it has begun", || is_at_work(&service) && records(&hanging, "artifact") > 0);
        let second = begin();
        until("it has given way", || times() == 2 && children(&service).is_empty());
        assert_eq!((&noted(&hanging)["is_at_work"], service.try_wait().unwrap()), (&json!(false), None));
        kill(second);
        until("it goes on", || is_at_work(&service));
        let third = begin();
        until("it waits again", || times() == 3);
        signal(&service, libc::SIGTERM);
        assert_eq!(service.wait().unwrap().signal(), Some(libc::SIGTERM), "also while it waits");
        kill(third);
        assert_eq!(records(&hanging, "failed"), 0);
        let updated = updated(scenario, env, &json!({}));
        assert!(self::service(&updated).status().unwrap().success());
        assert_all_served(&run(scenario, &updated, &work), work.count);
    });
}

#[test]
fn a_worker_that_it_ends_is_no_crash_and_costs_no_try() {
    on(Driver::Test(json!({})), |scenario, env| {
        let work = marked(4);
        run(scenario, env, &work);
        let hangs =
            json!([{ "command": "vkCreateComputePipelines", "word": FIRST + 1, "hang_ms": HANGS_MS }]);
        let hanging = updated(scenario, env, &json!({ "faults": hangs }));
        for ending in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGTERM] {
            let service = service(&hanging).spawn().unwrap();
            until("it works", || noted(&hanging)["is_at_work"] == true && !children(&service).is_empty());
            signal(&service, ending);
            let output = service.wait_with_output().unwrap();
            assert_eq!(output.status.signal(), Some(ending), "{}", said(&output));
            let noted = noted(&hanging);
            assert_eq!((&noted["is_at_work"], &noted["cut_off"]), (&json!(false), &json!(0)), "{noted}");
            assert_eq!((&noted["tries"], &noted["gone_through"]), (&json!({}), &json!({})), "{noted}");
            assert_eq!(records(&hanging, "failed") + records(&hanging, "crash_count"), 0);
            assert_eq!(guard_files(&env.stash_folder()).len(), 0);
        }
        // The same driver again, which does not hang any more.
        let updated = updated(scenario, env, &json!({}));
        assert!(service(&updated).status().unwrap().success());
        assert_all_served(&run(scenario, &updated, &work), work.count);
    });
}

/// Ended in the check, where workers give artifacts to the driver that no other process was served, a worker leaves a
/// guard file, and the second one a mark in it.
#[test]
fn a_worker_that_is_ended_in_the_check_leaves_no_mark() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(1));
        let hangs = json!([{ "command": "vkCreateComputePipelines", "hang_ms": HANGS_MS }]);
        let hanging =
            scenario.on(Driver::Test(json!({ "faults": hangs }))).unwrap().stash(env.stash_folder());
        for _ in 0..4 {
            let checking = tool(&hanging, &["prewarm", "--all", "--timeout", "3600"]).spawn().unwrap();
            until("a worker gives the artifact to the driver", || {
                !guard_files(&env.stash_folder()).is_empty()
            });
            let tool = checking.id();
            signal(&checking, libc::SIGTERM);
            let output = checking.wait_with_output().unwrap();
            let left = guard_files(&env.stash_folder());
            assert!(left.is_empty(), "{left:?} of tool {tool:08x}: {}", said(&output));
        }
        assert_all_served(&run(scenario, env, &marked(1)), 1);
    });
}

#[test]
fn a_key_that_its_driver_dies_of_is_quarantined_and_not_tried_at_each_boot() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(4));
        let dies = json!([{ "command": "vkCreateComputePipelines", "word": FIRST + 2, "die": "segv" }]);
        let updated = updated(scenario, env, &json!({ "faults": dies }));
        let output = service(&updated).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains("quarantined: ") && said(&output).contains("3 made"),
            "{}",
            said(&output)
        );
        let again = service(&updated).output().unwrap();
        assert!(again.status.success(), "{}", said(&again));
        assert!(said(&again).starts_with("vkstash: everything is ready that can be"), "{}", said(&again));
    });
}

/// No key is to blame, so none can be quarantined.
#[test]
fn a_driver_whose_devices_cannot_be_opened_is_tried_three_times() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(4));
        let dies = json!([{ "command": "vkCreateDevice", "die": "segv" }]);
        let updated = updated(scenario, env, &json!({ "faults": dies }));
        for _ in 0..3 {
            let output = service(&updated).output().unwrap();
            assert!(said(&output).contains("died of signal 11"), "{}", said(&output));
        }
        let output = service(&updated).output().unwrap();
        assert!(said(&output).starts_with("vkstash: everything is ready that can be"), "{}", said(&output));
    });
}

/// As a machine does that goes down with the driver.
#[test]
fn work_that_was_cut_off_three_times_is_left_to_the_user() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(4));
        let hangs = json!([{ "command": "vkCreateComputePipelines", "word": FIRST, "hang_ms": HANGS_MS }]);
        let hanging = updated(scenario, env, &json!({ "faults": hangs }));
        for cut_off in 0..3 {
            let service = service(&hanging).spawn().unwrap();
            until("it works", || noted(&hanging)["is_at_work"] == true && !children(&service).is_empty());
            assert_eq!(noted(&hanging)["cut_off"], cut_off);
            signal(&service, libc::SIGKILL);
            service.wait_with_output().unwrap();
        }
        let output = service(&hanging).output().unwrap();
        assert!(said(&output).contains("cut off 3 times"), "{}", said(&output));
        let doctor = tool(&hanging, &["doctor"]).output().unwrap();
        assert!(said(&doctor).contains("cut off 3 times"), "{}", said(&doctor));
        // The user tries, and it goes well. It is the same file of a driver.
        assert!(!tool(&hanging, &["prewarm", "--all", "--timeout", "2"]).status().unwrap().success());
        assert_eq!(noted(&hanging)["cut_off"], 0);
    });
}

#[test]
fn one_service_works_at_a_time() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(4));
        let hangs = json!([{ "command": "vkCreateComputePipelines", "word": FIRST, "hang_ms": HANGS_MS }]);
        let hanging = updated(scenario, env, &json!({ "faults": hangs }));
        let first = service(&hanging).spawn().unwrap();
        until("it works", || noted(&hanging)["is_at_work"] == true && !children(&first).is_empty());
        let second = service(&hanging).output().unwrap();
        assert!(second.status.success() && said(&second).contains("another one works"), "{}", said(&second));
        signal(&first, libc::SIGTERM);
        first.wait_with_output().unwrap();
    });
}

/// What the stash has of each kind in the parts of this version of the driver; 0: in the portable part.
fn kept(env: &Env, version: u32, kind: &str) -> u64 {
    let found = list_applications(&env.stash_folder()).unwrap();
    let is_of = |part: &&PartInfo| part.device.as_ref().map_or(0, |device| device.driver_version) == version;
    let parts = found.iter().flat_map(|info| &info.parts).filter(is_of);
    parts.map(|part| part.records.get(kind).copied().unwrap_or(0)).sum()
}

#[test]
fn what_a_driver_has_made_that_is_gone_is_evicted_first_and_recipes_stay() {
    on(Driver::Test(json!({})), |scenario, env| {
        run(scenario, env, &marked(20));
        let updated = updated(scenario, env, &json!({}));
        assert!(service(&updated).status().unwrap().success());
        run(scenario, &updated, &marked(20));
        let (old, recipes) = (kept(env, 1, "artifact"), kept(env, 0, "recipe"));
        assert_eq!((old, kept(env, 2, "artifact"), recipes), (20, 20, 20));
        let found = list_applications(&env.stash_folder()).unwrap();
        let parts = || found.iter().flat_map(|info| &info.parts);
        let of_old =
            parts().find(|part| part.device.as_ref().is_some_and(|device| device.driver_version == 1));
        let bytes = parts().map(|part| part.bytes).sum::<u64>() - of_old.unwrap().bytes / 2;
        fs::write(env.stash_folder().join("config.toml"), format!("limit = {bytes}\n")).unwrap();
        let output = tool(&updated, &["gc"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(kept(env, 1, "artifact"), 0, "{}", said(&output));
        assert_eq!((kept(env, 2, "artifact"), kept(env, 0, "recipe")), (20, 20), "{}", said(&output));
        // An update takes nothing of what the next one needs.
        let next = json!({ "driver_version": 3, "pipeline_cache_uuid": "00000000000000000000000000000003" });
        let next = self::updated(scenario, env, &next);
        assert!(service(&next).status().unwrap().success());
        assert_all_served(&run(scenario, &next, &marked(20)), 20);
    });
}

/// A stand-in for Flatpak: runs the tool that it is told to run, with the stash of the program that it is told to.
fn flatpak(scenario: &Scenario, home: &Path) -> PathBuf {
    let folder = scenario.folder().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let tool = paths::profile_folder().join("vkstash");
    let (tool, home) = (tool.display(), home.display());
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>'{home}/calls'\n[ \"$1 $2\" = \"run --command={INSIDE}\" ] || exit 9\n\
         program=$3\nshift 3\nVKSTASH_DIR='{home}'/.var/app/$program/cache/vkstash HOME=/nowhere \
         exec '{tool}' \"$@\" --at-once --under-test --timeout 3600\n"
    );
    let path = folder.join("flatpak");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

const INSIDE: &str = "/usr/lib/extensions/vulkan/vkstash/bin/vkstash";

#[test]
fn what_sandboxes_have_is_compiled_again_in_them() {
    on(Driver::Test(json!({})), |scenario, env| {
        let home = scenario.folder().join("home-of-flatpak");
        let inside = env.clone().stash(home.join(".var/app/org.example.Game/cache/vkstash"));
        fs::create_dir_all(home.join(".var/app/org.example.Editor/cache")).unwrap();
        run(scenario, &inside, &marked(4));
        let path = format!("{}:{}", flatpak(scenario, &home).display(), std::env::var("PATH").unwrap());
        let outside = |more: Value| {
            let own = updated(scenario, env, &more).var("HOME", &home);
            fs::create_dir_all(own.stash_folder()).unwrap();
            own.without_var("XDG_DATA_HOME").var("PATH", &path)
        };
        // One that hangs is ended in order: no signal, no crash.
        let hangs = json!([{ "command": "vkCreateComputePipelines", "word": FIRST, "hang_ms": HANGS_MS }]);
        let hanging = outside(json!({ "faults": hangs }));
        let first = service(&hanging).spawn().unwrap();
        until("it works inside", || noted(&inside)["is_at_work"] == true);
        signal(&first, libc::SIGTERM);
        first.wait_with_output().unwrap();
        assert_eq!((&noted(&inside)["is_at_work"], &noted(&inside)["cut_off"]), (&json!(false), &json!(0)));
        let good = outside(json!({}));
        let output = service(&good).output().unwrap();
        assert!(said(&output).contains("4 made"), "{}", said(&output));
        assert_all_served(&run(scenario, &good.clone().stash(inside.stash_folder()), &marked(4)), 4);
        // Nothing was installed since.
        let again = service(&good).output().unwrap();
        assert!(again.status.success() && !said(&again).contains("made"), "{}", said(&again));
        let calls = fs::read_to_string(home.join("calls")).unwrap();
        assert_eq!(calls.lines().count(), 2, "{calls}");
        assert!(
            calls.lines().all(|line| line.contains("org.example.Game prewarm --after-update")),
            "{calls}"
        );
    });
}
