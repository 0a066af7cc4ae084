//! `vkstash quarantine`: lists the artifacts of which processes died, and the recipes of which workers of `prewarm`
//! died or hung; or releases them.

use std::io::{self, Write as _};

use vkstash_model::failed::{Failed, WorkerEnd};
use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::{CRASH_LIMIT, Key, Kind, WORKERS};
use vkstash_store::format::refusal::OpenError;
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

use crate::cli::QuarantineArgs;
use crate::output::Printer;
use crate::root;

/// Why nothing could be listed or released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuarantineError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{application}: not everything could be released; is the disk full or read-only?")]
    NotWritten { application: String },
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &QuarantineArgs) -> Result<(), QuarantineError> {
    let root = root::root(args.dir.as_deref()).ok_or(QuarantineError::NoRoot)?;
    let mut out = Printer::open()?;
    let mut any = false;
    for application in list_applications(&root)? {
        let suspicious = |records: &std::collections::BTreeMap<String, u64>| {
            let has = |kind: Kind| records.get(kind.name()).is_some_and(|&count| count > 0);
            has(Kind::CrashCount) || has(Kind::Failed)
        };
        let headers: Vec<_> = application
            .parts
            .iter()
            .filter(|part| suspicious(&part.records))
            .filter_map(|part| part.device.clone())
            .collect();
        if headers.is_empty() {
            continue;
        }
        let name = AppName { display: application.display.clone(), folder: application.folder.clone() };
        let stash = Stash::open_patiently(&root, &name)?;
        for header in headers {
            let part = stash.device(&header)?;
            let mut keys: Vec<(Key, Kind, String)> = Vec::new();
            part.for_each(Kind::CrashCount, &mut |key, payload| {
                let count = payload.first().copied().unwrap_or(0);
                let died = match *key {
                    WORKERS => "processes died while a worker of background work was in the driver",
                    _ => "processes died",
                };
                if count >= CRASH_LIMIT {
                    keys.push((*key, Kind::CrashCount, format!("{count} {died}")));
                }
            });
            part.for_each(Kind::Failed, &mut |key, payload| {
                if let Failed::Quarantined(end) = Failed::of(payload) {
                    keys.push((*key, Kind::Failed, words(end).to_owned()));
                }
            });
            for (key, kind, what) in keys {
                any = true;
                let digits = hex::encode(key);
                let done = if args.release { "released" } else { "quarantined" };
                writeln!(out, "{done}: {digits} of {} ({what}), part {}", name.display, part.name())?;
                if args.release && !part.put(kind, &key, Box::new([0])) {
                    return Err(QuarantineError::NotWritten { application: name.display.clone() });
                }
            }
        }
        drop(stash);
    }
    if !any {
        writeln!(out, "nothing is quarantined")?;
    }
    Ok(())
}

fn words(end: WorkerEnd) -> &'static str {
    match end {
        WorkerEnd::Died => "a worker of prewarm died",
        WorkerEnd::Hung => "a worker of prewarm hung",
        WorkerEnd::Memory => "a worker of prewarm used too much memory",
    }
}
