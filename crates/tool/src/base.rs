//! `vkstash base`: makes stashes that programs only read, and keeps the list of those that they look into
//! (docs/bases.md).

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::cli::{BaseAction, BaseArgs, BaseBuildArgs, BaseChangeArgs, BaseListArgs};
use crate::export::{ExportError, chosen_parts};
use crate::output;
use crate::root;
use crate::units::{counted, plain, size};
use vkstash_exchange::{export, import};
use vkstash_store::disk::home::MOST_BASES;
use vkstash_store::format::refusal::OpenError;
use vkstash_store::maintenance::pack::pack;
use vkstash_store::settings::{self, Settings, SettingsError, ValueError, base_text};
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
    Take(#[from] crate::import::ImportError),
    #[error(transparent)]
    Read(#[from] export::ExportError),
    #[error(transparent)]
    Write(#[from] import::ImportError),
    #[error("cannot merge the files of the base: {0}")]
    Pack(OpenError),
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("cannot tell which folder {0:?} is: {1}")]
    Path(PathBuf, io::Error),
    #[error("{} cannot be a base: {reason}", base_text(base))]
    Refused { base: PathBuf, reason: String },
    #[error("{} cannot be a base of itself", base_text(.0))]
    Itself(PathBuf),
    #[error("{} is a base already", base_text(.0))]
    Known(PathBuf),
    #[error("{} is none of the bases that `vkstash base list` shows", base_text(.0))]
    Unknown(PathBuf),
    #[error("cannot add {}: {} {error}", base_text(base), settings::BASE)]
    Value { base: PathBuf, error: ValueError },
    #[error("{} is not changed: {complaints}; first take the right to write to it from others", path.display())]
    OthersMayWrite { path: PathBuf, complaints: String },
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
    let root = root::root(args.dir.as_deref()).ok_or(BaseError::NoRoot)?;
    let (settings, ignored) = settings::read(&root, None)?;
    let mut text = String::new();
    let used = settings.bases.iter().map(|base| (base, base_refusal(base)));
    let beyond = || format!("there are {MOST_BASES} before it, and no more are looked into");
    let ignored_bases = settings.bases_beyond.iter().map(|base| (base, Some(beyond())));
    for (base, refusal) in used.chain(ignored_bases) {
        text.push_str(&base_text(base));
        text.push('\n');
        if let Some(reason) = refusal {
            text.push_str(&format!("  not used: {}\n", plain(&reason)));
        }
    }
    if settings.bases.is_empty() {
        text.push_str(&format!("no bases are set in {}\n", plain(&root.to_string_lossy())));
    }
    // The list has those already.
    let is_listed = |complaint: &String| complaint.ends_with(&ValueError::Bases.to_string());
    let ignored: Vec<_> = ignored.into_iter().filter(|complaint| !is_listed(complaint)).collect();
    text.push_str(&lines_of(&ignored));
    output::print(&text).map_err(BaseError::Print)
}

/// What is ignored in the settings, a line each.
fn lines_of(ignored: &[String]) -> String {
    ignored.iter().map(|what| format!("ignored: {}\n", plain(what))).collect()
}

/// Changes the list in the settings. A file that others may write to is not replaced if lines of it are ignored: its
/// bases would become comments.
fn change(
    args: &BaseChangeArgs,
    apply: impl Fn(&mut Settings, &Path, PathBuf) -> Result<(), BaseError>,
) -> Result<(), BaseError> {
    let root = root::root(args.dir.as_deref()).ok_or(BaseError::NoRoot)?;
    let path = absolute(&args.base).map_err(|error| BaseError::Path(args.base.clone(), error))?;
    // Without slashes at its end a folder has one name.
    let base: PathBuf = path.components().collect();
    let ignored = settings::change(&root, None, |settings, ignored| {
        let path = root.join(settings::FILE);
        if !ignored.is_empty() && path.metadata().is_ok_and(|file| file.mode() & 0o022 != 0) {
            return Err(BaseError::OthersMayWrite { path, complaints: plain(&ignored.join("; ")) });
        }
        apply(settings, &root, base.clone())
    })?;
    if !ignored.is_empty() {
        output::print(&lines_of(&ignored)).map_err(BaseError::Print)?;
    }
    Ok(())
}

fn add(settings: &mut Settings, root: &Path, base: PathBuf) -> Result<(), BaseError> {
    if settings.bases.contains(&base) {
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
    if let Some(known) = settings.bases.iter().find(|known| is_base(known)) {
        return Err(BaseError::Known(known.clone()));
    }
    let added = settings.set(settings::BASE, &base_text(&base));
    added.map_err(|error| BaseError::Value { base, error })
}

fn remove(settings: &mut Settings, _root: &Path, base: PathBuf) -> Result<(), BaseError> {
    let is_known = settings.bases.contains(&base) || settings.bases_beyond.contains(&base);
    settings.bases.retain(|known| *known != base);
    settings.bases_beyond.retain(|known| *known != base);
    if is_known { Ok(()) } else { Err(BaseError::Unknown(base)) }
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
        Some(archive) => crate::import::take(&unfinished.0, archive, args.artifacts)?,
        None => {
            let root = root::root(args.dir.as_deref()).ok_or(ExportError::NoRoot)?;
            let parts = chosen_parts(&root, &args.applications, args.portable)?;
            copy(&root, &parts, &unfinished.0)?;
        }
    }
    pack(&unfinished.0).map_err(BaseError::Pack)?;
    let found = list_applications(&unfinished.0).map_err(BaseError::Pack)?;
    let parts =
        found.iter().flat_map(|application| &application.parts).filter(|part| part.segments > 0).count();
    if parts == 0 {
        return Err(ExportError::Nothing.into());
    }
    let bytes = make_readable(&unfinished.0).map_err(not_created)?;
    unfinished.finish(&args.base).map_err(not_created)?;
    let (parts, size) = (counted(parts as u64, "part"), size(bytes));
    output::print(&format!("{parts} with {size} in {}\n", args.base.display())).map_err(BaseError::Print)
}

/// Copies the records, each once and the newest one of a key.
fn copy(root: &Path, parts: &[(String, String)], base: &Path) -> Result<(), BaseError> {
    let (reader, writer) =
        UnixStream::pair().map_err(|source| BaseError::Create { path: base.to_owned(), source })?;
    std::thread::scope(|scope| {
        let exported = scope.spawn(|| export::export(root, parts, BufWriter::new(writer)));
        let imported = import::import(base, BufReader::with_capacity(1 << 18, reader), true);
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

/// A base that is being made; dropped before it has its name, it is gone.
struct Unfinished(PathBuf);

impl Unfinished {
    fn next_to(base: &Path) -> io::Result<Unfinished> {
        let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let path = base.with_file_name(format!(".vkstash-base-{}-{nanos}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Unfinished(path))
    }

    fn finish(self, base: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, &self.0, CWD, base, RenameFlags::NOREPLACE) {
            // A file system or kernel without that flag.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.0, base),
            other => Ok(other?),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` the folder has another name, and nothing is there.
        let _ = fs::remove_dir_all(&self.0);
    }
}
