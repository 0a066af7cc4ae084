//! `vkstash keep`: the values in force, their sources, and the settings files it writes.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_model::variables::CONFIG_FILE;
use vkstash_store::settings::{self, Settings};
use vkstash_store::stash::open::Stash;

use super::*;

fn keep(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = sandbox.tool();
    command.arg("keep").arg("--dir").arg(dir).args(arguments);
    output(&mut command)
}

fn shown(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> String {
    let output = keep(sandbox, dir, arguments);
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

/// The row of a setting, its columns separated by one space.
fn row(shown: &str, name: &str) -> String {
    let mut rows = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|columns| columns.first() == Some(&name)).unwrap_or_else(|| panic!("{name}: {shown}")).join(" ")
}

fn app(name: &str, program: &str) -> AppName {
    AppName::new(Some(program.as_bytes()), name.as_bytes())
}

/// A stash with one module of this size.
fn fill(dir: &Path, app: &AppName, module: usize) {
    let stash = Stash::open_patiently(dir, app).unwrap();
    assert!(stash.portable().put(Kind::Module, &[1; 32], noise(module)));
}

fn of_root(dir: &Path) -> Settings {
    settings::read(dir).all()
}

#[test]
fn without_settings_everything_is_at_its_default() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let shown = shown(&sandbox, &dir, &[]);
    assert!(shown.starts_with(&format!("{}: 0 B, 0.0 % of 4.0 GiB\n", dir.display())), "{shown}");
    assert_eq!(row(&shown, "limit"), "limit 4.0 GiB default");
    assert_eq!(row(&shown, "application-limit"), "application-limit none default");
    assert!(row(&shown, "free-space").contains(" default; "), "{shown}");
    assert_eq!(row(&shown, "device-age"), "device-age 180 days default");
    assert_eq!(row(&shown, "modules"), "modules all default");
    assert!(!dir.exists(), "showing makes nothing");
}

#[test]
fn settings_are_stored_and_can_be_unset() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let all = ["--limit", "512MiB", "--application-limit", "1GiB", "--free-space", "none"];
    let shown_at_once =
        shown(&sandbox, &dir, &[&all[..], &["--device-age", "30", "--modules", "5"]].concat());
    // What is free on the disk changes with what other programs write.
    let without_free = |text: &str| text.split("; ").next().map(str::to_owned);
    let lines = |text: &str| text.lines().map(without_free).collect::<Vec<_>>();
    assert_eq!(lines(&shown_at_once), lines(&shown(&sandbox, &dir, &[])));
    for expected in [
        "limit 512.0 MiB set for all",
        "application-limit 1.0 GiB set for all",
        "device-age 30 days set for all",
        "modules last 5 runs set for all",
    ] {
        assert_eq!(row(&shown_at_once, expected.split(' ').next().unwrap()), expected);
    }
    assert!(row(&shown_at_once, "free-space").starts_with("free-space 0 B set for all; "), "{shown_at_once}");
    let mut lines: Vec<_> =
        fs::read_to_string(dir.join(CONFIG_FILE)).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let expected = [
        "application-limit = \"1GiB\"",
        "device-age = 30",
        "free-space = \"none\"",
        "limit = \"512MiB\"",
        "modules = 5",
    ];
    assert_eq!(lines, expected);

    let after = shown(&sandbox, &dir, &["--default", "limit", "free-space", "--modules", "none"]);
    assert_eq!(row(&after, "limit"), "limit 4.0 GiB default");
    assert_eq!(row(&after, "modules"), "modules none set for all");
    assert_eq!((of_root(&dir).limit, of_root(&dir).free_space), (None, None));
    assert_eq!(row(&shown(&sandbox, &dir, &["--limit", "none"]), "limit"), "limit none set for all");
}

#[test]
fn an_application_is_named_by_its_name_or_its_folder() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let (game, other) = (app("game", "/bin/a"), app("other", "/bin/b"));
    fill(&dir, &game, 9000);
    fill(&dir, &other, 10);
    shown(&sandbox, &dir, &["--application-limit", "1GiB", "--modules", "3"]);
    let one = shown(&sandbox, &dir, &["--application", "game", "--limit", "64KiB", "--yes"]);
    assert!(one.starts_with(&format!("game ({}): ", game.folder)), "{one}");
    assert!(one.contains(" % of 64.0 KiB\n") && one.contains("  modules take "), "{one}");
    assert_eq!(row(&one, "limit"), "limit 64.0 KiB set for this application");
    assert_eq!(row(&one, "modules"), "modules last 3 runs set for all");
    let one = shown(&sandbox, &dir, &["--application", "game", "--modules", "all"]);
    assert_eq!(row(&one, "modules"), "modules all set for this application");
    let (bytes, _) = one.split_once(" KiB, ").unwrap();
    let bytes: f64 = bytes.rsplit(' ').next().unwrap().parse().unwrap();
    let (_, share) = one.split_once("modules take 8.8 KiB, ").unwrap_or_else(|| panic!("{one}"));
    let share: f64 = share.strip_suffix(" % of it\n").unwrap().parse().unwrap();
    assert!((share - 9000.0 / 1024.0 * 100.0 / bytes).abs() < 1.0, "{one}");
    let another = shown(&sandbox, &dir, &["--application", &other.folder]);
    assert_eq!(row(&another, "limit"), "limit 1.0 GiB set for all");
    assert_eq!(row(&another, "modules"), "modules last 3 runs set for all");
    // All applications at once; the root's file is unchanged.
    let all = shown(&sandbox, &dir, &[]);
    assert!(all.contains(&one) && all.contains(&another), "{all}");
    assert_eq!(of_root(&dir).limit, None);
    shown(&sandbox, &dir, &["--application", "game", "--default", "limit", "modules"]);
    assert_eq!(settings::read(&dir).of(&game.folder), Settings::default());
}

#[test]
fn an_unknown_or_ambiguous_application_name_changes_nothing() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let (one, two) = (app("game", "/bin/a"), app("game", "/bin/b"));
    fill(&dir, &one, 10);
    fill(&dir, &two, 10);
    for (name, said) in
        [("game", one.folder.as_str()), ("nobody", "no application"), ("../x", "no application")]
    {
        let failed = keep(&sandbox, &dir, &["--application", name, "--limit", "1GiB"]);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(
            text(&failed.stderr).starts_with("vkstash: ") && text(&failed.stderr).contains(said),
            "{failed:?}"
        );
    }
    let failed = keep(&sandbox, &dir, &["--application", &one.folder, "--default", "free-space"]);
    assert!(one_error_line(&failed).contains("`free-space` is set for all applications"), "{failed:?}");
    assert!(!dir.join(CONFIG_FILE).exists());
}

/// Without a terminal nobody is asked.
#[test]
fn a_limit_that_costs_what_is_stored_needs_a_word() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let (large, small) = (app("large", "/bin/a"), app("small", "/bin/b"));
    fill(&dir, &large, 20 << 20);
    fill(&dir, &small, 9000);
    let refused = |arguments: &[&str], said: &str| {
        let failed = keep(&sandbox, &dir, arguments);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        let line = one_error_line(&failed).to_owned();
        assert!(line.contains(said) && line.contains("--force"), "{line}");
        assert!(!dir.join(CONFIG_FILE).exists());
        shown(&sandbox, &dir, &[arguments, &["--force"]].concat());
        shown(
            &sandbox,
            &dir,
            &[
                arguments[..arguments.len() - 2].as_ref(),
                &["--default", &arguments[arguments.len() - 2][2..]],
            ]
            .concat(),
        );
    };
    refused(&["--limit", "2B"], "less than what is stored, 20.0 MiB");
    refused(&["--limit", "18MiB"], "less than what is stored, 20.0 MiB");
    refused(&["--application-limit", "18MiB"], "less than what is stored, 20.0 MiB");
    refused(&["--application", "large", "--limit", "18MiB"], "less than what is stored");
    refused(&["--application", "small", "--limit", "2MiB"], "less than 64.0 MiB");
    refused(&["--free-space", "1000TiB"], "are free");
    for arguments in [["--limit", "64MiB"], ["--application-limit", "64MiB"], ["--free-space", "1MiB"]] {
        shown(&sandbox, &dir, &arguments);
    }
    shown(&sandbox, &dir, &["--application", "small", "--limit", "64MiB"]);
}

#[test]
fn nonsense_on_the_command_line_is_wrong_usage() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    for arguments in [
        &["--limit", "much"][..],
        &["--limit", "-1"],
        &["--limit", "8"],
        &["--modules", "some"],
        &["--device-age", "soon"],
        &["--default", "everything"],
        &["--application", "game", "--free-space", "1"],
    ] {
        assert_eq!(keep(&sandbox, &dir, arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert!(!dir.exists());
}

#[test]
fn lines_that_a_person_wrote_stay_and_unknown_ones_are_named() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    fs::create_dir(&dir).unwrap();
    let file = dir.join(CONFIG_FILE);
    fs::write(&file, "# mine\nlimit = '1 GiB'\nshaders = 4\nmodules = 'some'\n").unwrap();
    let first = shown(&sandbox, &dir, &[]);
    assert_eq!(row(&first, "limit"), "limit 1.0 GiB set for all");
    assert_eq!(first.lines().filter(|line| line.starts_with("ignored: ")).count(), 2, "{first}");
    let second = shown(&sandbox, &dir, &["--modules", "2"]);
    assert!(second.contains("line 3: `shaders` is no setting") && !second.contains("line 4"), "{second}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\nlimit = '1 GiB'\nshaders = 4\nmodules = 2\n");

    // An unreadable file is shown as ignored, and is not replaced.
    fs::write(&file, b"limit = 1\n\xff").unwrap();
    let third = shown(&sandbox, &dir, &[]);
    assert!(third.contains("is not UTF-8 text") && row(&third, "limit").ends_with("default"), "{third}");
    let failed = keep(&sandbox, &dir, &["--limit", "1GiB"]);
    assert!(one_error_line(&failed).contains("is not UTF-8 text"), "{failed:?}");
    assert_eq!(fs::read(&file).unwrap(), b"limit = 1\n\xff");
}
