//! The program as people run it: its exit statuses, a full disk, Ctrl-C.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
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
        let mut command = Command::new(PROGRAM);
        command
            .args([what, address, self.url.as_str(), "--signers"])
            .arg(&self.signers)
            .arg("--dir")
            .arg(stash);
        command.arg("--into").arg(self.world.folder.path().join(name));
        command
    }

    fn pull(&self) -> Command {
        self.program("pull", "--from", "other", &self.world.folder.path().join("empty"))
    }

    fn base(&self) -> PathBuf {
        self.world.folder.path().join("other/base")
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
    let before = files(&scene.base());
    // Nobody is pinned.
    fs::write(&scene.signers, "").unwrap();
    is(&scene.pull().output().unwrap(), 1, "no signer is pinned");
    // Somebody else is.
    let stranger = Command::new(PROGRAM)
        .args(["key", "--no-password"])
        .arg(scene.world.folder.path().join("k"))
        .output();
    fs::write(&scene.signers, stranger.unwrap().stdout).unwrap();
    is(&scene.pull().output().unwrap(), 4, "no pinned signer has signed it");
    // There is no such store.
    fs::rename(scene.world.store(), scene.world.folder.path().join("moved")).unwrap();
    is(&scene.pull().output().unwrap(), 3, "cannot be reached");
    assert_eq!(Command::new(PROGRAM).args(["pull", "--fro", "x"]).output().unwrap().status.code(), Some(2));
    assert!(files(&scene.base()) == before);
}

#[test]
fn a_full_disk_changes_nothing() {
    let scene = Scene::new();
    is(&scene.pull().output().unwrap(), 0, "updated");
    let device = scene.base().join(app("game").folder).join(format!("device-{}", header().short_digest()));
    let before = files(&device);
    scene.publish(3..60);
    // Files may not get longer than 50 KiB: the segment is longer.
    let pull = scene.pull();
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "sh"])
        .arg(pull.get_program())
        .args(pull.get_args());
    is(&limited.output().unwrap(), 1, "what was there stays");
    // What everybody gets is a manifest of its own, and its segment is short.
    assert!(files(&device) == before);
    assert_eq!(served(&scene.base(), "game", 0..99), [0, 1, 2]);
    is(&scene.pull().output().unwrap(), 0, "updated");
    assert_eq!(served(&scene.base(), "game", 0..99).len(), 60);
}

#[test]
fn an_interrupted_pull_changes_nothing_and_the_next_one_goes_on() {
    let scene = Scene::new();
    is(&scene.pull().output().unwrap(), 0, "updated");
    let before = files(&scene.base());
    scene.publish(3..60);
    let slow =
        scene.pull().args(["--max-rate", "20KB"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while files(&scene.world.folder.path().join("other/tmp")).values().all(Vec::is_empty) {
        assert!(began.elapsed() < Duration::from_secs(60), "something comes");
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = rustix::process::Pid::from_child(&slow);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    is(&slow.wait_with_output().unwrap(), 130, "interrupted");
    assert!(files(&scene.base()) == before);
    is(&scene.pull().output().unwrap(), 0, "updated");
    assert_eq!(served(&scene.base(), "game", 0..99).len(), 60);
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
    // Whoever says nothing has failed.
    fs::write(folder.join("vkstash"), "#!/bin/sh\nexit 2\n").unwrap();
    is(&build("builder", &[]), 1, "prewarm has failed");
}
