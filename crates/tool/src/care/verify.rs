//! `vkstash verify`: reads everything that is stored, and says what is damaged.

mod model;

use std::io;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::check;
use vkstash_model::record::{Key, Kind};
use vkstash_store::maintenance::verify;
use vkstash_store::maintenance::verify::{BadFile, BadFolder, Fault, Repair, Request, Verified};
use vkstash_store::stash::inspect::list_applications;

use crate::cli::VerifyArgs;
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root::{self, NoRoot};
use crate::term::output::{self, Printer};
use crate::term::progress::{Progress, Unit};
use crate::term::units::{counted, plain, size};

pub(crate) use model::Output;

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0} not whole; `vkstash verify --repair` keeps what is whole of damaged files")]
    Bad(String),
    #[error(
        "{0} could not be repaired: what is refused is left for you to look at, and what a program writes to waits for its end"
    )]
    Left(String),
}

pub(crate) fn main(args: &VerifyArgs) -> Result<(), VerifyError> {
    let root = root::named(args.dir.as_deref())?;
    let application = match &args.application {
        Some(name) => Some(choose(&list_applications(&root)?, name, &root)?.folder.clone()),
        None => None,
    };
    let request = Request {
        application: application.as_deref(),
        contents: args.contents.then_some(is_true),
        repair: args.repair,
    };
    let mut progress = Progress::new("verifying", Unit::Bytes);
    let found = verify::verify(&root, &request, &mut |read, total| progress.set(read, total))?;
    drop(progress);
    if args.json {
        output::print(&format!(
            "{}\n",
            output::escaped(&serde_json::to_string_pretty(&Output::of(&found))?)
        ))?;
    } else {
        tell(&found, args.contents, &mut Printer::open()?)?;
    }
    let files = found.bad.iter().filter(|bad| bad.state != Repair::Repaired).count() as u64;
    let folders = found.bad_folders.len() as u64;
    let left = [(files, "file"), (folders, "folder")].into_iter().filter(|&(count, _)| count > 0);
    let text = left.map(|(count, thing)| counted(count, thing)).collect::<Vec<_>>().join(" and ");
    match (files + folders, args.repair) {
        (0, _) => Ok(()),
        (1, false) => Err(VerifyError::Bad(format!("{text} is"))),
        (_, false) => Err(VerifyError::Bad(format!("{text} are"))),
        (_, true) => Err(VerifyError::Left(text)),
    }
}

/// Whether a key is that of its payload; None where keys say nothing of it.
fn is_true(kind: Kind, key: &Key, payload: &[u8]) -> Option<bool> {
    check::names_payload(kind).then(|| check::is_true(kind, key, payload))
}

fn tell(found: &Verified, contents: bool, out: &mut impl io::Write) -> io::Result<()> {
    for BadFile { application, part, file, fault, state } in &found.bad {
        let fault = match fault {
            Fault::Damaged(places) => counted(*places, "damaged place"),
            Fault::Cut(records) => {
                format!("cut, or damaged at its end: {} lost", counted(*records, "record"))
            }
            Fault::Untrue(1) => "1 record is not what its key says".to_owned(),
            Fault::Untrue(records) => format!("{records} records are not what their keys say"),
            Fault::Refused(refusal) => format!("not used: {refusal}"),
            Fault::Unread => "cannot be read now".to_owned(),
        };
        let state = match state {
            Repair::Left => "",
            Repair::InUse => " (a running program writes to it)",
            Repair::Repaired => " (repaired)",
        };
        writeln!(out, "{}: {fault}{state}", plain(&format!("{application}/{part}/{file}")))?;
    }
    for BadFolder { folder, reason } in &found.bad_folders {
        writeln!(out, "{}: not used: {}", plain(folder), plain(reason))?;
    }
    let Verified { applications, files, records, bytes, bad, bad_folders } = found;
    let (files, records) = (counted(*files, "file"), counted(*records, "record"));
    let of = counted(*applications, "application");
    let what = if contents { "read, decompressed and compared" } else { "read" };
    writeln!(out, "{what}: {records} in {files} of {of}, {}", size(*bytes))?;
    if bad.is_empty() && bad_folders.is_empty() {
        writeln!(out, "everything is whole")?;
    }
    Ok(())
}
