//! `vkstash prewarm --after-update`: the service that compiles again what an update of a driver has made useless, while
//! nobody plays (docs/prewarm.md).
//!
//! | file | what it knows |
//! |---|---|
//! | `decision` | what is done next, of what is so |
//! | `surroundings` | what is so: programs, power, memory, the disk |
//! | `sandboxes` | programs of Flatpak |

mod decision;
mod sandboxes;
mod surroundings;

use std::collections::HashSet;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use vkstash_store::settings::{self, Settings};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use super::child::Launch;
use super::limits::Limits;
use super::report::Report;
use super::stop::{self, Stop};
use super::{PrewarmError, launch, lock, planned};
use crate::cli::PrewarmArgs;
use crate::config::in_force::{self, UpdateLimits};
use crate::drivers;
use crate::term::output::{Printer, eprint_line};

use decision::{Action, Situation, Wait};
use sandboxes::Inside;
use surroundings::Surroundings;

/// How often it is looked whether work is to stop.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long nothing is looked at while it is waited; the end of a program is noticed earlier.
const WAIT: Duration = Duration::from_secs(60);

/// True: all was well.
pub(super) fn run(args: &PrewarmArgs, root: &Path, stop: &Stop) -> Result<bool, PrewarmError> {
    let Ok(_lock) = lock::take_all(root) else {
        eprint_line(&"another one works on this stash");
        return Ok(true);
    };
    let mut service = Service {
        args,
        root,
        launch: launch(args, root, stop.clone())?,
        surroundings: Surroundings::new(args.under_test.then_some(root)),
        tried: HashSet::new(),
        worked: Duration::ZERO,
        is_well: true,
    };
    service.run()
}

/// What can be done at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// The application in this folder.
    Application(String),
    /// What the sandbox of this program of Flatpak has.
    Sandbox(String),
}

struct Service<'a> {
    args: &'a PrewarmArgs,
    root: &'a Path,
    launch: Launch,
    surroundings: Surroundings,
    /// What this process has gone through, or could not, with the drivers that were there then.
    tried: HashSet<(Work, String)>,
    worked: Duration,
    is_well: bool,
}

impl Service<'_> {
    fn run(&mut self) -> Result<bool, PrewarmError> {
        let mut said = None;
        let mut cut_off = drivers::count_cut_off(self.root);
        loop {
            // The settings may change while it runs.
            let limits = limits(self.root);
            let drivers = drivers::digest();
            let since_change = if self.args.at_once { Duration::MAX } else { drivers::since_change() };
            let is_settled = since_change >= decision::SETTLED && limits.is_on;
            let (found, left) = if is_settled { self.left(&drivers)? } else { Default::default() };
            let situation = Situation {
                left: left.len(),
                cut_off,
                since_change,
                worked: self.worked,
                ..self.surroundings.look(self.root)
            };
            match decision::next(&situation, &limits) {
                Action::End(why) => {
                    eprint_line(&why);
                    return Ok(self.is_well);
                }
                Action::Wait(wait) => {
                    // Once for each reason.
                    if said.replace(wait) != Some(wait) {
                        eprint_line(&format_args!("waits: {wait}"));
                    }
                    self.wait(wait);
                }
                Action::Work => {
                    said = None;
                    match left.into_iter().next() {
                        Some(Work::Application(folder)) => {
                            self.work_on(&folder, &found, &drivers, limits, cut_off)?;
                        }
                        Some(Work::Sandbox(program)) => self.work_in(program, &drivers, cut_off),
                        None => {}
                    }
                    cut_off = drivers::cut_off(self.root);
                }
            }
        }
    }

    /// All applications of this stash; and what is left to do: those with something to compile, the most played first,
    /// and then sandboxes.
    fn left(&self, drivers: &str) -> Result<(Vec<ApplicationInfo>, Vec<Work>), PrewarmError> {
        let found = list_applications(self.root)?;
        let read = settings::read(self.root);
        let may_work =
            |folder: &String| in_force::background_mode(&read.all(), &read.of(folder)).allows_work();
        let lacking = drivers::lacking(self.root, &found).into_iter().filter(may_work);
        let mut left: Vec<Work> = lacking.map(Work::Application).collect();
        // Those who name a stash mean that one.
        if self.args.dir.is_none() {
            let here = sandboxes::drivers();
            let gone_through = drivers::sandboxes(self.root);
            let is_new = |program: &String| gone_through.get(program) != Some(&here);
            left.extend(sandboxes::programs().into_iter().filter(is_new).map(Work::Sandbox));
        }
        left.retain(|work| !self.tried.contains(&(work.clone(), drivers.to_owned())));
        Ok((found, left))
    }

    fn wait(&mut self, wait: Wait) {
        match wait {
            Wait::Program => self.surroundings.wait_for_program(WAIT),
            Wait::Installation => sleep(LOOK_EVERY),
            Wait::Power | Wait::Memory => sleep(WAIT),
        }
    }

    /// Lets the service work in the sandbox of this program.
    fn work_in(&mut self, program: String, drivers: &str, cut_off: u32) {
        let (before, began) = (self.worked, Instant::now());
        let here = sandboxes::drivers();
        let mut looked = Instant::now();
        let surroundings = &mut self.surroundings;
        let root = self.root;
        let is_to_stop = || {
            if looked.elapsed() < LOOK_EVERY {
                return false;
            }
            looked = Instant::now();
            let worked = before + began.elapsed();
            let now = Situation { worked, cut_off, ..surroundings.look(root) };
            decision::interruption(&now, &limits(root)).is_some()
        };
        let ended = Inside::start(&program).and_then(|inside| inside.wait(is_to_stop));
        self.worked += began.elapsed();
        match ended {
            Ok(true) => _ = drivers::note_sandbox(self.root, &program, here),
            // It goes on the next time. Flatpak has said what is wrong.
            Ok(false) => {}
            Err(error) => eprint_line(&format_args!("{program}: cannot run flatpak: {error}")),
        }
        self.tried.insert((Work::Sandbox(program), drivers.to_owned()));
    }

    fn work_on(
        &mut self,
        next: &str,
        found: &[ApplicationInfo],
        drivers: &str,
        settings: UpdateLimits,
        cut_off: u32,
    ) -> Result<(), PrewarmError> {
        let stop = Stop::default();
        self.launch.stop = stop.clone();
        let limits =
            Limits::within(settings.processors, settings.memory, Duration::from_secs(self.args.timeout));
        let (before, began) = (self.worked, Instant::now());
        let (root, surroundings) = (self.root, &mut self.surroundings);
        let (args, launch) = (self.args, &self.launch);
        let _ = drivers::begin_work(root);
        let (done, is_done) = channel::<()>();
        let report = thread::scope(|scope| {
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(LOOK_EVERY) {
                    let worked = before + began.elapsed();
                    let now = Situation { worked, cut_off, ..surroundings.look(root) };
                    decision::interruption(&now, &self::limits(root))
                        .into_iter()
                        .for_each(|reason| stop.ask(reason));
                }
            });
            let report = compile(args, launch, root, found, next, limits);
            drop(done);
            report
        });
        self.worked += began.elapsed();
        let _ = drivers::end_work(root);
        let report = report?;
        let _ = drivers::note(root, drivers, found, &report.gone_through());
        if !report.was_stopped() {
            self.tried.insert((Work::Application(next.to_owned()), drivers.to_owned()));
            self.is_well &= report.is_well();
        }
        report.print(&mut Printer::open()?, false)?;
        Ok(())
    }
}

/// What the settings say of it. Where background work is disabled for all programs, this is, too.
fn limits(root: &Path) -> UpdateLimits {
    let all = settings::read(root).all();
    let limits = in_force::update_limits(&all);
    let may_work = in_force::background_mode(&all, &Settings::default()).allows_work();
    UpdateLimits { is_on: limits.is_on && may_work, ..limits }
}

/// What one application lacks.
fn compile(
    args: &PrewarmArgs,
    launch: &Launch,
    root: &Path,
    found: &[ApplicationInfo],
    next: &str,
    limits: Limits,
) -> Result<Report, PrewarmError> {
    let chosen: Vec<_> = found.iter().filter(|info| info.folder == next).collect();
    let (mut plan, _locks) = planned(args, launch, root, found, &chosen, &limits)?;
    plan.leave_out_unchanged();
    Ok(Report::of_work(plan, launch, limits))
}

/// Shorter where a signal asks this process to end.
fn sleep(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time && stop::signal().is_none() {
        thread::sleep(Duration::from_millis(50).min(time));
    }
}
