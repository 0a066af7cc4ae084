//! New segments of what a stash has and a store lacks.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use vkstash_model::app_name::AppName;
use vkstash_model::check::{self, Travel};
use vkstash_model::record::{FORGOTTEN, Key, Kind};
use vkstash_model::same::Same;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::strict::Strict;
use vkstash_store::stash::transfer::age_of;

use crate::home::names_in;
use crate::names::{Digest, Target};

/// Bytes that may wait for the writer: far fewer than those at which it drops records.
const QUEUED: usize = 16 << 20;
/// Bytes that a waiting record takes beside its payload.
const RECORD: usize = 512;
/// A segment is closed after so many bytes of payloads: a download of one goes on while another one is verified.
const SEGMENT: usize = 48 << 20;
/// Length of one wait for the writer.
const WAIT: Duration = Duration::from_secs(60);

/// Records that need not be published again.
pub(crate) type Known = HashSet<(Kind, Key)>;

/// A segment to publish.
pub(crate) struct New {
    pub(crate) path: PathBuf,
    pub(crate) sha256: Digest,
    pub(crate) bytes: u64,
    pub(crate) age: u64,
    pub(crate) keys: Vec<(Kind, Key)>,
}

/// What is gathered of one part.
pub(crate) struct Request<'a> {
    pub(crate) app: &'a AppName,
    pub(crate) device: Option<&'a DeviceHeader>,
    /// Left out.
    pub(crate) known: &'a Known,
    /// Also what these segments have, which were verified: they are replaced by the new ones.
    pub(crate) replaced: &'a [(Digest, PathBuf)],
    /// With the times of use.
    pub(crate) uses: bool,
}

/// New segments, and those that they replace. Made by [`gather`] alone: the new ones have every record of the replaced
/// ones.
#[derive(Default)]
pub(crate) struct Gathered {
    made: Vec<New>,
    replaced: BTreeSet<Digest>,
}

impl Gathered {
    pub(crate) fn made(&self) -> &[New] {
        &self.made
    }

    pub(crate) fn replaced(&self) -> &BTreeSet<Digest> {
        &self.replaced
    }
}

/// Writes what `stash` has into new segments below `folder`, which is empty. Nobody else may remove the folder
/// meanwhile (`Home::working`); if files vanish all the same, that is an error.
pub(crate) fn gather(
    stash: Option<&Arc<Stash>>,
    request: &Request<'_>,
    folder: &Path,
) -> io::Result<Gathered> {
    let made = Stash::open_patiently(folder, request.app).map_err(io::Error::other)?;
    let mut sink = Sink::new(&made, request)?;
    if let Some(stash) = stash {
        add_stash(stash, request, &mut sink)?;
    }
    let mut references = Vec::new();
    for (_, path) in request.replaced {
        references.extend(add(path, request, &mut sink)?);
    }
    let dangling = add_references(references, &mut sink)?;
    let taken = sink.finish()?;
    // Seals the last segment.
    drop(made);
    let target = request.device.map_or(Target::Portable, |header| Target::Device(header.short_digest()));
    let part = folder.join(&request.app.folder).join(target.folder());
    let found = new_segments(&part, request.device)?;
    let written = all_written(&taken, &found)?;
    check_replaced(request, &written, &dangling)?;
    let replaced = request.replaced.iter().map(|(digest, _)| *digest).collect();
    Ok(Gathered { made: found, replaced })
}

impl Request<'_> {
    /// Whether records of that kind stand in the segments.
    fn has(&self, kind: Kind) -> bool {
        check::travel(kind) == if self.device.is_some() { Travel::Trusted } else { Travel::Named }
    }

    /// The part of a stash.
    fn part_of(&self, stash: &Arc<Stash>) -> io::Result<Arc<Part>> {
        match self.device {
            Some(header) => stash.device(header).map_err(io::Error::other),
            None => Ok(stash.portable().clone()),
        }
    }
}

/// Adds what a stash has.
fn add_stash(stash: &Arc<Stash>, request: &Request<'_>, sink: &mut Sink) -> io::Result<()> {
    let part = request.part_of(stash)?;
    let is_new = |kind: Kind, key: &Key| {
        let is_bad = kind == Kind::Artifact && part.is_quarantined(key);
        !request.known.contains(&(kind, *key)) && !is_bad
    };
    for kind in Kind::ALL.into_iter().filter(|kind| request.has(*kind)) {
        part.for_each(kind, &mut |key, payload| {
            if is_new(kind, key) {
                sink.put(kind, key, payload);
            }
        });
    }
    if request.device.is_some() {
        let mut same = Vec::new();
        part.for_each(Kind::Same, &mut |key, _| same.push(*key));
        let mut payload = Vec::new();
        for key in same.iter().filter(|key| is_new(Kind::Artifact, key)) {
            if part.read(Kind::Artifact, key, &mut payload) {
                sink.put(Kind::Artifact, key, &payload);
            }
        }
    } else if request.uses {
        part.for_each(Kind::Use, &mut |key, payload| {
            if *key != FORGOTTEN && is_new(Kind::Use, key) {
                sink.put(Kind::Use, key, payload);
            }
        });
    }
    check_read(&part)
}

/// Adds the artifacts that these references lead to. Returns those whose data no segment has: nobody can use them.
fn add_references(references: Vec<(Key, Same)>, sink: &mut Sink) -> io::Result<HashSet<Key>> {
    let mut dangling = HashSet::new();
    let mut payload = Vec::new();
    for (key, same) in references {
        let is_there = sink.taken.contains(&(Kind::Artifact, same.target));
        if is_there && !sink.part.read(Kind::Artifact, &same.target, &mut payload) {
            return Err(io::Error::other("the new segments cannot be read"));
        }
        if is_there && same.complete(&mut payload) {
            sink.put(Kind::Artifact, &key, &payload);
        } else {
            dangling.insert(key);
        }
    }
    Ok(dangling)
}

/// The segments of a part that have records.
fn new_segments(part: &Path, device: Option<&DeviceHeader>) -> io::Result<Vec<New>> {
    let mut found = Vec::new();
    for name in names_in(part).into_iter().filter(|name| name.ends_with(".vks")) {
        let new = new(part, &name, device)?;
        if !new.keys.is_empty() {
            found.push(new);
        }
    }
    Ok(found)
}

/// What is replaced was read record by record; its list of keys says whether all of it was written, but for the
/// `dangling` artifacts.
fn check_replaced(
    request: &Request<'_>,
    written: &HashSet<(Kind, Key)>,
    dangling: &HashSet<Key>,
) -> io::Result<()> {
    let travels =
        |key: &&(Kind, Key)| request.has(key.0) && (key.0 != Kind::Artifact || !dangling.contains(&key.1));
    for (digest, path) in request.replaced {
        let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        let keys = keys_of(folder, &name.to_string_lossy(), request.device)?;
        if !keys.iter().filter(travels).all(|key| written.contains(key)) {
            return Err(io::Error::other(format!("the new segments lack records of segment {digest}")));
        }
    }
    Ok(())
}

/// What could not be read is not what a part lacks: nobody signs for less than it has.
pub(crate) fn check_read(part: &Part) -> io::Result<()> {
    match part.was_readable() {
        true => Ok(()),
        false => Err(io::Error::other(
            "some of the stash cannot be read now: too few open files are allowed (ulimit -n), or its disk fails",
        )),
    }
}

/// The keys of the new segments, which must have everything that was to be written to them: files may have been
/// removed.
fn all_written(taken: &HashSet<(Kind, Key)>, found: &[New]) -> io::Result<HashSet<(Kind, Key)>> {
    let written: HashSet<(Kind, Key)> = found.iter().flat_map(|new| new.keys.iter().copied()).collect();
    match taken.is_subset(&written) {
        true => Ok(written),
        false => Err(io::Error::other("the new segments lack records that were written to them")),
    }
}

/// Adds what a verified segment has. Returns the references in it: what they lead to may come later.
fn add(path: &Path, request: &Request<'_>, sink: &mut Sink) -> io::Result<Vec<(Key, Same)>> {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let segment = Strict::open(folder, &name.to_string_lossy(), request.device).map_err(io::Error::other)?;
    let mut references = Vec::new();
    let read = segment.for_each(&mut |kind, key, payload| {
        match kind {
            Some(Kind::Same) => references.extend(Same::decode(payload).map(|same| (*key, same))),
            Some(kind) if request.has(kind) && !request.known.contains(&(kind, *key)) => {
                sink.put(kind, key, payload);
            }
            _ => {}
        }
        true
    });
    read.map_err(io::Error::other)?;
    references.retain(|(key, _)| !request.known.contains(&(Kind::Artifact, *key)));
    Ok(references)
}

/// Whether a segment can be replaced: this program knows the kinds of all its records.
pub(crate) fn is_known(path: &Path, device: Option<&DeviceHeader>) -> bool {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    Strict::open(folder, &name.to_string_lossy(), device).is_ok_and(|segment| segment.is_known())
}

/// The keys of a segment.
pub(crate) fn keys_of(
    folder: &Path,
    name: &str,
    device: Option<&DeviceHeader>,
) -> io::Result<Vec<(Kind, Key)>> {
    let mut keys = Vec::new();
    let segment = Strict::open(folder, name, device).map_err(io::Error::other)?;
    segment.for_each_key(&mut |kind, key| {
        // A reference stands for the artifact.
        keys.push((if kind == Kind::Same { Kind::Artifact } else { kind }, *key));
    });
    Ok(keys)
}

fn new(folder: &Path, name: &str, device: Option<&DeviceHeader>) -> io::Result<New> {
    let keys = keys_of(folder, name, device)?;
    let path = folder.join(name);
    let (mut hash, mut file) = (Sha256::new(), fs::File::open(&path)?);
    let (mut bytes, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        let count = io::Read::read(&mut file, &mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        bytes += count as u64;
    }
    Ok(New { path, sha256: Digest(hash.finalize().into()), bytes, age: age_of(name), keys })
}

/// Where records are written.
struct Sink {
    stash: Arc<Stash>,
    part: Arc<Part>,
    /// Bytes that wait for the writer, and those in the present segment.
    waiting: usize,
    open: usize,
    queued: u64,
    taken: HashSet<(Kind, Key)>,
    failed: bool,
}

impl Sink {
    fn new(stash: &Arc<Stash>, request: &Request<'_>) -> io::Result<Sink> {
        let (part, stash) = (request.part_of(stash)?, stash.clone());
        Ok(Sink { stash, part, waiting: 0, open: 0, queued: 0, taken: HashSet::new(), failed: false })
    }

    fn put(&mut self, kind: Kind, key: &Key, payload: &[u8]) {
        if self.failed || !self.taken.insert((kind, *key)) {
            return;
        }
        let bytes = payload.len() + RECORD;
        if self.waiting + bytes > QUEUED {
            self.settle();
        }
        self.failed |= !self.part.put(kind, key, payload.into());
        self.waiting += bytes;
        self.open += bytes;
        self.queued += 1;
    }

    /// Waits until everything is written.
    fn settle(&mut self) {
        self.waiting = 0;
        while !self.failed {
            if self.open > SEGMENT {
                self.stash.seal(WAIT)
            } else {
                self.stash.flush(WAIT)
            };
            let report = self.stash.report();
            self.failed |= !report.write_errors.is_empty() || report.dropped > 0;
            if report.written_records >= self.queued {
                break;
            }
        }
        if self.open > SEGMENT {
            self.open = 0;
        }
    }

    /// The records that were written, all of them.
    fn finish(mut self) -> io::Result<HashSet<(Kind, Key)>> {
        self.settle();
        match self.failed {
            false => Ok(self.taken),
            true => Err(io::Error::other("the new segments cannot be written")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

    use super::*;

    /// An empty manifest would be published otherwise, and every base emptied.
    #[test]
    fn new_segments_that_have_vanished_are_an_error() {
        let taken: HashSet<(Kind, Key)> = [(Kind::Artifact, [1; 32]), (Kind::Artifact, [2; 32])].into();
        let new = |byte: u8| New {
            path: PathBuf::new(),
            sha256: Digest([byte; 32]),
            bytes: 1,
            age: 1,
            keys: vec![(Kind::Artifact, [byte; 32])],
        };
        assert!(all_written(&taken, &[]).is_err());
        assert!(all_written(&taken, &[new(1)]).is_err());
        assert_eq!(all_written(&taken, &[new(2), new(1)]).unwrap(), taken);
    }
}
