//! `vkstash import`: takes in what `vkstash export` wrote.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use vkstash_exchange::import::{self, Imported, Taken};
use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;

use crate::cli::ImportArgs;
use crate::exchange::foz::{self, FozError, Owner};
use crate::exchange::steam::{self, SteamError};
use crate::stash::root::{self, NoRoot};
use crate::term::output::Printer;
use crate::term::progress::Metered;
use crate::term::units::{counted, plain};

/// Why the import failed or is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Import(#[from] import::ImportError),
    #[error("{} is no archive of Fossilize: only of such --application and --program say whose it is", .0.display())]
    NotFossilize(PathBuf),
    #[error(transparent)]
    Foz(#[from] FozError),
    #[error(transparent)]
    Steam(#[from] SteamError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &ImportArgs) -> Result<(), ImportError> {
    let root = root::named(args.dir.as_deref())?;
    let (application, program) = (args.application.as_deref(), args.program.as_deref());
    let owner = Owner { application, program, steam: args.steam.flatten() };
    match (&args.file, args.steam) {
        (Some(file), _) if foz::is_archive(file) => Ok(foz::import(&root, file, owner)?),
        (Some(file), _) if owner.is_named() => Err(ImportError::NotFossilize(file.clone())),
        (Some(file), _) => take(&root, file, args.artifacts),
        (None, Some(Some(game))) => Ok(foz::import_all(&root, &steam::archives(game)?, owner)?),
        (None, _) => Ok(steam::list(&mut Printer::open()?)?),
    }
}

/// Takes an archive into the stash at `root`, and tells what it had.
pub(crate) fn take(root: &Path, file: &Path, artifacts: bool) -> Result<(), ImportError> {
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let not_opened = |source| ImportError::Open { path: file.to_owned(), source };
        let opened = File::open(file).map_err(not_opened)?;
        let bytes = opened.metadata().map_err(not_opened)?.len();
        Box::new(Metered::new(opened, "importing", bytes))
    };
    let imported = import::import(root, BufReader::with_capacity(1 << 18, source), artifacts)?;
    Ok(tell(&imported, &mut Printer::open()?)?)
}

fn tell(imported: &Imported, out: &mut impl io::Write) -> io::Result<()> {
    for (folder, taken) in &imported.applications {
        let name = AppName::of_folder(folder).map_or_else(|| folder.clone(), |name| name.display);
        writeln!(out, "{name}: {}", what(taken))?;
        if taken.left_out > 0 {
            let files = counted(taken.left_out, "file");
            writeln!(
                out,
                "  {files} with artifacts left out: --artifacts imports them, from somebody whose programs you would run"
            )?;
        }
        if taken.damaged > 0 {
            writeln!(out, "  {} left out", counted(taken.damaged, "damaged record"))?;
        }
        if taken.mismatched > 0 {
            writeln!(out, "  {} left out: not what their keys say", counted(taken.mismatched, "record"))?;
        }
        for (path, reason) in &taken.refused {
            writeln!(out, "  {} left out: {reason}", plain(path))?;
        }
    }
    if imported.skipped > 0 {
        writeln!(out, "{} in the archive skipped", counted(imported.skipped, "other file"))?;
    }
    Ok(())
}

/// The imported records in words.
fn what(taken: &Taken) -> String {
    let of_kind = |kind: Kind, name: &str| {
        taken.records.get(&kind).map(|&count| counted(count, name)).into_iter().collect::<Vec<_>>()
    };
    let mut parts = of_kind(Kind::Recipe, "recipe");
    parts.extend(of_kind(Kind::Module, "module"));
    parts.extend(of_kind(Kind::Artifact, "artifact"));
    let shown = [Kind::Recipe, Kind::Module, Kind::Artifact];
    let others = taken.records.iter().filter(|(kind, _)| !shown.contains(kind)).map(|(_, count)| count).sum();
    if others > 0 {
        parts.push(counted(others, "other record"));
    }
    let mut text =
        if parts.is_empty() { "nothing new".to_owned() } else { format!("{} imported", parts.join(", ")) };
    if taken.present > 0 {
        text.push_str(&format!("; {} here already", counted(taken.present, "record")));
    }
    text
}
