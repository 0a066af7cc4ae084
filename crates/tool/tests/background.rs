//! `vkstash background`: the stored modes, where they come from, and where the service for updates is enabled.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_model::variables::CONFIG_FILE;
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
    fs::read_to_string(folder.join(CONFIG_FILE)).unwrap_or_default()
}

#[test]
fn modes_are_stored_for_all_and_for_one_application() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let defaults = ["background allowed default", "developer-mode off default", "updates on default"];
    assert_eq!(shown(&sandbox, &dir, &[])[1..], defaults);
    assert!(!dir.exists(), "showing makes nothing");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    assert!(Stash::open_patiently(&dir, &app).unwrap().portable().put(
        Kind::Module,
        &[1; 32],
        [1; 99].into()
    ));

    let of_all = shown(&sandbox, &dir, &["disabled", "--developer-mode", "on"]);
    assert_eq!(of_all[1..3], ["background disabled set for all", "developer-mode on set for all"]);
    assert_eq!(file(&dir), "background = \"disabled\"\ndeveloper-mode = true\n");
    let of_one = shown(&sandbox, &dir, &["--app", "game"]);
    assert_eq!(of_one[1..], ["background disabled set for all"]);
    let of_one = shown(&sandbox, &dir, &["intrusive", "--application", "game"]);
    assert_eq!(of_one[1..], ["background intrusive set for this application"]);
    let section = "\n[application.game]\nbackground = \"intrusive\"\n";
    assert!(file(&dir).ends_with(section), "{}", file(&dir));
    let all = shown(&sandbox, &dir, &[]);
    assert_eq!(all[4..], [format!("game ({})", app.folder), of_one[1].clone()]);

    assert_eq!(
        shown(&sandbox, &dir, &["--default", "--app", "game"])[1..],
        ["background disabled set for all"]
    );
    assert_eq!(file(&dir), "background = \"disabled\"\ndeveloper-mode = true\n");
    shown(&sandbox, &dir, &["--default", "--developer-mode", "off"]);
    assert_eq!(file(&dir), "developer-mode = false\n");
}

#[test]
fn updates_are_switched_off_and_on_for_all() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    for (given, is_on) in [("off", false), ("on", true), ("FALSE", false), ("true", true)] {
        let expected = format!("updates {} set for all", if is_on { "on" } else { "off" });
        assert_eq!(shown(&sandbox, &dir, &["--updates", given])[3], expected);
        assert_eq!(file(&dir), format!("updates = {is_on}\n"));
    }
    shown(&sandbox, &dir, &["--default", "--updates", "off"]);
    assert_eq!(file(&dir), "updates = false\n", "the default of the mode alone");
}

/// What it says of the service, and what is at these paths below the user's home.
fn places(sandbox: &Sandbox) -> Vec<String> {
    let output = output(sandbox.tool().arg("background"));
    assert!(output.status.success(), "{output:?}");
    let home = format!("{}/", sandbox.home().display());
    let lines = text(&output.stdout).lines().skip_while(|line| !line.starts_with("  updates")).skip(1);
    lines.map(|line| line.trim().replace(&home, "")).collect()
}

#[test]
fn it_is_shown_where_the_service_is_enabled() {
    let sandbox = Sandbox::new();
    let link = ".config/systemd/user/timers.target.wants/vkstash-prewarm.timer";
    let entry = ".config/autostart/vkstash-prewarm.desktop";
    let runs = Path::new("/run/systemd/system").is_dir();
    let of_system = ["/etc", "/usr/local/lib", "/usr/lib"]
        .iter()
        .any(|folder| Path::new(folder).join("systemd/user/vkstash-prewarm.service").exists());
    if !of_system {
        let nothing = "not installed: `vkstash install` or a package puts it in place";
        assert_eq!(places(&sandbox), [nothing]);
    }
    assert!(output(sandbox.tool().arg("install")).status.success());
    let mut expected = vec![format!("by systemd: {link}")];
    if !runs {
        expected = vec![format!("by systemd, which does not run here: {link}"), format!("at login: {entry}")];
    }
    assert_eq!(places(&sandbox), expected);
    let mask = sandbox.home().join(".config/systemd/user/vkstash-prewarm.service");
    std::os::unix::fs::symlink("/dev/null", &mask).unwrap();
    let at_login = if runs { "at login, by a desktop without systemd" } else { "at login" };
    let masked = "masked: .config/systemd/user/vkstash-prewarm.service".to_owned();
    assert_eq!(places(&sandbox), [masked.clone(), format!("{at_login}: {entry}")]);
    fs::remove_file(sandbox.home().join(entry)).unwrap();
    assert_eq!(places(&sandbox), [masked]);
}

#[test]
fn wrong_usage_changes_nothing() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let wrong: [&[&str]; 6] = [
        &["sometimes"],
        &["allowed", "--default"],
        &["--developer-mode", "maybe"],
        &["--developer-mode"],
        &["--updates", "maybe"],
        &["--updates", "off", "--app", "game"],
    ];
    for arguments in wrong {
        assert_eq!(background(&sandbox, &dir, arguments).status.code(), Some(2), "{arguments:?}");
    }
    let unknown = background(&sandbox, &dir, &["allowed", "--app", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("no application"), "{unknown:?}");
    assert!(!dir.exists());
}
