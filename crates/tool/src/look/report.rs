//! `vkstash report`: a page about one application, in one file that needs no network.
//!
//! | file | what it knows |
//! |---|---|
//! | `collect` | the report of an application, from its stash |
//! | `timelines` | the timelines of the last runs |
//! | `model` | what is on the page, as JSON has it |
//! | `page` | the page |
//! | `pieces` | numbers, tables, titles and links of the page |
//! | `sections`, `charts` | its tables, and pictures that need no script |
//! | `escape` | text from outside in HTML and in scripts |

mod charts;
mod collect;
mod escape;
mod model;
mod page;
mod pieces;
mod sections;
mod timelines;

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vkstash_host::disk::errors::OpenError;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::ReportArgs;
use crate::layer::folder;
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root::{self, NoRoot};
use crate::system::new_file::NewFile;
use crate::term::output::{self, StandardOutput};
use crate::term::units::size;

#[cfg(test)]
pub(crate) use model::Report as Output;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error("cannot read the stash: {0}")]
    Stash(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error("nothing is stashed yet: start a program with `vkstash run` first")]
    Empty,
    #[error("standard output is a terminal: name a file, or redirect standard output")]
    Terminal,
    #[error("{} is there already; remove it or name another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot open {} with xdg-open: {reason}", path.display())]
    Open { path: PathBuf, reason: String },
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &ReportArgs) -> Result<(), ReportError> {
    let root = root::named(args.dir.as_deref())?;
    let found = list_applications(&root)?;
    let application = match &args.application {
        Some(name) => choose(&found, name, &root)?,
        None => latest(&found).ok_or(ReportError::Empty)?,
    };
    let report = collect::report(&root, application)?;
    if args.json {
        let json = serde_json::to_string_pretty(&report)?;
        return Ok(output::print(&format!("{}\n", output::escaped(&json)))?);
    }
    let page = page::page(&report)?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => own_file(&report.folder)?,
    };
    if path == Path::new("-") {
        if io::stdout().is_terminal() {
            return Err(ReportError::Terminal);
        }
        return Ok(StandardOutput::open()?.write_all(page.as_bytes())?);
    }
    write(&path, &page)?;
    let written = size(page.len() as u64);
    output::print(&format!("report of {} written to {}, {written}\n", report.application, path.display()))?;
    if args.open { open(&path) } else { Ok(()) }
}

/// A place for a page that is only to be looked at; the last one of this application is removed.
fn own_file(application: &str) -> Result<PathBuf, ReportError> {
    let name = format!("report-{application}.html");
    let not_created = |source| ReportError::Create { path: name.clone().into(), source };
    let path = folder::parent().map_err(not_created)?.join(&name);
    let _ = fs::remove_file(&path);
    Ok(path)
}

fn open(path: &Path) -> Result<(), ReportError> {
    let failed = |reason: String| ReportError::Open { path: path.to_owned(), reason };
    let status = Command::new("xdg-open").arg(path).stdin(Stdio::null()).status();
    match status.map_err(|error| failed(error.to_string()))? {
        status if status.success() => Ok(()),
        status => Err(failed(status.to_string())),
    }
}

/// The application that was used last.
fn latest(found: &[ApplicationInfo]) -> Option<&ApplicationInfo> {
    let is_used = |info: &&ApplicationInfo| !info.parts.is_empty() || info.runs.runs > 0;
    found.iter().filter(is_used).max_by_key(|info| info.runs.until_unix_ms)
}

fn write(path: &Path, page: &str) -> Result<(), ReportError> {
    let not_created = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => ReportError::Exists(path.to_owned()),
        _ => ReportError::Create { path: path.to_owned(), source },
    };
    // A part of a page looks like a whole one, so the file gets its name at the end.
    let file = NewFile::create(path).map_err(not_created)?;
    (&file).write_all(page.as_bytes()).map_err(not_created)?;
    file.finish().map_err(not_created)
}
