//! New segments of what a stash has and a store lacks.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::{CRASH_LIMIT, FORGOTTEN, Key, Kind};
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

/// What stands in segments that travel; what else a part has, each machine finds out by itself.
const PORTABLE: [Kind; 5] = [Kind::Setup, Kind::Module, Kind::Layout, Kind::RenderPass, Kind::Recipe];
const OF_DEVICES: [Kind; 3] = [Kind::Artifact, Kind::IdentifierPair, Kind::Cost];

/// A segment to publish.
pub(crate) struct New {
    pub(crate) path: PathBuf,
    pub(crate) sha256: Digest,
    pub(crate) bytes: u64,
    pub(crate) age: u64,
    pub(crate) keys: Vec<(Kind, Key)>,
}

/// What is gathered of one part.
pub(crate) struct Wish<'a> {
    pub(crate) app: &'a AppName,
    pub(crate) device: Option<&'a DeviceHeader>,
    /// Left out.
    pub(crate) known: &'a Known,
    /// Also what these segments have, which were verified.
    pub(crate) also: &'a [PathBuf],
    /// With the times of use.
    pub(crate) uses: bool,
}

/// Writes what `stash` has into new segments below `folder`, which is empty.
pub(crate) fn gather(stash: Option<&Arc<Stash>>, wish: &Wish<'_>, folder: &Path) -> io::Result<Vec<New>> {
    let target = wish.device.map_or(Target::Portable, |header| Target::Device(header.short_digest()));
    let made = Stash::open_patiently(folder, wish.app).map_err(io::Error::other)?;
    let part_of = |stash: &Arc<Stash>| match wish.device {
        Some(header) => stash.device(header).map_err(io::Error::other),
        None => Ok(stash.portable().clone()),
    };
    let mut sink = Sink {
        part: part_of(&made)?,
        stash: made.clone(),
        waiting: 0,
        open: 0,
        queued: 0,
        taken: HashSet::new(),
        failed: false,
    };
    let kinds: &[Kind] = if wish.device.is_some() { &OF_DEVICES } else { &PORTABLE };
    if let Some(stash) = stash {
        let part = part_of(stash)?;
        let mut bad = HashSet::new();
        if wish.device.is_some() {
            part.for_each(Kind::CrashCount, &mut |key, payload| {
                if payload.first().is_some_and(|count| *count >= CRASH_LIMIT) {
                    bad.insert(*key);
                }
            });
        }
        let is_new = |kind: Kind, key: &Key| !wish.known.contains(&(kind, *key)) && !bad.contains(key);
        for kind in kinds {
            part.for_each(*kind, &mut |key, payload| {
                if is_new(*kind, key) {
                    sink.put(*kind, key, payload);
                }
            });
        }
        if wish.device.is_some() {
            let mut same = Vec::new();
            part.for_each(Kind::Same, &mut |key, _| same.push(*key));
            let mut payload = Vec::new();
            for key in same.iter().filter(|key| is_new(Kind::Artifact, key)) {
                if part.read(Kind::Artifact, key, &mut payload) {
                    sink.put(Kind::Artifact, key, &payload);
                }
            }
        } else if wish.uses {
            part.for_each(Kind::Use, &mut |key, payload| {
                if *key != FORGOTTEN && is_new(Kind::Use, key) {
                    sink.put(Kind::Use, key, payload);
                }
            });
        }
    }
    for path in wish.also {
        add(path, wish, kinds, &mut sink)?;
    }
    sink.settle();
    let failed = sink.failed;
    drop(sink);
    // Seals the last segment.
    drop(made);
    if failed {
        return Err(io::Error::other("the new segments cannot be written"));
    }
    let part = folder.join(&wish.app.folder).join(target.folder());
    let files = names_in(&part).into_iter().filter(|name| name.ends_with(".vks"));
    files
        .map(|name| new(&part, &name, wish.device))
        .filter(|new| !matches!(new, Ok(new) if new.keys.is_empty()))
        .collect()
}

/// Adds what a verified segment has.
fn add(path: &Path, wish: &Wish<'_>, kinds: &[Kind], sink: &mut Sink) -> io::Result<()> {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let segment = Strict::open(folder, &name.to_string_lossy(), wish.device).map_err(io::Error::other)?;
    let mut same = Vec::new();
    let read = segment.for_each(&mut |kind, key, payload| {
        if kind == Kind::Same {
            same.push((*key, payload.to_vec()));
        } else if kinds.contains(&kind) && !wish.known.contains(&(kind, *key)) {
            sink.put(kind, key, payload);
        }
        true
    });
    read.map_err(io::Error::other)?;
    for (key, payload) in same.iter().filter(|(key, _)| !wish.known.contains(&(Kind::Artifact, *key))) {
        let Some(same) = vkstash_store::format::same::Same::decode(payload) else { continue };
        let mut payload = Vec::new();
        if sink.part.read(Kind::Artifact, &same.target, &mut payload) && same.complete(&mut payload) {
            sink.put(Kind::Artifact, key, &payload);
        }
    }
    Ok(())
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
}
