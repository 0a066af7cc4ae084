//! Archives of Fossilize, for `vkstash export` and `vkstash import` (docs/fossilize.md).

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use vkstash_exchange::foz::export::{self, FozExportError, FozExported};
use vkstash_exchange::foz::import::{self, FozImported};
use vkstash_fossilize::archive::{self, Reader};
use vkstash_host::disk::errors::OpenError;
use vkstash_host::program::Program;
use vkstash_model::app_name::{AppName, Identity};
use vkstash_model::record::Key;
use vkstash_store::part::open::Part;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};
use vkstash_store::stash::open::Stash;

use crate::stash::choice::{ChoiceError, choose, program_of};
use crate::system::new_file::NewFile;
use crate::term::output::{self, Printer};
use crate::term::progress::{Progress, Unit};
use crate::term::units::{counted, plain};

/// Why an archive was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FozError {
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Archive(#[from] archive::OpenError),
    #[error(transparent)]
    Import(#[from] import::FozError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(
        "{} is of {names}, and the stash has {known}: say with --application which one of `vkstash list` it is, or \
         with --program the file of one that has not run yet",
        archive.display()
    )]
    NoOwner { archive: PathBuf, names: String, known: &'static str },
    #[error("{} of {} left out", .0, counted(*.1, "archive"))]
    LeftOut(u64, u64),
    #[error("there is nothing to export")]
    Nothing,
    #[error("the pipeline cannot be exported: {0}")]
    Refused(String),
    #[error("{} is there already; remove it or name another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Export(#[from] FozExportError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// Whether a file is to be read as an archive of Fossilize.
pub(crate) fn is_archive(file: &Path) -> bool {
    let is_named_so = file.extension().is_some_and(|extension| extension == "foz");
    is_named_so || (file.is_file() && Reader::open(file).is_ok())
}

/// Whose recipes an archive has, as the user says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) application: Option<&'a str>,
    pub(crate) program: Option<&'a Path>,
    /// The game's number in Steam.
    pub(crate) steam: Option<u32>,
}

impl Owner<'_> {
    pub(crate) fn is_named(&self) -> bool {
        self.application.is_some() || self.program.is_some()
    }

    /// The application whose stash takes an archive in.
    fn of(&self, root: &Path, file: &Path, archive: &Reader) -> Result<AppName, FozError> {
        let found = list_applications(root)?;
        let name =
            |info: &ApplicationInfo| AppName { display: info.display.clone(), folder: info.folder.clone() };
        if let Some(named) = self.application {
            return Ok(name(choose(&found, named, root)?));
        }
        let names = import::applications(archive);
        let own = match names.as_slice() {
            [] => Some(&b""[..]),
            [own] => Some(own.as_slice()),
            _ => None,
        };
        if let (Some(path), Some(application)) = (self.program, own) {
            let path = absolute(path).unwrap_or_else(|_| path.to_owned());
            let program = Program::of(path.as_os_str().as_bytes(), &[]);
            let steam = self.steam.map(u64::from);
            return Ok(AppName::of(&Identity { application, program: &program, steam }));
        }
        // The file of one that was only taken in is not known; most are called as their folders are.
        let is_of = |info: &ApplicationInfo, own: &[u8]| {
            let path = if program_of(info).is_empty() { &info.display } else { program_of(info) };
            AppName::are_kin(&info.folder, &AppName::new(Some(own), path.as_bytes()).folder)
        };
        let fits = |info: &&ApplicationInfo| names.iter().any(|own| is_of(info, own));
        let fitting: Vec<_> = found.iter().filter(fits).collect();
        let known = match fitting.as_slice() {
            [info] => return Ok(name(info)),
            [] => "none of that name",
            _ => "several of that name",
        };
        let names: Vec<_> = names.iter().map(|own| plain(&String::from_utf8_lossy(own))).collect();
        let names = if names.is_empty() { "no named program".to_owned() } else { names.join(", ") };
        Err(FozError::NoOwner { archive: file.to_owned(), names, known })
    }
}

impl FozError {
    /// Whether other archives can be read all the same.
    fn is_of_one_archive(&self) -> bool {
        matches!(
            self,
            FozError::Archive(_) | FozError::Import(import::FozError::Archive(_)) | FozError::NoOwner { .. }
        )
    }
}

/// Takes one archive in, and tells what it had.
pub(crate) fn import(root: &Path, file: &Path, owner: Owner<'_>) -> Result<(), FozError> {
    take(root, file, &Reader::open(file)?, owner, &mut Printer::open()?)
}

/// Takes in the archives that Steam has of a game. One that cannot be read costs itself alone.
pub(crate) fn import_all(root: &Path, files: &[PathBuf], owner: Owner<'_>) -> Result<(), FozError> {
    let mut out = Printer::open()?;
    let (mut empty, mut left_out) = (0, 0);
    for file in files {
        let archive = match Reader::open(file) {
            Ok(archive) if archive.entries().is_empty() && !owner.is_named() => None,
            Err(archive::OpenError::TooShort { .. }) => None,
            archive => Some(archive),
        };
        let Some(archive) = archive else {
            empty += 1;
            continue;
        };
        let taken = archive.map_err(FozError::from);
        match taken.and_then(|archive| take(root, file, &archive, owner, &mut out)) {
            Err(error) if error.is_of_one_archive() && files.len() > 1 => {
                writeln!(out, "left out: {error}")?;
                left_out += 1;
            }
            taken => taken?,
        }
    }
    if empty > 0 {
        writeln!(out, "skipped: {} without entries", counted(empty, "archive"))?;
    }
    if left_out > 0 { Err(FozError::LeftOut(left_out, files.len() as u64)) } else { Ok(()) }
}

fn take(
    root: &Path,
    file: &Path,
    archive: &Reader,
    owner: Owner<'_>,
    out: &mut impl io::Write,
) -> Result<(), FozError> {
    let app = owner.of(root, file, archive)?;
    let mut progress = Progress::new("importing", Unit::Things);
    let imported = import::import(archive, root, &app, &mut |done, total| progress.set(done, total))?;
    drop(progress);
    Ok(tell(&app, &imported, out)?)
}

fn tell(app: &AppName, imported: &FozImported, out: &mut impl io::Write) -> io::Result<()> {
    let FozImported { records, present, refused, unknown_tags, skipped, tail } = imported;
    let counts = records.iter().map(|(kind, &count)| counted(count, &kind.replace('_', " ")));
    let counts: Vec<_> = counts.collect();
    let new =
        if counts.is_empty() { "nothing new".to_owned() } else { format!("{} imported", counts.join(", ")) };
    let there = if *present == 0 { String::new() } else { format!("; {present} here already") };
    writeln!(out, "{}: {new}{there}", app.display)?;
    for (reason, &count) in refused {
        writeln!(out, "  {} left out: {}", counted(count, "object"), plain(reason))?;
    }
    for (tag, &count) in unknown_tags {
        writeln!(out, "  {} left out: tag {tag} is not known", counted(count, "object"))?;
    }
    if *skipped > 0 {
        writeln!(out, "  {} skipped that stand there twice or make no sense", counted(*skipped, "object"))?;
    }
    if *tail > 0 {
        writeln!(out, "  the archive ends with {} that are no entry", counted(*tail, "byte"))?;
    }
    if records.contains_key("recipe") {
        writeln!(out, "  `vkstash prewarm {}` makes the pipelines", app.folder)?;
    }
    Ok(())
}

/// Writes the recipes of these applications, of all if none is named.
pub(crate) fn export(root: &Path, applications: &[String], path: &Path) -> Result<(), FozError> {
    let found = list_applications(root)?;
    let chosen: Vec<&ApplicationInfo> = match applications {
        [] => found.iter().collect(),
        names => names.iter().map(|name| choose(&found, name, root)).collect::<Result<_, _>>()?,
    };
    let mut parts = Vec::new();
    for info in chosen.iter().filter(|info| info.parts.iter().any(|part| part.records.contains_key("recipe")))
    {
        parts.push(portable(root, info)?);
    }
    if parts.is_empty() {
        return Err(FozError::Nothing);
    }
    let mut progress = Progress::new("exporting", Unit::Things);
    let write = |file: &NewFile| {
        export::export(&parts, BufWriter::new(file), &mut |done, total| progress.set(done, total))
    };
    let FozExported { pipelines, objects, refused } = in_new_file(path, write, |_| Ok(()))?;
    drop(progress);
    let (pipelines, objects) = (counted(pipelines, "pipeline"), counted(objects, "object"));
    let mut text = format!("{pipelines} exported to {}, {objects} in all\n", path.display());
    text += &left_out(&refused);
    Ok(output::print(&text)?)
}

/// Writes the pipeline of this key, and what it needs.
pub(crate) fn export_one(
    root: &Path,
    info: &ApplicationInfo,
    key: &Key,
    path: &Path,
) -> Result<(), FozError> {
    let portable = portable(root, info)?;
    let write = |file: &NewFile| export::export_one(&portable, key, BufWriter::new(file));
    // A link without one of its libraries is left out too, so nothing that is refused is without consequence.
    let check = |exported: &FozExported| match exported.refused.keys().next() {
        Some(reason) => Err(FozError::Refused(plain(reason))),
        None => Ok(()),
    };
    let objects = counted(in_new_file(path, write, check)?.objects, "object");
    Ok(output::print(&format!("the pipeline exported to {}, {objects} in all\n", path.display()))?)
}

fn portable(root: &Path, info: &ApplicationInfo) -> Result<Arc<Part>, OpenError> {
    let name = AppName { display: info.display.clone(), folder: info.folder.clone() };
    Ok(Stash::open_patiently(root, &name)?.portable().clone())
}

/// Writes an archive, which appears at this path when it is complete and passes the check.
fn in_new_file(
    path: &Path,
    write: impl FnOnce(&NewFile) -> Result<FozExported, FozExportError>,
    check: impl FnOnce(&FozExported) -> Result<(), FozError>,
) -> Result<FozExported, FozError> {
    let not_created = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => FozError::Exists(path.to_owned()),
        _ => FozError::Create { path: path.to_owned(), source },
    };
    let file = NewFile::create(path).map_err(not_created)?;
    let exported = write(&file)?;
    check(&exported)?;
    file.finish().map_err(not_created)?;
    Ok(exported)
}

/// What was left out, a line for each reason.
fn left_out(refused: &BTreeMap<String, u64>) -> String {
    let lines = refused
        .iter()
        .map(|(reason, &count)| format!("  {} left out: {}\n", counted(count, "pipeline"), plain(reason)));
    lines.collect()
}
