//! The segments of a part as this process sees them: what it found when it opened the part, and what others have
//! written since.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};

use crate::base::timer::Timer;
use crate::base::util::lock;
use crate::disk::folder::{Folder, write_all_at};
use crate::disk::ops as disk;
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::IndexEntry;
use crate::format::refusal::Refusal;
use crate::format::sizes::VERSION;
use crate::segment::cleanup::sweep;
use crate::segment::file::{DamagedIndex, Segment};
use crate::segment::load;
use crate::segment::load::State;
use crate::segment::name;
use crate::segment::scan;
use crate::segment::scan::Scan;

/// Between two looks for what others have written, in milliseconds.
const LOOK_EVERY_MS: u64 = 100;

/// Newest first.
type Segments = Vec<Arc<Segment>>;

/// What this process knows of a part's folder.
#[derive(Default)]
pub(crate) struct View {
    segments: ArcSwap<Segments>,
    next_look: AtomicU64,
    /// Held during a look, which may take long: nobody waits for it.
    known: Mutex<Known>,
    /// Files of our own, which need no look.
    ours: Mutex<HashSet<String>>,
    /// Records that turned out to be damaged: the name of their file, and where their heads start.
    lost: Mutex<HashSet<(String, u64)>>,
    any_lost: AtomicBool,
    /// There is more than a thread of the program had the time to look at.
    behind: AtomicBool,
}

#[derive(Default)]
struct Known {
    /// Every file that was looked at, so that it is not looked at again.
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

/// How long a look may take.
#[derive(Clone, Copy)]
pub(crate) enum Haste<'a> {
    /// A thread of the program waits for it. No file takes more than half of that.
    Within(Duration),
    /// Nobody does; it ends early where this says true.
    Unless(&'a dyn Fn() -> bool),
}

/// What a look has found.
#[derive(Default)]
pub(crate) struct Found {
    /// Records that others appended to files that they are writing, in order.
    pub(crate) appended: Vec<(Arc<Segment>, Vec<IndexEntry>)>,
    /// Files that are not used, and why.
    pub(crate) refused: Vec<Refusal>,
    /// Damaged places.
    pub(crate) damaged: u64,
    /// The age of the newest file.
    pub(crate) newest: u64,
    /// Files that were followed, and are gone or found by tables of their own now.
    pub(crate) left: Vec<Arc<Segment>>,
    /// Something is left for another look.
    pub(crate) put_off: bool,
}

impl View {
    /// The segments whose tables are to be asked, newest first.
    pub(crate) fn segments(&self) -> Guard<Arc<Segments>> {
        self.segments.load()
    }

    /// Whether a record has turned out to be damaged.
    pub(crate) fn is_lost(&self, segment: &Segment, offset: u64) -> bool {
        self.any_lost.load(Ordering::Acquire)
            && lock(&self.lost).contains(&(segment.name().to_owned(), offset))
    }

    /// A record has turned out to be damaged. False: that is known.
    pub(crate) fn lose(&self, segment: &Segment, offset: u64) -> bool {
        let new = lock(&self.lost).insert((segment.name().to_owned(), offset));
        self.any_lost.store(true, Ordering::Release);
        new
    }

    /// A file of our own, which needs no look.
    pub(crate) fn add_ours(&self, name: &str) {
        lock(&self.ours).insert(name.to_owned());
    }

    /// Whether there is more than the program's threads had the time to look at.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Whether there are files of dead writers that nobody has sealed.
    pub(crate) fn has_orphans(&self) -> bool {
        // Who holds the lock may be about to add one.
        self.known.try_lock().map_or(true, |known| !known.orphans.is_empty())
    }

    /// There is more to look at than a thread of the program has time for.
    pub(crate) fn fall_behind(&self) {
        self.behind.store(true, Ordering::Release);
    }

    /// All of it has been looked at.
    pub(crate) fn set_caught_up(&self) {
        self.behind.store(false, Ordering::Release);
    }

    /// It is time.
    pub(crate) fn hurry(&self) {
        self.next_look.store(0, Ordering::Relaxed);
    }

    /// Whether it is time to look again; then it is the caller's turn.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let due = self.next_look.load(Ordering::Relaxed);
        let next = now_ms + LOOK_EVERY_MS;
        now_ms >= due
            && self.next_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Looks for files that are new or gone and for what was appended to those that others are writing. `None`:
    /// somebody else is at it.
    pub(crate) fn look(
        &self,
        folder: &Arc<Folder>,
        identity: &PartIdentity,
        haste: Haste<'_>,
    ) -> Option<std::io::Result<Found>> {
        let mut known = match self.known.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        let timer = match haste {
            Haste::Within(limit) => Some((Timer::of(limit), limit)),
            Haste::Unless(_) => None,
        };
        let over = || match (&timer, haste) {
            (Some((timer, _)), _) => timer.is_over(),
            (None, Haste::Unless(interrupted)) => interrupted(),
            (None, Haste::Within(_)) => true,
        };
        let (names, complete) = match folder.names_until(".vks", &over) {
            Ok(names) => names,
            Err(error) => return Some(Err(error)),
        };
        let mut found = Found { put_off: !complete, ..Found::default() };
        let before = self.segments.load_full();
        let mut added: Segments = Vec::new();

        // Whoever compacts takes files away; who has them open goes on reading them until here.
        let present: HashSet<&str> = names.iter().map(String::as_str).collect();
        let is_there = |name: &str| !complete || present.contains(name);
        let mut gone: Segments = before.iter().filter(|segment| !is_there(segment.name())).cloned().collect();
        known.names.retain(|name| is_there(name));
        known.followed.retain(|name, _| is_there(name));
        lock(&self.ours).retain(|name| is_there(name));

        // The newest first: if there is no time for all, they count most.
        for name in names.into_iter().rev() {
            let followed = known.followed.get(&name).copied();
            if followed.is_none() && (known.names.contains(&name) || lock(&self.ours).contains(&name)) {
                continue;
            }
            let one = timer.as_ref().map(|(_, limit)| Timer::of(*limit / 2));
            let interrupted = || over() || one.as_ref().is_some_and(Timer::is_over);
            let mut replaced = None;
            if let Some(end) = followed {
                let Some(segment) = before.iter().find(|segment| segment.name() == name).cloned() else {
                    continue;
                };
                let (tail, still_written) = tail(folder, &name, end, identity, &interrupted);
                found.put_off |= tail.stopped;
                if still_written || tail.stopped {
                    known.followed.insert(name, tail.end);
                    if !tail.entries.is_empty() {
                        found.appended.push((segment, tail.entries));
                    }
                    continue;
                }
                replaced = Some(segment);
            }
            match load::load_until(folder, &name, Some(identity), &interrupted) {
                Ok(loaded) => {
                    known.followed.remove(&name);
                    gone.extend(replaced);
                    found.newest = found.newest.max(name::age_of(&name));
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
                    added.push(loaded.segment);
                }
                Err(Refusal::NotYet) => continue,
                Err(Refusal::PutOff) => {
                    found.put_off = true;
                    found.refused.push(Refusal::PutOff);
                    continue;
                }
                Err(refusal) => {
                    known.followed.remove(&name);
                    gone.extend(replaced);
                    found.refused.push(refusal);
                }
            }
            known.names.insert(name);
        }
        // What is appended to the newest file counts most: it comes last.
        found.appended.reverse();
        if !added.is_empty() || !gone.is_empty() {
            self.change(&gone, &added);
        }
        found.left = gone;
        Some(Ok(found))
    }

    /// Takes segments out of the list, and others in. The writer does so too, without waiting for a look.
    fn change(&self, gone: &[Arc<Segment>], added: &[Arc<Segment>]) {
        self.segments.rcu(|segments| {
            let goes = |segment: &Arc<Segment>| gone.iter().any(|gone| Arc::ptr_eq(gone, segment));
            let stay = segments.iter().filter(|segment| !goes(segment));
            let mut all: Segments = stay.chain(added).cloned().collect();
            all.sort_by(|one, other| other.name().cmp(one.name()));
            all
        });
    }

    /// Looks at what the program's threads have put off. False: not all of it.
    pub(crate) fn catch_up(&self, instead: &DamagedIndex<'_>) -> bool {
        self.segments.load().iter().all(|segment| segment.catch_up(instead))
    }

    /// Gives the files of dead writers their index, so that nobody has to scan them again, and takes away what they left
    /// half made. What fails is left for the next.
    pub(crate) fn seal_orphans(
        &self,
        folder: &Arc<Folder>,
        identity: &PartIdentity,
        interrupted: &dyn Fn() -> bool,
    ) {
        sweep(folder);
        while !interrupted() {
            // Not waited for: who holds it finds them there again.
            let Some(orphan) = self.known.try_lock().ok().and_then(|mut known| known.orphans.pop()) else {
                break;
            };
            if seal(folder, &orphan).is_none() {
                continue;
            }
            if let Ok(loaded) = load::load(folder, orphan.segment.name(), Some(identity)) {
                self.change(&[orphan.segment], &[loaded.segment]);
            }
        }
    }

    /// A file of our own is sealed: its table is asked from now on.
    pub(crate) fn add_sealed(&self, segment: Arc<Segment>) {
        self.change(&[], &[segment]);
    }
}

/// What was appended to a file behind `end`, and whether its writer goes on with it.
fn tail(
    folder: &Arc<Folder>,
    name: &str,
    end: u64,
    identity: &PartIdentity,
    interrupted: &dyn Fn() -> bool,
) -> (Scan, bool) {
    let nothing =
        || Scan { entries: Vec::new(), damaged: 0, end, sealed: false, failed: false, stopped: false };
    let Ok((fd, length)) = folder.open_file(name) else { return (nothing(), true) };
    if length <= end {
        return (nothing(), load::is_locked(&fd));
    }
    let found = scan::scan(&fd, end, length, identity.tag(), true, interrupted);
    let goes_on = !found.sealed && load::is_locked(&fd);
    (found, goes_on)
}

/// `None`: somebody else is at it, the file has changed, or it cannot be written.
fn seal(folder: &Folder, orphan: &Orphan) -> Option<()> {
    let fd = folder.open_to_seal(orphan.segment.name()).ok()?;
    disk::try_lock(&fd).ok()?;
    if disk::fstat(&fd).ok()?.st_size as u64 != orphan.bytes {
        return None;
    }
    let rows = orphan.segment.rows(&DamagedIndex::WHOLLY);
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
