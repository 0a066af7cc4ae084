//! `vkstash base`: makes stashes that programs only read, and keeps the list of those that they look into
//! (docs/remote.md).

pub(crate) mod unfinished;

use std::fs::{self, Permissions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};

use self::unfinished::Unfinished;
use crate::cli::{BaseAction, BaseArgs, BaseBuildArgs, BaseChangeArgs, BaseListArgs};
use crate::config::edit::{self, Change, EditError};
use crate::config::problems::say_ignored;
use crate::exchange::export::{Chosen, ExportError, chosen_parts};
use crate::stash::root::{self, NoRoot};
use crate::term::output;
use crate::term::progress::Metered;
use crate::term::units::{counted, plain, size};
use vkstash_exchange::{export, import};
use vkstash_host::disk::errors::OpenError;
use vkstash_store::maintenance::pack::pack;
use vkstash_store::settings::file::{Complaint, Wrong};
use vkstash_store::settings::{self, BASES};
use vkstash_store::stash::inspect::{base_refusal, list_applications};

/// Why no base was made, or the list of bases is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseError {
    #[error(transparent)]
    Choice(#[from] ExportError),
    #[error("{} is there already; remove it or name another folder", .0.display())]
    Exists(PathBuf),
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Take(#[from] crate::exchange::import::ImportError),
    #[error(transparent)]
    Read(#[from] export::ExportError),
    #[error(transparent)]
    Write(#[from] import::ImportError),
    #[error("cannot merge the files of the base: {0}")]
    Pack(OpenError),
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error("cannot tell which folder {0:?} is: {1}")]
    Path(PathBuf, io::Error),
    #[error("{} cannot be a base: {reason}", shown(base))]
    Refused { base: PathBuf, reason: String },
    #[error("{} cannot be a base of itself", shown(.0))]
    Itself(PathBuf),
    #[error("{} is a base already", shown(.0))]
    Known(PathBuf),
    #[error("{} is none of the bases that `vkstash base list` shows", shown(.0))]
    Unknown(PathBuf),
    #[error("cannot add {}: a configuration file is UTF-8 text, and the path is not", shown(.0))]
    NoText(PathBuf),
    #[error("{} is not changed: {complaint}", path.display())]
    Wrong { path: PathBuf, complaint: Complaint },
    #[error("{} is not changed: first take the right to write to it from others", path.display())]
    OthersMayWrite { path: PathBuf },
    #[error("cannot print it: {0}")]
    Print(io::Error),
}

pub(crate) fn main(args: &BaseArgs) -> Result<(), BaseError> {
    match &args.action {
        BaseAction::Build(args) => build(args),
        BaseAction::List(args) => list(args),
        BaseAction::Add(args) => change(args, add),
        BaseAction::Remove(args) => change(args, remove),
    }
}

fn list(args: &BaseListArgs) -> Result<(), BaseError> {
    let root = root::named(args.dir.as_deref())?;
    let read = settings::read(&root);
    let bases = read.all().bases;
    let mut lines = Vec::new();
    for base in &bases {
        lines.push(shown(base));
        lines.extend(base_refusal(base).map(|reason| format!("  not used: {}", plain(&reason))));
    }
    if bases.is_empty() {
        lines.push("no bases are set".to_owned());
    }
    say_ignored(&mut lines, &read);
    output::print(&(lines.join("\n") + "\n")).map_err(BaseError::Print)
}

/// Changes the list in the configuration file. What is in no file that others may write to counts alone.
fn change(
    args: &BaseChangeArgs,
    apply: impl FnOnce(&mut Vec<PathBuf>, &Path, PathBuf) -> Result<(), BaseError>,
) -> Result<(), BaseError> {
    let root = root::named(args.dir.as_deref())?;
    let path = absolute(&args.base).map_err(|error| BaseError::Path(args.base.clone(), error))?;
    // Without slashes at its end a folder has one name.
    let base: PathBuf = path.components().collect();
    let target = edit::target(args.dir.as_deref())?;
    if target.metadata().is_ok_and(|file| file.mode() & 0o022 != 0) {
        return Err(BaseError::OthersMayWrite { path: target });
    }
    edit::change(&target, None, |config| {
        // What is wrong in the list would be gone.
        let is_of_bases =
            |complaint: &&Complaint| matches!(&complaint.what, Wrong::Value { name, .. } if name == BASES);
        if let Some(complaint) = config.complaints.iter().find(is_of_bases) {
            return Err(BaseError::Wrong { path: target.clone(), complaint: complaint.clone() });
        }
        let mut bases = config.all.bases.clone();
        apply(&mut bases, &root, base)?;
        let text = |base: PathBuf| base.into_os_string().into_string();
        let list = bases.into_iter().map(text).collect::<Result<Vec<_>, _>>();
        let list = list.map_err(|base| BaseError::NoText(base.into()))?;
        Ok(vec![if list.is_empty() { Change::Unset(BASES) } else { Change::SetList(BASES, list) }])
    })
}

fn add(bases: &mut Vec<PathBuf>, root: &Path, base: PathBuf) -> Result<(), BaseError> {
    if bases.contains(&base) {
        return Err(BaseError::Known(base));
    }
    if let Some(reason) = base_refusal(&base) {
        return Err(BaseError::Refused { base, reason });
    }
    let is_base = |other: &Path| match (base.metadata(), other.metadata()) {
        (Ok(base), Ok(other)) => (base.dev(), base.ino()) == (other.dev(), other.ino()),
        _ => false,
    };
    if is_base(root) {
        return Err(BaseError::Itself(base));
    }
    // Through a symbolic link, for instance.
    if let Some(known) = bases.iter().find(|known| is_base(known)) {
        return Err(BaseError::Known(known.clone()));
    }
    bases.push(base);
    Ok(())
}

fn remove(bases: &mut Vec<PathBuf>, _root: &Path, base: PathBuf) -> Result<(), BaseError> {
    let is_known = bases.contains(&base);
    bases.retain(|known| *known != base);
    if is_known { Ok(()) } else { Err(BaseError::Unknown(base)) }
}

fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

fn build(args: &BaseBuildArgs) -> Result<(), BaseError> {
    let not_created = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => BaseError::Exists(args.base.clone()),
        _ => BaseError::Create { path: args.base.clone(), source },
    };
    if args.base.symlink_metadata().is_ok() {
        return Err(BaseError::Exists(args.base.clone()));
    }
    // The base gets its name when it is complete.
    let unfinished = Unfinished::next_to(&args.base).map_err(not_created)?;
    match &args.archive {
        Some(archive) => crate::exchange::import::take(unfinished.path(), archive, args.artifacts)?,
        None => {
            let root = root::named(args.dir.as_deref())?;
            let Chosen { parts, bytes } = chosen_parts(&root, &args.applications, args.portable)?;
            copy(&root, &parts, bytes, unfinished.path())?;
        }
    }
    pack(unfinished.path()).map_err(BaseError::Pack)?;
    let found = list_applications(unfinished.path()).map_err(BaseError::Pack)?;
    let parts =
        found.iter().flat_map(|application| &application.parts).filter(|part| part.segments > 0).count();
    if parts == 0 {
        return Err(ExportError::Nothing.into());
    }
    let bytes = make_readable(unfinished.path()).map_err(not_created)?;
    unfinished.finish(&args.base).map_err(not_created)?;
    let (parts, size) = (counted(parts as u64, "part"), size(bytes));
    output::print(&format!("{parts} with {size} in {}\n", args.base.display())).map_err(BaseError::Print)
}

/// Copies the records, each once and the newest one of a key.
pub(crate) fn copy(
    root: &Path,
    parts: &[(String, String)],
    bytes: u64,
    base: &Path,
) -> Result<(), BaseError> {
    let (reader, writer) =
        UnixStream::pair().map_err(|source| BaseError::Create { path: base.to_owned(), source })?;
    std::thread::scope(|scope| {
        let exported = scope.spawn(|| export::export(root, parts, BufWriter::new(writer)));
        let metered = Metered::new(reader, "copying", bytes);
        let imported = import::import(base, BufReader::with_capacity(1 << 18, metered), true);
        // If the import has failed, the pipe is closed, and the export ends with an error that says less.
        let exported = exported.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        imported?;
        exported?;
        Ok(())
    })
}

/// Lets everybody read the base, and nobody but its owner write. Returns the sum of the files' bytes.
fn make_readable(path: &Path) -> io::Result<u64> {
    let stat = path.symlink_metadata()?;
    if !stat.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(0o644))?;
        return Ok(stat.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += make_readable(&entry?.path())?;
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    Ok(bytes)
}
