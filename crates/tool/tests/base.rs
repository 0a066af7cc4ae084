//! `vkstash base build` and `vkstash run --base`.

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::Kind;
use vkstash_store::reports::runs::RunName;
use vkstash_store::stash::open::Stash;

use super::*;

fn app(name: &str) -> AppName {
    AppName::new(Some(name.as_bytes()), b"/bin/game", &[])
}

/// Two runs of a program, of which the second records one artifact again.
fn fill(root: &Path, name: &str) {
    for run in 0..2 {
        let stash = Stash::open_patiently(root, &app(name)).unwrap();
        let device = stash.device(&header()).unwrap();
        for number in run * 5..run * 5 + 6 {
            assert!(device.put(Kind::Artifact, &[number as u8; 32], noise(2000 + run)));
        }
    }
}

fn build(sandbox: &Sandbox, from: &Path, base: &Path, more: &[&str]) -> Output {
    output(sandbox.tool().args(["base", "build"]).arg(base).args(more).arg("--dir").arg(from))
}

/// The artifacts that a user without any finds there.
fn artifacts(sandbox: &Sandbox, base: &Path, name: &str) -> Vec<Vec<u8>> {
    let own = sandbox.path("own");
    let run = RunName::of_this_process();
    let stash = Stash::open_in_run(&own, vec![base.to_owned()], &app(name), run, None, None).unwrap();
    let device = stash.device(&header()).unwrap();
    let mut payload = Vec::new();
    let mut found = Vec::new();
    for number in 0..30 {
        if device.read(Kind::Artifact, &[number; 32], &mut payload) {
            found.push(payload.clone());
        }
    }
    found
}

#[test]
fn a_base_has_what_was_recorded_and_everybody_may_read_it() {
    let sandbox = Sandbox::new();
    let (from, base) = (sandbox.path("from"), sandbox.path("base"));
    fill(&from, "game");
    fill(&from, "other");
    let told = build(&sandbox, &from, &base, &["game"]);
    assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
    assert!(text(&told.stdout).starts_with("1 part with "), "{told:?}");
    let found = artifacts(&sandbox, &base, "game");
    assert_eq!(found.len(), 11);
    assert_eq!(found[5].len(), 2001, "the newest one");
    assert!(artifacts(&sandbox, &base, "other").is_empty());
    let (mut rest, mut segments) = (vec![base.clone()], 0);
    while let Some(path) = rest.pop() {
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
        if path.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            assert_eq!(mode, 0o755, "{}", path.display());
        } else {
            segments += usize::from(path.extension().is_some_and(|extension| extension == "vks"));
            assert_eq!(mode, 0o644, "{}", path.display());
        }
    }
    assert_eq!(segments, 1, "two runs in one file");
    let names = || fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names().any(|name| name.to_string_lossy().starts_with(".vkstash")), "nothing is left over");
}

#[test]
fn what_cannot_be_built_says_why_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let (from, base) = (sandbox.path("from"), sandbox.path("base"));
    fill(&from, "game");
    let failed = |told: Output, expected: &str| {
        assert!(told.status.code() == Some(1) && text(&told.stderr).contains(expected), "{told:?}");
    };
    failed(build(&sandbox, &from, &base, &["nobody"]), "nobody");
    failed(build(&sandbox, &sandbox.path("empty"), &base, &[]), "nothing to export");
    failed(build(&sandbox, &from, &sandbox.path("no/such/folder"), &[]), "cannot create");
    fs::create_dir(&base).unwrap();
    failed(build(&sandbox, &from, &base, &[]), "is there already");
    assert!(fs::read_dir(&base).unwrap().next().is_none());
}

#[test]
fn a_command_gets_its_bases() {
    let sandbox = Sandbox::new();
    for name in ["one", "two", "with:colon"] {
        fs::create_dir(sandbox.path(name)).unwrap();
    }
    let (one, two) = (sandbox.path("one"), sandbox.path("two"));
    let run = |bases: &[&Path], known: &str| {
        let mut command = sandbox.tool();
        command.arg("run").env("VKSTASH_BASE", known);
        bases.iter().for_each(|base| _ = command.arg("--base").arg(base));
        output(command.args(["sh", "-c", "echo $VKSTASH_BASE"]))
    };
    let told = run(&[&one, &two], "/known");
    assert_eq!(text(&told.stdout), format!("{}:{}:/known\n", one.display(), two.display()), "{told:?}");
    assert_eq!(text(&run(&[], "/known").stdout), "/known\n");
    let told = run(&[&sandbox.path("three")], "");
    assert!(told.status.code() == Some(1) && text(&told.stderr).contains("as a base"), "{told:?}");
    let told = run(&[&sandbox.path("with:colon")], "");
    assert!(told.status.code() == Some(1) && text(&told.stderr).contains("colon"), "{told:?}");
}

#[test]
fn a_base_is_made_of_an_archive() {
    let sandbox = Sandbox::new();
    let (from, archive) = (sandbox.path("from"), sandbox.path("game.tar"));
    fill(&from, "game");
    let exported = output(sandbox.tool().arg("export").arg(&archive).arg("--dir").arg(&from));
    assert!(exported.status.success(), "{exported:?}");
    let make = |base: &Path, more: &[&str]| {
        output(sandbox.tool().args(["base", "build"]).arg(base).arg("--archive").arg(&archive).args(more))
    };
    let base = sandbox.path("base");
    let told = make(&base, &["--artifacts"]);
    assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
    assert_eq!(artifacts(&sandbox, &base, "game").len(), 11);
    // Without the word nothing of it is left.
    let without = sandbox.path("without");
    let told = make(&without, &[]);
    assert!(!told.status.success() && !without.exists(), "{told:?}");
    // Half an archive makes no base.
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, &bytes[..bytes.len() / 2]).unwrap();
    let half = sandbox.path("half");
    let told = make(&half, &["--artifacts"]);
    assert!(!told.status.success() && !half.exists(), "{told:?}");
}
