//! The program as people run it: its exit statuses, a full disk, Ctrl-C.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vkstash-remote");

/// A store in which something is published, by the program.
struct Scene {
    world: World,
    url: String,
    key: PathBuf,
    signers: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let world = World::new();
        let [key, signers] = ["key", "signers.toml"].map(|name| world.folder.path().join(name));
        let made = Command::new(PROGRAM).args(["key", "--no-password"]).arg(&key).output();
        fs::write(&signers, made.unwrap().stdout).unwrap();
        let url = format!("file://{}", world.store().display());
        let scene = Scene { world, url, key, signers };
        scene.publish(0..3);
        scene
    }

    fn publish(&self, numbers: std::ops::Range<u64>) {
        let stash = self.world.folder.path().join("stash");
        fill(&stash, "game", numbers);
        let mut command = self.program("push", "--to", "publisher", &stash);
        let pushed = command.arg("--key").arg(&self.key).output();
        is(&pushed.unwrap(), 0, "manifests signed");
    }

    fn program(&self, what: &str, address: &str, name: &str, stash: &Path) -> Command {
        self.program_at(&self.url, what, address, name, stash)
    }

    fn program_at(&self, url: &str, what: &str, address: &str, name: &str, stash: &Path) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args([what, address, url, "--signers"]).arg(&self.signers).arg("--dir").arg(stash);
        command.arg("--into").arg(self.world.folder.path().join(name));
        interruptible(&mut command);
        command
    }

    fn pull(&self) -> Command {
        self.program("pull", "--from", "other", &self.world.folder.path().join("empty"))
    }

    fn base(&self) -> PathBuf {
        self.world.folder.path().join("other/base")
    }

    /// Checks the base by those signers that the last pull has read.
    fn check(&self) -> Output {
        Command::new(PROGRAM).arg("check").arg(self.base()).output().unwrap()
    }

    fn pin_a_stranger(&self) {
        let mut key = Command::new(PROGRAM);
        let made = key.args(["key", "--no-password"]).arg(self.world.folder.path().join("k")).output();
        fs::write(&self.signers, made.unwrap().stdout).unwrap();
    }
}

/// Tests that were started in the background, or by nohup, inherit ignored signals and pass them on.
fn interruptible(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec; it only calls signal, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

fn is(output: &Output, status: i32, says: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(says), "{said}");
    assert!(said.lines().all(|line| line.starts_with("vkstash-remote: ")), "{said}");
}

#[test]
fn the_program_says_what_it_did_and_ends_with_a_status_that_tells_more() {
    let scene = Scene::new();
    let pulled = scene.pull().arg("--print-base").output().unwrap();
    is(&pulled, 0, "1 applications updated: 2 segments with 6 records");
    assert_eq!(String::from_utf8_lossy(&pulled.stdout).trim_end(), scene.base().to_str().unwrap());
    is(&scene.pull().output().unwrap(), 0, "nothing new");
    assert_eq!(served(&scene.base(), "game", 0..9), [0, 1, 2]);
    let signers = fs::read_to_string(&scene.signers).unwrap();
    // There is no such store.
    let moved = scene.world.folder.path().join("moved");
    fs::rename(scene.world.store(), &moved).unwrap();
    is(&scene.pull().output().unwrap(), 3, "cannot be reached");
    assert_eq!(served(&scene.base(), "game", 0..9), [0, 1, 2]);
    // Nobody is pinned.
    fs::write(&scene.signers, "").unwrap();
    let pulled = scene.pull().arg("--quiet").output().unwrap();
    is(&pulled, 1, "no signer is pinned");
    is(&pulled, 1, "no pinned signer has signed it; put aside, so that programs do not use it");
    assert!(served(&scene.base(), "game", 0..9).is_empty());
    fs::rename(&moved, scene.world.store()).unwrap();
    fs::write(&scene.signers, signers).unwrap();
    is(&scene.pull().output().unwrap(), 0, "1 applications updated: 0 segments");
    assert_eq!(served(&scene.base(), "game", 0..9), [0, 1, 2]);
    // Somebody else is.
    scene.pin_a_stranger();
    is(&scene.check(), 0, "");
    let checked = scene.check();
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(told.contains("no pinned signer has signed it; programs use it until the next pull"), "{told}");
    fs::rename(scene.world.store(), &moved).unwrap();
    is(&scene.pull().output().unwrap(), 3, "no pinned signer has signed it; put aside");
    assert!(served(&scene.base(), "game", 0..9).is_empty());
    fs::rename(&moved, scene.world.store()).unwrap();
    is(&scene.pull().output().unwrap(), 4, "no pinned signer has signed it");
    assert_eq!(Command::new(PROGRAM).args(["pull", "--fro", "x"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_pull_says_what_to_type_until_programs_use_the_base() {
    let scene = Scene::new();
    let home = scene.world.folder.path().join("home");
    let config = home.join("config.toml");
    fs::create_dir(&home).unwrap();
    let pull = |arguments: &[&str], variables: &[(&str, &Path)]| {
        let mut pull = scene.pull();
        pull.args(arguments).env("HOME", &home).env("XDG_CONFIG_DIRS", &home).env("VKSTASH_CONFIG", &config);
        let pulled = pull.envs(variables.iter().copied()).output().unwrap();
        is(&pulled, 0, "");
        let said = String::from_utf8_lossy(&pulled.stderr).into_owned();
        said.lines().last().unwrap_or_default().to_owned()
    };
    let (stash, base) = (scene.world.folder.path().join("empty"), scene.base());
    let types = format!("for that type: vkstash base add --dir {} {}", stash.display(), base.display());
    for _ in 0..2 {
        let last = pull(&[], &[]);
        assert!(last.ends_with(&types), "{last}");
    }
    // Whoever pulls for one command, or asks for the path, names the base himself.
    for arguments in [&["--print-base"][..], &["--quiet"], &["--", "true"]] {
        assert!(!pull(arguments, &[]).contains("vkstash base add"), "{arguments:?}");
    }
    assert!(pull(&[], &[("VKSTASH_BASE", &base)]).ends_with("nothing new"));
    fs::write(&config, format!("bases = ['{}']\n", base.display())).unwrap();
    assert!(pull(&[], &[]).ends_with("nothing new"));
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    let last = pull(&[], &[]);
    assert!(last.contains("programs do not use this base: "), "{last}");
}

#[test]
fn what_cannot_be_printed_is_an_error_and_one_line_says_so() {
    let scene = Scene::new();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let closed = |command: &Command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" >&-", "sh"]).arg(command.get_program()).args(command.get_args());
        shell
    };
    let mut pull = scene.pull();
    pull.arg("--print-base");
    is(&closed(&pull).output().unwrap(), 1, "cannot print it: standard output is closed");
    is(&pull.stdout(full()).output().unwrap(), 1, "cannot print it: No space left");
    // Nobody reads it.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    is(&scene.pull().arg("--print-base").stdout(writer).output().unwrap(), 1, "Broken pipe");
    let mut key = Command::new(PROGRAM);
    let file = scene.world.folder.path().join("another key");
    let told = key.args(["key", "--no-password"]).arg(&file).stdout(full()).output().unwrap();
    is(&told, 1, "cannot print it: No space left");
    // The key is there, and the line says all of it that is needed.
    let public = fs::read_to_string(file.with_file_name("another key.pub")).unwrap();
    is(&told, 1, public.lines().nth(1).unwrap());
    fs::remove_file(&file).unwrap();
    fs::remove_file(file.with_file_name("another key.pub")).unwrap();
    is(&closed(&key).output().unwrap(), 1, "cannot print it: standard output is closed");
    for what in ["--help", "--version"] {
        is(&Command::new(PROGRAM).arg(what).stdout(full()).output().unwrap(), 1, "cannot print it");
    }
    assert_eq!(served(&scene.base(), "game", 0..9).len(), 0, "whoever asks for the base gets it first");
}

/// Without a terminal nobody is asked, and what helps is named.
#[test]
fn without_a_terminal_a_password_comes_from_elsewhere_or_is_left_out() {
    let scene = Scene::new();
    let file = scene.world.folder.path().join("asked");
    let key = || {
        let mut key = Command::new(PROGRAM);
        key.arg("key").arg(&file).env_remove("VKSTASH_REMOTE_PASSWORD").stdin(std::process::Stdio::null());
        key
    };
    let refused = key().output().unwrap();
    for said in ["no terminal", "--no-password", "--password-file", "VKSTASH_REMOTE_PASSWORD"] {
        is(&refused, 1, said);
    }
    assert!(!file.exists());
    is(&key().env("VKSTASH_REMOTE_PASSWORD", "much").output().unwrap(), 0, "");
    let mut push = scene.program("push", "--to", "publisher", &scene.world.folder.path().join("stash"));
    let push = push.arg("--key").arg(&file).env_remove("VKSTASH_REMOTE_PASSWORD");
    let refused = push.stdin(std::process::Stdio::null()).output().unwrap();
    is(&refused, 1, "the key has one; --password-file");
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("--no-password"), "{refused:?}");
}

#[test]
fn addresses_that_are_none_are_wrong_usage_and_leave_nothing() {
    let scene = Scene::new();
    let store = scene.world.store();
    for address in [
        "",
        "s3",
        "s3://",
        "s3:///prefix",
        "gs://",
        "https://",
        "ftp://host/path",
        "memory:///",
        "C:/store",
        "file:store",
        "file:/store",
        "file://store",
        "file://host/store",
        "file:///a?b",
        "file:///a#b",
        "file:///a%zz",
        "file:///a%4",
        "file:///a%00b",
        "file:///a\\b",
        "file:///a\nb",
        " file:///a",
        "file:///a ",
        "s3://bucket/a?b",
        "https://host/a#b",
        "https://ho\tst/a",
        "http://host/a",
    ] {
        for what in ["pull", "push"] {
            let to = if what == "pull" { "--from" } else { "--to" };
            let mut command = Command::new(PROGRAM);
            command.args([what, to, address]).env_remove("HOME").arg("--signers").arg(&scene.signers);
            let into = scene.world.folder.path().join("into");
            let told = command.arg("--into").arg(&into).arg("--dir").arg(&store).output().unwrap();
            is(&told, 2, "is no address of a store: ");
            assert_eq!(String::from_utf8_lossy(&told.stderr).lines().count(), 1, "{address:?}");
            assert!(!into.exists(), "{address:?}");
        }
    }
}

#[test]
fn the_address_of_a_folder_is_decoded_as_a_whole() {
    let scene = Scene::new();
    let names =
        [("a?b#c%d", "a%3Fb%23c%25d"), ("line\nbreak", "line%0Abreak"), ("a b", "a b"), ("\u{e9}", "\u{e9}")];
    for (name, written) in names {
        let (from, to) = (scene.world.store(), scene.world.folder.path().join(name));
        fs::rename(&from, &to).unwrap();
        let url = format!("file://localhost{}/{written}", scene.world.folder.path().display());
        let pull =
            scene.program_at(&url, "pull", "--from", "other", &scene.world.folder.path().join("empty"));
        is(&{ pull }.output().unwrap(), 0, if name.contains('?') { "updated" } else { "nothing new" });
        fs::rename(&to, &from).unwrap();
    }
    assert_eq!(served(&scene.base(), "game", 0..9), [0, 1, 2]);
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// With a limit of the shell.
fn limited(command: &Command, limit: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("ulimit {limit} && exec \"$@\"");
    shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    shell
}

#[test]
fn a_disk_that_is_full_before_a_pull_is_noticed_before_it() {
    let scene = Scene::new();
    let script = "mount -t tmpfs -o size=8m none \"$0\" || exit 99; exec \"$@\"";
    let full = scene.world.folder.path().join("full");
    fs::create_dir(&full).unwrap();
    let pull = scene.program("pull", "--from", "full/into", &scene.world.folder.path().join("empty"));
    let mut alone = Command::new("unshare");
    alone.args(["-m", "sh", "-c", script]).arg(&full).arg(pull.get_program()).args(pull.get_args());
    match alone.output() {
        Ok(told) if !matches!(told.status.code(), Some(99)) && !said(&told).contains("unshare: ") => {
            is(&told, 1, "bytes more are needed than the disk has free; what was there stays");
        }
        _ => crate::skip::not_here(&crate::skip::this_test(), "nothing may be mounted here"),
    }
}

/// Nothing is known to be wrong before the write that fails, and the signal of that write ends nobody.
#[test]
fn a_file_that_may_not_grow_changes_nothing() {
    let scene = Scene::new();
    is(&scene.pull().output().unwrap(), 0, "updated");
    let device = scene.base().join(app("game").folder).join(format!("device-{}", header().short_digest()));
    let before = files(&device);
    scene.publish(3..60);
    is(&limited(&scene.pull(), "-f 100").output().unwrap(), 1, "what was there stays");
    assert!(files(&device) == before);
    // A push cannot write its segment, and publishes nothing of it.
    let stash = scene.world.folder.path().join("stash");
    fill(&stash, "game", 60..120);
    let manifest = || fs::read(scene.world.manifest()).unwrap();
    let published = manifest();
    let mut push = scene.program("push", "--to", "publisher", &stash);
    push.arg("--key").arg(&scene.key);
    let told = limited(&push, "-f 100").output().unwrap();
    is(&told, 1, "");
    assert!(manifest() == published, "{}", said(&told));
    is(&push.output().unwrap(), 0, "manifests signed");
    is(&scene.pull().output().unwrap(), 0, "updated");
    assert_eq!(served(&scene.base(), "game", 0..199).len(), 120);
}

#[test]
fn a_process_of_few_descriptors_does_it_or_changes_nothing() {
    let scene = Scene::new();
    is(&scene.pull().output().unwrap(), 0, "updated");
    let stash = scene.world.folder.path().join("stash");
    for (round, most) in [6, 8, 10, 12, 14].into_iter().chain(16..28).enumerate() {
        let (first, last) = (3 + round as u64, 4 + round as u64);
        fill(&stash, "game", first..last);
        let mut push = scene.program("push", "--to", "publisher", &stash);
        push.arg("--key").arg(&scene.key);
        let before = files(&scene.base());
        let mut all_done = true;
        for command in [&push, &scene.pull()] {
            let told = limited(command, &format!("-n {most}")).output().unwrap();
            let status = told.status.code();
            assert!(matches!(status, Some(0 | 1)), "{most}: {status:?} {}", said(&told));
            let is_line = |line: &str| line.starts_with("vkstash-remote: ");
            assert!(said(&told).lines().all(is_line), "{most}: {}", said(&told));
            assert!(status == Some(0) || !said(&told).is_empty(), "{most}");
            all_done &= status == Some(0);
        }
        let unchanged = files(&scene.base()) == before && !all_done;
        assert!(unchanged || served(&scene.base(), "game", 0..99).len() as u64 == last, "{most}");
        // What was not done is done by the next ones.
        assert_eq!(push.output().unwrap().status.code(), Some(0));
        assert_eq!(scene.pull().output().unwrap().status.code(), Some(0));
        assert_eq!(served(&scene.base(), "game", 0..99).len() as u64, last, "{most}");
    }
}

#[test]
fn of_a_damaged_stash_what_is_intact_is_published() {
    for seed in 1..9_u64 {
        let scene = Scene::new();
        let stash = scene.world.folder.path().join("stash");
        fill(&stash, "game", 3..40);
        let bytes = noise(seed, 4096);
        let mut numbers =
            bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()) as usize);
        let mut number = || numbers.next().unwrap();
        for path in
            files(&stash).into_keys().filter(|path| path.extension().is_some_and(|name| name == "vks"))
        {
            let mut bytes = fs::read(stash.join(&path)).unwrap();
            for _ in 0..number() % 6 {
                let at = number() % bytes.len();
                bytes[at] ^= 1 << (number() % 8);
            }
            if number() % 3 == 0 {
                bytes.truncate(number() % bytes.len());
            }
            fs::write(stash.join(&path), bytes).unwrap();
        }
        let mut push = scene.program("push", "--to", "publisher", &stash);
        let told = push.arg("--key").arg(&scene.key).output().unwrap();
        assert!(matches!(told.status.code(), Some(0 | 1)), "seed {seed}: {}", said(&told));
        // `served` fails on any wrong byte, and a pull on any record that is not what its key says.
        is(&scene.pull().output().unwrap(), 0, "updated");
        let found = served(&scene.base(), "game", 0..99);
        assert!([0, 1, 2].iter().all(|number| found.contains(number)), "seed {seed}: {found:?}");
    }
}

#[test]
fn a_pull_keeps_the_limit_of_the_users_stash() {
    let scene = Scene::new();
    let folder = scene.world.folder.path();
    let (stash, data) = (folder.join("own"), folder.join("data"));
    fs::create_dir(&stash).unwrap();
    let limit = |limit: &str| fs::write(stash.join("config.toml"), format!("limit = '{limit}'\n")).unwrap();
    let pull = || {
        let mut command = Command::new(PROGRAM);
        command.args(["pull", "--all", "--from", &scene.url, "--signers"]).arg(&scene.signers);
        command.env("VKSTASH_DIR", &stash).env("XDG_DATA_HOME", &data);
        command.env("XDG_CONFIG_HOME", folder).env("XDG_CONFIG_DIRS", folder);
        command.output().unwrap()
    };
    let store = || fs::read_dir(data.join("vkstash/remote")).unwrap().next().unwrap().unwrap().path();
    let bytes = |name: &str| files(&store().join(name)).values().map(Vec::len).sum::<usize>();
    let served = || served(&store().join("base"), "game", 0..99).len();
    limit("1KiB");
    is(&pull(), 1, "than the limit of the stash leaves");
    assert_eq!((bytes("base"), bytes("tmp")), (0, 0), "nothing was downloaded");
    limit("40KiB");
    is(&pull(), 0, "1 applications updated");
    assert_eq!(served(), 3);
    // What is there and what comes count together. Portable records may fit where artifacts do not.
    scene.publish(3..13);
    is(&pull(), 1, "than the limit of the stash leaves");
    assert!(served() == 3 && bytes("base") + bytes("tmp") <= 40 << 10);
    // What the stash has recorded counts, too.
    fill(&stash, "own", 0..20);
    limit("100KiB");
    is(&pull(), 1, "than the limit of the stash leaves");
    assert_eq!(served(), 3);
    limit("1MiB");
    is(&pull(), 0, "1 applications updated");
    assert_eq!(served(), 13);
    // Who names a folder decides what it may take.
    limit("1KiB");
    is(
        &scene.pull().env("VKSTASH_DIR", scene.world.folder.path().join("empty")).output().unwrap(),
        0,
        "updated",
    );
}

/// Waits until something is true of what a child does; it must not end before.
fn until(child: &mut std::process::Child, what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

const SIGNALS: [(rustix::process::Signal, i32); 2] =
    [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)];

#[test]
fn an_interrupted_pull_changes_nothing_and_the_next_one_goes_on() {
    for (signal, status) in SIGNALS {
        let scene = Scene::new();
        is(&scene.pull().output().unwrap(), 0, "updated");
        let before = files(&scene.base());
        scene.publish(3..60);
        let mut slow =
            scene.pull().args(["--max-rate", "20KB"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let parts = scene.world.folder.path().join("other/tmp");
        until(&mut slow, "something comes", || !files(&parts).values().all(Vec::is_empty));
        rustix::process::kill_process(rustix::process::Pid::from_child(&slow), signal).unwrap();
        is(&slow.wait_with_output().unwrap(), status, "interrupted");
        assert!(files(&scene.base()) == before);
        is(&scene.pull().output().unwrap(), 0, "updated");
        assert_eq!(served(&scene.base(), "game", 0..99).len(), 60);
        assert!(files(&parts).is_empty());
    }
}

/// Somebody who writes manifests has the lock of the folder, so the push has sent its segments, and waits.
#[test]
fn an_interrupted_push_publishes_nothing_and_the_next_one_publishes_all() {
    for (signal, status) in SIGNALS {
        let scene = Scene::new();
        let stash = scene.world.folder.path().join("stash");
        fill(&stash, "game", 3..60);
        let (segments, manifests) =
            (scene.world.store().join("v1/segments"), scene.world.store().join("v1/manifests"));
        let (sent, before) = (files(&segments).len(), files(&manifests));
        let writer = fs::File::open(scene.world.store().join(".lock")).unwrap();
        rustix::fs::flock(&writer, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let mut push = scene.program("push", "--to", "publisher", &stash);
        push.arg("--key").arg(&scene.key);
        let mut waiting = push.stderr(std::process::Stdio::piped()).spawn().unwrap();
        until(&mut waiting, "a segment is sent", || files(&segments).len() > sent);
        rustix::process::kill_process(rustix::process::Pid::from_child(&waiting), signal).unwrap();
        is(&waiting.wait_with_output().unwrap(), status, "interrupted");
        assert!(files(&manifests) == before);
        assert!(
            files(&scene.world.folder.path().join("publisher/tmp")).is_empty(),
            "nothing half-done stays here"
        );
        drop(writer);
        is(&push.output().unwrap(), 0, "manifests signed");
        is(&scene.pull().output().unwrap(), 0, "updated");
        assert_eq!(served(&scene.base(), "game", 0..99).len(), 60);
    }
}

#[test]
fn a_build_compiles_for_every_device_and_shows_drivers_no_secrets() {
    let scene = Scene::new();
    let folder = scene.world.folder.path().join("bin");
    fs::create_dir(&folder).unwrap();
    fs::copy(PROGRAM, folder.join("vkstash-remote")).unwrap();
    let said = folder.join("said");
    let script = format!("#!/bin/sh\n{{ echo \"$@\"; env; }} > {}\necho '{{}}'\nexit 1\n", said.display());
    fs::write(folder.join("vkstash"), script).unwrap();
    fs::set_permissions(folder.join("vkstash"), fs::Permissions::from_mode(0o755)).unwrap();
    let stash = scene.world.folder.path().join("stash");
    let build = |name: &str, arguments: &[&str]| {
        let plain = scene.program("build", "--to", name, &stash);
        let mut command = Command::new(folder.join("vkstash-remote"));
        command.args(plain.get_args()).arg("--prewarm").arg("--key").arg(&scene.key).args(arguments);
        for secret in ["AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY"] {
            command.env(secret, "secret");
        }
        command.env("VKSTASH_REMOTE_PASSWORD", "secret").env("OTHER", "kept").output().unwrap()
    };
    // An empty inbox: what the stash has is compiled and published all the same.
    is(&build("builder", &[]), 0, "0 objects with");
    let text = fs::read_to_string(&said).unwrap();
    let first = text.lines().next().unwrap();
    assert_eq!(first, format!("prewarm --dir {} --every-device --json --all", stash.display()));
    assert!(text.contains("OTHER=kept") && !text.contains("=secret"), "{text}");
    let application = app("game").folder;
    is(&build("builder", &[&application]), 0, "0 objects with");
    let text = fs::read_to_string(&said).unwrap();
    assert!(
        text.lines().next().unwrap().ends_with(&format!("--every-device --json {application}")),
        "{text}"
    );
    // A prewarm without a report has failed.
    fs::write(folder.join("vkstash"), "#!/bin/sh\nexit 2\n").unwrap();
    is(&build("builder", &[]), 1, "prewarm has failed");
}

/// The limits at which a connection is what cannot be opened, among others.
#[test]
fn a_lack_of_descriptors_is_no_lack_of_a_store() {
    let scene = Scene::new();
    let empty = scene.world.folder.path().join("empty");
    let pull = scene.program_at("https://127.0.0.1:1/x", "pull", "--from", "other", &empty);
    let mut lacked = 0;
    for most in 6..14 {
        let told = limited(&pull, &format!("-n {most}")).output().unwrap();
        if told.status.code() == Some(1) {
            lacked += 1;
            let words = ["too many files open", "Too many open files"];
            assert!(words.iter().any(|words| said(&told).contains(words)), "{most}: {}", said(&told));
        } else {
            is(&told, 3, "Connection refused");
        }
    }
    assert!(lacked > 4, "{lacked}");
}

#[test]
fn passwords_in_addresses_are_not_printed() {
    let scene = Scene::new();
    let empty = scene.world.folder.path().join("empty");
    for (address, status) in [
        ("https://user:s3cret@127.0.0.1:1/x", 3),
        ("https://user:s3cret@127.0.0.1:1/x?y", 2),
        ("https://user:s3/cret@127.0.0.1:1/x?y", 2),
        ("ftp://user:s3cret@host/x", 2),
        ("user:s3cret@host/x", 2),
        ("http://user:s3cret@127.0.0.1:1/x", 2),
    ] {
        for what in ["pull", "push"] {
            let to = if what == "pull" { "--from" } else { "--to" };
            let mut command = scene.program_at(address, what, to, "other", &empty);
            let told = command.args(["--silence", "2"]).output().unwrap();
            // A push without anything to publish asks nobody.
            assert!(what == "push" && status == 3 || told.status.code() == Some(status), "{}", said(&told));
            let shows = ["user", "s3", "cret"].iter().any(|part| said(&told).contains(part));
            assert!(!shows, "{address}: {}", said(&told));
        }
    }
}

/// Before there is a connection, or anything to tidy up: the key is a pipe into which nobody writes.
#[test]
fn a_signal_counts_from_the_beginning() {
    for (signal, status) in SIGNALS {
        let scene = Scene::new();
        let pipe = scene.world.folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut push = scene.program("push", "--to", "publisher", &scene.world.folder.path().join("stash"));
        push.arg("--key").arg(&pipe).stderr(std::process::Stdio::piped());
        let child = push.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        is(&child.wait_with_output().unwrap(), status, "interrupted; what was there stays");
    }
}

#[test]
fn a_signal_that_was_ignored_before_stays_ignored() {
    for (signal, _) in SIGNALS {
        let scene = Scene::new();
        is(&scene.pull().output().unwrap(), 0, "updated");
        scene.publish(3..60);
        let mut pull = scene.pull();
        pull.args(["--max-rate", "20KB"]);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap '' INT TERM; exec \"$@\"", "sh"])
            .arg(pull.get_program())
            .args(pull.get_args());
        let mut slow = shell.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let parts = scene.world.folder.path().join("other/tmp");
        until(&mut slow, "something comes", || !files(&parts).values().all(Vec::is_empty));
        rustix::process::kill_process(rustix::process::Pid::from_child(&slow), signal).unwrap();
        is(&slow.wait_with_output().unwrap(), 0, "updated");
        assert_eq!(served(&scene.base(), "game", 0..99).len(), 60);
    }
}
