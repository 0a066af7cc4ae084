//! `vkstash cache`: disabling, enabling and clearing kinds of caches.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_model::variables::CONFIG_FILE;
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

use super::*;

fn cache(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = sandbox.tool();
    command.arg("cache").args(arguments).arg("--dir").arg(dir);
    output(&mut command)
}

/// The lines that it prints, their columns separated by one space.
fn lines(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> Vec<String> {
    let output = cache(sandbox, dir, arguments);
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout).lines();
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// A stash of two applications with a module and a pipeline each.
fn filled(dir: &Path) -> [AppName; 2] {
    ["game", "tool"].map(|name| {
        let app = AppName::new(Some(name.as_bytes()), format!("/bin/{name}").as_bytes());
        let stash = Stash::open_patiently(dir, &app).unwrap();
        assert!(stash.portable().put(Kind::Module, &[1; 32], [1; 99].into()));
        assert!(stash.portable().put(Kind::Recipe, &[2; 32], [1; 99].into()));
        let device = stash.device(&header()).unwrap();
        assert!(device.put(Kind::Artifact, &[3; 32], [1; 99].into()));
        app
    })
}

/// How many records of these kinds each application has.
fn records(dir: &Path) -> Vec<[u64; 3]> {
    let of =
        |kinds: &std::collections::BTreeMap<String, u64>, name: &str| kinds.get(name).copied().unwrap_or(0);
    let all = list_applications(dir).unwrap();
    let sum = |parts: &[vkstash_store::stash::inspect::PartInfo], name: &str| {
        parts.iter().map(|part| of(&part.records, name)).sum()
    };
    all.iter().map(|info| ["module", "recipe", "artifact"].map(|name| sum(&info.parts, name))).collect()
}

#[test]
fn kinds_are_disabled_for_all_and_enabled_for_one() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let all_enabled = CHOICES.map(|kind| format!("{kind} enabled default"));
    assert_eq!(lines(&sandbox, &dir, &[])[1..], all_enabled);
    assert!(!dir.exists(), "showing makes nothing");
    let [game, _] = filled(&dir);
    let shown = lines(&sandbox, &dir, &["disable", "compilations", "sessions"]);
    let states = ["disabled", "enabled", "enabled", "disabled"];
    let expected: Vec<_> =
        CHOICES.iter().zip(states).map(|(kind, state)| format!("{kind} {state} set for all")).collect();
    assert_eq!(shown[1..], expected);
    let of_all = "disabled-caches = [\"compilations\", \"sessions\"]\n";
    let file = || fs::read_to_string(dir.join(CONFIG_FILE)).unwrap();
    assert_eq!(file(), of_all);

    let shown = lines(&sandbox, &dir, &["enable", "compilations", "--application", "game"]);
    assert_eq!(shown[1], "compilations enabled set for this application");
    assert_eq!(shown[4], "sessions disabled set for this application");
    assert_eq!(
        file(),
        format!("{of_all}\n[application.{}]\ndisabled-caches = [\"sessions\"]\n", game.display)
    );
    lines(&sandbox, &dir, &["disable", "compilations", "--app", "game"]);
    assert_eq!(file(), of_all, "as for all");
    lines(&sandbox, &dir, &["enable", "compilations", "sessions"]);
    assert!(!dir.join(CONFIG_FILE).exists());
}

const CHOICES: [&str; 4] = ["compilations", "conversions", "driver-managed", "sessions"];

#[test]
fn clearing_removes_the_records_of_a_kind() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    filled(&dir);
    assert_eq!(records(&dir), [[1, 1, 1], [1, 1, 1]]);
    lines(&sandbox, &dir, &["clear", "compilations", "--app", "tool"]);
    let mut left = records(&dir);
    left.sort_unstable();
    assert_eq!(left, [[1, 1, 0], [1, 1, 1]]);
    let said = lines(&sandbox, &dir, &["clear", "compilations", "conversions"]);
    assert!(said[0].starts_with("cleared: 3 records, "), "{said:?}");
    assert_eq!(records(&dir), [[0, 1, 0], [0, 1, 0]]);
    let said = lines(&sandbox, &dir, &["clear", "compilations"]);
    assert_eq!(said[0], "cleared: 0 records, because there are none in the stash");
    let said = lines(&sandbox, &dir, &["clear", "compilations", "--app", "tool"]);
    assert_eq!(said[0], "cleared: 0 records, because there are none of this application");
}

#[test]
fn clearing_sessions_deletes_their_files_and_nothing_else() {
    use vkstash_sessions::description::{Description, Guid, Mode, Place};
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let [game, other] = filled(&dir);
    let description = |number| Description {
        identifier: Guid([number; 16]),
        mode: Mode::Disk,
        driver_versioned: false,
        working_directory: false,
        maximum_in_memory_bytes: 0,
        maximum_in_memory_entries: 0,
        maximum_value_file_bytes: 0,
        version: 7,
    };
    for number in 1..4 {
        let place = Place::new(&dir, &game);
        let session = vkstash_sessions::session::Session::create(&description(number), Some(&place), None);
        session.unwrap().store(b"key", b"value").unwrap();
    }
    let said = lines(&sandbox, &dir, &["clear", "sessions"]);
    assert_eq!(said, ["cleared: 3 session caches of game"]);
    assert_eq!(fs::read_dir(dir.join(&game.folder).join("sessions")).unwrap().count(), 0);
    assert!(!dir.join(&other.folder).join("sessions").exists(), "clearing makes nothing");
    assert_eq!(records(&dir), [[1, 1, 1], [1, 1, 1]]);
}

#[test]
fn what_cannot_be_meant_is_wrong_usage() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    for wrong in [&["disable"][..], &["clear"], &["disable", "everything"], &["toggle", "sessions"]] {
        assert_eq!(cache(&sandbox, &dir, wrong).status.code(), Some(2), "{wrong:?}");
    }
    let refused = cache(&sandbox, &dir, &["clear", "driver-managed"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(one_error_line(&refused).contains("cannot be cleared"), "{refused:?}");
    let unknown = cache(&sandbox, &dir, &["disable", "sessions", "--application", "nobody"]);
    assert!(one_error_line(&unknown).contains("nobody"));
}

#[test]
fn run_tells_drivers_to_keep_nothing_if_their_caches_are_disabled() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let says = || {
        let mut command = sandbox.tool();
        command.args(["run", "--quiet", "--dir"]).arg(&dir).args(["--", "sh", "-c"]);
        let output = output(command.arg("echo $MESA_SHADER_CACHE_DISABLE $__GL_SHADER_DISK_CACHE"));
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(says(), "");
    lines(&sandbox, &dir, &["disable", "driver-managed"]);
    assert_eq!(says(), "1 0");
    lines(&sandbox, &dir, &["enable", "driver-managed"]);
    assert_eq!(says(), "");
}

#[test]
fn clearing_sessions_says_that_there_are_none() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    filled(&dir);
    let said = lines(&sandbox, &dir, &["clear", "sessions"]);
    assert_eq!(said, ["cleared: 0 session caches, because there are none in the stash"]);
}
