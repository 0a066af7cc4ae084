//! The base of a store, brought up to date before the command runs, and what was recorded published afterwards: by the
//! program `vkstash-remote`, which lies beside this one or on the PATH. Whatever it does, the command runs.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::exchange::remote::{PROGRAM, program};
use crate::system::start;
use crate::term::output::eprint_line;

/// The longest path of a base that is believed.
const LONGEST_PATH: u64 = 4096;
/// The program ends by itself; if not, it is killed so much later.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is asked whether it has ended.
const STEP: Duration = Duration::from_millis(5);

/// A store, and how long it may take.
pub(super) struct Remote<'a> {
    pub(super) url: &'a str,
    pub(super) dir: Option<&'a Path>,
    pub(super) key: Option<&'a Path>,
    pub(super) seconds: u64,
    /// What will run.
    pub(super) command: &'a [OsString],
}

impl Remote<'_> {
    /// Fetches what is new. Returns the base: what is there is used also if nothing could be fetched.
    pub(super) fn pull(&self) -> Option<PathBuf> {
        let mut command = self.command("pull", "--from");
        command.arg("--print-base").stdout(Stdio::piped());
        command.arg("--").args(self.command);
        let mut child = self.start(command)?;
        let (send, receive) = mpsc::channel();
        let output = child.stdout.take();
        // A thread of its own: the pipe may stay open for longer than is waited.
        thread::spawn(move || {
            let mut line = Vec::new();
            if let Some(output) = output {
                let _ = output.take(LONGEST_PATH).read_to_end(&mut line);
            }
            let _ = send.send(line);
        });
        self.wait(child);
        let line = receive.recv_timeout(GRACE).unwrap_or_default();
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let base = PathBuf::from(OsString::from_vec(line.to_vec()));
        (base.is_absolute() && base.is_dir()).then_some(base)
    }

    /// Publishes what was recorded of these applications.
    pub(super) fn push(&self, applications: &[String]) {
        let mut command = self.command("push", "--to");
        if let Some(key) = self.key {
            command.arg("--key").arg(key);
        }
        command.arg("--").args(applications).stdout(Stdio::null());
        if let Some(child) = self.start(command) {
            self.wait(child);
        }
    }

    fn command(&self, what: &str, address: &str) -> Command {
        let mut command = Command::new(program());
        command.arg(what).arg(address).arg(self.url).arg("--quiet");
        command.arg("--deadline").arg(self.seconds.to_string());
        if let Some(dir) = self.dir {
            command.arg("--dir").arg(dir);
        }
        command.stdin(Stdio::null());
        start::restore_in(&mut command);
        command
    }

    fn start(&self, mut command: Command) -> Option<Child> {
        let started = command.spawn();
        let program = PathBuf::from(command.get_program());
        let name = program.file_name().unwrap_or(OsStr::new(PROGRAM)).to_string_lossy().into_owned();
        started.map_err(|error| eprint_line(&format_args!("{name} cannot be started: {error}"))).ok()
    }

    /// Waits until it has ended, which it does in time by itself.
    fn wait(&self, mut child: Child) {
        let until = Instant::now() + Duration::from_secs(self.seconds) + GRACE;
        loop {
            match child.try_wait() {
                // vkstash-remote has said itself what went wrong. An error: nobody may wait for children here.
                Ok(Some(_)) | Err(_) => return,
                Ok(None) if Instant::now() < until => thread::sleep(STEP),
                Ok(None) => break,
            }
        }
        eprint_line(&format_args!("{PROGRAM} does not end, so it is killed"));
        let _ = child.kill();
        let _ = child.wait();
    }
}
