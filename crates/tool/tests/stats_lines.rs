//! Lines of `vkstash stats`, one by one.

use vkstash_model::app_name::AppName;
use vkstash_model::counters::Count;
use vkstash_store::format::device::DeviceHeader;

use super::stats::{ended_process, run_on, shown};
use super::*;

const GPU: &str = "Test GPU";

fn app(name: &str) -> AppName {
    AppName::new(None, name.as_bytes())
}

/// Milliseconds since 1970, so long ago.
fn ago(age: Duration) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from((now - age).as_millis()).unwrap()
}

fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600 + 600)
}

fn run(root: &Path, name: &str, moment: u64, counters: &[(Count, u64)]) {
    run_on(root, &app(name), (moment, 1), (GPU, &header()), counters, &[]);
}

#[test]
fn an_application_is_one_line_with_the_figures_of_its_last_run() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run(&root, "game", ago(hours(30)), &[(Count::Compiled, 415)]);
    let counters = [
        (Count::Parked, 398),
        (Count::Served, 10),
        (Count::DriverHad, 4),
        (Count::Compiled, 3),
        (Count::SavedNanos, 12_400_000_000),
    ];
    run(&root, "game", ago(hours(2)), &counters);
    let lines = shown(&sandbox, &root, &[]);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(
        lines[0],
        "game: no call of 20 ms or more, the longest 0 s; 412 of 415 pipelines were ready; last run 2 h ago"
    );
    assert!(
        lines[1].starts_with("the whole stash: ") && lines[1].contains(" % of 4.0 GiB, in "),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn what_is_zero_or_unknown_is_left_out() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run(&root, "nothing", ago(hours(1)), &[]);
    run(&root, "ahead", ago(hours(2)), &[(Count::Parked, 1), (Count::SavedNanos, 9), (Count::AheadNanos, 9)]);
    let lines = shown(&sandbox, &root, &[]);
    assert!(lines.starts_with("nothing: created no pipeline; last run 1 h ago\n"), "{lines}");
    let ahead = "\nahead: nothing to gain: 9 ns in all; 1 of 1 pipeline was ready; last run 2 h ago\n";
    assert!(lines.contains(ahead), "{lines}");
}

#[test]
fn without_the_last_runs_report_the_figures_are_those_of_all() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let pid = ended_process();
    for number in 0..200 {
        let counters = [(Count::Served, 1), (Count::Compiled, 1)];
        run_on(&root, &app("game"), (1_000_000 + number, pid), (GPU, &header()), &counters, &[]);
    }
    let folder = root.join(app("game").folder).join("runs");
    let mut left = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() == Some("vkr".as_ref()) {
            fs::remove_file(path).unwrap();
            left += 1;
        }
    }
    let folded = 200 - left;
    let lines = shown(&sandbox, &root, &[]);
    let expected = format!("; {folded} of {} pipelines were ready in {folded} runs; last run ", 2 * folded);
    assert!(lines.contains(&expected), "{lines}");

    // Of what is folded nobody knows which runs were since then.
    let since = |since: &str| shown(&sandbox, &root, &["--since", since]);
    let expected =
        format!("\n  not counted: {folded} older runs of which only sums are kept, and no dates\n");
    assert!(since("1970-01-01").contains(&expected), "{}", since("1970-01-01"));
    assert!(since("7d").starts_with("no run since then is known\n"), "{}", since("7d"));
}

#[test]
fn the_ten_that_were_used_last_are_listed() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for number in 0..12 {
        run(&root, &format!("game{number:02}"), ago(hours(number + 1)), &[(Count::Served, 1)]);
    }
    let lines = shown(&sandbox, &root, &[]);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 12, "{lines:?}");
    for (number, line) in lines.iter().take(10).enumerate() {
        assert!(line.starts_with(&format!("game{number:02}: nothing to gain: 0 s in all; ")), "{lines:?}");
    }
    assert_eq!(lines[10], "and 2 more: vkstash stats --all");
    let all = shown(&sandbox, &root, &["--all"]);
    assert!(all.lines().count() == 13 && !all.contains("more:") && all.contains("\ngame11: "), "{all}");
}

/// What stands below the line of an application after runs with these counters.
fn attention(counters: &[&[(Count, u64)]]) -> String {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for (number, counters) in counters.iter().enumerate() {
        run(&root, "game", 1000 * (number as u64 + 1), counters);
    }
    let lines = shown(&sandbox, &root, &[]);
    lines.lines().nth(1).unwrap().trim_start().to_owned()
}

#[test]
fn what_wants_attention_is_one_line_below() {
    let long = (Count::SavedNanos, 1_000_000_000);
    let first: &[(Count, u64)] = &[(Count::Compiled, 9), (Count::NotPlanned, 9), long];
    assert_eq!(attention(&[first]), "the first session: nothing could be ready yet");
    // Nothing was planned before the first session, so nothing is said of the plan.
    let some = [(Count::DriverHad, 1), (Count::Compiled, 9), (Count::NotPlanned, 9), long];
    assert!(attention(&[&some]).starts_with("the whole stash: "));
    let second = [(Count::Served, 8), (Count::Compiled, 1), (Count::NotKept, 2), (Count::AskedFirst, 7)];
    let line =
        "none was ready before the program asked: 7 asked for before a worker came to them, 2 not kept yet";
    assert_eq!(attention(&[first, &second]), line);
    let died = [(Count::Served, 8), (Count::Compiled, 3), (Count::Quarantined, 3)];
    let line = "3 pipelines not served, because programs died of them: `vkstash quarantine`";
    assert_eq!(attention(&[first, &died]), line);
    let failed = [(Count::Served, 8), (Count::InternalFailures, 1)];
    assert_eq!(attention(&[first, &failed]), "the layer failed in 1 call: please report this");
    let well = [(Count::Parked, 8), (Count::Compiled, 1), (Count::AskedFirst, 1)];
    assert!(attention(&[first, &well]).starts_with("the whole stash: "));
}

#[test]
fn settings_that_disable_are_named() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for moment in [1000, 2000] {
        run(&root, "game", moment, &[(Count::Served, 1), (Count::Compiled, 2), (Count::AskedFirst, 3)]);
    }
    let of_all = "background = 'disabled'\nfree-space = '8000000TiB'\n";
    fs::write(root.join("config.toml"), of_all).unwrap();
    let lines = shown(&sandbox, &root, &[]);
    assert!(
        lines.contains("\n  background work is disabled: nothing is ready before it is asked for\n"),
        "{lines}"
    );
    assert!(lines.contains("\nthe disk is nearly full: "), "{lines}");
    let of_one = format!("{of_all}[application.game]\ndisabled-caches = ['compilations']\n");
    fs::write(root.join("config.toml"), of_one).unwrap();
    let lines = shown(&sandbox, &root, &[]);
    let line = "\n  disabled by the settings: nothing is served or recorded (`vkstash cache`) \
        (and 1 more: vkstash stats NAME)\n";
    assert!(lines.contains(line), "{lines}");
}

#[test]
fn a_driver_update_is_no_missing_benefit() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let updated = DeviceHeader { driver_version: header().driver_version + 1, ..header() };
    let compiled = [(Count::Compiled, 3), (Count::NotKept, 3)];
    run_on(&root, &app("game"), (1000, 1), (GPU, &header()), &compiled, &[1, 2, 3]);
    run_on(&root, &app("game"), (2000, 1), (GPU, &updated), &[(Count::CompileRequired, 3)], &[]);
    let lines = shown(&sandbox, &root, &[]);
    let line = "\n  not ready: MESA_RADV 25.0.8 is new here, and has 0 of the 3 pipelines that MESA_RADV 25.0.7 had: \
        vkstash prewarm game\n";
    assert!(lines.contains(line) && !lines.contains("no benefit"), "{lines}");
    run_on(&root, &app("game"), (3000, 1), (GPU, &updated), &compiled, &[1]);
    let lines = shown(&sandbox, &root, &[]);
    assert!(
        lines.contains("\n  not ready: MESA_RADV 25.0.8 is new here, and has 1 of the 3 pipelines that "),
        "{lines}"
    );
    let other = DeviceHeader { driver_version: header().driver_version + 2, ..header() };
    run_on(&root, &app("game"), (4000, 1), (GPU, &other), &compiled, &[1, 2, 3]);
    let lines = shown(&sandbox, &root, &[]);
    let line = "\n  the driver was updated before this session: 3 of 3 pipelines compiled again; \
        `vkstash prewarm --all` after an update compiles them before, and ";
    assert!(lines.contains(line), "{lines}");
    // Where a driver's caches keep nothing, no command can help.
    let another = DeviceHeader { driver_version: header().driver_version + 3, ..header() };
    let kept_nothing = [(Count::DriverHad, 1), (Count::CompiledUnrecorded, 2), (Count::NothingKept, 2)];
    run_on(&root, &app("other"), (1000, 1), (GPU, &header()), &kept_nothing, &[]);
    run_on(&root, &app("other"), (2000, 1), (GPU, &another), &kept_nothing, &[]);
    let lines = shown(&sandbox, &root, &["other"]);
    let line = "\n  the driver was updated before this session: 2 of 3 pipelines compiled again\n";
    assert!(lines.contains(line), "{lines}");
}

#[test]
fn reports_that_cannot_be_read_are_counted() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for moment in [1000, 2000, 3000] {
        run(&root, "game", moment, &[(Count::Parked, 1)]);
    }
    let runs = fs::read_dir(root.join(app("game").folder).join("runs")).unwrap();
    let mut runs: Vec<_> = runs.map(|entry| entry.unwrap().path()).collect();
    runs.retain(|path| path.extension() == Some("vkr".as_ref()));
    runs.sort();
    let mut other_version = fs::read(&runs[0]).unwrap();
    other_version[8] += 1;
    fs::write(&runs[0], other_version).unwrap();
    fs::write(&runs[1], "\u{1b}[2J").unwrap();
    let lines = shown(&sandbox, &root, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&lines).unwrap();
    let application = &json["applications"][0];
    assert_eq!((&application["runs"], &application["unreadable_reports"]), (&1.into(), &2.into()));
    let line = "\n  2 reports of runs not read: damaged, or of another version of vkstash\n";
    assert!(shown(&sandbox, &root, &[]).contains(line));
}

#[test]
fn a_name_shows_the_sessions_of_one_application() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let updated = DeviceHeader { driver_version: header().driver_version + 1, ..header() };
    let saved = [(Count::Served, 3), (Count::Compiled, 1), (Count::SavedNanos, 5_000_000_000)];
    run(&root, "game", 1000, &[(Count::Compiled, 4)]);
    run(&root, "game", 2000, &saved);
    run_on(&root, &app("game"), (3000, 1), (GPU, &updated), &[(Count::Compiled, 4)], &[]);
    run_on(&root, &app("game"), (4000, 1), (GPU, &updated), &saved, &[]);
    run(&root, "other", 3000, &[(Count::Compiled, 1)]);
    let lines = shown(&sandbox, &root, &["game"]);
    let expected = "\
game: Test GPU, MESA_RADV 25.0.8; 0 B; last run 56 years ago
  no call of 20 ms or more, the longest 0 s; 3 of 4 pipelines were ready
  session           driver            calls >= 20 ms  longest  waiting   ready
  1970-01-01 00:00                                 0      0 s    50 ms  3 of 4
  1970-01-01 00:00  MESA_RADV 25.0.8               0      0 s    50 ms  0 of 4  first after the update
  1970-01-01 00:00                                 0      0 s    50 ms  3 of 4
  1970-01-01 00:00  MESA_RADV 25.0.7               0      0 s    50 ms  0 of 4  first session
  saved so far: up to 10 s of waiting in 4 runs
";
    let years = lines.split("last run ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(lines, expected.replace("56", years));
    let last = shown(&sandbox, &root, &["game", "--last-run"]);
    assert_eq!(last.matches("1970-01-01").count(), 1, "{last}");
    assert!(last.contains("  saved so far: up to 5 s of waiting in 1 run\n"), "{last}");
}

#[test]
fn a_few_of_many_sessions_are_shown_and_the_first_one() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    for number in 1..=12 {
        run(&root, "game", 1000 * number, &[(Count::Served, number)]);
    }
    let lines = shown(&sandbox, &root, &["game"]);
    let ready = |lines: &str| -> Vec<String> {
        let rows = lines.lines().filter(|line| line.starts_with("  1970-01-01"));
        rows.map(|row| row.split("0 s").last().unwrap().trim().to_owned()).collect()
    };
    assert_eq!(ready(&lines).len(), 9, "{lines}");
    assert!(lines.contains("\n  and 3 between them: -v\n"), "{lines}");
    assert_eq!(ready(&lines).last().map(String::as_str), Some("1 of 1  first session"));
    assert_eq!(ready(&shown(&sandbox, &root, &["game", "-v"])).len(), 12);
}

#[test]
fn runs_since_a_moment_are_counted_alone() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run(&root, "game", ago(hours(24 * 9)), &[(Count::Compiled, 4)]);
    run(&root, "game", ago(hours(1)), &[(Count::Served, 4)]);
    run(&root, "old", ago(hours(24 * 9)), &[(Count::Compiled, 4)]);
    let lines = shown(&sandbox, &root, &["--since", "7d", "-v"]);
    assert!(lines.contains(": 100.0 % of 4 pipelines ready\n") && !lines.contains("old: "), "{lines}");
    let lines = shown(&sandbox, &root, &["--since", "10d", "game", "-v"]);
    assert!(lines.contains("  all 2 runs: 4 of 8 pipelines ready\n"), "{lines}");
    let refused = output(sandbox.tool().args(["stats", "--since", "yesterday"]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("takes an age (7d, 12h, 6months) or a date"), "{refused:?}");
}

#[test]
fn one_name_of_two_applications_is_told_apart() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let names: Vec<_> =
        (0..12).map(|number| AppName::new(Some(number.to_string().as_bytes()), b"/bin/game")).collect();
    for (number, name) in names.iter().enumerate() {
        let moment = ago(hours(number as u64 + 1));
        run_on(&root, name, (moment, 1), (GPU, &header()), &[(Count::Served, 1)], &[]);
    }
    let lines = shown(&sandbox, &root, &[]);
    assert!(lines.starts_with(&format!("{}: ", names[0].folder)), "{lines}");
    assert_eq!(lines.lines().nth(1), Some(&*format!("  /games/{}/game", names[0].folder)), "{lines}");
    let refused = output(sandbox.tool().args(["stats", "game", "--dir"]).arg(&root));
    assert_eq!(refused.status.code(), Some(1));
    let lines: Vec<_> = text(&refused.stderr).lines().collect();
    assert!(
        lines[0].ends_with("\"game\" is the name of several applications; name one by its folder:"),
        "{lines:?}"
    );
    assert_eq!(lines[1], format!("  {0} (1 h ago, /games/{0}/game)", names[0].folder));
    assert_eq!((lines.len(), lines[11]), (12, "  and 2 more: `vkstash list`"));
    let named = shown(&sandbox, &root, &[names[11].folder.as_str()]);
    assert!(named.contains("; last run 12 h ago\n"), "{named}");
    let unknown = output(sandbox.tool().args(["stats", "ga\nme\u{1b}", "--dir"]).arg(&root));
    assert!(one_error_line(&unknown).contains("no application \"ga\\nme\\u{1b}\""), "{unknown:?}");
}

#[test]
fn every_counter_is_shown_where_zeros_are_asked_for() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run(&root, "game", 1000, &[(Count::Served, 7)]);
    let all = shown(&sandbox, &root, &["game", "-vv", "--zero"]);
    for what in Count::ALL {
        assert!(
            all.contains(&format!("\n    {:<18}  ", what.label())) && all.contains(what.text()),
            "{what:?}{all}"
        );
    }
    assert!(!shown(&sandbox, &root, &["game", "-vv"]).contains(Count::Compiled.text()));
}

#[test]
fn parts_of_one_device_say_in_what_they_differ() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let headers = [
        header(),
        DeviceHeader { features_digest: [7; 32], ..header() },
        DeviceHeader { features_digest: [7; 32], pointer_width: 4, ..header() },
        DeviceHeader { vendor_id: 0x9999, ..header() },
    ];
    for (number, header) in headers.iter().enumerate() {
        let moment = (1000 + number as u64, 1);
        run_on(&root, &app("game"), moment, (GPU, header), &[(Count::Compiled, 1)], &[1]);
    }
    let lines = shown(&sandbox, &root, &["game", "-vv"]);
    let differ: Vec<_> = lines.lines().filter(|line| line.contains("    differs from part ")).collect();
    assert_eq!(differ.len(), 2, "{lines}");
    let both = differ.join("\n");
    assert!(
        both.contains(" in: enabled features")
            && both.contains(" in: pointer width (")
            && !lines.contains("no benefit"),
        "{lines}"
    );
    assert!(!shown(&sandbox, &root, &["game", "-v"]).contains("differs"));
}

#[test]
fn words_of_this_project_alone_are_for_those_who_ask_twice() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let every: Vec<_> = Count::ALL.iter().map(|&what| (what, 1)).collect();
    run(&root, "game", 1000, &every);
    run_on(&root, &app("game"), (2000, 1), (GPU, &header()), &every, &[1, 2]);
    for arguments in [&[] as &[&str], &["game"], &["game", "-v"]] {
        let lines = shown(&sandbox, &root, arguments);
        for word in ["artifact", "recipe", "identifier pair", "device configuration", "parked", "portable"] {
            assert!(!lines.contains(word), "{word}: {lines}");
        }
    }
    assert!(shown(&sandbox, &root, &["-vv"]).contains("2 artifacts"));
}

#[test]
fn the_drivers_limits_are_for_those_who_ask() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    run(&root, "game", 1000, &[(Count::Served, 1)]);
    let raised = "`vkstash run` raises the limits of the drivers' own caches: ";
    for arguments in [&[] as &[&str], &["game"]] {
        assert!(!shown(&sandbox, &root, arguments).contains(raised));
    }
    let json: serde_json::Value = serde_json::from_str(&shown(&sandbox, &root, &["--json"])).unwrap();
    let limits = json["keep"]["driver_limits"].as_array().unwrap();
    // A small disk raises none.
    let raises = limits.iter().any(|limit| !limit["raised_to_bytes"].is_null());
    assert_eq!(shown(&sandbox, &root, &["-v"]).contains(raised), raises);
}

#[test]
fn lines_fit_the_terminal() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let counters =
        [(Count::Parked, 398), (Count::Compiled, 3), (Count::SavedNanos, 12_400_000_000), (Count::Failed, 2)];
    run(&root, "An application with a long name", 1000, &counters);
    for columns in [20_usize, 60, 80, 200] {
        for arguments in [&[] as &[&str], &["-v"], &["-vv", "--zero"]] {
            let mut command = sandbox.tool();
            command.arg("stats").arg("--dir").arg(&root).args(arguments).env("COLUMNS", columns.to_string());
            let output = output(&mut command);
            let widest = text(&output.stdout).lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns, "{columns}: {}", text(&output.stdout));
        }
    }
    let mut command = sandbox.tool();
    let coloured = output(command.args(["stats", "--dir"]).arg(&root).env("CLICOLOR_FORCE", "1"));
    assert!(
        text(&coloured.stdout).starts_with("\x1b[1mAn_application_with_a_long_name\x1b[0m: "),
        "{coloured:?}"
    );
}

#[test]
fn names_bring_no_control_characters_and_no_lines() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let root = sandbox.path("root");
    let device = "GPU\n\u{1b}[2J\u{202e}";
    run_on(&root, &app("game"), (1000, 1), (device, &header()), &[(Count::Compiled, 1)], &[1]);
    let odd = root.join(OsStr::from_bytes(b"odd\xff\n-01234567-89abcdef"));
    fs::create_dir(&odd).unwrap();
    fs::write(root.join(app("game").folder).join("portable/\u{1b}[2J\n.vks"), "no segment").unwrap();
    for arguments in [&[] as &[&str], &["game"], &["-v"], &["-vv", "--zero"]] {
        let lines = shown(&sandbox, &root, arguments);
        assert!(!lines.contains('\u{1b}') && !lines.contains('\u{202e}'), "{lines:?}");
        assert!(
            !lines.lines().any(|line| line.starts_with(".vks") || line.starts_with('\u{fffd}')),
            "{lines}"
        );
    }
}
