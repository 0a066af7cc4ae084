//! `vkstash export`: writes what was recorded to a file.

use std::io::{self, BufWriter, IsTerminal as _};
use std::path::{Path, PathBuf};

use vkstash_exchange::export::{self, Exported};
use vkstash_host::disk::errors::OpenError;
use vkstash_model::record::{Key, Kind};
use vkstash_store::maintenance::verify;
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::ExportArgs;
use crate::exchange::foz::{self, FozError};
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::pipeline_choice::{self, PipelineChoiceError};
use crate::stash::root::{self, NoRoot};
use crate::system::new_file::NewFile;
use crate::term::output::{self, StandardOutput};
use crate::term::progress::{Metered, Progress, Unit};
use crate::term::units::{counted, size};

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Pipeline(#[from] PipelineChoiceError),
    #[error("one pipeline goes to an archive of Fossilize alone: name a file that ends in .foz")]
    OnePipeline,
    #[error("there is nothing to export")]
    Nothing,
    #[error("standard output is a terminal: name a file, or redirect standard output")]
    Terminal,
    #[error("{} is there already; remove it or name another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Export(#[from] export::ExportError),
    #[error(transparent)]
    Foz(#[from] FozError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &ExportArgs) -> Result<(), ExportError> {
    let root = root::named(args.dir.as_deref())?;
    if args.file.extension().is_some_and(|extension| extension == "foz") {
        return match one_pipeline(&root, &args.applications)? {
            Some((application, key)) => Ok(foz::export_one(&root, &application, &key, &args.file)?),
            None => Ok(foz::export(&root, &args.applications, &args.file)?),
        };
    }
    if one_pipeline(&root, &args.applications)?.is_some() {
        return Err(ExportError::OnePipeline);
    }
    let Chosen { parts, bytes } = chosen_parts(&root, &args.applications, args.portable)?;
    if args.file == Path::new("-") {
        if io::stdout().is_terminal() {
            return Err(ExportError::Terminal);
        }
        export::export(&root, &parts, BufWriter::new(StandardOutput::open()?))?;
        return Ok(());
    }
    let not_created = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => ExportError::Exists(args.file.clone()),
        _ => ExportError::Create { path: args.file.clone(), source },
    };
    // An unfinished archive is useless, so the file gets its name at the end.
    let file = NewFile::create(&args.file).map_err(not_created)?;
    let metered = Metered::new(&file, "exporting", bytes);
    let Exported { files, bytes } = export::export(&root, &parts, BufWriter::new(metered))?;
    file.finish().map_err(not_created)?;
    say_damage(&root, &parts)?;
    let (files, size) = (counted(files, "file"), size(bytes));
    output::print(&format!("{files} with {size} exported to {}\n", args.file.display()))?;
    Ok(())
}

/// The pipeline that `NAME KEY` means. None: only applications are named. What is the name of an application is none
/// of a key.
fn one_pipeline(root: &Path, names: &[String]) -> Result<Option<(ApplicationInfo, Key)>, ExportError> {
    let [name, key] = names else { return Ok(None) };
    let found = list_applications(root)?;
    let is_key = !key.is_empty() && key.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_key || !matches!(choose(&found, key, root), Err(ChoiceError::Unknown { .. })) {
        return Ok(None);
    }
    let application = choose(&found, name, root)?;
    let mut keys = Vec::new();
    match Browser::open(root, &application.folder, "portable") {
        Err(error) if error.is_missing() => {}
        portable => {
            portable?.for_each(&|kind| kind == Kind::Recipe, &mut |_, key, _| keys.push(*key));
        }
    }
    let digits: Vec<_> = keys.iter().map(hex::encode).collect();
    let at = pipeline_choice::choose(root, application, &digits, key)?;
    Ok(Some((application.clone(), keys[at])))
}

/// Says how many of the exported files are not whole. They are exported as they are: whoever imports them takes what is
/// whole.
fn say_damage(root: &Path, parts: &[(String, String)]) -> Result<(), ExportError> {
    let mut bad = 0;
    let mut progress = Progress::new("reading it again", Unit::Bytes);
    // Those of an application follow each other.
    for of_application in parts.chunk_by(|(one, _), (other, _)| one == other) {
        let application = Some(of_application[0].0.as_str());
        let request = verify::Request { application, contents: None, repair: false };
        let found = verify::verify(root, &request, &mut |read, total| progress.set(read, total))?;
        let is_exported = |file: &&verify::BadFile| of_application.iter().any(|(_, part)| *part == file.part);
        bad += found.bad.iter().filter(is_exported).count() as u64;
    }
    drop(progress);
    if bad > 0 {
        let (files, are) = (counted(bad, "file"), if bad == 1 { "is" } else { "are" });
        output::eprint_line(&format!("{files} of these {are} not whole: `vkstash verify` says which"));
    }
    Ok(())
}

/// What is exported.
pub(crate) struct Chosen {
    /// The folders of applications and of their parts, without duplicates.
    pub(crate) parts: Vec<(String, String)>,
    /// The size of their files now.
    pub(crate) bytes: u64,
}

/// The parts of these applications, of all if none is named.
pub(crate) fn chosen_parts(
    root: &Path,
    applications: &[String],
    portable: bool,
) -> Result<Chosen, ExportError> {
    let found = list_applications(root)?;
    let all: Vec<&ApplicationInfo> = if applications.is_empty() {
        found.iter().collect()
    } else {
        applications.iter().map(|name| choose(&found, name, root)).collect::<Result<_, _>>()?
    };
    let mut chosen = Chosen { parts: Vec::new(), bytes: 0 };
    for (info, part) in all.iter().flat_map(|info| info.parts.iter().map(move |part| (info, part))) {
        let is_portable = part.name == "portable";
        let folder = if is_portable { part.name.clone() } else { format!("device-{}", part.name) };
        let name = (info.folder.clone(), folder);
        if part.segments > 0 && (is_portable || !portable) && !chosen.parts.contains(&name) {
            chosen.parts.push(name);
            chosen.bytes += part.bytes;
        }
    }
    if chosen.parts.is_empty() { Err(ExportError::Nothing) } else { Ok(chosen) }
}
