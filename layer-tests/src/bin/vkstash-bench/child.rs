//! Runs the client and measures it from outside: wall time, processor time, its report and the layer's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::bench::report::{Call, Kind, Report};
use vkstash_layer_tests::engines;
use vkstash_layer_tests::translators;
use vkstash_store::reports::model::RunReport;
use vkstash_store::reports::runs;

use crate::environment::{Environment, Home};
use crate::failure::Failure;
use crate::options::Common;

/// Starts child processes.
pub(crate) struct Runner {
    client: PathBuf,
    selection: Vec<String>,
    count: usize,
    home: Home,
    folder: tempfile::TempDir,
    /// The layer's library.
    library: PathBuf,
    serial: AtomicUsize,
}

/// What one child process measured.
pub(crate) struct Outcome {
    /// What the client measured.
    pub(crate) report: Report,
    /// The layer's reports, one for each process; empty without the layer.
    pub(crate) runs: Vec<RunReport>,
    /// Seconds from before the start to after the end.
    pub(crate) wall: f64,
    /// Seconds of CPU, user and system.
    pub(crate) cpu: f64,
    /// MiB that were in memory at most.
    pub(crate) memory: f64,
}

impl Runner {
    /// Finds client and layer.
    pub(crate) fn new(common: &Common) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("vkstash-bench-").tempdir()?;
        let client = std::env::current_exe()?.with_file_name("vkstash-corpus");
        let client = fs::canonicalize(&client).map_err(|error| format!("{}: {error}", client.display()))?;
        let library = library(common)?;
        let home = Home::new(folder.path(), Some(&library))?;
        let modules = fs::canonicalize(&common.modules)
            .map_err(|error| format!("{}: {error} (scripts/corpus.sh makes it)", common.modules.display()))?;
        let selection = vec![
            "--modules".to_owned(),
            modules.to_str().ok_or("the path of the modules is not UTF-8")?.to_owned(),
            "--copies".to_owned(),
            common.copies.to_string(),
            "--max-bytes".to_owned(),
            common.max_bytes.to_string(),
        ];
        Ok(Self {
            client,
            selection,
            count: common.count,
            home,
            folder,
            library,
            serial: AtomicUsize::new(0),
        })
    }

    /// The private folders of the children.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// A new path below the private folder; nothing is there yet.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        self.folder.path().join(format!("{name}-{serial}"))
    }

    /// A new folder below the private one.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Runs the client over the corpus.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        environment: &Environment<'_>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Outcome, Failure> {
        self.run_first(self.count, environment, arguments)
    }

    /// Runs the client over the first so many modules of the corpus.
    pub(crate) fn run_first<A: AsRef<OsStr>>(
        &self,
        count: usize,
        environment: &Environment<'_>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Outcome, Failure> {
        let mut command = Command::new(&self.client);
        command.args(&self.selection).args(["--count", &count.to_string(), "--json"]).args(arguments);
        let Ended { output, runs, wall, cpu, memory } = self.spawn(command, environment)?;
        let report: Report = serde_json::from_slice(&output)?;
        if environment.stash.is_some() && runs.is_empty() && !report.modules.is_empty() {
            return Err(NO_LAYER.into());
        }
        Ok(Outcome { report, runs, wall, cpu, memory })
    }

    /// Runs the client whose pipelines differ only in state.
    pub(crate) fn run_states<A: AsRef<OsStr>>(
        &self,
        environment: &Environment<'_>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Outcome, Failure> {
        let mut command = Command::new(self.client.with_file_name("vkstash-states"));
        command.arg("--json").args(arguments);
        let Ended { output, runs, wall, cpu, memory } = self.spawn(command, environment)?;
        if environment.stash.is_some() && runs.is_empty() {
            return Err(NO_LAYER.into());
        }
        Ok(Outcome { report: serde_json::from_slice(&output)?, runs, wall, cpu, memory })
    }

    /// Runs a translator that creates this many graphics pipelines and keeps its files in `store`. Also gives the
    /// number of pipelines that were compiled and recorded.
    pub(crate) fn translate(
        &self,
        environment: &Environment<'_>,
        store: &Path,
        pipelines: &str,
        arguments: &[&str],
        further: &[&str],
    ) -> Result<(translators::report::Report, u64), Failure> {
        let mut command = Command::new(self.client.with_file_name("vkstash-translator"));
        command.args(["--count", "0", "--graphics", pipelines]).args(arguments).args(further);
        // The full report, with every call.
        command.arg("--store").arg(store).env("VKSTASH_TRANSLATOR_CHILD", "1");
        let ended = self.spawn(command, environment)?;
        if environment.stash.is_some() && ended.runs.is_empty() {
            return Err(NO_LAYER.into());
        }
        let report: translators::report::Report = serde_json::from_slice(&ended.output)?;
        match report.failures.first() {
            Some(failure) => Err(format!("{arguments:?}: {failure}").into()),
            None => Ok((report, counted(&ended.runs, "compiled"))),
        }
    }

    /// Runs an engine that asks for so many pipelines and keeps its own files in `folder`.
    pub(crate) fn engine(
        &self,
        environment: &Environment<'_>,
        engine: &str,
        folder: &Path,
        program: engines::Program,
    ) -> Result<engines::Done, Failure> {
        let mut command = Command::new(self.client.with_file_name("vkstash-engine"));
        let [count, again] = [program.count, program.again].map(|number| number.to_string());
        command.arg(engine).arg(folder);
        command.args(["--kind", program.kind.name(), "--count", &count, "--again", &again]);
        let ended = self.spawn(command, environment)?;
        if environment.stash.is_some() && ended.runs.is_empty() {
            return Err(NO_LAYER.into());
        }
        Ok(serde_json::from_slice(&ended.output)?)
    }

    /// [`prewarm`] in the environment of a user.
    pub(crate) fn prewarm(
        &self,
        environment: &Environment<'_>,
        driver: Option<&Path>,
    ) -> Result<f64, Failure> {
        let mut command = Command::new(self.client.with_file_name("vkstash"));
        environment.apply(&mut command, &self.home, &self.path("reports"));
        command.env("VKSTASH_LIBRARY", &self.library);
        prewarm(command, driver)
    }

    /// Runs this program as a step of its parent, which prints JSON.
    pub(crate) fn step<T: DeserializeOwned>(
        &self,
        environment: &Environment<'_>,
        arguments: [&str; 3],
    ) -> Result<T, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        let ended = self.spawn(command, environment)?;
        if environment.stash.is_some() && ended.runs.is_empty() {
            return Err(NO_LAYER.into());
        }
        Ok(serde_json::from_slice(&ended.output)?)
    }

    fn spawn(&self, mut command: Command, environment: &Environment<'_>) -> Result<Ended, Failure> {
        let reports = self.folder("reports")?;
        let complaints = self.path("stderr");
        environment.apply(&mut command, &self.home, &reports);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&complaints)?);
        let started = Instant::now();
        let mut child = command.spawn()?;
        let mut output = Vec::new();
        if let Some(mut pipe) = child.stdout.take() {
            pipe.read_to_end(&mut output)?;
        }
        let (status, cpu, memory) = wait(child.id())?;
        let wall = started.elapsed().as_secs_f64();
        if status != 0 {
            let why = fs::read_to_string(&complaints).unwrap_or_default();
            return Err(format!("{command:?}\nended with wait status {status:#x}\n{why}").into());
        }
        let runs = layer_reports(environment, &reports);
        fs::remove_dir_all(&reports)?;
        if let Some(stash) = environment.stash.filter(|_| environment.finish || environment.update) {
            while is_tool_at_work(stash) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(Ended { output, runs, wall, cpu, memory })
    }
}

/// Runs by this command of the tool what the service runs after an update, or `vkstash prewarm --all` for the driver of
/// a manifest. Its seconds.
pub(crate) fn prewarm(mut command: Command, driver: Option<&Path>) -> Result<f64, Failure> {
    command.arg("prewarm");
    match driver {
        Some(manifest) => command.args(["--all", "--driver"]).arg(manifest),
        None => command.args(["--after-update", "--at-once"]),
    };
    let started = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("vkstash prewarm ends with {}: {said}{why}", output.status).into());
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Whether `vkstash prewarm` works on this stash: the layer has started it at the end of a program.
pub(crate) fn is_tool_at_work(stash: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|&byte| byte == 0);
        arguments.any(|argument| argument == b"prewarm")
            && arguments.any(|argument| argument == stash.as_os_str().as_bytes())
    })
}

/// Without this check the tables would compare the driver with itself.
const NO_LAYER: &str = "the layer wrote no report: it was not loaded, or could not do its work";

/// Sum of a counter over the layer's reports.
pub(crate) fn counted(runs: &[RunReport], name: &str) -> u64 {
    let devices = runs.iter().flat_map(|run| &run.devices);
    devices.filter_map(|device| device.counters.get(name)).sum()
}

/// A child process that ended normally; its fields are those of [`Outcome`].
struct Ended {
    output: Vec<u8>,
    runs: Vec<RunReport>,
    wall: f64,
    cpu: f64,
    memory: f64,
}

fn layer_reports(environment: &Environment<'_>, folder: &Path) -> Vec<RunReport> {
    let written = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if environment.stash.is_some() && written { runs::read_all(folder) } else { Vec::new() }
}

/// The library that the manifest names: the caller's choice, or the one beside this program.
fn library(common: &Common) -> Result<PathBuf, Failure> {
    const NAME: &str = "libVkLayer_vkstash.so";
    let exe = std::env::current_exe()?;
    let candidates = match &common.library {
        Some(library) => vec![library.clone()],
        None => vec![exe.with_file_name(NAME), exe.with_file_name("deps").join(NAME)],
    };
    let found = candidates.iter().find(|path| path.exists());
    let found = found.ok_or_else(|| {
        format!("{} is not there: build the layer, or say --library", candidates[0].display())
    })?;
    Ok(fs::canonicalize(found)?)
}

/// Waits for one child; gives its wait status and processor seconds, which the standard library's wait does not
/// report.
fn wait(pid: u32) -> Result<(i32, f64, f64), Failure> {
    let mut status = 0;
    // SAFETY: rusage holds only integers, so all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `pid` is a child of this process that nothing else waits for (its `Child` is only dropped); both
        // outputs are valid for writing.
        let waited = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage) };
        if waited >= 0 {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Ok((status, cpu, usage.ru_maxrss as f64 / 1024.0))
}

impl Outcome {
    /// Microseconds of every creation call of one kind, in the order of the modules.
    pub(crate) fn calls(&self, kind: Kind) -> Vec<f64> {
        self.report.calls(kind).map(|call| call.create_ns as f64 / 1e3).collect()
    }

    /// Microseconds of each creation call with the creation of its module and its own cache, in the same order.
    pub(crate) fn wholes(&self, kind: Kind) -> Vec<f64> {
        self.report.calls(kind).map(|call| Call::whole_ns(call) as f64 / 1e3).collect()
    }

    /// Millions of user-mode instructions of the creating thread; None if the machine does not count them.
    pub(crate) fn instructions(&self, kind: Kind) -> Option<f64> {
        let round = self.report.rounds.iter().find(|round| round.kind == kind)?;
        Some(round.instructions? as f64 / 1e6)
    }

    /// Median microseconds of a creation call.
    pub(crate) fn median(&self, kind: Kind) -> f64 {
        median(&self.calls(kind))
    }

    /// Sum of a counter over the layer's reports; None where there is no report.
    pub(crate) fn counter(&self, name: &str) -> Option<u64> {
        if self.runs.is_empty() {
            return None;
        }
        Some(counted(&self.runs, name))
    }

    /// Fraction of the pipelines that the stash served, 0 to 1.
    pub(crate) fn share_served(&self) -> Option<f64> {
        Some(self.counter("served")? as f64 / self.report.modules.len() as f64)
    }
}
