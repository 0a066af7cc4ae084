//! The program over stores that are not S3, on loopback: an emulator of Azure Blob Storage, and a WebDAV server
//! (scripts/emulators.sh).

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::skip;
use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vkstash-remote");

/// A store that runs, and how the program finds it.
struct Emulator {
    child: Child,
    url: String,
    variables: Vec<(&'static str, String)>,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The file of an emulator, if it is installed.
fn installed(file: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    let file = Path::new("emulators").join(file);
    tests.ancestors().map(|folder| folder.join(&file)).find(|path| path.exists())
}

/// Starts a server on a port that was free a moment ago, and waits until it answers.
fn start(command: impl FnOnce(u16) -> Command) -> (Child, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = command(port).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    (child, port)
}

fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "the emulator does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes the container of the test in Azurite.
fn make_container(port: u16) {
    let script = installed("container.py").unwrap();
    until(|| {
        let made = Command::new("python3").arg(&script).arg(port.to_string()).output().unwrap();
        made.status.success()
    });
}

/// What the program does over a store, from an empty one to one whose segments were merged.
struct Fleet {
    world: World,
    emulator: Emulator,
    key: PathBuf,
    signers: PathBuf,
}

impl Fleet {
    fn new(emulator: Emulator) -> Fleet {
        let world = World::new();
        let [key, signers] = ["key", "signers.toml"].map(|name| world.folder.path().join(name));
        let made = Command::new(PROGRAM).args(["key", "--no-password"]).arg(&key).output();
        fs::write(&signers, made.unwrap().stdout).unwrap();
        Fleet { world, emulator, key, signers }
    }

    fn program(&self, what: &str, address: &str, machine: &str) -> Command {
        let folder = self.world.folder.path().join(machine);
        let mut command = Command::new(PROGRAM);
        command.args([what, address, &self.emulator.url, "--signers"]).arg(&self.signers);
        command.arg("--dir").arg(folder.join("stash")).arg("--into").arg(folder.join("remote"));
        command.envs(self.emulator.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn push(&self, machine: &str, more: &[&str]) -> Output {
        self.program("push", "--to", machine).arg("--key").arg(&self.key).args(more).output().unwrap()
    }

    fn pull(&self, machine: &str, says: &str) {
        is(
            &self.program("pull", "--from", machine).arg("--all").arg("--all-devices").output().unwrap(),
            says,
        );
    }

    fn fill(&self, machine: &str, numbers: std::ops::Range<u64>) {
        fill(&self.world.folder.path().join(machine).join("stash"), "game", numbers);
    }

    fn served(&self, machine: &str) -> Vec<u64> {
        served(&self.world.folder.path().join(machine).join("remote/base"), "game", 0..20)
    }

    fn go_round(&self) {
        self.fill("first", 0..3);
        is(&self.push("first", &[]), "2 manifests signed");
        self.pull("player", "2 segments with 6 records");
        self.pull("player", "nothing new");
        assert_eq!(self.served("player"), [0, 1, 2]);
        // Two at once replace the same manifests.
        std::thread::scope(|scope| {
            for (machine, numbers) in [("second", 3..6), ("third", 6..9)] {
                scope.spawn(move || {
                    self.fill(machine, numbers);
                    is(&self.push(machine, &[]), "2 manifests signed");
                });
            }
        });
        self.pull("player", "4 segments with 12 records");
        assert_eq!(self.served("player"), (0..9).collect::<Vec<_>>());
        // Without a key, into the inbox.
        self.fill("guest", 9..11);
        is(&self.program("push", "--to", "guest").output().unwrap(), "");
        let built = self.program("build", "--to", "builder").arg("--key").arg(&self.key).output().unwrap();
        is(&built, "1 objects with 2 new records taken, 0 refused");
        // Merged into new segments.
        self.pull("first", "");
        is(&self.push("first", &["--compact"]), "2 manifests signed");
        self.pull("late", "2 segments with 20 records");
        assert_eq!(self.served("late"), (0..9).collect::<Vec<_>>());
    }

    /// The store has no conditional puts; what is in its folder can be pulled.
    fn read(&mut self, folder: &Path) {
        self.fill("first", 0..3);
        let refused = self.push("first", &[]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("lacks conditional puts"), "{said}");
        // Without a key, into the inbox.
        self.fill("guest", 9..11);
        is(&self.program("push", "--to", "guest").output().unwrap(), "");
        let served = std::mem::replace(&mut self.emulator.url, format!("file://{}", folder.display()));
        is(&self.push("first", &[]), "2 manifests signed");
        let built = self.program("build", "--to", "builder").arg("--key").arg(&self.key).output().unwrap();
        is(&built, "1 objects with 2 new records taken, 0 refused");
        self.emulator.url = served;
        self.pull("player", "3 segments with 8 records");
        self.pull("player", "nothing new");
        assert_eq!(self.served("player"), [0, 1, 2]);
    }
}

fn is(output: &Output, says: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(says), "{says}: {said}");
}

fn not_installed() {
    skip::not_here(&skip::this_test(), "the emulators are not installed (scripts/emulators.sh)");
}

#[test]
fn azure_blob_storage() {
    let Some(program) = installed("node_modules/.bin/azurite-blob") else { return not_installed() };
    let (child, port) = start(|port| {
        let mut command = Command::new(program);
        command.args(["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]);
        command.args(["--blobPort", &port.to_string()]).env("AZURITE_ACCOUNTS", "vkstash:dmtzdGFzaA==");
        command
    });
    let variables = vec![
        ("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()),
        ("AZURITE_BLOB_STORAGE_URL", format!("http://127.0.0.1:{port}")),
        ("AZURE_STORAGE_ACCOUNT_NAME", "vkstash".to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", "dmtzdGFzaA==".to_owned()),
    ];
    let emulator = Emulator { child, url: "az://container/some/prefix".to_owned(), variables };
    make_container(port);
    Fleet::new(emulator).go_round();
}

#[test]
fn webdav() {
    let Some(program) = installed("python/bin/wsgidav") else { return not_installed() };
    let root = scratch();
    let (child, port) = start(|port| {
        let mut command = Command::new(program);
        // WsgiDAV answers HEAD for what is missing with a body, which its usual server, cheroot, sends: the next answer
        // on that connection cannot be read. Uvicorn drops the body.
        command.args(["--no-config", "--auth", "anonymous", "--server", "uvicorn"]);
        command.args(["--host", "127.0.0.1", "--port"]);
        command.arg(port.to_string()).arg("--root").arg(root.path());
        command
    });
    let url = format!("http://127.0.0.1:{port}/some/prefix");
    let emulator = Emulator { child, url, variables: vec![("AWS_ALLOW_HTTP", "1".to_owned())] };
    Fleet::new(emulator).read(&root.path().join("some/prefix"));
}
