//! `vkstash base` and `vkstash run --base`.

use std::os::unix::ffi::OsStrExt as _;

use vkstash_model::app_name::AppName;
use vkstash_model::record::{CRASH_LIMIT, Kind};
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::uses::Run;

use super::*;

fn app(name: &str) -> AppName {
    AppName::new(None, name.as_bytes())
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
    let run = Run::of_this_process();
    // A program waits 15 ms for a base.
    let long = Some(Duration::from_secs(600));
    let stash = Stash::open_in_run(&own, vec![base.to_owned()], &app(name), run, long, long).unwrap();
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
fn a_base_does_not_serve_what_was_quarantined_where_it_was_built() {
    let sandbox = Sandbox::new();
    let (from, base) = (sandbox.path("from"), sandbox.path("base"));
    fill(&from, "game");
    let stash = Stash::open_patiently(&from, &app("game")).unwrap();
    assert!(stash.device(&header()).unwrap().put(Kind::CrashCount, &[3; 32], Box::new([CRASH_LIMIT])));
    drop(stash);
    let told = build(&sandbox, &from, &base, &[]);
    assert!(told.status.success(), "{told:?}");
    assert_eq!(artifacts(&sandbox, &base, "game").len(), 11 - 1);
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

/// A build that waits for the rest of its archive, and its folder.
fn waiting_build(sandbox: &Sandbox, base: &Path) -> (Child, PathBuf) {
    let folders = || -> Vec<PathBuf> {
        let paths = fs::read_dir(base.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".vkstash-base-"))
            .collect()
    };
    let before = folders();
    let mut command = sandbox.tool();
    command.args(["base", "build"]).arg(base).args(["--archive", "-"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("notes").unwrap();
    header.set_size(1 << 30);
    header.set_cksum();
    let pipe = child.stdin.as_mut().unwrap();
    pipe.write_all(header.as_bytes()).unwrap();
    // No pipe holds that much: the build has read, so it has its folder.
    pipe.write_all(&vec![1; 8 << 20]).unwrap();
    let folder = folders().into_iter().find(|path| !before.contains(path));
    (child, folder.unwrap())
}

#[test]
fn folders_of_interrupted_builds_are_removed_and_those_of_running_ones_stay() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    fs::create_dir(&place).unwrap();
    let (from, base) = (sandbox.path("from"), place.join("base"));
    fill(&from, "game");
    let interrupted = |signal| {
        let (mut child, folder) = waiting_build(&sandbox, &base);
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert!(folder.is_dir());
        folder
    };
    let (mut running, its_folder) = waiting_build(&sandbox, &place.join("other"));
    let left = interrupted(libc::SIGKILL);
    let again = interrupted(libc::SIGINT);
    assert!(!left.exists(), "the next build has removed what was left");
    let foreign = [".vkstash-base-", ".vkstash-base-1-a", ".vkstash-base-1"].map(|name| place.join(name));
    foreign.iter().for_each(|path| fs::create_dir(path).unwrap());
    let told = build(&sandbox, &from, &base, &[]);
    assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
    assert!(!again.exists() && its_folder.is_dir() && foreign.iter().all(|path| path.is_dir()));

    fs::rename(&base, place.join("moved")).unwrap();
    let left = interrupted(libc::SIGKILL);
    fs::rename(place.join("moved"), &base).unwrap();
    assert!(of_list(&sandbox, &["add".as_ref(), base.as_os_str()]).status.success());
    let told = output(sandbox.tool().arg("gc").env("VKSTASH_DIR", sandbox.path("stash")));
    assert_eq!(text(&told.stdout), "removed: 1 unfinished base\n");
    assert!(!left.exists() && its_folder.is_dir() && base.is_dir());
    running.kill().unwrap();
    running.wait().unwrap();
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

/// The user's configuration file.
fn config(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".config/vkstash/config.toml")
}

fn of_list(sandbox: &Sandbox, arguments: &[&OsStr]) -> Output {
    let mut command = sandbox.tool();
    output(command.arg("base").args(arguments).env("VKSTASH_DIR", sandbox.path("stash")))
}

#[test]
fn bases_of_any_name_are_listed_added_and_removed() {
    let sandbox = Sandbox::new();
    let names: [&[u8]; 4] = [b"a b ", b"line\nbreak", b"a \"quote\"", b"100% of \xc3\xa9"];
    let shown = ["a b ", "line\u{fffd}break", "a \"quote\"", "100% of \u{e9}"];
    let told = of_list(&sandbox, &["list".as_ref()]);
    assert!(told.status.success() && text(&told.stdout).starts_with("no bases are set"), "{told:?}");
    for name in names {
        let path = sandbox.folder.path().join(OsStr::from_bytes(name));
        fs::create_dir(&path).unwrap();
        // A slash at the end makes no other base of it.
        for (path, done) in [(path.join(""), true), (path, false)] {
            let told = of_list(&sandbox, &["add".as_ref(), path.as_os_str()]);
            assert_eq!(told.status.code(), Some(i32::from(!done)), "{told:?}");
            assert!(done || one_error_line(&told).contains("is a base already"), "{told:?}");
        }
    }
    let lines = |shown: &[&str]| {
        shown.iter().map(|name| format!("{}/{name}\n", sandbox.folder.path().display())).collect::<String>()
    };
    let told = of_list(&sandbox, &["list".as_ref()]);
    assert_eq!((text(&told.stdout), told.stderr.is_empty()), (&*lines(&shown), true), "{told:?}");
    // The layer reads the same list of bases.
    let read = vkstash_store::settings::places::of_path(&config(&sandbox)).unwrap().config;
    let paths: Vec<_> =
        names.iter().map(|name| sandbox.folder.path().join(OsStr::from_bytes(name))).collect();
    assert_eq!((read.all.bases, read.complaints), (paths.clone(), Vec::new()));
    // A base that is gone can be removed, and another one is shown with the reason.
    fs::remove_dir(&paths[1]).unwrap();
    fs::set_permissions(&paths[2], fs::Permissions::from_mode(0o777)).unwrap();
    let told = of_list(&sandbox, &["remove".as_ref(), paths[1].as_os_str()]);
    assert!(told.status.success(), "{told:?}");
    let told = of_list(&sandbox, &["remove".as_ref(), paths[1].as_os_str()]);
    assert!(one_error_line(&told).contains("break is none of the bases"), "{told:?}");
    let told = of_list(&sandbox, &["list".as_ref()]);
    let list: Vec<_> = text(&told.stdout).lines().collect();
    assert!(
        list.len() == 4 && list[2].starts_with("  not used: ") && list[2].contains("by others"),
        "{list:?}"
    );
}

#[test]
fn what_programs_would_refuse_is_not_added() {
    let sandbox = Sandbox::new();
    fill(&sandbox.path("from"), "game");
    assert!(build(&sandbox, &sandbox.path("from"), &sandbox.path("base"), &[]).status.success());
    let base = sandbox.path("base");
    let application = base.join(app("game").folder);
    let part = application.join(format!("device-{}", header().short_digest()));
    let file = fs::read_dir(&part).unwrap().next().unwrap().unwrap().path();
    let refused = |path: &Path, reason: &str| {
        let told = of_list(&sandbox, &["add".as_ref(), path.as_os_str()]);
        assert_eq!(told.status.code(), Some(1), "{told:?}");
        assert!(one_error_line(&told).contains(reason), "{told:?}");
    };
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (path, good, bad) in [(&base, 0o755, 0o775), (&application, 0o755, 0o757), (&part, 0o755, 0o777)] {
        mode(path, bad);
        refused(&base, "can be written to by others");
        mode(path, good);
    }
    mode(&file, 0o666);
    refused(&base, "other users may write to it");
    mode(&file, 0o644);
    refused(&sandbox.path("missing"), "No such file");
    refused(&file, "not a folder");
    std::os::unix::fs::symlink(&application, base.join("link-01234567-89abcdef")).unwrap();
    refused(&base, "symbolic link");
    fs::remove_file(base.join("link-01234567-89abcdef")).unwrap();
    fs::create_dir(sandbox.path("stash")).unwrap();
    mode(&sandbox.path("stash"), 0o700);
    refused(&sandbox.path("stash"), "base of itself");
    let told = of_list(&sandbox, &["list".as_ref()]);
    assert!(text(&told.stdout).starts_with("no bases are set"), "{told:?}");
    let told = of_list(&sandbox, &["add".as_ref(), base.as_os_str()]);
    assert!(told.status.success() && told.stdout.is_empty(), "{told:?}");
    for number in 0..15 {
        let path = sandbox.path(&format!("base {number}"));
        fs::create_dir(&path).unwrap();
        assert!(of_list(&sandbox, &["add".as_ref(), path.as_os_str()]).status.success());
    }
    refused(&sandbox.temp(), "`bases` takes at most 16 paths");
    let odd = sandbox.folder.path().join(OsStr::from_bytes(b"not \xff UTF-8"));
    fs::create_dir(&odd).unwrap();
    fs::write(config(&sandbox), "").unwrap();
    refused(&odd, "a configuration file is UTF-8 text, and the path is not");
    // A file that cannot be read is not replaced.
    fs::write(config(&sandbox), [0xff; 8]).unwrap();
    refused(&sandbox.home(), "not UTF-8");
    assert_eq!(fs::read(config(&sandbox)).unwrap(), [0xff; 8]);
}

#[test]
fn a_file_that_others_may_write_to_is_not_changed() {
    let sandbox = Sandbox::new();
    let (one, two) = (sandbox.path("one"), sandbox.path("two"));
    [&one, &two].iter().for_each(|base| fs::create_dir(base).unwrap());
    let change = |word: &str, base: &Path| of_list(&sandbox, &[word.as_ref(), base.as_os_str()]);
    assert!(change("add", &one).status.success());
    let file = config(&sandbox);
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let before = fs::read(&file).unwrap();
    mode(0o620);
    for (word, base) in [("add", &two), ("remove", &one)] {
        let told = change(word, base);
        assert_eq!(told.status.code(), Some(1), "{told:?}");
        let line = one_error_line(&told);
        assert!(line.contains("is not changed: first take the right to write"), "{line}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }
    assert!(
        text(&of_list(&sandbox, &["list".as_ref()]).stdout).contains("because others may write to this file")
    );
    mode(0o600);
    // Lines that are not understood stay.
    fs::write(&file, [&before[..], b"colour = 'red'\n"].concat()).unwrap();
    let told = change("add", &two);
    assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
    let text = fs::read_to_string(&file).unwrap();
    let (one, two) = (one.display(), two.display());
    assert_eq!(text, format!("bases = [\"{one}\", \"{two}\"]\ncolour = 'red'\n"));
}

#[test]
fn bases_that_are_added_at_the_same_time_are_all_kept() {
    let sandbox = Sandbox::new();
    let bases: Vec<_> = (0..16).map(|number| sandbox.path(&format!("base {number}"))).collect();
    bases.iter().for_each(|base| fs::create_dir(base).unwrap());
    let add = |base: &PathBuf| {
        let mut command = sandbox.tool();
        command.args(["base", "add"]).arg(base).env("VKSTASH_DIR", sandbox.path("stash"));
        command.spawn().unwrap()
    };
    let adding: Vec<_> = bases.iter().map(add).collect();
    for mut child in adding {
        assert!(child.wait().unwrap().success());
    }
    let read = vkstash_store::settings::places::of_path(&config(&sandbox)).unwrap().config;
    assert_eq!(read.all.bases.len(), 16, "{read:?}");
}

/// Every command that changes the file says what does not count.
#[test]
fn every_change_of_the_configuration_says_which_lines_are_ignored() {
    let sandbox = Sandbox::new();
    let file = config(&sandbox);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let changes: [&[&str]; 3] =
        [&["keep", "--limit", "1GiB"], &["background", "disabled"], &["cache", "disable", "sessions"]];
    for change in changes {
        fs::write(&file, "colour = 'red'\nbases = ['/one']\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
        let told = output(sandbox.tool().args(change).env("VKSTASH_DIR", sandbox.path("stash")));
        assert!(told.status.success(), "{told:?}");
        let shown = text(&told.stdout);
        assert_eq!(shown.matches("line 1: `colour` is no setting").count(), 1, "{shown}");
        assert_eq!(shown.matches("line 2: `bases` does not count, because others").count(), 1, "{shown}");
    }
}

#[test]
fn the_list_says_why_a_base_is_not_used_and_a_folder_is_one_base_however_it_is_written() {
    let sandbox = Sandbox::new();
    let file = config(&sandbox);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let shown = |path: &Path| path.display().to_string();
    let bases: Vec<_> = (0..17).map(|number| sandbox.path(&format!("base {number}"))).collect();
    bases.iter().skip(1).for_each(|base| fs::create_dir(base).unwrap());
    let list = |bases: &[PathBuf]| {
        let names: Vec<_> = bases.iter().map(|base| format!("\"{}\"", base.display())).collect();
        format!("bases = [{}]\n", names.join(", "))
    };
    fs::write(&file, list(&bases)).unwrap();
    let told = of_list(&sandbox, &["list".as_ref()]);
    let listed: Vec<_> = text(&told.stdout).lines().collect();
    assert_eq!(listed.len(), 18, "{listed:?}");
    assert_eq!(listed[0], shown(&bases[0]));
    assert!(listed[1].starts_with("  not used: ") && listed[1].contains("No such file"), "{listed:?}");
    assert_eq!(listed[16], shown(&bases[15]));
    assert!(listed[17].ends_with("line 1: `bases` takes at most 16 paths"), "{listed:?}");
    // A change would lose what is not looked into.
    let told = of_list(&sandbox, &["remove".as_ref(), bases[0].as_os_str()]);
    assert!(one_error_line(&told).contains("is not changed: line 1: `bases` takes at most"), "{told:?}");
    fs::write(&file, list(&bases[..16])).unwrap();
    assert!(of_list(&sandbox, &["remove".as_ref(), bases[0].as_os_str()]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), list(&bases[1..16]));
    // A link to a base, and other spellings of it.
    std::os::unix::fs::symlink(&bases[3], sandbox.path("link")).unwrap();
    let spellings = [sandbox.path("link"), sandbox.path("./base 3/"), sandbox.path("base 3/.")];
    for spelling in &spellings {
        let told = of_list(&sandbox, &["add".as_ref(), spelling.as_os_str()]);
        assert!(one_error_line(&told).contains("is a base already"), "{told:?}");
    }
    // A name that would turn the order of the line around.
    let turned = sandbox.path("gnp.\u{202e}exe");
    fs::create_dir(&turned).unwrap();
    assert!(of_list(&sandbox, &["add".as_ref(), turned.as_os_str()]).status.success());
    let told = of_list(&sandbox, &["list".as_ref()]);
    assert!(text(&told.stdout).ends_with("/gnp.\u{fffd}exe\n"), "{told:?}");
}
