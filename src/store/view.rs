//! The segments of a part as this process sees them: what it found when it opened the part, and what others have
//! written since.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use arc_swap::{ArcSwap, Guard};

use super::disk;
use super::folder::{Folder, write_all_at};
use super::format::{FileHeader, IndexEntry, PartIdentity, VERSION, encode_end};
use super::refusal::Refusal;
use super::scan::{self, Scan};
use super::segment::{self, Segment, State};
use super::shared::lock;
use super::sweep::sweep;

/// Between two looks for what others have written, in milliseconds.
const LOOK_EVERY_MS: u64 = 100;

/// Newest first.
type Segments = Vec<Arc<Segment>>;

/// What this process knows of a part's folder.
#[derive(Default)]
pub(super) struct View {
    segments: ArcSwap<Segments>,
    next_look: AtomicU64,
    known: Mutex<Known>,
    /// Records that turned out to be damaged: the name of their file, and where their heads start.
    lost: Mutex<HashSet<(String, u64)>>,
    any_lost: AtomicBool,
}

#[derive(Default)]
struct Known {
    /// Every file that was looked at or is ours, so that it is not looked at again.
    names: HashSet<String>,
    /// Files that others are writing, and where what was read of them ends.
    followed: HashMap<String, u64>,
    /// Files whose writers died.
    orphans: Vec<Orphan>,
}

struct Orphan {
    segment: Arc<Segment>,
    header: FileHeader,
    bytes: u64,
}

/// What a look has found.
#[derive(Default)]
pub(super) struct Found {
    /// Records that others appended to files that they are writing, in order.
    pub(super) appended: Vec<(Arc<Segment>, Vec<IndexEntry>)>,
    /// Files that are not used, and why.
    pub(super) refused: Vec<Refusal>,
    /// Damaged places.
    pub(super) damaged: u64,
    /// The age of the newest file.
    pub(super) newest: u64,
}

impl View {
    /// The segments whose tables are to be asked, newest first.
    pub(super) fn segments(&self) -> Guard<Arc<Segments>> {
        self.segments.load()
    }

    /// Whether a record has turned out to be damaged.
    pub(super) fn is_lost(&self, segment: &Segment, offset: u64) -> bool {
        self.any_lost.load(Ordering::Acquire)
            && lock(&self.lost).contains(&(segment.name().to_owned(), offset))
    }

    /// A record has turned out to be damaged. False: that is known.
    pub(super) fn lose(&self, segment: &Segment, offset: u64) -> bool {
        let new = lock(&self.lost).insert((segment.name().to_owned(), offset));
        self.any_lost.store(true, Ordering::Release);
        new
    }

    /// A file of our own, which needs no look.
    pub(super) fn is_ours(&self, name: &str) {
        lock(&self.known).names.insert(name.to_owned());
    }

    /// It is time.
    pub(super) fn hurry(&self) {
        self.next_look.store(0, Ordering::Relaxed);
    }

    /// Whether it is time to look again; then it is the caller's turn.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let due = self.next_look.load(Ordering::Relaxed);
        let next = now_ms + LOOK_EVERY_MS;
        now_ms >= due
            && self.next_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Looks for files that are new or gone and for what was appended to those that others are writing. `None`:
    /// somebody else is at it.
    pub(super) fn look(
        &self,
        folder: &Arc<Folder>,
        identity: &PartIdentity,
    ) -> Option<std::io::Result<Found>> {
        let mut known = match self.known.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        let names = match folder.names(".vks") {
            Ok(names) => names,
            Err(error) => return Some(Err(error)),
        };
        let mut found = Found::default();
        let mut segments: Segments = self.segments.load().to_vec();
        let before = segments.len();
        let mut changed = false;

        // Whoever compacts takes files away; who has them open goes on reading them until here.
        let present: HashSet<&str> = names.iter().map(String::as_str).collect();
        segments.retain(|segment| present.contains(segment.name()));
        changed |= segments.len() != before;
        known.names.retain(|name| present.contains(name.as_str()));
        known.followed.retain(|name, _| present.contains(name.as_str()));

        for name in names {
            let followed = known.followed.get(&name).copied();
            if followed.is_none() && known.names.contains(&name) {
                continue;
            }
            if let Some(end) = followed {
                let Some(segment) = segments.iter().find(|segment| segment.name() == name).cloned() else {
                    continue;
                };
                let (tail, still_written) = tail(folder, &name, end, identity);
                if still_written {
                    known.followed.insert(name, tail.end);
                    if !tail.entries.is_empty() {
                        found.appended.push((segment, tail.entries));
                    }
                    continue;
                }
                known.followed.remove(&name);
                segments.retain(|segment| segment.name() != name);
            }
            match segment::load(folder, &name, Some(identity)) {
                Ok(loaded) => {
                    found.newest = found.newest.max(segment::age_of(&name));
                    found.damaged += loaded.damaged;
                    match (loaded.state, loaded.header) {
                        (State::Written, _) => {
                            known.followed.insert(name.clone(), loaded.segment.end());
                        }
                        (State::Orphaned, Some(header)) if header.version == VERSION => {
                            known.orphans.push(Orphan {
                                segment: loaded.segment.clone(),
                                header,
                                bytes: loaded.bytes,
                            });
                        }
                        _ => {}
                    }
                    segments.push(loaded.segment);
                    changed = true;
                }
                Err(Refusal::NotYet) => continue,
                Err(refusal) => found.refused.push(refusal),
            }
            known.names.insert(name);
        }
        if changed {
            segments.sort_by(|one, other| other.name().cmp(one.name()));
            self.segments.store(Arc::new(segments));
        }
        Some(Ok(found))
    }

    /// Gives the files of dead writers their index, so that nobody has to scan them again, and takes away what they left
    /// half made. What fails is left for the next.
    pub(super) fn seal_orphans(&self, folder: &Arc<Folder>, identity: &PartIdentity) {
        sweep(folder);
        let mut known = lock(&self.known);
        for orphan in std::mem::take(&mut known.orphans) {
            if seal(folder, &orphan).is_none() {
                continue;
            }
            if let Ok(loaded) = segment::load(folder, orphan.segment.name(), Some(identity)) {
                self.segments.rcu(|segments| {
                    let replaced = |segment: &Arc<Segment>| {
                        let same = Arc::ptr_eq(segment, &orphan.segment);
                        if same { loaded.segment.clone() } else { segment.clone() }
                    };
                    segments.iter().map(replaced).collect::<Segments>()
                });
            }
        }
    }

    /// A file of our own is sealed: its table is asked from now on.
    pub(super) fn add_sealed(&self, segment: Arc<Segment>) {
        let _known = lock(&self.known);
        self.segments.rcu(|segments| {
            let mut all: Segments = segments.to_vec();
            all.push(segment.clone());
            all.sort_by(|one, other| other.name().cmp(one.name()));
            all
        });
    }
}

/// What was appended to a file behind `end`, and whether its writer goes on with it.
fn tail(folder: &Arc<Folder>, name: &str, end: u64, identity: &PartIdentity) -> (Scan, bool) {
    let nothing = || Scan { entries: Vec::new(), damaged: 0, end, sealed: false, failed: false };
    let Ok((fd, length)) = folder.open_file(name) else { return (nothing(), true) };
    if length <= end {
        return (nothing(), segment::is_locked(&fd));
    }
    let found = scan::scan(&fd, end, length, identity.tag(), true);
    let goes_on = !found.sealed && segment::is_locked(&fd);
    (found, goes_on)
}

/// `None`: somebody else is at it, the file has changed, or it cannot be written.
fn seal(folder: &Folder, orphan: &Orphan) -> Option<()> {
    let fd = folder.open_to_seal(orphan.segment.name()).ok()?;
    disk::try_lock(&fd).ok()?;
    if disk::fstat(&fd).ok()?.st_size as u64 != orphan.bytes {
        return None;
    }
    let rows = orphan.segment.rows(|| ());
    let base = orphan.segment.end();
    let end = encode_end(&orphan.header, base, &rows);
    // A torn tail must not stand between the records and the index.
    disk::ftruncate(&fd, base).ok()?;
    if write_all_at(&fd, &end, base).is_err() {
        // Scanned again by the next.
        let _ = disk::ftruncate(&fd, base);
        return None;
    }
    Some(())
}
