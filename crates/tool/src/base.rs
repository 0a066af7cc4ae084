//! `vkstash base build`: makes a stash that programs only read (docs/bases.md).

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::cli::{BaseAction, BaseArgs, BaseBuildArgs};
use crate::export::{ExportError, chosen_parts};
use crate::output;
use crate::root;
use crate::units::{counted, size};
use vkstash_exchange::{export, import};
use vkstash_store::format::refusal::OpenError;
use vkstash_store::maintenance::pack::pack;
use vkstash_store::stash::inspect::list_applications;

/// Why no base was made.
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
    #[error("cannot print it: {0}")]
    Print(io::Error),
}

pub(crate) fn main(args: &BaseArgs) -> Result<(), BaseError> {
    match &args.action {
        BaseAction::Build(args) => build(args),
    }
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
    let unfinished = Unfinished::beside(&args.base).map_err(not_created)?;
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
    fn beside(base: &Path) -> io::Result<Unfinished> {
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
