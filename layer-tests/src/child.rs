//! Test steps in processes of their own.
//!
//! The loader's behaviour depends on the environment, which belongs to the process, and a layer that crashes a
//! program must not crash the suite. So a test is a [`scenario`]: named steps, and a parent that runs them in any
//! environment, in any order, any number of times. The parent starts this test program again for the same test, with
//! the name of the step in a variable; in that process only the step runs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::env::{self, Driver, Env};
use crate::observed;
use crate::report::Reports;
use crate::skip;
use crate::vulkan;

/// The variable that names the step to run in a child process.
pub const STEP: &str = "VKSTASH_TEST_STEP";
const INPUT: &str = "VKSTASH_TEST_INPUT";
/// Prefix of the line with the answer, among the other output of the test program.
const ANSWER: &str = "vkstash test answer: ";

/// A step that hangs is killed after this time, so that the suite ends. No test measures with it.
const PATIENCE: Duration = Duration::from_secs(1800);

const PROBE: &str = "probe the driver";
const PROBE_TWO: &str = "probe two devices of one instance";

/// A step: takes the parent's input, gives its answer.
pub type Step = fn(&Value) -> Value;

/// Runs `parent`, which may start the steps in child processes. In a child process only the step runs, and then the
/// process exits through its exit handlers, without unwinding.
pub fn scenario(steps: &[(&str, Step)], parent: impl FnOnce(&Scenario)) {
    if let Ok(wanted) = std::env::var(STEP) {
        let own: [(&str, Step); 2] = [(PROBE, probe), (PROBE_TWO, probe_two)];
        let known = own.iter().chain(steps).find(|(name, _)| *name == wanted);
        let step = known.unwrap_or_else(|| panic!("this test has no step {wanted:?}")).1;
        let input = std::env::var(INPUT).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
        answer(&step(&input));
        std::process::exit(0);
    }
    let thread = std::thread::current();
    let test = thread.name().expect("a test's thread is named after it").to_owned();
    let folder = tempfile::Builder::new().prefix("vkstash-test-").tempdir().expect("a temporary folder");
    parent(&Scenario { test, folder: folder.path().to_path_buf(), started: AtomicUsize::new(0) });
}

/// Sends a value to the parent before the end of the step: for steps that do not end normally. It goes through
/// standard output, because a step may be unable to write files.
pub fn answer(value: &Value) {
    let mut stdout = std::io::stdout().lock();
    let line = format!("\n{ANSWER}{value}\n");
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).expect("the parent reads");
}

/// The answer of a step in its standard output; null if it did not answer.
pub fn answer_in(stdout: &str) -> Value {
    let answer = stdout.lines().find_map(|line| line.strip_prefix(ANSWER));
    answer.map_or(Value::Null, |text| serde_json::from_str(text).expect("our own JSON"))
}

/// The parent's side of a test.
pub struct Scenario {
    test: String,
    folder: PathBuf,
    started: AtomicUsize,
}

impl Scenario {
    /// A private folder that is deleted when the test is over.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// An environment with this driver, private below this test's folder. None, and a line that says why, if the
    /// driver is missing (a failure with VKSTASH_REQUIRE_DRIVERS=1).
    pub fn on(&self, driver: Driver) -> Option<Env> {
        if driver == Driver::Machine && std::env::var_os(env::MACHINE_DRIVER).is_none() {
            // The variable is not set: the test does not exist.
            return None;
        }
        match self.available(&driver) {
            Ok(()) => Some(Env::new(driver, &self.folder)),
            Err(reason) => {
                self.skip(&format!("{}: {reason}", driver.name()));
                None
            }
        }
    }

    /// [`Scenario::on`] for a test that creates two devices of one instance. Also None, with a line that says why,
    /// where the driver cannot do that: RADV of Mesa 25.2 frees what the devices of its null device share with each
    /// of them, and the process dies.
    pub fn on_two_devices(&self, driver: Driver) -> Option<Env> {
        let env = self.on(driver.clone())?;
        // The defect belongs to the null device; any other driver that fails here fails the test.
        if driver == Driver::Radv && self.probe(PROBE_TWO, &driver).is_err() {
            self.not_here("left out on RADV: a process dies of two null devices in one instance");
            return None;
        }
        Some(env)
    }

    /// Reports that this test is skipped; a failure with VKSTASH_REQUIRE_DRIVERS=1.
    pub fn skip(&self, reason: &str) {
        skip::missing(&self.test, reason);
    }

    /// Reports that this test is skipped for lack of something that set-up cannot install, a right for instance;
    /// never a failure.
    pub fn not_here(&self, reason: &str) {
        skip::not_here(&self.test, reason);
    }

    /// Whether the driver is installed and offers a device; tried once in each test program, and not at all where every
    /// driver is required: the test itself fails then.
    pub fn available(&self, driver: &Driver) -> Result<(), String> {
        env::installed(driver)?;
        if skip::drivers_are_required() { Ok(()) } else { self.probe(PROBE, driver) }
    }

    /// Runs a probe on the driver alone, once in each test program; the probe must end normally and count a device.
    fn probe(&self, step: &'static str, driver: &Driver) -> Result<(), String> {
        type Known = BTreeMap<(&'static str, &'static str), Result<(), String>>;
        static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = || {
            let env = Env::new(driver.clone(), &self.folder).without_layer();
            let outcome = self.run(step, &env, &());
            let devices = outcome.value.as_u64().unwrap_or(0);
            let well = outcome.status.success() && devices > 0;
            if well { Ok(()) } else { Err(format!("no device ({})", outcome.ending())) }
        };
        known.entry((step, driver.name())).or_insert_with(ask).clone()
    }

    /// Adds what makes this test program, whose path is the command's last argument, the step.
    pub fn as_step<'a>(
        &self,
        command: &'a mut Command,
        step: &str,
        input: &impl Serialize,
    ) -> &'a mut Command {
        command
            .args([&self.test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(STEP, step)
            .env(INPUT, serde_json::to_string(input).expect("an input that JSON can hold"))
    }

    /// Starts a step in the background.
    pub fn start(&self, step: &str, env: &Env, input: &impl Serialize) -> Running {
        self.started.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(std::env::current_exe().expect("the test program knows its own path"));
        env.apply(&mut command);
        self.as_step(&mut command, step, input);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the test program starts once more");
        let stdout = Some(collect(process.stdout.take().expect("a pipe")));
        let stderr = Some(collect(process.stderr.take().expect("a pipe")));
        let step = format!("{step}{}", if env.has_layer() { "" } else { " without the layer" });
        Running { test: self.test.clone(), step, process, stdout, stderr, report: env.report_folder() }
    }

    /// Runs a step to its end, however it ends.
    pub fn run(&self, step: &str, env: &Env, input: &impl Serialize) -> Outcome {
        self.start(step, env, input).wait()
    }

    /// Runs a step that must end normally, in a report folder of its own.
    pub fn run_ok<T: DeserializeOwned>(&self, step: &str, env: &Env, input: &impl Serialize) -> Run<T> {
        let number = self.started.load(Ordering::Relaxed);
        let env = env.clone().report(self.folder.join(format!("report-{number}")));
        let outcome = self.run(step, &env, input);
        let value = serde_json::from_value(outcome.ok()).expect("the step answers what the test expects");
        let Outcome { reports, stderr, .. } = outcome;
        // A panic that the layer caught shows only here.
        assert_eq!(reports.sum("internal_failures"), 0, "{stderr}");
        assert!(!stderr.contains("panicked at"), "{stderr}");
        Run { value, reports, stderr }
    }
}

/// A step that has been started.
pub struct Running {
    test: String,
    step: String,
    process: Process,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
    report: PathBuf,
}

impl Running {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the end of the process.
    pub fn wait(mut self) -> Outcome {
        let started = Instant::now();
        let mut hung = false;
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("a child of ours") {
                break status;
            }
            if started.elapsed() > PATIENCE && !hung {
                hung = true;
                self.process.kill().expect("a child of ours");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let value = answer_in(&joined(self.stdout.take()));
        let reports = Reports::read(&self.report);
        observed::note(&self.test, &self.step, &value, &reports);
        let stderr = joined(self.stderr.take());
        Outcome { step: self.step.clone(), status, hung, value, stderr, reports }
    }
}

fn joined(reader: Option<JoinHandle<String>>) -> String {
    reader.map(|reader| reader.join().expect("a thread that only reads")).unwrap_or_default()
}

/// A test that fails kills its steps.
impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// How a step ended.
#[derive(Debug)]
pub struct Outcome {
    step: String,
    /// Exit status or signal.
    pub status: ExitStatus,
    /// The process hung, and had to be killed.
    pub hung: bool,
    /// The step's answer; null if there is none.
    pub value: Value,
    /// Its standard error.
    pub stderr: String,
    /// Every report in its report folder.
    pub reports: Reports,
}

impl Outcome {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// How the process ended, in words.
    pub fn ending(&self) -> String {
        let hung = if self.hung { " after it hung" } else { "" };
        let stderr = self.stderr.trim_end();
        format!("step {:?} ended with {}{hung}; standard error:\n{stderr}", self.step, self.status)
    }

    /// The answer of a step that must have ended normally.
    pub fn ok(&self) -> Value {
        assert!(self.status.success(), "{}", self.ending());
        self.value.clone()
    }
}

/// A step that ended normally.
#[derive(Debug)]
pub struct Run<T> {
    /// The step's answer.
    pub value: T,
    /// The layer's reports of this run alone.
    pub reports: Reports,
    /// Its standard error.
    pub stderr: String,
}

/// Reads a pipe as it fills.
fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.read_to_end(&mut bytes);
        read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&bytes).into_owned())
    })
}

fn probe(_: &Value) -> Value {
    let instance = vulkan::Instance::new(&vulkan::InstanceOptions::default());
    let count = instance.map_or(0, |instance| instance.physical_devices().len());
    Value::from(count)
}

/// Creates two devices of one instance, uses both, and destroys both.
fn probe_two(_: &Value) -> Value {
    let instance = vulkan::Instance::new(&vulkan::InstanceOptions::default()).expect("an instance");
    let options = vulkan::DeviceOptions::default();
    let devices = [(); 2].map(|()| vulkan::Device::new(&instance, &options).expect("a device"));
    devices.iter().for_each(|device| _ = device.compute_layout());
    Value::from(devices.len())
}
