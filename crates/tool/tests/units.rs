//! The units for systemd in contrib/: that systemd understands every line of them.

use super::*;

/// What systemd says of these units; nothing if all is well. It ends with 0 whatever it finds. It also loads units of
/// the machine and of the user, and what it says of those does not count.
fn complaints(sandbox: &Sandbox, units: &Path) -> String {
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--user", "--man=no"]);
    let mut names: Vec<_> = fs::read_dir(units).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    command.args(&names).env("XDG_RUNTIME_DIR", sandbox.temp()).env("HOME", sandbox.home());
    let told = output(&mut command);
    let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let is_of_these = |line: &&str| names.iter().any(|name| line.contains(name));
    let lines = text(&told.stdout).lines().chain(text(&told.stderr).lines());
    lines.filter(is_of_these).collect::<Vec<_>>().join("\n")
}

/// Copies of the units, whose programs are there.
fn copied(sandbox: &Sandbox, name: &str, change: [&str; 2]) -> PathBuf {
    let units = sandbox.path(name);
    fs::create_dir(&units).unwrap();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd")).unwrap() {
        let path = entry.unwrap().path();
        let unit = fs::read_to_string(&path).unwrap();
        let unit = unit.replace("/usr/bin/vkstash-remote", env!("CARGO_BIN_EXE_vkstash"));
        let unit = unit.replace("/usr/bin/vkstash ", concat!(env!("CARGO_BIN_EXE_vkstash"), " "));
        fs::write(units.join(path.file_name().unwrap()), unit.replace(change[0], change[1])).unwrap();
    }
    units
}

#[test]
fn systemd_understands_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skip::not_here(&skip::this_test(), "no systemd-analyze here");
    }
    let sandbox = Sandbox::new();
    let units = copied(&sandbox, "units", ["", ""]);
    assert_eq!(fs::read_dir(&units).unwrap().count(), 5);
    // A part of a unit that every service depends on.
    let odd = sandbox.home().join(".config/systemd/user/basic.target.d");
    fs::create_dir_all(&odd).unwrap();
    fs::write(odd.join("odd.conf"), "[Unit]\nNise=19\n").unwrap();
    assert_eq!(complaints(&sandbox, &units), "");
    // `complaints` sees what is wrong.
    for (at, change) in [
        ["Nice=19", "Nise=19"],
        ["Type=oneshot", "Type=onesho"],
        ["Type=exec", "Type=exes"],
        ["KillMode=mixed", "KillMode=mixt"],
        ["StartLimitIntervalSec=0", "StartLimitIntervalSec=no"],
        ["PathChanged=%h/", "PathChanged=h/"],
        ["OnUnitInactiveSec=1d", "OnUnitInactiveSec=1x"],
    ]
    .into_iter()
    .enumerate()
    {
        let units = copied(&sandbox, &format!("wrong-{at}"), change);
        assert_ne!(complaints(&sandbox, &units), "", "{change:?}");
    }
}
