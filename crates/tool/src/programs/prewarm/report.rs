//! Report of what was planned and what came of it, for people and as JSON (docs/schema/prewarm.json).

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use serde::Serialize;

use super::child::Launch;
use super::crew::{Crew, Outcome, PhaseOutcome};
use super::limits::Limits;
use super::mesa::{Announced, Databases};
use super::plan::{Group, Plan};
use super::progress::Keys;
use super::quarantine::Culprit;
use super::stop::Reason;
use super::workers::{OWN, programs_of};
use crate::drivers::GoneThrough;
use crate::reports::names::driver_version;
use crate::term::units::counted;

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
pub(super) struct Report {
    applications: Vec<Line>,
    culprits: Vec<Culprit>,
    /// The database that was made of the pipelines.
    pub(super) announced: Option<Announced>,
    /// Why work ended before it was done.
    stopped: Option<Reason>,
    /// Workers at a time, and how long they worked, without planning.
    jobs: usize,
    seconds: f64,
    /// Processor time of these workers.
    cpu_seconds: f64,
}

/// The report for programs. Names are stable; new ones may be added.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Output<'a> {
    /// Number of pipelines to make, over all devices.
    planned: u64,
    /// Number of pipelines of which there was an artifact, over all devices.
    there: u64,
    /// Number of pipelines that were made, over all devices.
    made: u64,
    /// Number of pipelines whose artifacts the driver has taken in the check, over all devices.
    checked: u64,
    /// Whether nothing was quarantined, the driver takes everything that was made, and there was a device for each
    /// application. The exit status is 0 then, unless `--mesa-foz` fails.
    well: bool,
    /// Why work ended before it was done, in words. Null: it was done.
    stopped: Option<String>,
    /// Number of workers at a time.
    jobs: usize,
    /// How long workers made and checked pipelines.
    seconds: f64,
    /// Processor time of the workers, in seconds.
    cpu_seconds: f64,
    /// Pipelines of which a worker died, hung or grew too large.
    quarantined: &'a [Culprit],
    /// One object for each device of each application; one without a device for an application that has none.
    applications: &'a [Line],
    /// With `--mesa-foz`: the databases that were made. Null: none.
    mesa_foz: Option<Databases<'a>>,
}

/// One device of one application.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Line {
    /// The application's name.
    application: String,
    /// Its folder below the folder of all stashes.
    folder: String,
    /// The device's name. Null: there is none.
    device: Option<String>,
    /// The version of its driver.
    driver_version: String,
    /// Length of a pointer in the programs that the pipelines are made for, in bytes. Null: there is no device.
    pointer_width: Option<u8>,
    /// The name of the device part.
    part: String,
    /// Number of recipes that the application has.
    recipes: u64,
    /// Number of pipelines of which there was an artifact.
    there: u64,
    /// Number of pipelines to make.
    planned: u64,
    /// Number of pipelines that were made.
    made: u64,
    /// Number of pipelines whose artifacts the driver has taken in the check.
    checked: u64,
    /// Keys that were asked for in the check.
    #[serde(skip)]
    to_check: u64,
    /// Keys of pipelines whose artifacts the driver did not take.
    missed: Vec<String>,
    /// How many of `made` replace an artifact that the driver does not take any more.
    made_again: u64,
    /// Number of links whose artifacts were there and that the driver did not take: the recipe of a link does not say
    /// everything, so they stay.
    not_confirmed: u64,
    /// Number of artifacts that were there and whose pipelines cannot be asked for, by reason.
    not_checked: BTreeMap<String, u64>,
    /// Number of pipelines that were made, and of which the driver gives out nothing.
    not_kept: u64,
    /// Number of pipelines that were left out because a program has found out that the driver gives out nothing of
    /// them.
    not_kept_before: u64,
    /// Number of pipelines that were left out because they are quarantined.
    quarantined_before: u64,
    /// Number of pipelines that were left out because programs died while this driver compiled them.
    died_before: u64,
    /// Number of pipelines that were left out because this driver has answered with an error, or refused three
    /// artifacts in a row.
    refused_before: u64,
    /// Number of pipelines that could not be made, by reason.
    not_made: BTreeMap<String, u64>,
    /// What else went wrong, in lines of text.
    problems: Vec<String>,
    #[serde(skip)]
    failed: bool,
}

impl Report {
    pub(super) fn planned(plan: &Plan) -> Report {
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
            stopped: None,
            jobs: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
        }
    }

    /// Does the work.
    pub(super) fn of_work(mut plan: Plan, launch: &Launch, limits: Limits) -> Report {
        let mut report = Report::planned(&plan);
        let tasks: usize = plan.groups.iter().map(|group| group.tasks.len()).sum();
        let checks: usize = plan.groups.iter().map(|group| group.checks.len()).sum();
        report.stopped = launch.stop.reason();
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
        report.stopped = launch.stop.reason();
        report
    }

    /// Whether work ended before it was done.
    pub(super) fn was_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// What came of each application.
    pub(super) fn gone_through(&self) -> Vec<GoneThrough> {
        let mut all: Vec<GoneThrough> = Vec::new();
        for line in &self.applications {
            let (made, is_complete) = (line.made, !line.failed);
            match all.last_mut().filter(|gone| gone.folder == line.folder) {
                Some(gone) => {
                    gone.made += made;
                    gone.is_complete &= is_complete;
                }
                None => {
                    let (folder, was_stopped) = (line.folder.clone(), self.was_stopped());
                    all.push(GoneThrough { folder, made, is_complete, was_stopped });
                }
            }
        }
        all
    }

    fn sum(&self, of: impl Fn(&Line) -> u64) -> u64 {
        self.applications.iter().map(of).sum()
    }

    /// Nothing was quarantined, everything that was made is taken, and there was a device for each application.
    pub(super) fn is_well(&self) -> bool {
        let is_well = |line: &Line| !line.failed && line.checked == line.to_check;
        self.culprits.is_empty() && self.applications.iter().all(is_well)
    }

    pub(super) fn print(&self, out: &mut impl io::Write, dry_run: bool) -> io::Result<()> {
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
        if let Some(reason) = self.stopped {
            writeln!(out, "ended before it was done: {reason}; the next prewarm goes on")?;
        }
        self.announced.as_ref().map_or(Ok(()), |announced| announced.print(out))
    }

    pub(super) fn output(&self) -> Output<'_> {
        Output {
            planned: self.sum(|line| line.planned),
            there: self.sum(|line| line.there),
            made: self.sum(|line| line.made),
            checked: self.sum(|line| line.checked),
            well: self.is_well(),
            stopped: self.stopped.map(|reason| reason.to_string()),
            jobs: self.jobs,
            seconds: self.seconds,
            cpu_seconds: self.cpu_seconds,
            quarantined: &self.culprits,
            applications: &self.applications,
            mesa_foz: self.announced.as_ref().map(Announced::output),
        }
    }
}

fn of_group(group: &Group, line: Line) -> Line {
    Line {
        device: Some(group.device_name.clone()),
        driver_version: driver_version(group.header.driver_id, group.header.driver_version),
        pointer_width: Some(group.header.pointer_width),
        part: group.header.short_digest(),
        there: group.there,
        planned: group.tasks.len() as u64,
        quarantined_before: group.quarantined_before,
        died_before: group.died_before,
        refused_before: group.failed_before,
        not_kept_before: group.not_kept_before,
        ..line
    }
}

impl Line {
    fn add(&mut self, outcome: &Outcome) {
        let Outcome { made, checked, to_check, renewed, unconfirmed, unchecked } = outcome;
        self.made = made.good;
        self.there += made.there;
        self.not_kept = made.unrecorded;
        self.not_made.clone_from(&made.cannot);
        self.checked = checked.good;
        self.to_check = *to_check;
        self.missed = checked.missed.iter().map(hex::encode).collect();
        (self.made_again, self.not_confirmed) = (*renewed, *unconfirmed);
        self.not_checked.clone_from(unchecked);
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
                let other = self.pointer_width.filter(|width| *width != OWN).map(programs_of);
                let of = other.map(|programs| format!(", for {programs}")).unwrap_or_default();
                write!(out, "{} on {device} (driver {}{of}): ", self.application, self.driver_version)?;
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
            (self.made_again, "of which were not taken any more"),
            (self.not_kept + self.not_kept_before, "not kept by the driver"),
            (self.not_confirmed, "links not confirmed"),
            (self.not_checked.values().sum(), "not checked"),
            (self.quarantined_before, "quarantined before"),
            (self.refused_before, "that the driver refuses"),
            (self.died_before, "left out: programs died while compiling them (`vkstash quarantine`)"),
        ] {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        writeln!(out)?;
        for (reason, count) in &self.not_made {
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
}
