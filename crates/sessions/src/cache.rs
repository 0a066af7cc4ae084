//! One cache, which all sessions with its identifier share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops;
use vkstash_host::forks;
use vkstash_store::settings::{self, CacheKinds};

use crate::clock::coarse_ms;
use crate::counts;
use crate::description::{Limits, MAX_KEY, Place};
use crate::disk::files::{Answer, Files, Location, Stored};
use crate::error::Error;
use crate::front::Front;
use crate::switch;

/// The file that disables the caches of an application.
pub(crate) const DISABLED: &str = "disabled";
/// How often a cache looks for what other processes have changed, in milliseconds.
const LOOK_AFTER: u64 = 100;
/// How often a cache that has nothing in the stash looks whether the settings disable it: the disk of the settings may
/// be slow.
const LOOK_AT_SETTINGS_AFTER: u64 = 2_000;

/// The answer to a call that comes too late.
const CLOSED: Error = Error::NotCurrentlyAvailable("the session is destroyed");

/// The hash of a key. Tests have one with collisions.
pub(crate) type Hash = fn(&[u8]) -> u64;

/// Entries in memory and, unless the cache is in memory alone, on disk.
pub(crate) struct Cache {
    /// In [`forks::now`].
    process: u32,
    /// Largest length of the value file, in bytes: that of the session that asked for the largest.
    most_file: AtomicU64,
    hash: Hash,
    front: Front,
    is_on_disk: bool,
    /// The program's stash, whose settings say whether sessions are disabled. None: there is none.
    place: Option<Place>,
    /// None: the cache is in memory alone, or closed. A call that began before closes them at its end.
    files: ArcSwapOption<Files>,
    /// The files are deleted with the last session.
    deletes: AtomicBool,
    /// When the cache last looked for changes, in milliseconds of a clock that costs nothing.
    looked: AtomicU64,
    /// When the cache last looked at the settings, in milliseconds of that clock, if it has nothing in the stash.
    looked_at_settings: AtomicU64,
    /// Another process, or the user, has disabled the application's caches.
    disabled: AtomicBool,
}

/// Whether the caches in this folder are disabled.
pub(crate) fn is_disabled_in(folder: &Folder) -> bool {
    ops::statat(folder, DISABLED).is_ok()
}

/// [`is_disabled_in`], or by the settings of the stash.
pub(crate) fn is_disabled(place: &Place, folder: &Folder) -> bool {
    is_disabled_in(folder) || is_disabled_by_settings(place)
}

/// Whether the settings of the stash disable sessions.
pub(crate) fn is_disabled_by_settings(place: &Place) -> bool {
    settings::disabled_caches(place.root(), place.application()).has(CacheKinds::SESSIONS)
}

/// Hands a value over if there is room for it. Returns its length.
fn deliver(value: &[u8], room: Option<usize>, take: impl FnOnce(&[u8])) -> Result<usize, Error> {
    let needed = value.len();
    match room {
        Some(room) if room < needed => return Err(Error::BufferTooSmall { needed }),
        Some(_) => take(value),
        None => {}
    }
    Ok(needed)
}

impl Cache {
    pub(crate) fn new(hash: Hash, limits: Limits, files: Option<Files>, place: Option<Place>) -> Cache {
        let front = Front::new(&limits);
        if let Some(files) = &files {
            front.clear(files.number());
        }
        Cache {
            process: forks::here(),
            most_file: AtomicU64::new(limits.file),
            hash,
            front,
            is_on_disk: files.is_some(),
            place,
            files: ArcSwapOption::from_pointee(files),
            deletes: AtomicBool::new(false),
            looked: AtomicU64::new(coarse_ms()),
            looked_at_settings: AtomicU64::new(coarse_ms()),
            disabled: AtomicBool::new(false),
        }
    }

    /// Whether this process has opened it, and not its parent.
    pub(crate) fn is_ours(&self) -> bool {
        forks::now() == self.process
    }

    /// A session with these limits shares the cache: the larger ones count.
    pub(crate) fn allow(&self, limits: &Limits) {
        self.most_file.fetch_max(limits.file, Ordering::Relaxed);
        self.front.allow(limits);
    }

    /// An error while sessions are disabled, or if the cache belongs to another process.
    pub(crate) fn available(&self) -> Result<(), Error> {
        if !self.is_ours() {
            return Err(Error::NotCurrentlyAvailable("the session belongs to the parent process"));
        }
        self.look_for_changes();
        if switch::is_off() || self.disabled.load(Ordering::Relaxed) { Err(switch::answer()) } else { Ok(()) }
    }

    fn look_for_changes(&self) {
        if !self.is_on_disk && self.place.is_none() {
            return;
        }
        let (now, before) = (coarse_ms(), self.looked.load(Ordering::Relaxed));
        let is_time = now.wrapping_sub(before) >= LOOK_AFTER;
        let relaxed = Ordering::Relaxed;
        if is_time && self.looked.compare_exchange(before, now, relaxed, relaxed).is_ok() {
            self.look_now(now, self.files.load().as_deref());
        }
    }

    /// The files of a cache on disk.
    fn open_files(&self) -> Result<Arc<Files>, Error> {
        self.files.load_full().ok_or(CLOSED)
    }

    fn look_now(&self, now: u64, files: Option<&Files>) {
        let relaxed = Ordering::Relaxed;
        if let Some(Location::Stash { folder, place, .. }) = files.map(Files::location) {
            self.disabled.store(is_disabled(place, folder), relaxed);
        } else if now.wrapping_sub(self.looked_at_settings.load(relaxed)) >= LOOK_AT_SETTINGS_AFTER {
            self.looked_at_settings.store(now, relaxed);
            let is_disabled = self.place.as_ref().is_some_and(is_disabled_by_settings);
            self.disabled.store(is_disabled, relaxed);
        }
        let Some(files) = files else { return };
        files.look_for_others();
        self.front.follow(files.number());
    }

    /// Calls `take` with the value of a key, if it is at most `room` bytes long. Returns its length. Without `room`
    /// only the length is asked for.
    pub(crate) fn find(
        &self,
        key: &[u8],
        room: Option<usize>,
        take: impl FnOnce(&[u8]),
    ) -> Result<usize, Error> {
        let found = self.find_uncounted(key, room, take);
        match &found {
            Ok(_) if room.is_some() => counts::delivered(),
            Err(Error::NotFound | Error::HashCollision | Error::Damaged(_)) => counts::missed(),
            _ => {}
        }
        found
    }

    fn find_uncounted(
        &self,
        key: &[u8],
        room: Option<usize>,
        take: impl FnOnce(&[u8]),
    ) -> Result<usize, Error> {
        check_key(key)?;
        self.available()?;
        let hash = (self.hash)(key);
        let mut take = Some(take);
        let mut deliver = |value: &[u8]| match take.take() {
            Some(take) => deliver(value, room, take),
            None => Ok(value.len()),
        };
        if let Some(found) = self.front.find(hash, key, &mut deliver) {
            return found;
        }
        if !self.is_on_disk {
            return Err(Error::NotFound);
        }
        // Without a count of references, which threads would share.
        let files = self.files.load();
        let files = files.as_deref().ok_or(CLOSED)?;
        let wants_value =
            |length| room.is_some_and(|room| length <= room) || self.front.has_room_for(key.len() + length);
        let found = files.find(hash, key, wants_value, |number, found| match (found, room) {
            (Answer::Value(value), _) => {
                // A program that asks for the length asks for the value next.
                if room.is_none() || self.front.is_found_again(hash) {
                    self.front.insert(number, hash, key, value);
                }
                deliver(value)
            }
            (Answer::Length(needed), Some(_)) => Err(Error::BufferTooSmall { needed }),
            (Answer::Length(length), None) => Ok(length),
        });
        if matches!(found, Err(Error::NotFound)) {
            self.front.follow(files.number());
        }
        found?
    }

    /// Adds an entry.
    pub(crate) fn store(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        check_key(key)?;
        if value.is_empty() {
            return Err(Error::InvalidArgument("the value is empty"));
        }
        self.available()?;
        let hash = (self.hash)(key);
        if !self.is_on_disk {
            return self.front.store(hash, key, value);
        }
        let files = self.open_files()?;
        let (number, stored) = files.store(hash, key, value, self.most_file.load(Ordering::Relaxed))?;
        self.front.follow(number);
        if stored == Stored::Replaced {
            self.front.forget(hash);
        }
        self.front.insert(number, hash, key, value);
        Ok(())
    }

    /// Whether a value of that length can be stored at all. Asked before a byte of it is read.
    pub(crate) fn check_length(&self, key: usize, value: usize) -> Result<(), Error> {
        let most = match self.is_on_disk {
            true => self.most_file.load(Ordering::Relaxed),
            false => self.front.most_bytes() as u64,
        };
        let size = (key as u64).saturating_add(value as u64);
        if size > most { Err(Error::CacheFull) } else { Ok(()) }
    }

    /// Removes all entries, also of the processes that have the cache open.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        if !self.is_ours() {
            return Err(Error::NotCurrentlyAvailable("the session belongs to the parent process"));
        }
        if !self.is_on_disk {
            self.front.clear(0);
            return Ok(());
        }
        let files = self.open_files()?;
        files.clear()?;
        self.front.clear(files.number());
        Ok(())
    }

    pub(crate) fn set_delete_on_destroy(&self) {
        self.deletes.store(true, Ordering::Relaxed);
    }

    /// The last session of this process is gone: closes the files, even if other processes have sessions.
    pub(crate) fn close(&self) {
        if !self.is_ours() {
            return;
        }
        if let Some(files) = self.files.swap(None) {
            files.close(self.deletes.load(Ordering::Relaxed));
        }
    }
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    match key.len() {
        0 => Err(Error::InvalidArgument("the key is empty")),
        length if length > MAX_KEY => Err(Error::InvalidArgument("the key is too long")),
        _ => Ok(()),
    }
}
