//! `vkstash stats` over stashes in all conditions.

use vkstash_model::app_name::AppName;
use vkstash_model::counters::Count;
use vkstash_model::record::{Key, Kind};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::reports::model::{BypassReport, DeviceReport, RunReport, StoreReport};
use vkstash_store::reports::waiting::Waiting;
use vkstash_store::stash::open::Stash;

use super::*;

fn stats(sandbox: &Sandbox, dir: &Path, json: bool) -> Output {
    let mut command = sandbox.tool();
    command.arg("stats").arg("--dir").arg(dir);
    if json {
        command.arg("--json");
    }
    output(&mut command)
}

/// What `vkstash stats` prints with these arguments.
pub(super) fn shown(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> String {
    let mut command = sandbox.tool();
    let output = output(command.arg("stats").arg("--dir").arg(dir).args(arguments).env("TZ", "UTC"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    text(&output.stdout).to_owned()
}

fn parsed(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_missing_and_an_empty_root_have_nothing_recorded_yet() {
    let sandbox = Sandbox::new();
    for dir in [sandbox.path("missing"), sandbox.temp()] {
        let output = stats(&sandbox, &dir, false);
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), format!("nothing recorded yet in {}\n", dir.display()));
        let json = parsed(&stats(&sandbox, &dir, true));
        assert_eq!(json["schema"], 3);
        assert_eq!(json["applications"], serde_json::json!([]));
    }
}

#[test]
fn the_users_cache_folder_is_the_default() {
    let sandbox = Sandbox::new();
    let of = |command: &mut Command| parsed(&output(command.args(["stats", "--json"])))["root"].clone();
    assert_eq!(of(&mut sandbox.tool()), sandbox.home().join(".cache/vkstash").to_str().unwrap());
    let cache = sandbox.path("cache");
    assert_eq!(of(sandbox.tool().env("XDG_CACHE_HOME", &cache)), cache.join("vkstash").to_str().unwrap());
    assert_eq!(of(sandbox.tool().env("VKSTASH_DIR", &cache)), cache.to_str().unwrap());
}

#[test]
fn a_root_that_is_a_file_is_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    fs::write(&file, "").unwrap();
    let output = stats(&sandbox, &file, false);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()));
    assert!(one_error_line(&output).contains("cannot read the stash"));
}

#[test]
fn the_caches_of_sessions_are_counted_beside_the_stash() {
    use vkstash_sessions::description::{Description, Guid, Mode, Place};
    let (sandbox, name) = (Sandbox::new(), AppName::new(Some(b"translator"), b"/bin/translator"));
    let dir = sandbox.path("stash");
    for number in 1..=2 {
        let description = Description {
            identifier: Guid([number; 16]),
            mode: Mode::Disk,
            driver_versioned: false,
            working_directory: false,
            maximum_in_memory_bytes: 0,
            maximum_in_memory_entries: 0,
            maximum_value_file_bytes: 0,
            version: 1,
        };
        let place = Place::new(&dir, &name);
        let session = vkstash_sessions::session::Session::create(&description, Some(&place), None);
        session.unwrap().store(b"key", b"value").unwrap();
    }
    // A program without any pipeline has a stash of its own, too.
    let shown = parsed(&stats(&sandbox, &dir, true));
    let sessions = &shown["applications"][0]["sessions"];
    assert_eq!(sessions["caches"], 2, "{shown}");
    assert!(sessions["bytes"].as_u64().unwrap() > 0, "{shown}");
    let lines = self::shown(&sandbox, &dir, &["translator"]);
    assert!(lines.contains("translator: 0 B, and 2 session caches, "), "{lines}");
}

#[test]
fn a_root_full_of_other_things_has_nothing_recorded_yet() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    fs::create_dir_all(root.join("some-folder/runs")).unwrap();
    fs::write(root.join("some-folder/runs/x"), "x").unwrap();
    fs::write(root.join("game-01234567-89abcdef"), "a file").unwrap();
    std::os::unix::fs::symlink("/", root.join("link-01234567-89abcdef")).unwrap();
    let output = stats(&sandbox, &root, false);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("nothing recorded yet"), "{shown}");
    assert!(shown.contains("is a symbolic link") && shown.lines().count() == 2, "{shown}");
}

/// The id of a process that has ended: reports of running processes are not merged.
pub(super) fn ended_process() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn key(number: u8) -> Key {
    [number; std::mem::size_of::<Key>()]
}

/// One run of an application as the layer records it: `put` goes into its device part.
fn run_of(root: &Path, app: &AppName, moment: u64, pid: u32, counters: &[(Count, u64)], put: &[u8]) {
    run_on(root, app, (moment, pid), ("Test GPU", &header()), counters, put);
}

/// [`run_of`] on a device with this name and header.
pub(super) fn run_on(
    root: &Path,
    app: &AppName,
    (moment, pid): (u64, u32),
    (device_name, header): (&str, &DeviceHeader),
    counters: &[(Count, u64)],
    put: &[u8],
) {
    let stash = Stash::open_patiently(root, app).unwrap();
    let part = stash.device(header).unwrap();
    for &number in put {
        assert!(stash.portable().put(Kind::Recipe, &key(number), vec![number; 100].into()));
        assert!(part.put(Kind::Artifact, &key(number), vec![number; 4000].into()));
    }
    let misses = [Count::Compiled, Count::CompiledUnrecorded, Count::CompileRequired];
    // A program that compiled has waited.
    let waited = if counters.iter().any(|(what, _)| misses.contains(what)) { 50_000_000 } else { 0 };
    let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
    let device = DeviceReport {
        waiting: Waiting { calls_ns: waited, ..Waiting::default() },
        name: device_name.to_owned(),
        vendor_id: header.vendor_id,
        device_id: header.device_id,
        driver_id: header.driver_id,
        driver_version: header.driver_version,
        part: part.name().to_owned(),
        counters,
        ..DeviceReport::default()
    };
    let report = RunReport {
        application: app.display.clone(),
        program: format!("/games/{}/game", app.folder),
        started_unix_ms: moment,
        updated_unix_ms: moment + 5,
        pid,
        is_over: true,
        devices: vec![device],
        ..RunReport::default()
    };
    stash.set_reporter(Box::new(move |store| RunReport { store, ..report.clone() }));
    stash.touch();
    drop(part);
    drop(stash);
}

fn game() -> AppName {
    AppName::new(None, b"/usr/bin/My Game")
}

#[test]
fn merged_reports_count_like_the_others() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let pid = ended_process();
    for run in 0..150 {
        let served = if run == 0 { 0 } else { 2 };
        let counters = [(Count::Served, served), (Count::Compiled, 2 - served)];
        let put: &[u8] = if run == 0 { &[1, 2] } else { &[] };
        run_of(&root, &game(), 1_000_000 + run * 1000, pid, &counters, put);
    }
    let reports = fs::read_dir(root.join(game().folder).join("runs")).unwrap();
    let left = reports.filter(|entry| entry.as_ref().unwrap().path().extension() == Some("vkr".as_ref()));
    assert!(left.count() < 100, "nothing was folded");

    let json = parsed(&stats(&sandbox, &root, true));
    let application = &json["applications"][0];
    assert_eq!(application["runs"], 150);
    assert_eq!(application["since_unix_ms"], 1_000_000);
    assert_eq!(application["last_use_unix_ms"], 1_149_005);
    assert_eq!(application["counters"]["served"], 298);
    assert_eq!(application["hit_percent"], 99.3);
    assert_eq!(application["store"]["written_records"], 4);
    assert_eq!(application["benefit"], "some");
    let line = "My_Game: no call of 20 ms or more, the longest 0 s; 2 of 2 pipelines were ready; last run ";
    assert!(shown(&sandbox, &root, &[]).starts_with(line), "{}", shown(&sandbox, &root, &[]));
    let named = shown(&sandbox, &root, &["My_Game", "-v"]);
    for line in [
        "  all 150 runs: 298 of 300 pipelines ready\n",
        "  first run began: 1970-01-01 00:16 (",
        "  last run ended: 1970-01-01 00:19 (",
        "    served                   298  from the stash, without compiling\n",
    ] {
        assert!(named.contains(line), "{line}{named}");
    }
}

#[test]
fn parts_are_listed_with_sizes_records_and_what_they_are_bound_to() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 3)], &[1, 2, 3]);
    let json = parsed(&stats(&sandbox, &root, true));
    let application = &json["applications"][0];
    let parts = application["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert_eq!((&parts[0]["name"], &parts[0]["records"]["recipe"]), (&"portable".into(), &3.into()));
    assert!(parts[0]["bound_to"].is_null());
    assert_eq!(parts[1]["name"], application["devices"][0]["parts"][0]);
    assert_eq!(parts[1]["records"], serde_json::json!({ "artifact": 3 }));
    assert_eq!(parts[1]["payload_bytes"]["artifact"], 12_000);
    assert_eq!(parts[1]["sealed_segments"], 1);
    assert_eq!(parts[1]["bound_to"]["driver"], "VK_DRIVER_ID_MESA_RADV");
    let bytes: u64 = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert!(bytes > 12_300);
    assert_eq!((&application["bytes"], &json["bytes"]), (&bytes.into(), &bytes.into()));
    assert_eq!(application["benefit"], "unknown");
    let shown = shown(&sandbox, &root, &["-vv"]);
    assert!(shown.contains(" (MESA_RADV 25.0.7): ") && shown.contains(", 3 artifacts\n"), "{shown}");
}

#[test]
fn limits_and_what_they_cost_are_shown() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let counters = [(Count::Compiled, 5), (Count::ServedBefore, 4), (Count::ServedBeforeNanos, 3_400_000)];
    run_of(&root, &game(), 1000, 1, &counters, &[1, 2]);
    run_of(&root, &game(), 2000, 1, &[(Count::ModuleMissing, 7)], &[]);
    let stash = Stash::open_patiently(&root, &game()).unwrap();
    assert!(stash.portable().put(Kind::Module, &key(1), noise(2000)));
    drop(stash);
    let json = parsed(&stats(&sandbox, &root, true));
    let (all, own) = (&json["keep"], &json["applications"][0]["keep"]);
    assert_eq!((&all["limit_bytes"], &all["limit_used_percent"]), (&(4_u64 << 30).into(), &0.0.into()));
    assert_eq!((&own["limit_bytes"], &own["modules"]), (&serde_json::Value::Null, &"all".into()));
    let module_bytes = own["module_bytes"].as_u64().unwrap();
    assert_eq!(module_bytes, 2000);
    let share = module_bytes as f64 * 100.0 / json["applications"][0]["bytes"].as_f64().unwrap();
    let percent = own["module_percent"].as_f64().unwrap();
    assert!(percent > 0.0 && (0.0..=0.1).contains(&(share - percent)), "{share} {own}");
    let counters = &json["applications"][0]["counters"];
    assert_eq!([&counters["served_before"], &counters["served_before_ns"]], [4, 3_400_000]);
    assert_eq!(counters["module_missing"], 7);

    let limits = "limit = '1MiB'\nfree-space = 5\ndevice-age = 'none'\nnonsense = 1\n";
    let own = format!("[application.{}]\nlimit = '16KiB'\nmodules = 2\n", game().folder);
    fs::write(root.join("config.toml"), format!("{limits}{own}")).unwrap();
    let json = parsed(&stats(&sandbox, &root, true));
    let (all, own) = (&json["keep"], &json["applications"][0]["keep"]);
    assert_eq!([&all["limit_bytes"], &all["free_space_bytes"]], [1 << 20, 5]);
    assert!(all["device_age_ms"].is_null());
    assert!(all["ignored_settings"][0].as_str().unwrap().contains("nonsense"), "{all}");
    assert_eq!((&own["limit_bytes"], &own["modules"]), (&(16 << 10).into(), &"2".into()));
    let percent = own["limit_used_percent"].as_f64().unwrap();
    let expected = json["applications"][0]["bytes"].as_f64().unwrap() * 100.0 / 16384.0;
    assert!((expected - percent).abs() <= 0.1, "{percent} {expected}");
    let shown = shown(&sandbox, &root, &["-vv"]);
    for part in [
        " % of 1.0 MiB, in ",
        " % of 16.0 KiB; last run ",
        "    served before              4  compiled again: what had been recorded was evicted or lost\n",
        "    time again            3.4 ms  of the time compiling",
        "    code missing               7  of those by identifier",
        "  shaders: those of the last 2 runs are kept; ",
        "setting ignored: ",
    ] {
        assert!(shown.contains(part), "{part}{shown}");
    }
}

#[test]
fn nothing_served_in_several_runs_is_said_plainly() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for run in 1..=3 {
        run_of(&root, &game(), run * 1000, 1, &[(Count::DriverHad, 9)], &[]);
    }
    let json = parsed(&stats(&sandbox, &root, true));
    assert_eq!(json["applications"][0]["benefit"], "none");
    // All pipelines were ready, so there is nothing to look after.
    let shown = self::shown(&sandbox, &root, &[]);
    assert!(
        shown.starts_with("My_Game: nothing to gain: 0 s in all; 9 of 9 pipelines were ready; last run "),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 2, "{shown}");
    run_of(&root, &game(), 4000, 1, &[(Count::DriverHad, 9), (Count::Compiled, 1)], &[]);
    let shown = self::shown(&sandbox, &root, &[]);
    assert!(
        shown.contains("\n  no benefit here: nothing was served in 4 runs; the driver's own cache"),
        "{shown}"
    );
}

#[test]
fn a_last_run_that_only_bypassed_is_reported() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 3), (Count::CompileNanos, 9)], &[1]);
    let report = RunReport {
        started_unix_ms: 2000,
        updated_unix_ms: 2005,
        devices: vec![DeviceReport {
            counters: [(Count::Bypassed.name().to_owned(), 21)].into(),
            bypassed: vec![BypassReport { reason: "statistics".to_owned(), s_type: 0, count: 21 }],
            ..DeviceReport::default()
        }],
        ..RunReport::default()
    };
    let stash = Stash::open_patiently(&root, &game()).unwrap();
    stash.set_reporter(Box::new(move |store| RunReport { store, ..report.clone() }));
    drop(stash);
    let json = parsed(&stats(&sandbox, &root, true));
    let last = &json["applications"][0]["last_run"];
    assert_eq!((&last["started_unix_ms"], &last["last_use_unix_ms"]), (&2000.into(), &2005.into()));
    assert_eq!((&last["counters"]["bypassed"], &last["counters"]["compiled"]), (&21.into(), &0.into()));
    assert_eq!(last["bypassed"][0]["reason"], "statistics");
    assert!(last["hit_percent"].is_null());
    let line = "  nothing but 21 pipelines left to the driver: pipeline statistics asked for\n";
    let shown = self::shown(&sandbox, &root, &[]);
    assert!(
        shown.contains("; 21 pipelines left to the driver; last run ") && shown.contains(line),
        "{shown}"
    );
    run_of(&root, &game(), 3000, 1, &[(Count::Served, 3), (Count::CompiledUnrecorded, 4)], &[]);
    let shown = self::shown(&sandbox, &root, &[]);
    assert!(!shown.contains("left to the driver"), "{shown}");
}

#[test]
fn costs_of_compiles_are_no_artifacts() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for run in [1000, 2000] {
        run_of(&root, &game(), run, 1, &[(Count::CompiledUnrecorded, 2), (Count::NothingKept, 2)], &[]);
    }
    let stash = Stash::open_patiently(&root, &game()).unwrap();
    let device = stash.device(&header()).unwrap();
    for key in [[1; 32], [2; 32]] {
        assert!(stash.portable().put(Kind::Recipe, &key, b"recipe".as_slice().into()));
        assert!(device.put(Kind::Cost, &key, Box::new([7, 0, 0, 0])));
    }
    drop((device, stash));
    let shown = shown(&sandbox, &root, &["-vv"]);
    assert!(shown.contains("2 recipes") && shown.contains("compile times of 2 pipelines"), "{shown}");
    let remark =
        "this driver's caches keep nothing, and background work had nothing ready when the program asked";
    assert!(shown.contains(remark), "{shown}");
    let json = parsed(&stats(&sandbox, &root, true));
    let parts = json["applications"][0]["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["records"]["cost"] == 2), "{parts:?}");
    assert!(parts.iter().all(|part| part["records"]["artifact"].is_null()), "{parts:?}");
    assert_eq!(json["applications"][0]["benefit"], "none");
}

#[test]
fn damaged_and_foreign_segments_are_named() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 3)], &[1, 2, 3]);
    let stash = root.join(game().folder);
    let device = fs::read_dir(&stash).unwrap().map(|entry| entry.unwrap().path());
    let device = device.into_iter().find(|path| path.to_str().unwrap().contains("/device-")).unwrap();
    let segment = |folder: &Path| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let (own, portable) = (segment(&device), segment(&stash.join("portable")));
    fs::write(device.join("aaa.vks"), "no segment, but longer than the header of one is. ".repeat(20))
        .unwrap();
    fs::copy(&portable, device.join("bbb.vks")).unwrap();
    fs::write(device.join("ccc.vks"), "").unwrap();
    std::os::unix::fs::symlink(&own, device.join("ddd.vks")).unwrap();
    // Without its end the segment has no index, and its last record is cut.
    let whole = fs::read(&own).unwrap();
    fs::write(&own, &whole[..9000]).unwrap();

    let json = parsed(&stats(&sandbox, &root, true));
    let part = &json["applications"][0]["parts"][1];
    let refused = part["refused_files"].as_array().unwrap();
    let reasons: Vec<_> = refused.iter().map(|file| file["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["not_a_segment", "other_part", "truncated", "symbolic_link"]);
    assert_eq!((&part["sealed_segments"], &part["records"]["artifact"]), (&0.into(), &2.into()));
    let shown = self::shown(&sandbox, &root, &[]);
    assert!(shown.contains("\n  4 files not used, the first because it is not a segment: "), "{shown}");
    let shown = self::shown(&sandbox, &root, &["My_Game", "-vv"]);
    assert!(shown.contains("    refused aaa.vks: not a segment\n"), "{shown}");
    assert!(shown.contains("    refused ddd.vks: a symbolic link\n"), "{shown}");
    assert!(shown.contains("2 artifacts"), "{shown}");
}

#[test]
fn errors_of_the_store_are_shown() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let stash = Stash::open_patiently(&root, &game()).unwrap();
    stash.set_reporter(Box::new(|_| RunReport {
        store: StoreReport {
            unusable: "a read-only file system".to_owned(),
            refused: [("other_driver".to_owned(), 2), ("put_off".to_owned(), 5)].into(),
            damaged_records: 4,
            write_errors: [("no space left on device".to_owned(), 3)].into(),
            dropped: 1,
            evicted_bytes: [("module_policy".to_owned(), 1024), ("total_limit".to_owned(), 3)].into(),
            evicted_records: 2,
            compacted_bytes: 2048,
            reclaimed_bytes: 512,
            ..StoreReport::default()
        },
        ..RunReport::default()
    }));
    stash.touch();
    drop(stash);
    let store = &parsed(&stats(&sandbox, &root, true))["applications"][0]["store"];
    assert_eq!(store["unusable"]["a read-only file system"], 1);
    assert_eq!((&store["damaged_records"], &store["dropped"]), (&4.into(), &1.into()));
    assert_eq!(store["write_errors"]["no space left on device"], 3);
    assert_eq!(store["evicted_bytes"], serde_json::json!({ "module_policy": 1024, "total_limit": 3 }));
    assert_eq!(
        [&store["evicted_records"], &store["compacted_bytes"], &store["reclaimed_bytes"]],
        [2, 2048, 512]
    );
    let line = "\n  the stash could not be used: a read-only file system (and ";
    assert!(shown(&sandbox, &root, &[]).contains(line), "{}", shown(&sandbox, &root, &[]));
    let shown = shown(&sandbox, &root, &["-v"]);
    for line in [
        "  not everything could be written: no space left on device (3 times)\n",
        "  the stash could not be used in 1 run: a read-only file system\n",
        "  files refused in those runs: 2 other driver\n",
        "  files and parts that another thread read, because the program could not wait: 5\n",
        "  4 damaged records skipped in those runs\n",
        "  failed writes: 3 no space left on device\n",
        "  1 record not written\n",
        "  evicted: 2 records, 1.0 KiB module policy, 3 B total limit\n",
        "  merging files wrote 2.0 KiB and freed 512 B\n",
    ] {
        assert!(shown.contains(line), "{line}{shown}");
    }
}

#[test]
fn files_that_were_removed_without_merging_are_not_said_to_be_merged() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let stash = Stash::open_patiently(&root, &game()).unwrap();
    let store = StoreReport { reclaimed_bytes: 512, ..StoreReport::default() };
    stash.set_reporter(Box::new(move |_| RunReport { store: store.clone(), ..RunReport::default() }));
    stash.touch();
    drop(stash);
    let shown = shown(&sandbox, &root, &["-v"]);
    assert!(shown.contains("  512 B freed by removing files\n"), "{shown}");
}

#[test]
fn what_the_driver_answered_has_its_share() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run_of(&root, &game(), 1000, 1, &[(Count::Served, 1), (Count::DriverHad, 3)], &[1]);
    let work = &parsed(&stats(&sandbox, &root, true))["applications"][0];
    assert_eq!((&work["hit_percent"], &work["driver_percent"]), (&25.0.into(), &75.0.into()));
    let shown = shown(&sandbox, &root, &["-v"]);
    let line = "    driver had                 3  in the program's or the driver's own caches\n";
    assert!(shown.contains(line) && shown.contains(": 100.0 % of 4 pipelines ready\n"), "{shown}");
}

#[test]
fn a_root_that_others_may_write_to_is_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run_of(&root, &game(), 1000, 1, &[], &[1]);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = stats(&sandbox, &root, false);
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), b"".as_slice()));
    assert!(one_error_line(&refused).contains("can be written to by others (mode 777)"));
}

#[test]
fn a_root_that_cannot_be_read_is_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&root).is_ok() {
        skip::not_here(&skip::this_test(), "permissions do not bind this user");
        return;
    }
    let refused = stats(&sandbox, &root, true);
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), b"".as_slice()));
    assert!(one_error_line(&refused).contains("cannot be opened"));
}

#[test]
fn an_application_that_others_may_write_to_is_left_out_with_its_reason() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run_of(&root, &game(), 1000, 1, &[(Count::Compiled, 1)], &[1]);
    let other = AppName::new(Some(b"Other"), b"/usr/bin/other");
    run_of(&root, &other, 2000, 1, &[(Count::Compiled, 1)], &[1]);
    let folder = root.join(&other.folder);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
    let json = parsed(&stats(&sandbox, &root, true));
    assert_eq!(json["applications"].as_array().unwrap().len(), 1);
    assert_eq!(json["unreadable"][0]["path"], folder.to_str().unwrap());
    let output = stats(&sandbox, &root, false);
    let shown = text(&output.stdout);
    assert!(shown.contains("left out: ") && shown.contains("(mode 770)"), "{shown}");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let sandbox = Sandbox::new();
    let tool = env!("CARGO_BIN_EXE_vkstash");
    let mut shell = Command::new("sh");
    shell.args(["-c", "{ sleep 0.1; \"$0\" stats; echo $? >&2; } | true", tool]).env("HOME", sandbox.home());
    assert_eq!(text(&output(&mut shell).stderr), "0\n");
}
