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
mod report;
mod requests;
mod service;
mod stop;
mod workers;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use vkstash_host::disk::errors::OpenError;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::PrewarmArgs;
use crate::drivers;
use crate::layer::folder::Folder;
use crate::layer::loader_folder::FolderError;
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root::{self, NoRoot};
use crate::system::machine;
use crate::system::signals;
use crate::term::output::{self, Printer, eprint_line};

use child::{COMMAND, Launch};
use driver::DriverError;
use finish::Finish;
use limits::Limits;
use mesa::{MesaError, Private};
use plan::Plan;
#[cfg(test)]
pub(crate) use report::Output;
use report::Report;
use stop::{Reason, Stop};
use workers::{Workers, WorkersError};

/// The service ends its work within this time when a program begins.
const A_WHILE: Duration = Duration::from_secs(5);

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum PrewarmError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error("cannot use {} as the stash: {error}", dir.display())]
    Dir { dir: PathBuf, error: io::Error },
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Workers(#[from] WorkersError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Mesa(#[from] MesaError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &PrewarmArgs) -> ExitCode {
    stop::note_signals();
    if args.until_input_ends {
        stop::end_with_input();
    }
    let ended = match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprint_line(&error);
            ExitCode::FAILURE
        }
    };
    // Whoever has sent it is told that it was heard.
    stop::signal().into_iter().for_each(signals::end_by);
    ended
}

/// True: all was well.
fn run(args: &PrewarmArgs) -> Result<bool, PrewarmError> {
    if args.unless_on_battery && machine::is_on_battery() {
        return Ok(true);
    }
    if args.background || args.after_update && !args.under_test {
        lower_priority(args.while_running.is_some());
    }
    let stop = Stop::default();
    if args.after.is_some_and(|pid| !finish::begin_after(pid, &stop)) {
        return Ok(true);
    }
    let root = root::named(args.dir.as_deref())?;
    // Workers have no other folder than this process, but they get the path by their environment.
    let root = std::path::absolute(&root).map_err(|error| PrewarmError::Dir { dir: root, error })?;
    if args.after_update {
        return service::run(args, &root, &stop);
    }
    let drivers = drivers::digest();
    let found = list_applications(&root)?;
    let chosen: Vec<&ApplicationInfo> = if args.all {
        found.iter().collect()
    } else {
        args.applications.iter().map(|name| choose(&found, name, &root)).collect::<Result<_, _>>()?
    };
    if let Some(pid) = args.while_running {
        end_with(pid, stop.clone());
    }
    let target = args.mesa_foz.as_deref().map(mesa::Target::new).transpose()?;
    let limits = Limits::of(args);
    let launch = launch(args, &root, stop)?;
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
        None if is_noted(args) => _ = drivers::note(&root, &drivers, &found, &report.gone_through()),
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
        let text = serde_json::to_string_pretty(&report.output()).unwrap_or_default();
        output::print(&format!("{text}\n"))?;
    } else {
        report.print(&mut Printer::open()?, args.dry_run)?;
    }
    written?;
    Ok(report.is_well())
}

/// Whether what was made is for programs that use the drivers that are here.
fn is_noted(args: &PrewarmArgs) -> bool {
    !args.dry_run && args.mesa_foz.is_none() && args.finish.is_none() && args.driver.is_none()
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
        // The layer starts this beside a program, and the service, which may hold the lock, ends its work then.
        let patience = if args.while_running.is_some() { A_WHILE } else { Duration::ZERO };
        match lock::take(root, &info.folder, patience) {
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
fn launch(args: &PrewarmArgs, root: &Path, stop: Stop) -> Result<Launch, PrewarmError> {
    let driver = args.driver.as_deref().map(driver::manifest).transpose()?;
    let folder = Folder::create().map_err(FolderError::from)?;
    // Either is for programs of one pointer width.
    let own_alone = driver.is_some() || args.mesa_foz.is_some();
    let named = args.named.as_deref().map(|name| (name, folder.path()));
    let workers = Workers::find(args.library.as_deref(), own_alone, named)?;
    let private = args.mesa_foz.as_ref().map(|_| Private::new(&folder)).transpose()?;
    Ok(Launch {
        workers,
        _folder: folder,
        root: root.to_owned(),
        private,
        driver,
        program: args.while_running,
        verbose: args.verbose,
        stop,
    })
}

/// Ends this process, and so its workers, when that one has ended: a launcher that waits for all that its program has
/// started must not wait for this.
fn end_with(pid: u32, stop: Stop) {
    std::thread::spawn(move || {
        ended::wait(pid, None);
        stop.end_soon(Reason::ProgramEnded);
    });
}

/// Workers inherit it. `beside_program`: a program runs that needs what is made here. With the lowest priority nearly
/// nothing would be made where its threads compute on every processor, and with a higher one than this the program
/// would notice (docs/prewarm.md has figures).
fn lower_priority(beside_program: bool) {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const IOPRIO_CLASS_IDLE: libc::c_int = 3 << 13;
    // As a batch job it does not interrupt a thread that computes when it wakes.
    let (policy, nice) = if beside_program { (libc::SCHED_BATCH, 15) } else { (libc::SCHED_IDLE, 19) };
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the calls take plain numbers and a structure on this stack; 0 is this process. What fails leaves the
    // priority as it was.
    unsafe {
        libc::sched_setscheduler(0, policy, &parameter);
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE);
    }
    // Where the kernel groups processes by session (sched(7), autogroup), the priorities above count within the session
    // only, and this one would get as much of a busy processor as the program that it runs beside.
    if signals::leads_session() {
        // The kernel takes ten of these a second, of all processes together.
        for _ in 0..10 {
            match std::fs::write("/proc/self/autogroup", nice.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                _ => break,
            }
        }
    }
}
