//! `vkstash prewarm`: compiles what programs will ask for before they do.
//!
//! This process plans, watches and counts. Everything that touches a driver happens in worker processes (`child`),
//! which may crash, hang or grow without harm (docs/prewarm.md).

mod child;
mod crew;
mod driver;
mod ended;
mod finish;
mod limits;
mod lock;
mod mesa;
mod named;
mod order;
mod plan;
mod progress;
mod quarantine;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vkstash_store::format::refusal::OpenError;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::choice::{ChoiceError, choose};
use crate::cli::PrewarmArgs;
use crate::drivers::{self, GoneThrough};
use crate::environment::{self, FolderError};
use crate::library::{self, Library, LibraryError};
use crate::machine;
use crate::names::driver_version;
use crate::output::{self, Printer, eprint_line};
use crate::root;
use crate::signals;
use crate::start;
use crate::units::counted;

use child::Launch;
use crew::{Crew, Outcome, PhaseOutcome};
use driver::DriverError;
use finish::Finish;
use limits::Limits;
use mesa::{Announced, MesaError, Private};
use plan::{Group, Plan};
use progress::Keys;
use quarantine::Culprit;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum PrewarmError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error("cannot use {} as the stash: {error}", dir.display())]
    Dir { dir: PathBuf, error: io::Error },
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot start a worker: {0}")]
    Start(io::Error),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Mesa(#[from] MesaError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &PrewarmArgs) -> ExitCode {
    match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}

/// True: all was well.
fn run(args: &PrewarmArgs) -> Result<bool, PrewarmError> {
    if args.unless_on_battery && machine::is_on_battery() {
        return Ok(true);
    }
    if args.background {
        lower_priority();
    }
    if args.after.is_some_and(|pid| !finish::begin_after(pid)) {
        return Ok(true);
    }
    let root = root::root(args.dir.as_deref()).ok_or(PrewarmError::NoRoot)?;
    // Workers have no other folder than this process, but they get the path by their environment.
    let root = std::path::absolute(&root).map_err(|error| PrewarmError::Dir { dir: root, error })?;
    let found = list_applications(&root)?;
    let chosen: Vec<&ApplicationInfo> = if args.all {
        found.iter().collect()
    } else {
        args.applications.iter().map(|name| choose(&found, name, &root)).collect::<Result<_, _>>()?
    };
    let library = match &args.library {
        Some(path) => library::named(path)?,
        None => library::find()?.into_iter().next().ok_or(LibraryError::NotFound)?,
    };
    if let Some(pid) = args.while_running {
        end_with(pid);
    }
    let target = args.mesa_foz.as_deref().map(mesa::Target::new).transpose()?;
    let limits = Limits::of(args);
    let launch = launch(args, library, &root)?;
    let (mut plan, _locks) = planned(args, &launch, &root, &found, &chosen, &limits)?;
    if let Some(manifest) = &launch.driver {
        driver::explain(&mut plan, manifest);
    }
    let finish =
        args.finish.as_deref().and_then(plan::header_of).map(|header| Finish::of(&plan, &root, header));
    if let Some(finish) = &finish {
        finish.restrict(&mut plan);
    } else if args.if_driver_changed {
        plan.leave_out_unchanged();
    } else {
        plan.expect_a_device_for_each();
    }
    let devices = launch.private.as_ref().map(|private| mesa::devices::prepare(&mut plan, private, &root));
    let devices = devices.transpose()?.unwrap_or_default();
    let mut report =
        if args.dry_run { Report::planned(&plan) } else { Report::of_work(plan, &launch, limits) };
    match finish.filter(|_| !args.dry_run) {
        Some(finish) => finish.note_tried(),
        // What cannot be noted is called not ready once more.
        None if is_noted(args) => _ = drivers::note(&root, &found, &report.gone_through()),
        None => {}
    }
    // What came of the pipelines is said, too, if no database is made of them.
    let written = match (target, &launch.private) {
        (Some(target), Some(private)) if !devices.is_empty() => {
            target.write(private, &devices).map(|announced| report.announced = Some(announced))
        }
        _ => Ok(()),
    };
    if args.json {
        let text = serde_json::to_string_pretty(&report.json()).unwrap_or_default();
        output::print(&format!("{text}\n"))?;
    } else {
        report.print(&mut Printer::open()?, args.dry_run)?;
    }
    written?;
    Ok(report.is_well())
}

/// Whether what was made is for programs that use the drivers that are here.
fn is_noted(args: &PrewarmArgs) -> bool {
    !args.dry_run && args.mesa_foz.is_none() && args.finish.is_none()
}

/// What is to be made for these applications, and the locks that keep another prewarm from them.
fn planned(
    args: &PrewarmArgs,
    launch: &Launch,
    root: &Path,
    found: &[ApplicationInfo],
    chosen: &[&ApplicationInfo],
    limits: &Limits,
) -> Result<(Plan, Vec<lock::Lock>), PrewarmError> {
    let used = plan::used_anywhere(found);
    let mut plan = Plan::default();
    let mut locks = Vec::new();
    for info in chosen {
        match lock::take(root, &info.folder) {
            Ok(lock) => locks.push(lock),
            Err(lock::Taken) => {
                eprint_line(&format_args!("{}: another prewarm works on it", info.display));
                continue;
            }
        }
        plan.add(launch, root, info, (!args.every_device).then_some(&used), limits)?;
    }
    Ok((plan, locks))
}

/// How workers are started that use the stash at `root`.
fn launch(args: &PrewarmArgs, library: Library, root: &Path) -> Result<Launch, PrewarmError> {
    let driver = args.driver.as_deref().map(driver::manifest).transpose()?;
    let folder = environment::folder_for(std::slice::from_ref(&library))?;
    let executable = start::executable().map_err(PrewarmError::Start)?;
    let named = args.named.as_deref().and_then(|name| named::copy(&executable, folder.path(), name));
    let private = args.mesa_foz.as_ref().map(|_| Private::new(&folder)).transpose()?;
    Ok(Launch {
        executable: named.unwrap_or(executable),
        folder,
        library: library.path,
        root: root.to_owned(),
        private,
        driver,
        verbose: args.verbose,
    })
}

/// Ends this process, and so its workers, when that one has ended: a launcher that waits for all that its program has
/// started must not wait for this.
fn end_with(pid: u32) {
    std::thread::spawn(move || {
        ended::wait(pid, None);
        std::process::exit(0);
    });
}

/// Workers inherit it.
fn lower_priority() {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const IOPRIO_CLASS_IDLE: libc::c_int = 3 << 13;
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the calls take plain numbers and a structure on this stack; 0 is this process. What fails leaves the
    // priority as it was.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter);
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE);
    }
    // Where the kernel groups processes by session (sched(7), autogroup), the priorities above count within the session
    // only, and this one would get as much of a busy processor as the program that it runs beside.
    if signals::leads_session() {
        // The kernel takes ten of these a second, of all processes together.
        for _ in 0..10 {
            match std::fs::write("/proc/self/autogroup", "19") {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                _ => break,
            }
        }
    }
}

/// Processor time of all children that have ended, in seconds.
fn cpu_of_children() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is on this stack; all zeros is a valid one, also if the call fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// What was planned and what came of it.
struct Report {
    applications: Vec<Line>,
    culprits: Vec<Culprit>,
    /// The database that was made of the pipelines.
    announced: Option<Announced>,
    /// Workers at a time, and how long they worked, without planning.
    jobs: usize,
    seconds: f64,
    /// Processor time of these workers.
    cpu_seconds: f64,
}

/// One device of one application.
#[derive(Default)]
struct Line {
    application: String,
    folder: String,
    device: Option<String>,
    driver: String,
    part: String,
    recipes: u64,
    there: u64,
    planned: u64,
    made: u64,
    checked: u64,
    /// Keys that were asked for in the check.
    to_check: u64,
    missed: Vec<String>,
    unrecorded: u64,
    renewed: u64,
    unconfirmed: u64,
    unchecked: BTreeMap<String, u64>,
    quarantined_before: u64,
    failed_before: u64,
    not_kept_before: u64,
    cannot: BTreeMap<String, u64>,
    problems: Vec<String>,
    failed: bool,
}

impl Report {
    fn planned(plan: &Plan) -> Report {
        let mut lines = Vec::new();
        for (number, application) in plan.applications.iter().enumerate() {
            let line = || Line {
                application: application.name.display.clone(),
                folder: application.name.folder.clone(),
                recipes: application.recipes,
                ..Line::default()
            };
            let groups = plan.groups.iter().filter(|group| group.application == number);
            let mut own: Vec<Line> = groups.map(|group| of_group(group, line())).collect();
            if own.is_empty() {
                own.push(line());
            }
            if let Some(first) = own.first_mut() {
                first.problems.clone_from(&application.problems);
                first.failed = application.failed;
            }
            lines.extend(own);
        }
        Report {
            applications: lines,
            culprits: Vec::new(),
            announced: None,
            jobs: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
        }
    }

    /// Does the work.
    fn of_work(mut plan: Plan, launch: &Launch, limits: Limits) -> Report {
        let mut report = Report::planned(&plan);
        let tasks: usize = plan.groups.iter().map(|group| group.tasks.len()).sum();
        let checks: usize = plan.groups.iter().map(|group| group.checks.len()).sum();
        if tasks + checks == 0 {
            return report;
        }
        let (started, spent) = (Instant::now(), cpu_of_children());
        let mut progress = Keys::new(tasks as u64);
        let crew = Crew::new(launch, limits, &plan.applications, &mut plan.groups);
        let (outcomes, culprits) = crew.run(&mut progress);
        drop(progress);
        report.jobs = limits.jobs.min(tasks + checks);
        report.seconds = started.elapsed().as_secs_f64();
        report.cpu_seconds = cpu_of_children() - spent;
        // A line for each group, in the same order.
        let lines = report.applications.iter_mut().filter(|line| line.device.is_some());
        for ((line, group), outcome) in lines.zip(&plan.groups).zip(&outcomes) {
            line.there = group.there;
            line.add(outcome);
        }
        report.culprits = culprits;
        report
    }

    /// What came of each application.
    fn gone_through(&self) -> Vec<GoneThrough> {
        let mut all: Vec<GoneThrough> = Vec::new();
        for line in &self.applications {
            let (made, is_complete) = (line.made, !line.failed);
            match all.last_mut().filter(|gone| gone.folder == line.folder) {
                Some(gone) => {
                    gone.made += made;
                    gone.is_complete &= is_complete;
                }
                None => all.push(GoneThrough { folder: line.folder.clone(), made, is_complete }),
            }
        }
        all
    }

    fn sum(&self, of: impl Fn(&Line) -> u64) -> u64 {
        self.applications.iter().map(of).sum()
    }

    /// Nothing was quarantined, everything that was made is taken, and there was a device for each application.
    fn is_well(&self) -> bool {
        let is_well = |line: &Line| !line.failed && line.checked == line.to_check;
        self.culprits.is_empty() && self.applications.iter().all(is_well)
    }

    fn print(&self, out: &mut impl io::Write, dry_run: bool) -> io::Result<()> {
        for line in &self.applications {
            line.print(out, dry_run)?;
        }
        for culprit in &self.culprits {
            writeln!(out, "{culprit}")?;
        }
        let (planned, there) = (self.sum(|line| line.planned), self.sum(|line| line.there));
        if dry_run {
            return writeln!(out, "{planned} to make, {there} there already");
        }
        let (made, checked) = (self.sum(|line| line.made), self.sum(|line| line.checked));
        writeln!(out, "made {made}, checked {checked}, quarantined {}", self.culprits.len())?;
        self.announced.as_ref().map_or(Ok(()), |announced| announced.print(out))
    }

    fn json(&self) -> Value {
        let culprits = self.culprits.iter().map(|culprit| {
            json!({
                "application": culprit.application,
                "device": culprit.device,
                "part": culprit.part,
                "key": culprit.key,
                "modules": culprit.modules,
                "reason": culprit.cause,
                "recorded": culprit.recorded,
            })
        });
        json!({
            "made": self.sum(|line| line.made),
            "checked": self.sum(|line| line.checked),
            "planned": self.sum(|line| line.planned),
            "there": self.sum(|line| line.there),
            "well": self.is_well(),
            "jobs": self.jobs,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "quarantined": culprits.collect::<Vec<_>>(),
            "applications": self.applications.iter().map(Line::json).collect::<Vec<_>>(),
            "mesa_foz": self.announced.as_ref().map(Announced::json),
        })
    }
}

fn of_group(group: &Group, line: Line) -> Line {
    Line {
        device: Some(group.device_name.clone()),
        driver: driver_version(group.header.driver_id, group.header.driver_version),
        part: group.header.short_digest(),
        there: group.there,
        planned: group.tasks.len() as u64,
        quarantined_before: group.quarantined_before,
        failed_before: group.failed_before,
        not_kept_before: group.not_kept_before,
        ..line
    }
}

impl Line {
    fn add(&mut self, outcome: &Outcome) {
        let Outcome { made, checked, to_check, renewed, unconfirmed, unchecked } = outcome;
        self.made = made.good;
        self.there += made.there;
        self.unrecorded = made.unrecorded;
        self.cannot.clone_from(&made.cannot);
        self.checked = checked.good;
        self.to_check = *to_check;
        self.missed = checked.missed.iter().map(hex::encode).collect();
        (self.renewed, self.unconfirmed) = (*renewed, *unconfirmed);
        self.unchecked.clone_from(unchecked);
        self.failed |= made.failed || checked.failed;
        let reasons: [(&PhaseOutcome, &str); 2] = [(made, "given up"), (checked, "the check was given up")];
        for (outcome, what) in reasons {
            self.problems.extend(outcome.given_up.iter().map(|reason| format!("{what}: {reason}")));
        }
        for (reason, count) in &checked.cannot {
            self.problems.push(format!("{} not checked: {reason}", counted(*count, "pipeline")));
        }
    }

    fn print(&self, out: &mut impl io::Write, dry_run: bool) -> io::Result<()> {
        match &self.device {
            None => write!(out, "{}: {}", self.application, counted(self.recipes, "recipe"))?,
            Some(device) => {
                write!(out, "{} on {device} (driver {}): ", self.application, self.driver)?;
                if dry_run {
                    write!(out, "{} to make, {} there already", self.planned, self.there)?;
                } else {
                    write!(
                        out,
                        "{} made, {} there already, {} checked",
                        self.made, self.there, self.checked
                    )?;
                }
            }
        }
        for (count, what) in [
            (self.renewed, "of which were not taken any more"),
            (self.unrecorded + self.not_kept_before, "not kept by the driver"),
            (self.unconfirmed, "links not confirmed"),
            (self.unchecked.values().sum(), "not checked"),
            (self.quarantined_before, "quarantined before"),
            (self.failed_before, "that the driver refuses"),
        ] {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        writeln!(out)?;
        for (reason, count) in &self.cannot {
            writeln!(out, "  {} not made: {reason}", counted(*count, "pipeline"))?;
        }
        for key in &self.missed {
            writeln!(out, "  not taken by the driver: {key}")?;
        }
        for problem in &self.problems {
            writeln!(out, "  {problem}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        json!({
            "application": self.application,
            "folder": self.folder,
            "device": self.device,
            "driver_version": self.driver,
            "part": self.part,
            "recipes": self.recipes,
            "there": self.there,
            "planned": self.planned,
            "made": self.made,
            "checked": self.checked,
            "missed": self.missed,
            "made_again": self.renewed,
            "not_confirmed": self.unconfirmed,
            "not_checked": self.unchecked,
            "not_kept": self.unrecorded,
            "not_kept_before": self.not_kept_before,
            "quarantined_before": self.quarantined_before,
            "refused_before": self.failed_before,
            "not_made": self.cannot,
            "problems": self.problems,
        })
    }
}
