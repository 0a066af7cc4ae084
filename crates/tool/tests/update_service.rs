//! The service that compiles again after an update of a driver: what `vkstash install` writes of it and `vkstash
//! uninstall` removes, and what the user's systemd is told.

use std::os::unix::fs::symlink;

use super::*;

const UNITS: [&str; 3] = ["vkstash-prewarm.path", "vkstash-prewarm.service", "vkstash-prewarm.timer"];
const LINKS: [&str; 2] =
    ["default.target.wants/vkstash-prewarm.path", "timers.target.wants/vkstash-prewarm.timer"];
const ENTRY: &str = "autostart/vkstash-prewarm.desktop";

/// The files and links below a folder that the service has, by their paths from there.
fn files(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.is_symlink() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(folder, &mut found);
    let names = found.iter().map(|path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
    let mut names: Vec<_> = names.filter(|name| name.contains("vkstash-prewarm")).collect();
    names.sort();
    names
}

fn install(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let installed = output(sandbox.tool().arg("install").args(arguments));
    assert!(installed.status.success(), "{installed:?}");
    installed
}

fn below(folder: &str, names: &[&str]) -> Vec<String> {
    let mut paths: Vec<_> = names.iter().map(|name| format!("{folder}/{name}")).collect();
    paths.sort();
    paths
}

#[test]
fn a_user_has_units_in_the_data_folder_and_what_enables_them_in_the_configuration_folder() {
    let sandbox = Sandbox::new();
    let (config, data) = (sandbox.home().join(".config"), sandbox.home().join(".local/share"));
    for _ in ["an installation", "an update"] {
        install(&sandbox, &[]);
        assert_eq!(files(&data), below("systemd/user", &UNITS));
        let enabling = [vec![ENTRY.to_owned()], below("systemd/user", &LINKS)].concat();
        assert_eq!(files(&config), enabling);
    }
    let units = data.join("systemd/user");
    for link in LINKS {
        let target = fs::read_link(config.join("systemd/user").join(link)).unwrap();
        assert_eq!(target, units.join(Path::new(link).file_name().unwrap()));
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o644);
    }
    let tool = fs::canonicalize(env!("CARGO_BIN_EXE_vkstash")).unwrap();
    let started = format!("{} prewarm --after-update\n", tool.display());
    let unit = fs::read_to_string(units.join("vkstash-prewarm.service")).unwrap();
    assert!(unit.contains(&format!("\nExecStart={started}")), "{unit}");
    let entry = fs::read_to_string(config.join(ENTRY)).unwrap();
    assert!(entry.contains(&format!("\nExec={started}")), "{entry}");
    assert!(entry.contains(&format!("\nTryExec={}\n", tool.display())), "{entry}");

    // What is the user's stays, and so does its folder.
    fs::write(config.join("autostart/own.desktop"), "").unwrap();
    let removed = output(sandbox.tool().arg("uninstall"));
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "no empty folder is left");
    let left: Vec<_> = fs::read_dir(&config).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["autostart"]);
}

#[test]
fn the_folders_of_the_user_are_respected() {
    let sandbox = Sandbox::new();
    let (config, data) = (sandbox.path("config"), sandbox.path("data"));
    let with_folders = |verb: &str| {
        let mut command = sandbox.tool();
        command.arg(verb).env("XDG_CONFIG_HOME", &config).env("XDG_DATA_HOME", &data);
        assert!(output(&mut command).status.success());
    };
    with_folders("install");
    assert_eq!((files(&config).len(), files(&data).len(), files(&sandbox.home()).len()), (3, 3, 0));
    with_folders("uninstall");
    let empty = |folder: &Path| fs::read_dir(folder).unwrap().next().is_none();
    assert!(empty(&config) && empty(&data));
}

#[test]
fn a_package_has_units_that_are_enabled_for_all() {
    let sandbox = Sandbox::new();
    let stage = sandbox.path("stage");
    let all = [&UNITS[..], &LINKS].concat();
    for (prefix, autostart) in [("/usr", true), ("/usr/local", true), ("/opt/vkstash", false)] {
        let arguments = ["--prefix", prefix, "--destdir", stage.to_str().unwrap()];
        install(&sandbox, &arguments);
        let mut expected = below(&format!("{}/lib/systemd/user", &prefix[1..]), &all);
        if autostart {
            expected.insert(0, format!("etc/xdg/{ENTRY}"));
        }
        assert_eq!(files(&stage), expected);
        let units = stage.join(&prefix[1..]).join("lib/systemd/user");
        for link in LINKS {
            let target = fs::read_link(units.join(link)).unwrap();
            assert_eq!(target, Path::new("..").join(Path::new(link).file_name().unwrap()));
            assert!(units.join(link).is_file());
        }
        let unit = fs::read_to_string(units.join("vkstash-prewarm.service")).unwrap();
        assert!(
            unit.contains(&format!("\nExecStart={prefix}/bin/vkstash prewarm --after-update\n")),
            "{unit}"
        );
        if autostart {
            let entry = fs::read_to_string(stage.join("etc/xdg").join(ENTRY)).unwrap();
            assert!(entry.contains(&format!("\nExec={prefix}/bin/vkstash prewarm")), "{entry}");
        }
        assert!(output(sandbox.tool().arg("uninstall").args(arguments)).status.success());
        assert_eq!(files(&stage), [""; 0]);
        assert!(!stage.join(&prefix[1..]).join("lib/systemd").exists());
    }
    assert_eq!(files(&sandbox.home()), [""; 0]);
}

/// The line that says why there is no service.
fn left_out(installed: &Output) -> &str {
    let lines: Vec<_> =
        text(&installed.stdout).lines().filter(|line| line.starts_with("Without the service")).collect();
    assert_eq!(lines.len(), 1, "{installed:?}");
    lines[0]
}

#[test]
fn what_could_not_be_started_is_not_installed() {
    let sandbox = Sandbox::new();
    let prefix = sandbox.path("prefix");
    let arguments = ["--prefix", prefix.to_str().unwrap()];
    let installed = install(&sandbox, &arguments);
    assert!(left_out(&installed).contains("there is no /"), "{installed:?}");
    assert!(prefix.join("share/vulkan/implicit_layer.d").is_dir());
    assert_eq!(files(&prefix), [""; 0]);
    fs::create_dir(prefix.join("bin")).unwrap();
    fs::write(prefix.join("bin/vkstash"), "").unwrap();
    install(&sandbox, &arguments);
    assert_eq!(files(&prefix).len(), 5);
}

#[test]
fn a_path_that_systemd_would_read_otherwise_leaves_the_service_out() {
    let sandbox = Sandbox::new();
    for odd in ["a b", "50%", "a$HOME", "a\\b", "a\"b", "a\nb"] {
        let stage = sandbox.path("stage");
        let prefix = format!("/opt/{odd}");
        let installed = install(&sandbox, &["--prefix", &prefix, "--destdir", stage.to_str().unwrap()]);
        assert!(left_out(&installed).contains("characters"), "{installed:?}");
        assert!(stage.join(&prefix[1..]).join("share/vulkan/implicit_layer.d").is_dir());
        assert_eq!(files(&stage), [""; 0]);
    }
}

#[test]
fn the_service_can_be_left_out() {
    let sandbox = Sandbox::new();
    let installed = install(&sandbox, &["--no-service"]);
    assert!(!text(&installed.stdout).to_lowercase().contains("the service"), "{installed:?}");
    assert_eq!(files(&sandbox.home()), [""; 0]);
    assert!(sandbox.home().join(".local/share/vulkan/implicit_layer.d").is_dir());
    assert!(!sandbox.home().join(".config").exists());
}

#[test]
fn foreign_files_stop_everything_and_stay() {
    let sandbox = Sandbox::new();
    let home = sandbox.home();
    let link = format!(".config/systemd/user/{}", LINKS[1]);
    // Files, or links to that.
    let foreign = [
        (".local/share/systemd/user/vkstash-prewarm.path", None),
        (".local/share/systemd/user/vkstash-prewarm.timer", Some("/etc/vkstash-prewarm.timer")),
        (".config/autostart/vkstash-prewarm.desktop", None),
        // Masked by the user.
        (&link, Some("/dev/null")),
        (&link, None),
    ];
    for (path, target) in foreign {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, &path).unwrap(),
            None => fs::write(&path, "[Unit]\nDescription=mine\n").unwrap(),
        }
        let refused = output(sandbox.tool().arg("install"));
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = one_error_line(&refused);
        assert!(said.contains(path.to_str().unwrap()) && said.contains("left alone"), "{said}");
        assert!(!home.join(".local/share/vulkan").exists(), "nothing is installed by half");
        assert_eq!(files(&home).len(), 1);
        // It does not matter where the service is left out.
        install(&sandbox, &["--no-service"]);
        assert!(output(sandbox.tool().arg("uninstall")).status.success());
        assert_eq!(files(&home).len(), 1);
        fs::remove_file(&path).unwrap();
    }
}

/// `sudo` may keep HOME, and what the user has set.
#[test]
fn root_installs_nothing_into_a_users_configuration() {
    if !rustix::process::geteuid().is_root() {
        return skip::not_here(&skip::this_test(), "only root can be in somebody's home");
    }
    let sandbox = Sandbox::new();
    let config = sandbox.path("config");
    fs::create_dir(&config).unwrap();
    std::os::unix::fs::chown(&config, Some(1234), Some(1234)).unwrap();
    let refused = output(sandbox.tool().arg("install").env("XDG_CONFIG_HOME", &config));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(one_error_line(&refused).contains("user 1234"), "{refused:?}");
    assert!(fs::read_dir(&config).unwrap().chain(fs::read_dir(sandbox.home()).unwrap()).next().is_none());
}

/// A folder for PATH whose `systemctl` is this script.
fn systemctl(sandbox: &Sandbox, script: &str) -> std::ffi::OsString {
    let folder = sandbox.path("programs");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("systemctl");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = std::env::var_os("PATH").unwrap();
    std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&machine))).unwrap()
}

#[test]
fn the_users_systemd_is_told() {
    let sandbox = Sandbox::new();
    let log = sandbox.path("log");
    let path = systemctl(&sandbox, &format!("echo \"$*\" >>'{}'", log.display()));
    let told = |arguments: &[&str]| {
        let _ = fs::remove_file(&log);
        let output = output(sandbox.tool().args(arguments).env("PATH", &path));
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let lines = fs::read_to_string(&log).unwrap_or_default();
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let units = "vkstash-prewarm.timer vkstash-prewarm.path";
    let nothing: [&str; 0] = [];
    assert_eq!(told(&["uninstall"]), nothing);
    assert_eq!(told(&["install", "--no-service"]), nothing);
    let started = ["--user daemon-reload".to_owned(), format!("--user start --no-block {units}")];
    assert_eq!(told(&["install"]), started);
    let stopped = format!("--user stop --no-block {units} vkstash-prewarm.service");
    assert_eq!(told(&["uninstall"]), [stopped, "--user daemon-reload".to_owned()]);
    // Of all users, no systemd is this user's.
    let stage = sandbox.path("stage");
    let of_all = ["--prefix", "/usr", "--destdir", stage.to_str().unwrap()];
    assert_eq!(told(&[&["install"], &of_all[..]].concat()), nothing);
    assert_eq!(files(&stage).len(), 6);
    assert_eq!(told(&[&["uninstall"], &of_all[..]].concat()), nothing);
}

#[test]
fn a_systemd_that_fails_or_hangs_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let log = sandbox.path("log");
    let count = format!("echo >>'{}'", log.display());
    for (script, name) in [("echo no bus >&2; exit 1", "fails"), ("exec sleep 60", "hangs")] {
        let path = systemctl(&sandbox, &format!("{count}; {script}"));
        let began = Instant::now();
        for verb in ["install", "uninstall"] {
            let _ = fs::remove_file(&log);
            let output = output(sandbox.tool().arg(verb).env("PATH", &path));
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
            assert_eq!(fs::read_to_string(&log).unwrap(), "\n", "{name}: asked once");
            assert_eq!(files(&sandbox.home()).len(), if verb == "install" { 6 } else { 0 });
        }
        // Two seconds each, on a busy machine.
        assert!(began.elapsed() < Duration::from_secs(30), "{name}");
    }
}

#[test]
fn desktops_understand_the_entry() {
    if Command::new("desktop-file-validate").arg("--help").output().is_err() {
        return skip::not_here(&skip::this_test(), "no desktop-file-validate here");
    }
    let sandbox = Sandbox::new();
    install(&sandbox, &[]);
    let entry = sandbox.home().join(".config").join(ENTRY);
    let complaints = |path: &Path| output(Command::new("desktop-file-validate").arg(path)).stdout;
    assert_eq!(text(&complaints(&entry)), "");
    // `complaints` sees what is wrong.
    let wrong = sandbox.path("wrong.desktop");
    fs::write(&wrong, fs::read_to_string(&entry).unwrap().replace("Terminal=false", "Terminal=no")).unwrap();
    assert_ne!(text(&complaints(&wrong)), "");
}
