//! Reading everything to find damage, and writing damaged segments again without it.
//!
//! Programs need neither: they check each record when they read it, and what is damaged counts as missing. A user who
//! verifies a stash wants to know whether a disk, a copy or a backup can be trusted.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use serde::Serialize;

use crate::bounds::Room;
use crate::format::file::FileHeader;
use crate::format::refusal::Refusal;
use crate::format::table::Row;
use crate::maintenance::merge;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::survey;
use crate::maintenance::survey::{ApplicationFolder, PartFolder, Survey};
use crate::maintenance::uses::Uses;
use crate::segment::file::{DamagedIndex, Read, Segment};
use crate::segment::load::{self, Loaded, State};
use vkstash_host::disk::errors::{FileError, OpenError};
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops as disk;
use vkstash_host::sort;
use vkstash_host::timer::never;
use vkstash_model::record::{Key, Kind};

/// Whether the key of a record is that of its payload. None: keys of this kind say nothing about payloads. The store
/// does not know how keys are made.
pub type IsTrue = fn(Kind, &Key, &[u8]) -> Option<bool>;

/// What is verified, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The folder of an application; None: all of them.
    pub application: Option<&'a str>,
    /// Payloads are decompressed and compared with their keys, too. None: their checksums suffice.
    pub contents: Option<IsTrue>,
    /// Damaged segments that nobody writes to are written again without what is damaged.
    pub repair: bool,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Verified {
    /// The number of applications.
    pub applications: u64,
    /// The number of segments that were read.
    pub files: u64,
    /// The number of their records, superseded ones included.
    pub records: u64,
    /// The size of these segments.
    pub bytes: u64,
    /// Damaged, refused and unread files.
    pub bad: Vec<BadFile>,
    /// Folders of which nothing was read.
    pub bad_folders: Vec<BadFolder>,
}

/// A folder that programs do not use either.
#[derive(Debug, Serialize)]
pub struct BadFolder {
    /// The folder's path below the root: an application, or a part of it.
    pub folder: String,
    /// The reason in words.
    pub reason: String,
}

/// A file that is not whole.
#[derive(Debug, Serialize)]
pub struct BadFile {
    /// The folder of the application.
    pub application: String,
    /// The folder of the part.
    pub part: String,
    /// The name of the file.
    pub file: String,
    /// What is wrong with it.
    pub fault: Fault,
    /// What became of it.
    pub state: Repair,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The number of damaged places, between records or in them.
    Damaged(u64),
    /// The number of records whose payload is whole, and not what their key says.
    Untrue(u64),
    /// The end of the file is missing or damaged, and with it this number of records.
    Cut(u64),
    /// Nothing in the file is used, for this reason.
    Refused(Refusal),
    /// The file cannot be read now.
    Unread,
}

/// What became of a bad file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// The file is as it was.
    Left,
    /// The file is as it was, because a running program writes to it.
    InUse,
    /// Another file has the records of this file that are whole.
    Repaired,
}

/// Reads every segment below `root`. `progress` is told how many bytes of how many are read. A missing root counts as
/// empty.
pub fn verify(
    root: &Path,
    request: &Request<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verified, OpenError> {
    let mut verified = Verified::default();
    let unreadable = |source| OpenError::Unreadable { path: root.to_owned(), source };
    let root = match Folder::root(root, false) {
        Ok(root) => Arc::new(root),
        Err(error) if error.is_missing() => return Ok(verified),
        Err(error) => return Err(error),
    };
    let survey = Survey::of(&root, &never);
    let is_asked_for = |name: &str| request.application.is_none_or(|asked| asked == name);
    for name in root.names("").map_err(unreadable)?.iter().filter(|name| is_asked_for(name)) {
        verified.bad_folders.extend(bad_folders(&root, name));
    }
    let asked = || survey.applications.iter().filter(|application| is_asked_for(&application.name));
    let total = asked().flat_map(|application| &application.parts).map(|part| part.bytes).sum();
    let mut read = 0;
    for application in asked() {
        verified.applications += 1;
        for part in &application.parts {
            let mut found = of_part(part, request.contents, &mut verified, &mut |bytes| {
                read += bytes;
                progress(read, total);
            });
            if request.repair {
                repair(part, application, &mut found);
            }
            verified.bad.extend(found.into_iter().map(|bad| bad.of(application, part)));
        }
    }
    Ok(verified)
}

/// The folders of an application that the survey has left out, or whose files it could not list.
fn bad_folders(root: &Folder, name: &str) -> Vec<BadFolder> {
    let bad = |folder: String, error: OpenError| {
        // What is no folder is no stash, and what is gone was removed since the names were read.
        let is_none = error.is_missing() || matches!(error, OpenError::NotAFolder { .. });
        (!is_none).then(|| BadFolder { folder, reason: error.to_string() })
    };
    let listed = |folder: &Folder| {
        folder
            .names("")
            .map(|_| ())
            .map_err(|source| OpenError::Unreadable { path: folder.path().to_owned(), source })
    };
    let folder = match root.sub(name, false).and_then(|folder| listed(&folder).map(|()| folder)) {
        Ok(folder) => folder,
        Err(error) => return bad(name.to_owned(), error).into_iter().collect(),
    };
    let parts = survey::part_names(&folder);
    let check = |part: &String| {
        let error = folder.sub(part, false).and_then(|part| listed(&part)).err()?;
        bad(format!("{name}/{part}"), error)
    };
    parts.iter().filter_map(check).collect()
}

/// A bad file of a part.
struct Bad {
    file: String,
    fault: Fault,
    state: Repair,
    /// Where the records begin that are not to be kept.
    lost: Vec<u64>,
}

impl Bad {
    fn new(file: &str, fault: Fault) -> Bad {
        Bad { file: file.to_owned(), fault, state: Repair::Left, lost: Vec::new() }
    }

    fn of(self, application: &ApplicationFolder, part: &PartFolder) -> BadFile {
        BadFile {
            application: application.name.clone(),
            part: part.name.clone(),
            file: self.file,
            fault: self.fault,
            state: self.state,
        }
    }
}

fn of_part(
    part: &PartFolder,
    contents: Option<IsTrue>,
    verified: &mut Verified,
    progress: &mut dyn FnMut(u64),
) -> Vec<Bad> {
    let Some(folder) = part.open() else { return Vec::new() };
    let identity = part.identity(&never);
    let is_own = |header: &FileHeader| header.identity.has_folder(&part.name);
    let mut bad = Vec::new();
    let is_regular = |name: &String| part.files.iter().any(|(known, _)| known == name);
    let others = folder.names(".vks").unwrap_or_default().into_iter().filter(|name| !is_regular(name));
    let others: Vec<_> = others.map(|name| (name, 0)).collect();
    for (file, bytes) in part.files.iter().chain(&others) {
        match load::load(&folder, file, identity.as_ref()) {
            // No file had a header of this folder when the identity was read. A file that was written since may have
            // one, but this file has none.
            Ok(loaded) if identity.is_none() && !loaded.header.as_ref().is_some_and(is_own) => {
                bad.push(Bad::new(file, Fault::Refused(Refusal::OtherPart)));
            }
            Ok(loaded) => {
                let look = Look::at(&loaded, contents);
                verified.files += 1;
                verified.records += look.records;
                verified.bytes += loaded.bytes;
                if let Some(fault) = look.fault {
                    let state = if loaded.state == State::Written { Repair::InUse } else { Repair::Left };
                    bad.push(Bad { state, lost: look.lost, ..Bad::new(file, fault) });
                }
            }
            // The file's writer has just made it.
            Err(Refusal::NotYet) => {}
            // A merge has removed it since the names were read.
            Err(_) if is_gone(part, file) => {}
            Err(Refusal::File(FileError::PutOff) | Refusal::File(FileError::Unreadable(_))) => {
                bad.push(Bad::new(file, Fault::Unread))
            }
            Err(refusal) => bad.push(Bad::new(file, Fault::Refused(refusal))),
        }
        progress(*bytes);
    }
    bad
}

fn is_gone(part: &PartFolder, file: &str) -> bool {
    part.open().is_none_or(|folder| matches!(disk::statat(&*folder, file), Err(Errno::NOENT)))
}

/// What a segment holds.
struct Look {
    records: u64,
    fault: Option<Fault>,
    lost: Vec<u64>,
}

impl Look {
    /// What was merged meanwhile stands in another file.
    fn gone() -> Look {
        Look { records: 0, fault: None, lost: Vec::new() }
    }

    fn at(loaded: &Loaded, contents: Option<IsTrue>) -> Look {
        let segment = &loaded.segment;
        let places = Cell::new(loaded.damaged);
        let damaged = || places.set(places.get() + 1);
        let rows = segment.rows(&DamagedIndex { damaged: &damaged, interrupted: &never });
        if rows == Err(Read::Gone) {
            return Look::gone();
        }
        // Otherwise the segment has failed.
        let mut rows = rows.unwrap_or_default();
        // In the order of the file, which a disk reads fastest.
        sort::by_key(&mut rows, |row| row.offset);
        let (mut untrue, mut unread) = (0, loaded.state == State::Unreadable);
        let (mut lost, mut buffers) = (Vec::new(), Buffers::default());
        for row in &rows {
            match buffers.state_of(segment, row, contents) {
                Ok(true) => continue,
                Ok(false) => untrue += 1,
                Err(Read::Gone) => return Look::gone(),
                Err(Read::Failed) => {
                    unread = true;
                    continue;
                }
                Err(_) => damaged(),
            }
            lost.push(row.offset);
        }
        let fault = match (loaded.cut, places.get(), untrue) {
            // What a failed read has hidden looks like damage.
            _ if unread || segment.has_failed() => Some(Fault::Unread),
            (Some(seal), ..) => Some(Fault::Cut(u64::from(seal.records).saturating_sub(rows.len() as u64))),
            (None, 0, 0) => None,
            (None, 0, untrue) => Some(Fault::Untrue(untrue)),
            (None, places, _) => Some(Fault::Damaged(places)),
        };
        Look { records: rows.len() as u64, fault, lost }
    }
}

/// Memory for records and payloads.
#[derive(Default)]
struct Buffers {
    record: Vec<u8>,
    payload: Vec<u8>,
}

impl Buffers {
    /// Whether a record that can be read is what its key says.
    fn state_of(&mut self, segment: &Segment, row: &Row, contents: Option<IsTrue>) -> Result<bool, Read> {
        let entry = segment.read_record(row.offset, row.stored, &mut self.record)?;
        let (Some(is_true), Some(kind)) = (contents, Kind::from_number(entry.kind)) else { return Ok(true) };
        match segment.read_row(row, &entry.key, &mut self.payload) {
            Read::Good => Ok(is_true(kind, &entry.key, &self.payload) != Some(false)),
            // Compressed in a way that this version does not know.
            Read::Other => Ok(true),
            read => Err(read),
        }
    }
}

/// Has each damaged segment written again. What cannot be read now, and what another process writes or merges, stays.
fn repair(part: &PartFolder, application: &ApplicationFolder, found: &mut [Bad]) {
    let can_be = |bad: &&mut Bad| {
        bad.state == Repair::Left && matches!(bad.fault, Fault::Damaged(_) | Fault::Untrue(_) | Fault::Cut(_))
    };
    let mut damaged: Vec<&mut Bad> = found.iter_mut().filter(can_be).collect();
    if damaged.is_empty() {
        return;
    }
    let damage = merge::Damage {
        files: damaged.iter().map(|bad| bad.file.clone()).collect(),
        lost: damaged
            .iter()
            .flat_map(|bad| bad.lost.iter().map(|&offset| (bad.file.clone(), offset)))
            .collect(),
    };
    let job = merge::Job {
        part,
        uses: &Uses::of(application, &never),
        evicted: &HashMap::new(),
        choice: merge::Choice::Damaged(&damage),
        interrupted: &never,
    };
    job.run(Room { must_free: 0, scratch: u64::MAX }, &mut Outcome::default());
    for bad in &mut damaged {
        if is_gone(part, &bad.file) {
            bad.state = Repair::Repaired;
        }
    }
}
