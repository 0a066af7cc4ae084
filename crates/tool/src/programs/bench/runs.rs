//! The runs of `vkstash bench`.

use std::fs::Permissions;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vkstash_store::reports::model::RunReport;

use crate::cli::BenchArgs;
use crate::layer::environment;
use crate::layer::folder::Folder;
use crate::layer::library::{self, Library, LibraryError};
use crate::layer::loader_folder::FolderError;
use crate::stash::root;
use crate::system::signals::{BlockedSignals, Ended};
use crate::system::start;

/// How a run has the stash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// Without the layer.
    Without,
    /// With a new stash.
    Empty,
    /// With a stash that earlier runs have filled.
    Warm,
}

impl Arm {
    pub(super) const ALL: [Arm; 3] = [Arm::Without, Arm::Empty, Arm::Warm];
}

/// What a run took, and what it did.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) wall: Duration,
    /// User and system time of the program and of the children that it has waited for.
    pub(super) processor: Duration,
    pub(super) status: ExitStatus,
    pub(super) reports: Vec<RunReport>,
}

/// Why a run ends the measurement, or none begins.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error("cannot make a folder for the stashes in {}: {error}", parent.display())]
    Scratch { parent: PathBuf, error: io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot run {}: {error}", command.display())]
    Start { command: PathBuf, error: io::Error },
    #[error("lost track of the command: {0}")]
    Wait(io::Error),
    #[error("signal {0} ended the command; nothing was measured")]
    Signal(i32),
}

/// The command, and the stashes and caches of its runs.
pub(super) struct Bench<'a> {
    args: &'a BenchArgs,
    libraries: Vec<Library>,
    /// Has a folder for each stash and cache.
    scratch: TempDir,
    /// The number of runs so far.
    count: usize,
    blocked: BlockedSignals,
}

impl Bench<'_> {
    pub(super) fn new(args: &BenchArgs) -> Result<Bench<'_>, RunError> {
        let libraries = match &args.library {
            Some(path) => vec![library::named(path)?],
            None => library::find()?,
        };
        // Where the stash is, because file systems differ.
        let beside = root::root(None).and_then(|root| root.parent().map(Path::to_owned));
        let parent = beside.filter(|parent| parent.is_dir()).unwrap_or_else(std::env::temp_dir);
        let private = Permissions::from_mode(0o700);
        let scratch = tempfile::Builder::new()
            .prefix("vkstash-bench-")
            .permissions(private)
            .tempdir_in(&parent)
            .map_err(|error| RunError::Scratch { parent, error })?;
        let blocked = BlockedSignals::block().map_err(RunError::Wait)?;
        Ok(Bench { args, libraries, scratch, count: 0, blocked })
    }

    /// Runs the command once.
    pub(super) fn run(&mut self, arm: Arm) -> Result<Run, RunError> {
        self.count += 1;
        let own = |what: &str| self.scratch.path().join(format!("{what}-{}", self.count));
        let (program, arguments) = match self.args.command.split_first() {
            Some((program, arguments)) => (program.clone(), arguments),
            None => Default::default(),
        };
        let mut command = Command::new(&program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if self.args.empty_driver_cache {
            let caches = own("driver");
            command.env("MESA_SHADER_CACHE_DIR", &caches).env("__GL_SHADER_DISK_CACHE_PATH", caches);
        }
        let manifests = environment::folder_for(&self.libraries)?;
        let folder = Folder::create().map_err(FolderError::from)?;
        let stash = match arm {
            Arm::Without => {
                command.env("VKSTASH_DISABLE", "1");
                None
            }
            Arm::Empty => Some(own("stash")),
            Arm::Warm => Some(self.scratch.path().join("stash")),
        };
        if let Some(stash) = &stash {
            environment::enable(&mut command, &manifests);
            command.env_remove("VKSTASH_DISABLE").env_remove("VKSTASH_BASE");
            command.env("VKSTASH_DIR", stash).env("VKSTASH_REPORT", folder.report_folder());
        }
        self.blocked.restore_in(&mut command);
        start::restore_in(&mut command);
        let (began, before) = (Instant::now(), processor_time_of_children());
        let started = command.spawn();
        let mut child = started.map_err(|error| RunError::Start { command: program.into(), error })?;
        let Ended { status, asked_by } = self.blocked.wait(&mut child).map_err(RunError::Wait)?;
        let (wall, processor) = (began.elapsed(), processor_time_of_children().saturating_sub(before));
        // A program that has heard it may have ended as if it was done.
        if let Some(signal) = asked_by.or(status.signal()) {
            return Err(RunError::Signal(signal));
        }
        let reports = folder.reports();
        if let Some(stash) = stash.filter(|_| arm == Arm::Empty) {
            // What cannot be removed is removed with the folder around it.
            let _ = std::fs::remove_dir_all(stash);
        }
        Ok(Run { wall, processor, status, reports })
    }
}

/// User and system time of all children that have ended.
fn processor_time_of_children() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the structure in where it succeeds, and only then it is read.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) != 0 {
            return Duration::ZERO;
        }
        usage.assume_init()
    };
    let of = |time: libc::timeval| {
        let micros = u64::try_from(time.tv_usec).unwrap_or(0);
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}
