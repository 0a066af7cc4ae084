//! `vkstash prune` and `vkstash clear` remove what was not used, or is not wanted, and nothing else.

use std::time::SystemTime;

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_sessions::description::{Description, Guid, Mode, Place};
use vkstash_sessions::session::Session;
use vkstash_store::stash::open::Stash;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn app(number: u64) -> AppName {
    AppName::of_folder(&format!("game{number}-{number:08x}-{number:08x}")).unwrap()
}

/// An application with one record in its portable part, and one in a device part.
fn fill(dir: &Path, app: &AppName) {
    let stash = Stash::open_patiently(dir, app).unwrap();
    assert!(stash.portable().put(Kind::Module, &[1; 32], noise(50_000)));
    assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &[2; 32], noise(50_000)));
}

/// As if a part, or a folder of sessions, had been used last so long ago.
fn age(folder: &Path, by: Duration) {
    let since = (SystemTime::now() - by).duration_since(SystemTime::UNIX_EPOCH).unwrap();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        fs::File::open(entry.path()).unwrap().set_modified(SystemTime::now() - by).unwrap();
        if name.ends_with(".vks") {
            fs::rename(entry.path(), folder.join(format!("{:016x}{}", since.as_millis(), &name[16..])))
                .unwrap();
        }
    }
    fs::File::open(folder).unwrap().set_modified(SystemTime::now() - by).unwrap();
}

fn device_part(dir: &Path, app: &AppName) -> PathBuf {
    let is_device = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("device-");
    let entries = fs::read_dir(dir.join(&app.folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).find(is_device).unwrap()
}

fn has_segments(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        entries
            .map(|entry| entry.unwrap().path())
            .any(|path| path.extension().is_some_and(|end| end == "vks"))
    })
}

fn told(sandbox: &Sandbox, words: &[&str], dir: &Path) -> Output {
    output(sandbox.tool().args(words).arg("--dir").arg(dir).stdin(Stdio::null()))
}

fn session(dir: &Path, app: &AppName) -> Session {
    let description = Description {
        identifier: Guid([1; 16]),
        mode: Mode::Disk,
        driver_versioned: false,
        working_directory: false,
        maximum_in_memory_bytes: 0,
        maximum_in_memory_entries: 0,
        maximum_value_file_bytes: 0,
        version: 1,
    };
    let session = Session::create(&description, Some(&Place::new(dir, app)), None).unwrap();
    session.store(b"key", &noise(1000)).unwrap();
    session
}

#[test]
fn what_was_not_used_for_a_while_is_shown_and_removed_if_that_is_confirmed() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    (0..4).for_each(|number| fill(&dir, &app(number)));
    // 0 is old, of 1 a device, 2 is old and has a setting, 3 is new.
    for number in [0, 2] {
        age(&dir.join(app(number).folder).join("portable"), 100 * DAY);
        age(&device_part(&dir, &app(number)), 100 * DAY);
    }
    age(&device_part(&dir, &app(1)), 100 * DAY);
    let settings = dir.join(app(2).folder).join("settings");
    fs::write(&settings, "limit = 1MiB\n").unwrap();

    let nothing = told(&sandbox, &["prune", "--older-than", "200d"], &dir);
    assert_eq!(text(&nothing.stdout), "nothing to remove\n");
    assert!(nothing.status.success());
    for words in [&["prune", "--dry-run"][..], &["prune"]] {
        let shown = told(&sandbox, words, &dir);
        assert_eq!(shown.status.success(), words.len() == 2, "{shown:?}");
        let lines: Vec<_> = text(&shown.stdout).lines().collect();
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[1].ends_with("game1 (1 device part of it)"), "{lines:?}");
        let mut whole = [lines[2], lines[3]].map(|line| line.rsplit(' ').next().unwrap());
        whole.sort_unstable();
        assert_eq!(whole, ["game0", "game2"], "{lines:?}");
        assert!(lines[4].starts_with("3 applications, "), "{lines:?}");
        if !shown.status.success() {
            assert!(one_error_line(&shown).contains("say --yes"));
        }
        assert!((0..4).all(|number| has_segments(&device_part(&dir, &app(number)))));
    }

    let done = told(&sandbox, &["prune", "--yes"], &dir);
    assert!(done.status.success(), "{done:?}");
    assert!(text(&done.stdout).lines().last().unwrap().ends_with(" of 3 applications"), "{done:?}");
    assert!(!dir.join(app(0).folder).exists());
    assert_eq!(fs::read_dir(dir.join(app(2).folder)).unwrap().count(), 1);
    assert!(settings.exists());
    assert!(!has_segments(&device_part(&dir, &app(1))));
    assert!(has_segments(&dir.join(app(1).folder).join("portable")));
    assert!(has_segments(&device_part(&dir, &app(3))));
    let again = told(&sandbox, &["prune", "--yes"], &dir);
    assert_eq!(text(&again.stdout), "nothing to remove\n");
}

#[test]
fn what_a_running_program_uses_stays_and_that_is_an_error() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    (0..2).for_each(|number| fill(&dir, &app(number)));
    let open = Stash::open_patiently(&dir, &app(0)).unwrap();
    assert!(open.portable().contains(Kind::Module, &[1; 32]));
    let cleared = told(&sandbox, &["clear", "--all", "--yes"], &dir);
    assert_eq!(cleared.status.code(), Some(1), "{cleared:?}");
    assert!(one_error_line(&cleared).contains("1 application not removed"), "{cleared:?}");
    assert!(text(&cleared.stdout).contains("game0 - a running program uses it"), "{cleared:?}");
    assert!(!dir.join(app(1).folder).exists());
    let again = told(&sandbox, &["clear", "--all", "--yes"], &dir);
    assert!(one_error_line(&again).contains("1 application not removed"), "{again:?}");
    assert!(!text(&again.stdout).contains("removed"), "nothing was: {again:?}");
    assert!(open.portable().put(Kind::Module, &[3; 32], noise(100)));
    drop(open);
    assert_eq!(Stash::open_patiently(&dir, &app(0)).unwrap().portable().len(Kind::Module), 2);
}

#[test]
fn clearing_removes_an_application_with_its_sessions_by_the_beginning_of_its_name() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    for name in [app(0), app(1), AppName::of_folder("tool-00000000-000000aa").unwrap()] {
        fill(&dir, &name);
    }
    fs::create_dir(dir.join("elsewhere")).unwrap();
    let tool = dir.join("tool-00000000-000000aa");
    drop(session(&dir, &AppName::of_folder("tool-00000000-000000aa").unwrap()));
    for (name, said) in
        [("game", "several applications begin with"), ("nothing", "no application"), ("", "no application")]
    {
        let refused = told(&sandbox, &["clear", "--yes", name], &dir);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(
            text(&refused.stderr).starts_with("vkstash: ") && text(&refused.stderr).contains(said),
            "{refused:?}"
        );
    }
    let held = session(&dir, &app(1));
    let cleared = told(&sandbox, &["clear", "-y", "to", "game1"], &dir);
    assert_eq!(cleared.status.code(), Some(1), "a process has a cache of game1 open: {cleared:?}");
    assert!(!tool.exists(), "{cleared:?}");
    assert!(dir.join(app(1).folder).join("portable").exists());
    drop(held);
    let cleared = told(&sandbox, &["clear", "--yes", "--all"], &dir);
    assert!(cleared.status.success(), "{cleared:?}");
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["elsewhere"]);
    let usage = told(&sandbox, &["clear", "--yes"], &dir);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_program_that_writes_meanwhile_loses_nothing_that_it_wrote_after_it_was_opened() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let clearing = || {
        for _ in 0..30 {
            let output = told(&sandbox, &["clear", "--all", "--yes"], &dir);
            assert!(
                output.stderr.is_empty() || one_error_line(&output).contains("not removed"),
                "{output:?}"
            );
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(clearing), scope.spawn(clearing)];
        let mut round = 0;
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            round += 1;
            let stash = Stash::open_patiently(&dir, &app(0)).unwrap();
            let key = [round as u8; 32];
            assert!(stash.portable().put(Kind::Module, &key, noise(1000)));
            assert!(stash.seal(Duration::from_secs(60)));
            let mut payload = Vec::new();
            assert!(stash.portable().read(Kind::Module, &key, &mut payload), "round {round}");
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    fill(&dir, &app(0));
    let answered = |answer: &str| {
        let tool = env!("CARGO_BIN_EXE_vkstash");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command"]);
        command.arg(format!("'{tool}' clear --all --dir '{}'", dir.display())).arg("/dev/null");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(text(&output.stdout).contains("Remove it? [y/N]"), "{output:?}");
        output.status.code()
    };
    for no in ["\n", "n\n", "maybe\n"] {
        assert_eq!(answered(no), Some(1));
        assert!(dir.join(app(0).folder).exists());
    }
    assert_eq!(answered("y\n"), Some(0));
    assert!(!dir.join(app(0).folder).exists());
}

#[test]
fn an_application_that_cannot_be_read_wholly_is_left_alone_and_named() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    (0..2).for_each(|number| fill(&dir, &app(number)));
    drop(session(&dir, &app(0)));
    let elsewhere = sandbox.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let part = dir.join(app(0).folder).join("device-0123456789abcdef");
    std::os::unix::fs::symlink(&elsewhere, part).unwrap();
    for words in [
        &["clear", "--all", "--yes"][..],
        &["clear", "--yes", "game0"],
        &["prune", "--older-than", "0s", "-y"],
    ] {
        let left = told(&sandbox, words, &dir);
        assert_eq!(left.status.code(), Some(1), "{left:?}");
        assert!(one_error_line(&left).contains("1 application left alone"), "{left:?}");
        assert!(text(&left.stdout).contains("left alone: "), "{left:?}");
        assert!(has_segments(&dir.join(app(0).folder).join("portable")));
        assert!(fs::read_dir(dir.join(app(0).folder).join("sessions")).unwrap().count() > 0);
    }
    assert!(!dir.join(app(1).folder).exists());
}
