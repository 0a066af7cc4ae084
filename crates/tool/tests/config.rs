//! `vkstash config`: which value counts and where it comes from, and changing the file.

use super::*;

/// The user's configuration file.
fn file(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".config/vkstash/config.toml")
}

fn write(sandbox: &Sandbox, text: &str) {
    let file = file(sandbox);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn config(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.tool();
    command.arg("config").args(arguments);
    command
}

/// The lines that it prints, their columns separated by one space.
fn shown(command: &mut Command) -> Vec<String> {
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout).lines();
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn each_value_is_shown_with_where_it_comes_from() {
    let sandbox = Sandbox::new();
    let system = sandbox.path("system");
    fs::create_dir_all(system.join("vkstash")).unwrap();
    fs::write(system.join("vkstash/config.toml"), "limit = '1GiB'\nmodules = 7\nbases = ['/system']\n")
        .unwrap();
    let ring = "[application.'Elden Ring']\nlimit = 'none'\n";
    write(&sandbox, &format!("limit = '8GiB'\nbackground = 'disabled'\nbases = ['/own']\n{ring}"));
    let lines = shown(
        config(&sandbox, &[])
            .env("XDG_CONFIG_DIRS", &system)
            .env("VKSTASH_BACKGROUND", "intrusive")
            .env("VKSTASH_DIR", sandbox.path("stash")),
    );
    let system = system.display();
    for expected in [
        "setting value from",
        "limit 8GiB ~/.config/vkstash/config.toml",
        "application-limit none default",
        "device-age 180 default",
        &format!("modules 7 {system}/vkstash/config.toml"),
        "background intrusive VKSTASH_BACKGROUND",
        "developer-mode off default",
        &format!("bases /own:/system ~/.config/vkstash/config.toml, {system}/vkstash/config.toml"),
        "Elden Ring",
        "limit none ~/.config/vkstash/config.toml",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
    }
    let own = shown(&mut config(&sandbox, &["--application", "Elden Ring"]));
    assert!(own.contains(&"limit none ~/.config/vkstash/config.toml".to_owned()), "{own:?}");
    assert!(own.contains(&"background disabled ~/.config/vkstash/config.toml".to_owned()), "{own:?}");
}

#[test]
fn values_are_set_and_unset_for_all_and_for_one() {
    let sandbox = Sandbox::new();
    let path = file(&sandbox);
    let named = shown(&mut config(&sandbox, &["set", "limit", "4GiB"]));
    assert_eq!(named, [format!("limit = 4GiB: {}", path.display())]);
    shown(&mut config(&sandbox, &["set", "bases", "/a", "/b c"]));
    shown(&mut config(&sandbox, &["set", "--application", "portal2", "background", "disabled"]));
    let expected = "limit = \"4GiB\"\nbases = [\"/a\", \"/b c\"]\n\n\
                    [application.portal2]\nbackground = \"disabled\"\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    shown(&mut config(&sandbox, &["unset", "limit", "bases"]));
    shown(&mut config(&sandbox, &["unset", "background", "--application", "portal2"]));
    assert!(!path.exists(), "a file without a setting goes");
    // With --dir the file of that stash is changed.
    let dir = sandbox.path("shared");
    shown(&mut config(&sandbox, &["set", "free-space", "1GiB", "--dir", dir.to_str().unwrap()]));
    assert_eq!(fs::read_to_string(dir.join("config.toml")).unwrap(), "free-space = \"1GiB\"\n");
    assert!(!path.exists());
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_was_meant() {
    let sandbox = Sandbox::new();
    write(&sandbox, "\u{feff}# mine\r\nlimt = 1\r\nlimit = 'much'\r\nfree-space = 7\r\n");
    let output = output(&mut config(&sandbox, &[]));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    let path = file(&sandbox);
    let path = path.display();
    assert!(said.contains(&format!("{path}: line 2: `limt` is no setting, but `limit` is\n")), "{said}");
    assert!(said.contains(&format!("{path}: line 3: `limit` takes a size such as")), "{said}");
    assert!(text(&output.stdout).contains("free-space"), "the rest is shown");
}

#[test]
fn wrong_changes_are_refused_in_one_line_and_change_nothing() {
    let sandbox = Sandbox::new();
    let before = "# mine\nlimit = '1GiB'\n";
    write(&sandbox, before);
    let refused = |arguments: &[&str], said: &str| {
        let output = output(&mut config(&sandbox, arguments));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(one_error_line(&output).contains(said), "{output:?}");
        assert_eq!(fs::read_to_string(file(&sandbox)).unwrap(), before);
    };
    refused(&["set", "limt", "1"], "`limt` is no setting, but `limit` is");
    refused(&["unset", "colour"], "`colour` is no setting: `vkstash config` lists them");
    refused(&["set", "limit", "much"], "`limit` takes a size");
    refused(&["set", "limit", "1", "2"], "`limit` takes one value, and no list");
    refused(&["set", "bases", "relative"], "`bases` takes absolute paths");
    refused(&["set", "limit", "8"], "limit takes a size with its unit: 8MiB, 8GiB, or 8B for bytes");
    refused(&["set", "limit", "63MiB"], "a limit of 63.0 MiB is less than 64.0 MiB");
    refused(&["set", "application-limit", "8B"], "say --force if that is meant");
    refused(&["set", "limit", "1KiB", "--application", "game"], "say --force");
    refused(&["set", "free-space", "1MiB", "--application", "game"], "set for all applications together");
    for wrong in ["limit =\n", "[application\n", "a = \"\n"] {
        write(&sandbox, wrong);
        let output = output(&mut config(&sandbox, &["set", "limit", "1GiB"]));
        assert!(one_error_line(&output).contains("is no TOML, and was not changed: line 1"), "{output:?}");
        assert_eq!(fs::read_to_string(file(&sandbox)).unwrap(), wrong);
    }
    fs::remove_file(file(&sandbox)).unwrap();
    fs::create_dir(file(&sandbox)).unwrap();
    let output = output(&mut config(&sandbox, &["set", "limit", "1GiB"]));
    assert!(one_error_line(&output).contains("is no regular file; nothing was changed"), "{output:?}");
}

#[test]
fn a_small_limit_is_set_where_it_is_meant_and_shown_with_its_unit() {
    let sandbox = Sandbox::new();
    let said = shown(&mut config(&sandbox, &["set", "limit", "8B", "--force"]));
    assert_eq!(said, [format!("limit = 8B: {}", file(&sandbox).display())]);
    shown(&mut config(&sandbox, &["set", "limit", "none"]));
    shown(&mut config(&sandbox, &["set", "free-space", "0"]));
}

#[test]
fn json_has_what_is_shown() {
    let sandbox = Sandbox::new();
    write(&sandbox, "limit = '8GiB'\nlimt = 1\n[application.game]\nmodules = 'none'\n");
    let output = output(&mut config(&sandbox, &["--json"]));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |rows: &serde_json::Value, name: &str| {
        let rows = rows.as_array().unwrap().iter();
        rows.clone().find(|row| row["name"] == name).cloned().unwrap()
    };
    let limit = of(&json["settings"], "limit");
    assert_eq!((&limit["value"], &limit["from"]), (&"8GiB".into(), &"~/.config/vkstash/config.toml".into()));
    let game = of(&json["applications"], "game");
    assert_eq!(of(&game["settings"], "modules")["value"], "none");
    assert_eq!(json["problems"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(json["files"][0], file(&sandbox).to_str().unwrap());
}

/// The usual list of excluded programs is longer than terminals are wide: nothing may be left out for it.
#[test]
fn a_terminal_shows_every_value_and_no_line_is_wider() {
    let sandbox = Sandbox::new();
    let piped = output(&mut config(&sandbox, &[]));
    let piped = text(&piped.stdout);
    for line in piped.lines().filter(|line| !line.starts_with("excluded-programs")) {
        assert!(line.len() <= 100, "{line}");
    }
    for columns in [40, 80, 100, 200] {
        let shown = output(config(&sandbox, &[]).env("COLUMNS", columns.to_string()));
        let shown = text(&shown.stdout);
        assert!(shown.lines().all(|line| line.chars().count() <= columns), "{shown}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(shown), words(piped), "{columns} columns");
    }
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let sandbox = Sandbox::new();
    let set = |number: u32| {
        let mut command =
            config(&sandbox, &["set", "limit", "1GiB", "--application", &format!("game{number}")]);
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let setting: Vec<_> = (0..12).map(set).collect();
    for mut child in setting {
        assert!(child.wait().unwrap().success());
    }
    let text = fs::read_to_string(file(&sandbox)).unwrap();
    assert_eq!(text.matches("[application.game").count(), 12, "{text}");
}

#[test]
fn programs_are_excluded_by_the_user_and_the_system_and_not_by_a_stash() {
    let sandbox = Sandbox::new();
    let usual = shown(&mut config(&sandbox, &[]));
    let usual = usual.iter().find(|line| line.starts_with("excluded-programs chrome")).unwrap();
    assert!(usual.ends_with("default"), "{usual}");
    shown(&mut config(&sandbox, &["set", "excluded-programs", "a*", "b c"]));
    assert!(fs::read_to_string(file(&sandbox)).unwrap().contains("excluded-programs = [\"a*\", \"b c\"]"));
    let line = |command: &mut Command| {
        let lines = shown(command);
        lines.into_iter().find(|line| line.starts_with("excluded-programs")).unwrap()
    };
    assert_eq!(line(&mut config(&sandbox, &[])), "excluded-programs a* b c ~/.config/vkstash/config.toml");
    let by_variable = line(config(&sandbox, &[]).env("VKSTASH_EXCLUDED_PROGRAMS", ""));
    assert_eq!(by_variable, "excluded-programs none VKSTASH_EXCLUDED_PROGRAMS");
    shown(&mut config(&sandbox, &["set", "excluded-programs", "none"]));
    assert!(fs::read_to_string(file(&sandbox)).unwrap().contains("excluded-programs = []"));
    let stash = sandbox.path("stash");
    fs::create_dir_all(&stash).unwrap();
    fs::set_permissions(&stash, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(stash.join("config.toml"), "limit = 1\nexcluded-programs = ['game']\n").unwrap();
    let refused = output(config(&sandbox, &[]).env("VKSTASH_DIR", &stash));
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("line 2: `excluded-programs` counts in the files of the user"), "{said}");
}
