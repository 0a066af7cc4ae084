//! One part of a stash: the portable one, or the one of a device header.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::base::memory;
use crate::base::timer::{Timer, never};
use crate::base::util::{lock, unix_ms};
use crate::disk::folder::Folder;
use crate::disk::home::Home;
use crate::disk::ops as disk;
use crate::forks as fork;
use crate::format::bytes::hex;
use crate::format::codec::Codec;
use crate::format::file::PartIdentity;
use crate::format::record::{Key, Kind};
use crate::format::refusal::{OpenError, Refusal, is_for_now};
use crate::format::same::Same;
use crate::format::sizes::MAX_PAYLOAD;
use crate::format::table;
use crate::format::table::Row;
use crate::part::crash_guard as guard;
use crate::part::crash_guard::{Entered, Guard, Left};
use crate::part::digests::Digests;
use crate::part::index::{Index, Place};
use crate::part::opening::{self, Waited};
use crate::part::queue::{self, Destination};
use crate::part::view::{Found, Haste, View};
use crate::segment::append::{Payload, Slot};
use crate::segment::file::{DamagedIndex, Location, Read, Segment};
use crate::segment::load;
use crate::segment::load::State;

/// After so many deaths an artifact is not handed to the driver any more.
pub const DEATHS_LIMIT: u8 = 2;

/// What may be done with an artifact.
pub enum Handing<'a> {
    /// The driver may have it. In a process that has reason to be careful it is marked until this is dropped, if the
    /// driver has not taken it before.
    Yes(Option<Marked<'a>>),
    /// Too many processes died of it.
    Quarantined,
    /// Whether anybody died of it is not known yet.
    NotYet,
}

/// Keeps an artifact marked while the driver looks at it.
pub struct Marked<'a>(#[allow(dead_code, reason = "dropped at the end of the call")] Entered<'a>);

/// What the parts of a stash share.
pub(crate) type Shared = queue::Shared<Part>;
/// A record on its way to the disk.
pub(crate) type Pending = queue::Pending<Part>;
/// The first use of a key in this run.
pub(crate) type Use = queue::Use<Part>;

impl Destination for Part {
    fn unwritten(&self, slot: Slot, payload: &Arc<Payload>) {
        self.index.unwritten(slot, payload);
    }
}

/// After so many attempts that failed to read the rest of a part, its records are written all the same.
const TRIES: u32 = 4;
/// How long nothing is written to a part after a write failed.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// One part, open for reading and appending. Shared by all threads.
pub struct Part {
    /// What the queue holds on to.
    me: Weak<Part>,
    name: String,
    folder_name: String,
    identity: PartIdentity,
    parent: Arc<Home>,
    folder: OnceLock<Arc<Folder>>,
    view: View,
    /// What the view's tables do not have: queued, written by this process, or appended by others since.
    index: Index,
    digests: Digests,
    /// Keys whose first use in this run is noted, as [`table::hash`].
    noted: papaya::HashSet<u64, FxBuildHasher>,
    guard: OnceLock<Option<Guard>>,
    /// A process died without a word while it handed out what was not proven: now each artifact is marked.
    careful: AtomicBool,
    /// Files of dead processes whose deaths are on their way to the disk.
    counted: Mutex<Vec<Left>>,
    shared: Arc<Shared>,
    /// The age of the newest segment, as its name gives it.
    newest: AtomicU64,
    /// In [`Shared::now_ms`]: until when nothing is written, 0 where nothing is wrong.
    closed_until: AtomicU64,
    /// Whether the folder says that this run uses it.
    stamped: AtomicBool,
    /// The deaths of others are counted once everything is read.
    uncounted: AtomicBool,
    /// Nobody has opened it yet.
    opening: AtomicBool,
    /// It cannot be used, which was found out when nobody waited any more.
    refused: AtomicBool,
    /// How often in a row the helper could not read what was put off.
    failures: AtomicU32,
    /// Whether this process has a segment here.
    written: AtomicBool,
    /// Segments of which the index still has records, although their own tables are asked, or they are gone.
    left: Mutex<Vec<Arc<Segment>>>,
}

impl Part {
    /// Opens the part below `parent` and reads the indexes of its segments. A folder that is missing and
    /// can't be made leaves the part empty; one that is not to be trusted is an error.
    pub(crate) fn open(
        parent: &Arc<Home>,
        identity: PartIdentity,
        shared: &Arc<Shared>,
    ) -> Result<Arc<Part>, OpenError> {
        let (name, folder_name) = match &identity {
            PartIdentity::Portable => ("portable".to_owned(), "portable".to_owned()),
            PartIdentity::Device(header) => {
                let name = header.short_digest();
                let folder = format!("device-{name}");
                (name, folder)
            }
        };
        let part = Arc::new_cyclic(|me| Part {
            me: me.clone(),
            name,
            folder_name,
            identity,
            parent: parent.clone(),
            folder: OnceLock::new(),
            view: View::default(),
            index: Index::default(),
            digests: Digests::default(),
            noted: papaya::HashSet::builder()
                .hasher(FxBuildHasher)
                .resize_mode(papaya::ResizeMode::Blocking)
                .build(),
            guard: OnceLock::new(),
            careful: AtomicBool::new(true),
            counted: Mutex::default(),
            shared: shared.clone(),
            newest: AtomicU64::new(0),
            closed_until: AtomicU64::new(0),
            stamped: AtomicBool::new(false),
            uncounted: AtomicBool::new(true),
            opening: AtomicBool::new(true),
            refused: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            written: AtomicBool::new(false),
            left: Mutex::default(),
        });
        // Until all of it is read, what is known of crashes is not complete.
        part.view.fall_behind();
        lock(&shared.parts).push(part.me.clone());
        match shared.haste.beside {
            true => part.open_beside()?,
            false => part.read_all_there_is()?,
        }
        Ok(part)
    }

    /// Has the part opened by a thread of ours. What that finds out too late it deals with itself.
    fn open_beside(self: &Arc<Self>) -> Result<(), OpenError> {
        let began = Instant::now();
        let limit = self.shared.left_for_opening();
        let (opening, late) = (self.clone(), self.clone());
        let late = move |outcome: Result<(), OpenError>| {
            if let Err(error) = outcome {
                late.refuse(&error);
            }
        };
        let outcome = match opening::beside(limit, move || opening.read_all_there_is(), late) {
            Waited::Done(outcome) => outcome,
            Waited::NoThread => self.read_all_there_is(),
            Waited::GoesOn => {
                self.shared.tallies.refused(&Refusal::PutOff);
                Ok(())
            }
        };
        self.shared.spent_on_opening(began.elapsed());
        outcome
    }

    /// Opens the folder and reads what is in it, as far as there is time for that; the rest is left to the helper.
    fn read_all_there_is(&self) -> Result<(), OpenError> {
        let opening = self.shared.haste.opening;
        let timer = Timer::of(opening);
        let outcome = self.look_at_all(Haste::Within(opening), &|| timer.is_over());
        self.opening.store(false, Ordering::Release);
        match outcome {
            Ok(true) => self.set_caught_up(),
            Ok(false) => self.shared.ask_for_help(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Opens the folder, reads what is new in it, and counts the deaths of others. False: not all of it.
    fn look_at_all(&self, haste: Haste<'_>, interrupted: &dyn Fn() -> bool) -> Result<bool, OpenError> {
        let folder = match self.parent.open().and_then(|_| self.folder()) {
            Ok(folder) => folder,
            Err(error) if error.is_for_now() => return Ok(false),
            // There is nothing to read, then.
            Err(OpenError::NotCreated { .. }) if self.parent.is_open() => return Ok(true),
            Err(error) => return Err(error),
        };
        let complete = match self.view.look(&folder, &self.identity, haste) {
            Some(Ok(found)) => {
                let complete = !found.put_off;
                self.take_in(found);
                complete
            }
            // What cannot be read for now may say that a driver died of an artifact.
            Some(Err(error)) if is_for_now(&error) => false,
            Some(Err(source)) => {
                return Err(OpenError::Unreadable { path: folder.path().to_owned(), source });
            }
            None => false,
        };
        let damaged = || self.shared.tallies.damaged(1);
        Ok(complete
            && self.view.catch_up(&DamagedIndex { damaged: &damaged, interrupted })
            && (!self.uncounted.load(Ordering::Relaxed) || self.count_deaths(interrupted)))
    }

    /// All of it has been read, and the deaths are counted.
    fn set_caught_up(&self) {
        self.uncounted.store(false, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.view.set_caught_up();
        // It may hold records back that are to be compared with what was read.
        self.shared.writer.unpark();
    }

    /// The part cannot be used in this process, and nobody waits to be told.
    fn refuse(&self, error: &OpenError) {
        tracing::warn!("nothing is stashed from now on: {error}");
        self.shared.tallies.set_unusable(error.to_string());
        self.refused.store(true, Ordering::Release);
    }

    /// There is more than a thread of the program has time for.
    fn fall_behind(&self) {
        if !self.view.is_behind() {
            self.view.fall_behind();
            self.shared.ask_for_help();
        }
    }

    /// For the helper: looks at what the program could not wait for, and lets go of what nobody asks any more.
    pub(crate) fn catch_up(&self, interrupted: &dyn Fn() -> bool) {
        self.index.forget_segments(&std::mem::take(&mut *lock(&self.left)));
        // The thread that opens it asks for help where it needs some.
        if !self.view.is_behind() || self.is_opening() || self.is_refused() {
            return;
        }
        match self.look_at_all(Haste::Unless(interrupted), interrupted) {
            Ok(true) => self.set_caught_up(),
            // A folder that cannot be listed is tried again too: its disk may come back.
            Err(error) if self.folder.get().is_none() => self.refuse(&error),
            Ok(false) | Err(_) => {
                let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                self.shared.ask_for_help_later(failures);
            }
        }
    }

    /// Whether a thread is still about to open it.
    pub(crate) fn is_opening(&self) -> bool {
        self.opening.load(Ordering::Acquire)
    }

    /// Whether it turned out to be unusable after the program stopped waiting for it.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Whether records are to be held back until all is read that they have to be compared with.
    pub(crate) fn holds_back(&self) -> bool {
        self.view.is_behind() && !self.is_refused() && self.failures.load(Ordering::Relaxed) < TRIES
    }

    /// For the writer at the end: what could not be read by now is not waited for.
    pub(crate) fn stop_holding_back(&self) {
        self.failures.store(TRIES, Ordering::Relaxed);
    }

    /// Whether there may be records that this process has not seen: a miss says nothing then.
    pub fn is_incomplete(&self) -> bool {
        self.view.is_behind()
    }

    /// For the writer: whether a record that was queued before all was read is there already. Of what its key determines,
    /// or the driver has made twice, the older one stays.
    pub(crate) fn has_already(&self, slot: &Slot, payload: &Payload) -> bool {
        match slot.kind {
            Kind::Use => false,
            Kind::Module
            | Kind::Layout
            | Kind::RenderPass
            | Kind::Recipe
            | Kind::Setup
            | Kind::Proven
            | Kind::Same => self.supersedes(slot),
            Kind::Artifact => self.supersedes(slot) || self.is_same_there(&slot.key),
            Kind::IdentifierPair | Kind::Deaths | Kind::Failed => {
                let (mut buffer, mut newest) = (Vec::new(), None);
                self.find(slot.kind, &slot.key, |segment, row| {
                    let good = segment.read_row(row, &slot.key, &mut buffer) == Read::Good;
                    newest = good.then(|| buffer == *payload.0);
                    good
                });
                newest == Some(true)
            }
        }
    }

    /// The writer writes to this part.
    pub(crate) fn set_written(&self) {
        self.written.store(true, Ordering::Relaxed);
        self.shared.ask_for_help();
    }

    /// Whoever writes to a part seals what dead writers have left there.
    pub(crate) fn seal_orphans(&self, interrupted: &dyn Fn() -> bool) {
        let Some(folder) = self.folder.get().filter(|_| self.written.load(Ordering::Relaxed)) else { return };
        self.view.seal_orphans(folder, &self.identity, interrupted);
    }

    /// What processes that are dead by now have left in flight. It counts before anything is handed out again. Nobody
    /// waits for the disk: the files, and their locks, stay until the writer has written the deaths. False: nothing is
    /// counted, the files could not be listed or `interrupted` said true.
    pub(crate) fn count_deaths(&self, interrupted: &dyn Fn() -> bool) -> bool {
        let (Some(folder), PartIdentity::Device(_)) = (self.folder.get(), &self.identity) else {
            return true;
        };
        let Some(left) = guard::left_behind(folder, interrupted) else { return false };
        self.careful.store(!left.is_empty(), Ordering::Relaxed);
        // Held until all are in it: the writer may have written the first of them by then.
        let mut counted = lock(&self.counted);
        for mut left in left {
            left.keys.retain(|key| !self.is_there(Kind::Proven, key));
            for key in &left.keys {
                let deaths = self.deaths(key).saturating_add(1);
                tracing::warn!("a process died while the driver looked at an artifact ({})", hex(&key[..8]));
                self.put(Kind::Deaths, key, Box::new([deaths]));
            }
            if left.keys.is_empty() {
                left.remove(folder);
            } else {
                counted.push(left);
            }
        }
        true
    }

    /// For the writer, which has written a death of each of these: removes the files of which all deaths are on the disk.
    /// The others stay, for the next process to count.
    pub(crate) fn deaths_are_written<'a>(&self, written: impl Iterator<Item = &'a Key>) {
        let mut written = written.peekable();
        let Some(folder) = self.folder.get().filter(|_| written.peek().is_some()) else { return };
        let mut counted = lock(&self.counted);
        for key in written {
            // They are written in the order in which they were counted.
            if let Some(left) = counted.iter_mut().find(|left| left.keys.contains(key)) {
                left.keys.retain(|other| other != key);
            }
        }
        counted.retain_mut(|left| {
            left.keys.retain(|key| !self.is_there(Kind::Proven, key));
            if left.keys.is_empty() {
                left.remove(folder);
            }
            !left.keys.is_empty()
        });
    }

    /// How many processes died of an artifact.
    pub fn deaths(&self, key: &Key) -> u8 {
        let mut buffer = Vec::new();
        let known = self.has_any(Kind::Deaths) && self.read_known(Kind::Deaths, key, &mut buffer);
        if known { buffer.first().copied().unwrap_or(0) } else { 0 }
    }

    /// Whether too many processes died of the artifact of this key, or of the same data under the key that its reference
    /// names: then only a driver that has taken it under this key gets it again.
    fn is_quarantined(&self, key: &Key) -> bool {
        if !self.has_any(Kind::Deaths) {
            return false;
        }
        let named =
            || self.same_of(key, &mut Vec::new()).filter(|_| !self.is_itself_there(Kind::Artifact, key));
        self.deaths(key) >= DEATHS_LIMIT
            || named().is_some_and(|same| {
                self.deaths(&same.target) >= DEATHS_LIMIT && !self.is_there(Kind::Proven, key)
            })
    }

    /// Before an artifact is handed to the driver.
    pub fn hand_out(&self, key: &Key) -> Handing<'_> {
        if self.is_quarantined(key) {
            return Handing::Quarantined;
        }
        if self.view.is_behind() && !self.is_there(Kind::Proven, key) {
            return Handing::NotYet;
        }
        let careful = self.careful.load(Ordering::Relaxed);
        if !careful && self.guard.get().is_some() || self.is_there(Kind::Proven, key) {
            return Handing::Yes(None);
        }
        // The file's existence tells the next process that this one handed out unproven artifacts.
        let guard = self.guard.get_or_init(|| {
            let folder = self.folder.get().filter(|_| self.shared.is_open() && !self.shared.is_leaving())?;
            // A part that cannot be written is read without a guard.
            Guard::create(folder, self.shared.process()).ok()
        });
        let mine = guard.as_ref().filter(|guard| careful && guard.process() == fork::now());
        Handing::Yes(mine.and_then(|guard| guard.enter(key)).map(Marked))
    }

    /// For the writer: the driver has taken the artifact of this key.
    pub(crate) fn prove(&self, key: &Key) {
        if !self.stamped.swap(true, Ordering::Relaxed) {
            // A part that serves all and is never written to is in use all the same.
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let stamps = Timestamps { last_access: now, last_modification: now };
            let _ = self.folder.get().map(|folder| disk::futimens(&**folder, &stamps));
        }
        if !self.is_there(Kind::Proven, key) {
            self.enqueue(Kind::Proven, key, Box::default());
        }
    }

    /// Whether this process has handed out what no driver had taken.
    pub(crate) fn has_guard(&self) -> bool {
        matches!(self.guard.get(), Some(Some(_)))
    }

    /// For the writer. The process ends in order: nothing that is with the driver now kills it.
    pub(crate) fn ends_in_order(&self) {
        if let Some(Some(guard)) = self.guard.get().filter(|_| !self.shared.is_inert()) {
            guard.remove();
        }
    }

    fn take_in(&self, found: Found) {
        self.newest.fetch_max(found.newest, Ordering::Relaxed);
        self.shared.tallies.damaged(found.damaged);
        found.refused.iter().for_each(|refusal| self.shared.tallies.refused(refusal));
        for (segment, entries) in found.appended {
            for entry in entries {
                let Some(kind) = Kind::from_number(entry.kind) else { continue };
                if Codec::from_number(entry.codec).is_some() {
                    let place = Place::Disk(Location::new(&segment, &entry));
                    self.index.insert(Slot { kind, key: entry.key }, place);
                }
            }
        }
        if !found.left.is_empty() {
            lock(&self.left).extend(found.left);
            self.shared.ask_for_help();
        }
        if found.put_off {
            self.fall_behind();
        }
    }

    /// After a miss, and not more often than every 100 ms: what others have written since. True: it is worth trying
    /// again.
    fn look_again(&self) -> bool {
        if self.view.is_behind() || !self.view.is_due(self.shared.now_ms()) || self.shared.is_inert() {
            return false;
        }
        self.look(Haste::Within(self.shared.haste.look))
    }

    fn look(&self, haste: Haste<'_>) -> bool {
        let Some(folder) = self.folder.get() else { return false };
        match self.view.look(folder, &self.identity, haste) {
            Some(Ok(found)) => {
                self.take_in(found);
                true
            }
            // Not readable for now: nothing is new.
            Some(Err(_)) | None => false,
        }
    }

    /// Files were merged: what is gone is let go.
    pub(crate) fn look_after_merging(&self, interrupted: &dyn Fn() -> bool) {
        self.look(Haste::Unless(interrupted));
    }

    /// Calls `each` on what the segments' tables have of a record, the newest first, until it says true.
    fn find(&self, kind: Kind, key: &Key, each: impl FnMut(&Arc<Segment>, &Row) -> bool) -> bool {
        self.find_among(kind, key, |_| true, each)
    }

    /// The same in those segments that are `wanted`.
    fn find_among(
        &self,
        kind: Kind,
        key: &Key,
        wanted: impl Fn(&Segment) -> bool,
        mut each: impl FnMut(&Arc<Segment>, &Row) -> bool,
    ) -> bool {
        let code = kind.position() as u8;
        let hash = table::hash(code, key);
        let damaged = || self.shared.tallies.damaged(1);
        let timer = OnceCell::new();
        self.view.segments().iter().filter(|segment| wanted(segment)).any(|segment| {
            let interrupted = || {
                let start = || Timer::of(self.shared.haste.look);
                let over = segment.is_put_off() || timer.get_or_init(start).is_over();
                if over {
                    self.fall_behind();
                }
                over
            };
            segment.find(hash, &DamagedIndex { damaged: &damaged, interrupted: &interrupted }, |row| {
                row.code == code
                    && row.is_readable()
                    && !self.view.is_lost(segment, row.offset)
                    && each(segment, &row)
            })
        })
    }

    /// Whether a record is there (on disk or queued). Lock-free.
    pub fn contains(&self, kind: Kind, key: &Key) -> bool {
        self.is_there(kind, key) || self.look_again() && self.is_there(kind, key)
    }

    fn is_there(&self, kind: Kind, key: &Key) -> bool {
        self.is_itself_there(kind, key) || kind == Kind::Artifact && self.is_same_there(key)
    }

    #[cold]
    fn is_same_there(&self, key: &Key) -> bool {
        self.same_of(key, &mut Vec::new())
            .is_some_and(|same| self.is_itself_there(Kind::Artifact, &same.target))
    }

    /// Without following references.
    fn is_itself_there(&self, kind: Kind, key: &Key) -> bool {
        self.index.with(&Slot { kind, key: *key }, |_| ()).is_some() || self.find(kind, key, |_, _| true)
    }

    /// Reads the newest record of that kind and key into `buffer` (cleared first) and verifies its checksum; in place of an
    /// artifact whose data another one has, that data, whose digest is verified too. False: not there, or damaged (which
    /// is counted, and the record forgotten).
    pub fn read(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.read_known(kind, key, buffer) || self.look_again() && self.read_known(kind, key, buffer)
    }

    fn read_known(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        self.read_itself(kind, key, buffer) || kind == Kind::Artifact && self.read_same(key, buffer)
    }

    /// An artifact that is stored as a reference to another one's data.
    #[cold]
    fn read_same(&self, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let Some(same) = self.same_of(key, buffer) else { return false };
        let complete =
            self.read_itself(Kind::Artifact, &same.target, buffer) && self.digests.complete(&same, buffer);
        if !complete {
            buffer.clear();
        }
        complete
    }

    /// The reference that stands for the artifact of this key. `buffer` holds anything afterwards.
    fn same_of(&self, key: &Key, buffer: &mut Vec<u8>) -> Option<Same> {
        if !self.has_any(Kind::Same) {
            return None;
        }
        self.read_itself(Kind::Same, key, buffer).then(|| Same::decode(buffer)).flatten()
    }

    /// For the writer, which is about to write a record: whether an older one of the same kind and key stands in a file.
    pub(crate) fn supersedes(&self, slot: &Slot) -> bool {
        self.index.with(slot, |entry| entry.older.is_some()) == Some(true)
            || self.find(slot.kind, &slot.key, |_, _| true)
    }

    /// Whether it is the part of a device header.
    pub(crate) fn is_of_a_device(&self) -> bool {
        matches!(self.identity, PartIdentity::Device(_))
    }

    /// [`Part::read`] of what was found so far, without following references.
    pub(crate) fn read_itself(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let slot = Slot { kind, key: *key };
        buffer.clear();
        // Twice at most: the newest record, then the one that it superseded.
        for _ in 0..2 {
            let outcome = self.index.with(&slot, |entry| match &entry.place {
                Place::Queued(payload) => {
                    if !memory::reserve(buffer, payload.0.len()) {
                        return (Read::Failed, None);
                    }
                    buffer.extend_from_slice(&payload.0);
                    (Read::Good, None)
                }
                Place::Disk(location) => match location.read(key, buffer) {
                    lost @ (Read::Damaged | Read::Gone) => (lost, Some(location.clone())),
                    other => (other, None),
                },
            });
            match outcome {
                Some((Read::Good, _)) => return true,
                Some((Read::Gone, Some(location))) => {
                    self.index.damaged(slot, &location);
                }
                Some((_, Some(location))) => self.forget(slot, &location),
                _ => break,
            }
        }
        let of_this_kind = |segment: &Segment| kind != Kind::Same || has_any_in(segment, kind);
        self.find_among(kind, key, of_this_kind, |segment, row| match segment.read_row(row, key, buffer) {
            Read::Good => true,
            Read::Damaged => {
                if self.view.lose(segment, row.offset) {
                    self.shared.tallies.damaged(1);
                }
                false
            }
            Read::Gone => {
                // Merged into another: that is to be found now.
                self.view.hurry();
                false
            }
            Read::Other | Read::Failed => false,
        })
    }

    fn forget(&self, slot: Slot, location: &Location) {
        if self.index.damaged(slot, location) {
            self.shared.tallies.damaged(1);
        }
    }

    /// Queues a record for the writer. It can be read at once. False: dropped (queue full, disk full, no
    /// writer), which is counted. Never blocks on the disk.
    pub fn put(&self, kind: Kind, key: &Key, payload: Box<[u8]>) -> bool {
        if !self.shared.is_open() {
            self.shared.tallies.dropped(1);
            return false;
        }
        let queued = self.enqueue(kind, key, payload);
        if queued {
            self.shared.wake_for_records();
        }
        queued
    }

    /// [`Part::put`] without seeing to it that somebody writes; the writer itself also calls it while the stash
    /// closes.
    pub(crate) fn enqueue(&self, kind: Kind, key: &Key, payload: Box<[u8]>) -> bool {
        if payload.len() > MAX_PAYLOAD as usize
            || self.is_refused()
            || !self.accepts()
            || !self.shared.reserve(payload.len())
        {
            self.shared.tallies.dropped(1);
            return false;
        }
        // Whoever called us holds the part.
        let Some(part) = self.me.upgrade() else { return false };
        let payload = Arc::new(Payload(payload));
        let slot = Slot { kind, key: *key };
        let unseen = self.view.is_behind() && !self.is_itself_there(kind, key);
        self.index.insert(slot, Place::Queued(payload.clone()));
        self.shared.push(Pending { part, slot, payload, since: Some(Instant::now()), unseen });
        true
    }

    /// Whether the last write to this part succeeded, or was long enough ago.
    fn accepts(&self) -> bool {
        let until = self.closed_until.load(Ordering::Relaxed);
        until == 0 || self.shared.now_ms() >= until
    }

    /// A write failed: nothing more is taken for a while.
    pub(crate) fn close_for_a_while(&self) {
        let until = self.shared.now_ms() + RETRY_AFTER.as_millis() as u64;
        self.closed_until.store(until, Ordering::Relaxed);
    }

    /// A write succeeded.
    pub(crate) fn reopen(&self) {
        self.closed_until.store(0, Ordering::Relaxed);
    }

    /// Whether this call is the first in this run to note a use of the key.
    pub(crate) fn note(&self, key: &Key) -> bool {
        let hash = table::hash(0, key);
        let noted = self.noted.pin();
        // Read before writing: the line stays shared between the cores once the use is noted.
        !noted.contains(&hash) && noted.insert(hash)
    }

    /// Takes [`Part::note`] back.
    pub(crate) fn unnote(&self, key: &Key) {
        self.noted.pin().remove(&table::hash(0, key));
    }

    /// Calls `each` for every record of that kind, with verified payload. It reads all of them.
    pub fn for_each(&self, kind: Kind, each: &mut dyn FnMut(&Key, &[u8])) {
        let code = kind.position() as u8;
        let own = self.index.all(kind);
        let damaged = || self.shared.tallies.damaged(1);
        let mut seen: HashSet<u64> = own.iter().map(|(key, _)| table::hash(code, key)).collect();
        let mut there = Vec::new();
        for segment in self.view.segments().iter() {
            let mut rows = segment.rows(&DamagedIndex { damaged: &damaged, interrupted: &never });
            rows.retain(|row| {
                row.code == code && row.is_readable() && !self.view.is_lost(segment, row.offset)
            });
            rows.sort_unstable_by_key(|row| Reverse(row.offset));
            rows.retain(|row| seen.insert(row.hash));
            there.extend(rows.into_iter().map(|row| (segment.clone(), row)));
        }
        // In the order of the disk.
        there.sort_by(|(one, row), (other, other_row)| {
            (one.name(), row.offset).cmp(&(other.name(), other_row.offset))
        });
        let mut buffer = Vec::new();
        for (segment, row) in there {
            let Some(head) = segment.head_at(row.offset) else {
                if self.view.lose(&segment, row.offset) {
                    self.shared.tallies.damaged(1);
                }
                continue;
            };
            if self.read_known(kind, &head.key, &mut buffer) {
                each(&head.key, &buffer);
            }
        }
        let place = |place: &Place| match place {
            Place::Disk(location) => (0, location.segment.name().to_owned(), location.offset),
            Place::Queued(_) => (1, String::new(), 0),
        };
        let mut own = own;
        own.sort_by_cached_key(|(_, at)| place(at));
        for (key, _) in own {
            if self.read_known(kind, &key, &mut buffer) {
                each(&key, &buffer);
            }
        }
    }

    /// How many records of that kind there are. It looks at all of them.
    pub fn len(&self, kind: Kind) -> usize {
        let code = kind.position() as u8;
        let damaged = || self.shared.tallies.damaged(1);
        let mut seen: HashSet<u64> =
            self.index.all(kind).iter().map(|(key, _)| table::hash(code, key)).collect();
        for segment in self.view.segments().iter() {
            let rows = segment.rows(&DamagedIndex { damaged: &damaged, interrupted: &never }).into_iter();
            let mine = rows.filter(|row| row.code == code && !self.view.is_lost(segment, row.offset));
            seen.extend(mine.map(|row| row.hash));
        }
        seen.len()
    }

    /// Whether there may be a record of that kind: false is certain.
    pub fn has_any(&self, kind: Kind) -> bool {
        self.index.len(kind) > 0 || self.view.segments().iter().any(|segment| has_any_in(segment, kind))
    }

    /// Whether there is no record of any kind.
    pub fn is_empty(&self) -> bool {
        !Kind::ALL.iter().any(|&kind| self.has_any(kind))
    }

    /// The part's name: hexadecimal digest of the device header; "portable" for the portable part.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its files' headers say.
    pub(crate) fn identity(&self) -> &PartIdentity {
        &self.identity
    }

    /// The writer has sealed a segment and goes on with another one.
    pub(crate) fn replace_sealed(&self, written: &Arc<Segment>) {
        let Ok(folder) = self.folder() else { return };
        // As it is it stays in the map.
        let Ok(loaded) = load::load(&folder, written.name(), Some(&self.identity)) else { return };
        if loaded.state == State::Sealed {
            self.view.add_sealed(loaded.segment);
            self.index.forget_segments(std::slice::from_ref(written));
        }
    }

    /// The segments, for the writer.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// The map of its records, for the writer.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// The age to give to a new segment: names must sort in the order of writing even where the clock stands
    /// still or was set back.
    pub(crate) fn next_age(&self) -> u64 {
        let next = unix_ms().max(self.newest.load(Ordering::Relaxed).saturating_add(1));
        self.newest.store(next, Ordering::Relaxed);
        next
    }

    /// Its folder, opened or made now if that was not possible before.
    pub(crate) fn folder(&self) -> Result<Arc<Folder>, OpenError> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.clone());
        }
        let folder = Arc::new(self.parent.open()?.folder.sub(&self.folder_name, true)?);
        Ok(self.folder.get_or_init(|| folder).clone())
    }
}

/// Whether a segment's own table has records of that kind.
fn has_any_in(segment: &Segment, kind: Kind) -> bool {
    segment.tally().counts[kind.position()] > 0
}
