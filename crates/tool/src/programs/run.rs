//! `vkstash run`: runs one command with the layer in its environment.
//!
//! The first law holds here too: if the layer cannot be prepared, the command runs without it, and a line says why.
//! Only a choice of the user that cannot be followed (`--library`, `--dir`, `--base`) ends the attempt.

mod remote;
mod summary;
mod translator_caches;

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command, ExitCode, ExitStatus};

use vkstash_model::variables::{
    BASE, DIR, DISABLE, DRIVER_LIMITS, EXCLUDED_PROGRAMS, REPORT, TRANSLATOR_CACHES,
};
use vkstash_store::reports::runs;
use vkstash_store::settings::excluded::{USUAL, is_excluded};
use vkstash_store::settings::{self, CacheKinds};
use vkstash_store::stash::deaths;

use crate::cli::{DriverLimits, RunArgs, TranslatorCaches};
use crate::drivers;
use crate::drivers::caches;
use crate::layer::environment;
use crate::layer::folder::Folder;
use crate::layer::library::{self, Library, LibraryError};
use crate::layer::loader_folder::{FolderError, LoaderFolder};
use crate::stash::root;
use crate::system::signals::{self, BlockedSignals};
use crate::system::start;
use crate::term::output::eprint_line;
use crate::term::time;
use crate::term::units::plain;

use self::remote::Remote;

/// Exit statuses of a command that could not be started, as shells use them.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

pub(crate) fn main(args: RunArgs) -> ExitCode {
    match run(args) {
        Ok(status) => end_like(status),
        Err(error) => {
            eprint_line(&error);
            error.exit_code()
        }
    }
}

/// Why the command did not run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error("cannot use {} as the stash: {error}", dir.display())]
    Dir { dir: PathBuf, error: io::Error },
    #[error("cannot use {} as a base: {error}", base.display())]
    Base { base: PathBuf, error: io::Error },
    #[error("a base cannot have a colon in its path: {}", .0.display())]
    Colon(PathBuf),
    #[error("cannot run {}: {error}", command.display())]
    Start { command: PathBuf, error: io::Error },
    #[error("lost track of the command: {0}")]
    Wait(io::Error),
}

impl RunError {
    fn exit_code(&self) -> ExitCode {
        match self {
            RunError::Start { error, .. } if error.kind() == io::ErrorKind::NotFound => NOT_FOUND.into(),
            RunError::Start { .. } => NOT_STARTED.into(),
            RunError::Library(_)
            | RunError::Dir { .. }
            | RunError::Base { .. }
            | RunError::Colon(_)
            | RunError::Wait(_) => ExitCode::FAILURE,
        }
    }
}

fn run(args: RunArgs) -> Result<ExitStatus, RunError> {
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => (OsString::new(), [].as_slice()),
    };
    let mut command = Command::new(&program);
    command.args(arguments);
    let remote = args.remote.as_deref().map(|url| Remote {
        url,
        dir: args.dir.as_deref(),
        key: args.remote_key.as_deref(),
        seconds: args.remote_seconds,
        command: &args.command,
    });
    let mut chosen = args.base.clone();
    let fetched = remote.as_ref().and_then(Remote::pull);
    // Nobody has chosen its path, so it is no reason not to run the command.
    chosen.extend(fetched.filter(|base| match bases(std::slice::from_ref(base)) {
        Ok(_) => true,
        Err(error) => {
            eprint_line(&format_args!("{error}; running without it"));
            false
        }
    }));
    if let Some(bases) = bases(&chosen)? {
        command.env(BASE, bases);
    }
    let prepared = match libraries(args.library.as_deref())? {
        Ok(libraries) => prepare(&mut command, &libraries, &args)?,
        Err(error) => Err(Unprepared::Library(error)),
    };
    let prepared =
        prepared.map_err(|error| eprint_line(&format_args!("{error}; running without the stash"))).ok();
    let folder = prepared.as_ref().map(|prepared| &prepared.folder);

    let translators = folder.and_then(|_| place_translator_caches(&mut command, &args));
    if folder.is_some() && !args.quiet {
        let line = root::root(args.dir.as_deref()).and_then(|root| drivers::line_before_run(&root));
        line.iter().for_each(|line| eprint_line(line));
    }

    let began = time::now();
    let status = supervise(&mut command).map_err(|failure| match failure {
        Failure::Start(error) => RunError::Start { command: program.into(), error },
        Failure::Wait(error) => RunError::Wait(error),
    })?;
    if let Some(remote) = remote.filter(|_| args.push) {
        publish(&remote, folder, &args);
    }
    if let Some(folder) = folder {
        if !args.quiet {
            if let Some(path) = translators.as_ref().and_then(translator_caches::TranslatorCaches::filled) {
                eprint_line(&format_args!("the translator's cache is in {}", plain(&path.to_string_lossy())));
            }
            let root = root::root(args.dir.as_deref());
            let ended = summary::Ended {
                recorded: runs::recorded(root.as_deref(), &folder.report_folder()),
                deaths: root.as_ref().map(|root| deaths::uncounted_since(root, began)).unwrap_or_default(),
                had_instance: folder.had_instance(),
            };
            let lines = summary::lines(root.as_deref(), ended);
            lines.iter().for_each(|line| eprint_line(line));
        }
        if let Some(outer) = outer_report() {
            folder.copy_reports(&outer);
        }
    }
    Ok(status)
}

/// Publishes what the command has recorded: of its applications, and of no others.
fn publish(remote: &Remote<'_>, folder: Option<&Folder>, args: &RunArgs) {
    let root = root::root(args.dir.as_deref());
    let recorded = folder.map(|folder| runs::recorded(root.as_deref(), &folder.report_folder()));
    let applications: BTreeSet<String> =
        recorded.into_iter().flatten().filter_map(|(application, _)| application).collect();
    match Vec::from_iter(applications).as_slice() {
        [] if args.quiet => {}
        [] => eprint_line(&"nothing is published: the command has recorded nothing"),
        applications => remote.push(applications),
    }
}

/// What [`BASE`] says with these bases before those of the environment. None: it stays as it is.
fn bases(chosen: &[PathBuf]) -> Result<Option<OsString>, RunError> {
    if chosen.is_empty() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for base in chosen {
        let path = absolute(base).map_err(|error| RunError::Base { base: base.clone(), error })?;
        path.read_dir().map_err(|error| RunError::Base { base: base.clone(), error })?;
        all.push(path);
    }
    let known = env::var_os(BASE).unwrap_or_default();
    all.extend(env::split_paths(&known).filter(|path| !path.as_os_str().is_empty()));
    let has_colon = |path: &&PathBuf| path.as_os_str().as_encoded_bytes().contains(&b':');
    env::join_paths(&all)
        .map(Some)
        .map_err(|_| RunError::Colon(all.iter().find(has_colon).cloned().unwrap_or_default()))
}

/// The libraries to use. The outer error: the user named an unusable one.
fn libraries(chosen: Option<&Path>) -> Result<Result<Vec<Library>, LibraryError>, LibraryError> {
    match chosen {
        Some(path) => Ok(Ok(vec![library::named(path)?])),
        None => Ok(library::find()),
    }
}

/// Why the command has to run without the layer.
#[derive(Debug, thiserror::Error)]
enum Unprepared {
    #[error(transparent)]
    Library(LibraryError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// What the command's processes use.
struct Prepared {
    /// This run's own.
    folder: Folder,
    /// In use until the command ends.
    _manifests: LoaderFolder,
}

/// Puts the layer into the command's environment. The outer error: the user named an unusable folder.
fn prepare(
    command: &mut Command,
    libraries: &[Library],
    args: &RunArgs,
) -> Result<Result<Prepared, Unprepared>, RunError> {
    let dir = args
        .dir
        .as_deref()
        .map(|dir| absolute(dir).map_err(|error| RunError::Dir { dir: dir.to_owned(), error }));
    let dir = dir.transpose()?;
    let manifests = environment::folder_for(libraries);
    let (manifests, folder) = match manifests.and_then(|manifests| Ok((manifests, Folder::create()?))) {
        Ok(folders) => folders,
        Err(error) => return Ok(Err(error.into())),
    };
    environment::enable(command, &manifests);
    let root = root::root(dir.as_deref());
    let stored = root.map(|root| settings::read(&root).all()).unwrap_or_default();
    if stored.disabled_caches.unwrap_or_default().has(CacheKinds::DRIVER_MANAGED) {
        environment::disable_driver_caches(command);
    } else if limits(args.driver_limits) == DriverLimits::Raise {
        caches::limits::raise(command);
    }
    include_named(command, stored.excluded_programs.as_deref(), args.quiet);
    command.env(REPORT, folder.report_folder());
    if let Some(dir) = dir {
        command.env(DIR, dir);
    }
    Ok(Ok(Prepared { folder, _manifests: manifests }))
}

/// A program that is left alone elsewhere runs with the stash here, because the user has named it.
fn include_named(command: &mut Command, excluded: Option<&str>, is_quiet: bool) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::as_encoded_bytes).collect();
    let path = vkstash_model::command::program(&words);
    let name = path.rsplit(|byte| b"/\\".contains(byte)).next().unwrap_or_default();
    if env::var_os(EXCLUDED_PROGRAMS).is_none() && is_excluded(excluded.unwrap_or(USUAL), name) {
        if !is_quiet {
            let name = plain(&String::from_utf8_lossy(name));
            eprint_line(&format_args!(
                "{name} is left alone elsewhere (`excluded-programs`); here it uses the stash"
            ));
        }
        command.env(EXCLUDED_PROGRAMS, "");
    }
}

/// What happens to the limits of the drivers' own caches. A value that is not known must not keep a program from
/// running.
fn limits(chosen: Option<DriverLimits>) -> DriverLimits {
    let keeps = || env::var_os(DRIVER_LIMITS).is_some_and(|value| value == "keep");
    chosen.unwrap_or_else(|| if keeps() { DriverLimits::Keep } else { DriverLimits::Raise })
}

/// Gives the translators a folder in the stash. Without it they use their own.
fn place_translator_caches(
    command: &mut Command,
    args: &RunArgs,
) -> Option<translator_caches::TranslatorCaches> {
    let keeps = || env::var_os(TRANSLATOR_CACHES).is_some_and(|value| value == "keep");
    let keeps = args.translator_caches.map_or_else(keeps, |chosen| chosen == TranslatorCaches::Keep);
    let is_disabled = env::var_os(DISABLE).is_some();
    let root = root::root(args.dir.as_deref()).filter(|_| !keeps && !is_disabled)?;
    // Where the stash cannot be used, the summary says so.
    translator_caches::place(command, &root, &args.command).ok().flatten()
}

/// The report folder of the user, or of another `vkstash run` around this one.
fn outer_report() -> Option<PathBuf> {
    env::var_os(REPORT).filter(|value: &OsString| value.as_os_str() != OsStr::new("")).map(PathBuf::from)
}

enum Failure {
    Start(io::Error),
    Wait(io::Error),
}

/// Starts the command and waits for it.
fn supervise(command: &mut Command) -> Result<ExitStatus, Failure> {
    let blocked = BlockedSignals::block().map_err(Failure::Start)?;
    blocked.restore_in(command);
    start::restore_in(command);
    let mut child: Child = command.spawn().map_err(Failure::Start)?;
    let ended = blocked.wait(&mut child).map_err(Failure::Wait)?;
    Ok(ended.status)
}

/// Ends this process as the command ended, so that the caller sees no difference.
fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        signals::end_by(signal);
        return u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
