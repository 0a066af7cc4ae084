//! A worker process, as its parent sees it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child as Process, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use vkstash_store::stash::stopped::forgive;

use super::mesa::Private;
use super::stop::{Reason, Stop};
use super::workers::Workers;
use crate::layer::environment;
use crate::layer::folder::Folder;

/// The hidden command of this tool that is a worker, and the first argument of any worker.
pub(crate) const COMMAND: &str = "prewarm-worker";

/// How workers are started.
pub(crate) struct Launch {
    /// What they are, for programs of each pointer width.
    pub(crate) workers: Workers,
    /// The stash.
    pub(crate) root: PathBuf,
    /// Has what is of this prewarm alone; removed with this value.
    pub(crate) _folder: Folder,
    /// What workers that make pipelines use instead of the stash and of the user's cache of Mesa.
    pub(crate) private: Option<Private>,
    /// The manifest of the driver that workers load, if it is not the active one.
    pub(crate) driver: Option<PathBuf>,
    /// The process of the program beside which they work.
    pub(crate) program: Option<u32>,
    /// What drivers and the layer print is shown.
    pub(crate) verbose: bool,
    /// Asked while workers work.
    pub(crate) stop: Stop,
}

/// What a worker says, and whose it is.
pub(crate) enum Event {
    /// A line of an answer.
    Line(String),
    /// The worker has ended, or closed its output.
    End,
}

/// A worker process.
pub(crate) struct Child {
    process: Process,
    input: Option<ChildStdin>,
    /// The stash, and the folder of the application in it.
    stash: (PathBuf, String),
}

impl Child {
    /// Starts a worker of this pointer width for this application. Its answers come through `events`, marked with
    /// `mark`. `device`: the one that it makes pipelines for.
    pub(crate) fn start(
        launch: &Launch,
        pointer_width: u8,
        application: &str,
        device: Option<usize>,
        events: &Sender<(u64, Event)>,
        mark: u64,
    ) -> io::Result<Child> {
        let worker = launch.workers.of(pointer_width).ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(&worker.executable);
        command.arg(COMMAND).arg(&worker.library);
        environment::enable_alone(&mut command, &worker.manifests);
        command.env("VKSTASH_DIR", &launch.root).env("VKSTASH_APPLICATION", application);
        // Nobody waits for a worker: everything is read before the first pipeline, and written before the end.
        command.env("VKSTASH_OPEN_MS", "600000").env("VKSTASH_END_MS", "600000");
        // A worker makes what it is asked for, and nothing else.
        command.env("VKSTASH_BACKGROUND", "disabled").env("VKSTASH_BACKGROUND_WORKERS", "0");
        // These would change what is recorded, or under which key.
        for name in ["VKSTASH_REPORT", "VKSTASH_TRACE"] {
            command.env_remove(name);
        }
        if let (Some(private), Some(device)) = (&launch.private, device) {
            private.apply(&mut command, device);
        }
        if let Some(manifest) = &launch.driver {
            environment::load_driver_alone(&mut command, manifest);
        }
        let errors = if launch.verbose { Stdio::inherit() } else { Stdio::null() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let parent = rustix::process::getpid();
        let prepare = move || {
            // SAFETY: the system calls take numbers, and `none`, which is on this stack.
            unsafe {
                // A worker that hangs in a driver does not notice that its parent was killed.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &none);
            }
            // The parent may have died before the first call.
            let orphaned = rustix::process::getppid() != Some(parent);
            if orphaned { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        };
        // SAFETY: the closure runs between fork and exec, and makes async-signal-safe system calls only; an error of
        // this kind needs no memory.
        unsafe { command.pre_exec(prepare) };
        // A terminal tells its whole foreground group to end; workers end when this process says so.
        command.process_group(0);
        let mut process = command.spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take();
        let events = events.clone();
        std::thread::spawn(move || {
            // The parent has gone away where nobody receives.
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                let Ok(line) = line else { break };
                if events.send((mark, Event::Line(line))).is_err() {
                    return;
                }
            }
            let _ = events.send((mark, Event::End));
        });
        let stash = (launch.root.clone(), application.to_owned());
        Ok(Child { process, input, stash })
    }

    /// Sends a request. A worker that has died is noticed by its end.
    pub(crate) fn send(&mut self, request: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{request}\n").as_bytes());
        }
    }

    /// No more requests: the worker ends in order.
    pub(crate) fn finish(&mut self) {
        self.input = None;
    }

    /// Bytes of memory that it has: what is resident. The address space would be no measure, because drivers reserve
    /// much more than they use. None: it has ended.
    pub(crate) fn resident(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kibibytes << 10)
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        // An error: it has ended already.
        let _ = self.process.kill();
    }

    /// How it ended. Call it after [`Event::End`].
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.input = None;
        self.process.wait()
    }

    /// It was ended on purpose: nobody is to take its end for a crash. Call it after [`Child::wait`].
    pub(crate) fn forgive(&self) {
        let (root, application) = &self.stash;
        forgive(root, application, self.process.id());
    }
}

/// How a process ended, in words.
pub(crate) fn ending(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("died of signal {signal}"),
            (None, Some(code)) => format!("exited with status {code}"),
            (None, None) => "ended".to_owned(),
        },
        Err(error) => format!("was lost: {error}"),
    }
}

/// A worker that is asked one question after the other.
pub(crate) struct QuestionedWorker {
    child: Child,
    events: Receiver<(u64, Event)>,
    timeout: Duration,
    stop: Stop,
}

/// How often it is asked whether work is to end.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Why a question got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("cannot start a worker: {0}")]
    Start(#[from] io::Error),
    #[error("the worker {0}")]
    Died(String),
    #[error("the worker did not answer within {} s", .0.as_secs())]
    Hung(Duration),
    #[error("{0}")]
    Stopped(Reason),
    #[error("{0}")]
    Cannot(String),
}

impl QuestionedWorker {
    /// Starts a worker of this pointer width for this application.
    pub(crate) fn start(
        launch: &Launch,
        pointer_width: u8,
        application: &str,
        timeout: Duration,
    ) -> Result<QuestionedWorker, AskError> {
        let (sender, events) = channel();
        let child = Child::start(launch, pointer_width, application, None, &sender, 0)?;
        Ok(QuestionedWorker { child, events, timeout, stop: launch.stop.clone() })
    }

    /// The lines of an answer, up to the one whose first word is `last`, which is left out if it is the only word.
    pub(crate) fn ask(&mut self, request: &str, last: &str) -> Result<Vec<String>, AskError> {
        self.child.send(request);
        let deadline = Instant::now() + self.timeout;
        let mut lines = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(LOOK_EVERY)) {
                Ok((_, Event::Line(line))) if line == last => return Ok(lines),
                Ok((_, Event::Line(line))) => match line.split_once(' ') {
                    Some(("cannot", reason)) => return Err(AskError::Cannot(reason.to_owned())),
                    Some((first, _)) if first == last => {
                        lines.push(line);
                        return Ok(lines);
                    }
                    _ => lines.push(line),
                },
                Ok((_, Event::End)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(AskError::Died(ending(self.child.wait())));
                }
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {
                    if let Some(reason) = self.stop.reason() {
                        self.child.kill();
                        let _ = self.child.wait();
                        self.child.forgive();
                        return Err(AskError::Stopped(reason));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill();
                    return Err(AskError::Hung(self.timeout));
                }
            }
        }
    }
}

impl Drop for QuestionedWorker {
    fn drop(&mut self) {
        self.child.finish();
        // The input's end ends it, unless it hangs.
        let deadline = Instant::now() + self.timeout.min(Duration::from_secs(10));
        while matches!(self.child.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.child.kill();
        let _ = self.child.wait();
    }
}
