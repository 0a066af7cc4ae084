//! Drives the real `vkstash` binary as a person, a shell or a launcher would.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod background;
mod base;
mod bench;
mod cache;
mod closed_terminal;
mod config;
mod died;
mod doctor;
mod exchange;
mod gc;
#[path = "../../store/src/tests/header.rs"]
mod header;
mod inspect;
mod install;
mod keep;
mod large;
mod layer;
mod manual;
#[path = "../../store/src/tests/numbers.rs"]
#[allow(dead_code, reason = "no test here takes seeds")]
mod numbers;
mod prewarm;
mod prune;
mod quarantine;
mod report;
mod run;
mod schemas;
mod show;
#[path = "../../../layer-tests/src/skip.rs"]
mod skip;
mod stats;
mod stats_lines;

mod units;
mod update_service;
mod verify;
mod watch;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::header::header;
use self::numbers::Numbers;

const LAYER_NAME: &str = "VK_LAYER_VKSTASH_pipeline_cache";

/// A home, a temporary folder and a stand-in for the layer library, for one test.
struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    fn new() -> Sandbox {
        let sandbox = Sandbox { folder: TempDir::new().unwrap() };
        fs::create_dir(sandbox.temp()).unwrap();
        fs::create_dir(sandbox.home()).unwrap();
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn temp(&self) -> PathBuf {
        self.path("tmp")
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The tool in an environment that holds only PATH of the machine. This test's own executable stands for the
    /// layer library: it has the right architecture, and nothing loads it here.
    fn tool(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_vkstash"))
    }

    /// Any program in that environment.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.home()).env("TMPDIR", self.temp());
        // No configuration file of the machine's.
        command.env("XDG_CONFIG_DIRS", self.temp());
        command.env("VKSTASH_LIBRARY", std::env::current_exe().unwrap());
        // Programs that it starts: what the layer does there does not depend on how busy the machine is.
        command.env("VKSTASH_OPEN_MS", "100000").env("VKSTASH_END_MS", "100000");
        command.env("VKSTASH_TEST_UNHURRIED", "1");
        interruptible(&mut command);
        command
    }

    /// `vkstash run --quiet -- sh -c SCRIPT`.
    fn run(&self, script: &str) -> Command {
        let mut command = self.tool();
        command.args(["run", "--quiet", "--", "sh", "-c", script]);
        command
    }

    fn nothing_left_in_temp(&self) -> bool {
        let only = |path: PathBuf, stays: &dyn Fn(&Path) -> bool| {
            fs::read_dir(path).is_ok_and(|mut entries| entries.all(|entry| stays(&entry.unwrap().path())))
        };
        only(self.temp(), &|path| path == self.runs() && only(self.runs(), &|path| is_for_the_loader(path)))
    }

    /// The folders of manifests that runs have left for what their commands have left running.
    fn for_the_loader(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.runs()).into_iter().flatten().map(|entry| entry.unwrap().path());
        entries.filter(|path| is_for_the_loader(path)).collect()
    }

    /// The folder below which each run has its own.
    fn runs(&self) -> PathBuf {
        self.temp().join(format!("vkstash-{}", rustix::process::geteuid().as_raw()))
    }
}

fn is_for_the_loader(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("vkstash-loader-")
}

/// Tests that were started in the background, or by nohup, inherit ignored signals and pass them on.
fn interruptible(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec; it only calls signal, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn one_error_line(output: &Output) -> &str {
    let line = text(&output.stderr);
    assert!(line.starts_with("vkstash: ") && line.ends_with('\n'), "{line:?}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// Starts `command` and waits until the command inside has printed "ready".
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, lines)
}

fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: kill takes plain numbers; the child has not been waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Bytes that no codec makes smaller.
fn noise(length: usize) -> Box<[u8]> {
    let mut numbers = Numbers(0);
    (0..length).map(|_| numbers.next() as u8).collect()
}
