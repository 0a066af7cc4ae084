//! `vkstash background`: the stored modes, and where they come from.

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::Kind;
use vkstash_store::settings::places::FILE;
use vkstash_store::stash::open::Stash;

use super::*;

fn background(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = sandbox.tool();
    command.arg("background").arg("--dir").arg(dir).args(arguments);
    output(&mut command)
}

/// The lines that it prints, their columns separated by one space.
fn shown(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> Vec<String> {
    let output = background(sandbox, dir, arguments);
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout).lines();
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn file(folder: &Path) -> String {
    fs::read_to_string(folder.join(FILE)).unwrap_or_default()
}

#[test]
fn modes_are_stored_for_all_and_for_one_application() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    assert_eq!(shown(&sandbox, &dir, &[])[1..], ["background allowed default", "developer-mode off default"]);
    assert!(!dir.exists(), "showing makes nothing");
    let app = AppName::new(Some(b"game"), b"/bin/game", &[]);
    assert!(Stash::open_patiently(&dir, &app).unwrap().portable().put(
        Kind::Module,
        &[1; 32],
        [1; 99].into()
    ));

    let of_all = shown(&sandbox, &dir, &["disabled", "--developer-mode", "on"]);
    assert_eq!(of_all[1..], ["background disabled set for all", "developer-mode on set for all"]);
    assert_eq!(file(&dir), "background = \"disabled\"\ndeveloper-mode = true\n");
    let of_one = shown(&sandbox, &dir, &["--app", "game"]);
    assert_eq!(of_one[1..], ["background disabled set for all"]);
    let of_one = shown(&sandbox, &dir, &["intrusive", "--application", "game"]);
    assert_eq!(of_one[1..], ["background intrusive set for this application"]);
    let section = "\n[application.game]\nbackground = \"intrusive\"\n";
    assert!(file(&dir).ends_with(section), "{}", file(&dir));
    let all = shown(&sandbox, &dir, &[]);
    assert_eq!(all[3..], [format!("game ({})", app.folder), of_one[1].clone()]);

    assert_eq!(
        shown(&sandbox, &dir, &["--default", "--app", "game"])[1..],
        ["background disabled set for all"]
    );
    assert_eq!(file(&dir), "background = \"disabled\"\ndeveloper-mode = true\n");
    shown(&sandbox, &dir, &["--default", "--developer-mode", "off"]);
    assert_eq!(file(&dir), "developer-mode = false\n");
}

#[test]
fn wrong_usage_changes_nothing() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let wrong: [&[&str]; 4] =
        [&["sometimes"], &["allowed", "--default"], &["--developer-mode", "maybe"], &["--developer-mode"]];
    for arguments in wrong {
        assert_eq!(background(&sandbox, &dir, arguments).status.code(), Some(2), "{arguments:?}");
    }
    let unknown = background(&sandbox, &dir, &["allowed", "--app", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("no application"), "{unknown:?}");
    assert!(!dir.exists());
}
