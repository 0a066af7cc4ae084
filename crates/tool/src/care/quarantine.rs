//! `vkstash quarantine`: lists the artifacts of which processes died, the recipes of which workers of `prewarm` died or
//! hung, and the pipelines at which programs ended while a driver compiled them; or releases them.

use std::io::{self, Write as _};
use std::path::Path;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::app_name::AppName;
use vkstash_model::crash_count::CrashCount;
use vkstash_model::failed::{Failed, WorkerEnd};
use vkstash_model::record::{CRASH_LIMIT, Key, Kind, WORKERS};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::part::open::Part;
use vkstash_store::stash::deaths;
use vkstash_store::stash::inspect::{ApplicationInfo, PartInfo, list_applications};
use vkstash_store::stash::open::Stash;

use crate::cli::QuarantineArgs;
use crate::stash::deaths as died;
use crate::stash::root::{self, NoRoot};
use crate::term::output::Printer;

/// Why nothing could be listed or released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuarantineError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{application}: not everything could be released; is the disk full or read-only?")]
    NotWritten { application: String },
    #[error(
        "nothing that is quarantined has a key that begins with {0:?}: `vkstash quarantine` lists all of it"
    )]
    Unknown(String),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &QuarantineArgs) -> Result<(), QuarantineError> {
    let root = root::named(args.dir.as_deref())?;
    let mut out = Printer::open()?;
    let keys: Vec<String> = args.keys.iter().map(|key| key.to_lowercase()).collect();
    let mut found = vec![false; keys.len()];
    let mut any = false;
    for application in list_applications(&root)? {
        let headers = suspicious(&root, &application);
        if headers.is_empty() {
            continue;
        }
        let name = AppName { display: application.display.clone(), folder: application.folder.clone() };
        let stash = Stash::open_patiently(&root, &name)?;
        for header in headers {
            let part = stash.device(&header)?;
            for Quarantined { key, kind, what, released } in quarantined(&part) {
                let digits = hex::encode(key);
                let named: Vec<_> = (0..keys.len()).filter(|&at| digits.starts_with(&keys[at])).collect();
                if !keys.is_empty() && named.is_empty() {
                    continue;
                }
                any = true;
                named.into_iter().for_each(|at| found[at] = true);
                let done = if args.release { "released" } else { "quarantined" };
                writeln!(out, "{done}: {digits} of {} ({what}), part {}", name.display, part.name())?;
                if args.release && !part.put(kind, &key, released) {
                    return Err(QuarantineError::NotWritten { application: name.display.clone() });
                }
            }
        }
        drop(stash);
    }
    match (keys.iter().zip(&found).find(|(_, found)| !**found), any) {
        (Some((unknown, _)), _) => return Err(QuarantineError::Unknown(unknown.clone())),
        (None, false) => writeln!(out, "nothing is quarantined")?,
        (None, true) => {}
    }
    Ok(())
}

/// The devices of which something may be quarantined: as records say, or guard files of dead processes.
fn suspicious(root: &Path, application: &ApplicationInfo) -> Vec<DeviceHeader> {
    let deaths = deaths::of(root, &application.folder);
    let has = |part: &PartInfo, kind: Kind| part.records.get(kind.name()).is_some_and(|&count| count > 0);
    let is_suspicious = |part: &&PartInfo| {
        has(part, Kind::CrashCount)
            || has(part, Kind::Failed)
            || deaths.iter().any(|death| death.part == part.name)
    };
    let parts = application.parts.iter().filter(is_suspicious);
    parts.filter_map(|part| part.device.clone()).collect()
}

/// What is quarantined, or was in the driver when programs ended.
struct Quarantined {
    key: Key,
    kind: Kind,
    what: String,
    /// The record that releases it.
    released: Box<[u8]>,
}

fn quarantined(part: &Part) -> Vec<Quarantined> {
    let mut found = Vec::new();
    part.for_each(Kind::CrashCount, &mut |key, payload| {
        let CrashCount { of_artifact: count, compile } = CrashCount::of(payload);
        let died = match *key {
            WORKERS => "processes died while a worker of background work was in the driver",
            _ => "processes died",
        };
        let mut what: Vec<String> = Vec::new();
        what.extend((count >= CRASH_LIMIT).then(|| format!("{count} {died}")));
        what.extend(compile.map(|compile| died::often(compile.deaths, compile.stages)));
        if !what.is_empty() {
            // What was counted below the limit stays, as before.
            let of_artifact = if count >= CRASH_LIMIT { 0 } else { count };
            let released = CrashCount { of_artifact, compile: None }.record();
            found.push(Quarantined { key: *key, kind: Kind::CrashCount, what: what.join(", "), released });
        }
    });
    part.for_each(Kind::Failed, &mut |key, payload| {
        if let Failed::Quarantined(end) = Failed::of(payload) {
            let what = words(end).to_owned();
            found.push(Quarantined { key: *key, kind: Kind::Failed, what, released: Box::new([0]) });
        }
    });
    found
}

fn words(end: WorkerEnd) -> &'static str {
    match end {
        WorkerEnd::Died => "a worker of prewarm died",
        WorkerEnd::Hung => "a worker of prewarm hung",
        WorkerEnd::Memory => "a worker of prewarm used too much memory",
    }
}
