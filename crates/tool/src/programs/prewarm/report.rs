//! Report of what was planned and what came of it, for people and as JSON (docs/prewarm.md).

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use serde_json::{Value, json};

use super::child::Launch;
use super::crew::{Crew, Outcome, PhaseOutcome};
use super::limits::Limits;
use super::mesa::Announced;
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

/// One device of one application.
#[derive(Default)]
struct Line {
    application: String,
    folder: String,
    device: Option<String>,
    driver: String,
    /// Of the programs that the pipelines are for.
    pointer_width: Option<u8>,
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
    died_before: u64,
    failed_before: u64,
    not_kept_before: u64,
    cannot: BTreeMap<String, u64>,
    problems: Vec<String>,
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

    pub(super) fn json(&self) -> Value {
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
            "stopped": self.stopped.map(|reason| reason.to_string()),
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
        pointer_width: Some(group.header.pointer_width),
        part: group.header.short_digest(),
        there: group.there,
        planned: group.tasks.len() as u64,
        quarantined_before: group.quarantined_before,
        died_before: group.died_before,
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
                let other = self.pointer_width.filter(|width| *width != OWN).map(programs_of);
                let of = other.map(|programs| format!(", for {programs}")).unwrap_or_default();
                write!(out, "{} on {device} (driver {}{of}): ", self.application, self.driver)?;
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
            (self.died_before, "left out: programs died while compiling them (`vkstash quarantine`)"),
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
            "pointer_width": self.pointer_width,
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
            "died_before": self.died_before,
            "refused_before": self.failed_before,
            "not_made": self.cannot,
            "problems": self.problems,
        })
    }
}
