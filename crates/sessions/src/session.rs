//! Sessions: what a program holds of a cache.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::forks::PerProcess;
use vkstash_host::sync::Mutex;
use vkstash_store::home::Home;

use crate::cache::{Cache, Hash, is_disabled, is_disabled_by_settings};
use crate::description::{Adapter, Description, Limits, MAX_KEY, Mode, Place};
use crate::disk::files::{Files, Location, Versions};
use crate::disk::names::Names;
use crate::error::{Error, Other};
use crate::format::{self, Identity};
use crate::switch;

/// The folder of an application's caches.
const FOLDER: &str = "sessions";

/// A cache that this process has open.
pub(crate) struct Entry {
    /// Of the session that has opened it.
    description: Description,
    place: Option<Place>,
    /// What the files' names begin with.
    base: String,
    driver: [u8; 32],
    sessions: usize,
    cache: Arc<Cache>,
}

impl Entry {
    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Whether the cache has the files that begin with `base` in the stash.
    pub(crate) fn has_files(&self, place: &Place, base: &str) -> bool {
        let is_in_stash = self.description.mode == Mode::Disk && !self.description.working_directory;
        is_in_stash && self.place.as_ref() == Some(place) && self.base == base
    }
}

/// All caches that this process has open. A forked child has none.
pub(crate) static OPEN: PerProcess<Mutex<Vec<Entry>>> = PerProcess::empty();

/// A session. Dropping it destroys it.
pub struct Session {
    description: Description,
    cache: Arc<Cache>,
    destroyed: AtomicBool,
}

/// The folder of the caches of an application, created if it is missing.
pub(crate) fn stash_of(place: &Place) -> Result<Location, Error> {
    let home = Home::new(place.root(), place.application());
    let folder = home.open()?.folder.sub(FOLDER, true)?;
    Ok(Location::Stash { folder, place: place.clone(), _home: Box::new(home) })
}

/// [`stash_of`] if it is there.
pub(crate) fn existing(place: &Place) -> Result<Option<Folder>, Error> {
    let is_missing = |error: &OpenError| match error {
        OpenError::Unreadable { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    };
    let root = Folder::root(place.root(), false);
    let application = root.and_then(|root| root.sub(place.application(), false));
    match application.and_then(|application| application.sub(FOLDER, false)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Session {
    /// Creates a session, and opens or creates its cache unless this process has it open.
    ///
    /// `place` is the stash of the program; None: there is none, so that a disk cache can only be in the working
    /// directory. `adapter` is needed for a driver-versioned cache.
    pub fn create(
        description: &Description,
        place: Option<&Place>,
        adapter: Option<&Adapter>,
    ) -> Result<Session, Error> {
        Session::create_with(description, place, adapter, format::hash)
    }

    /// [`Session::create`] with this hash.
    pub(crate) fn create_with(
        description: &Description,
        place: Option<&Place>,
        adapter: Option<&Adapter>,
        hash: Hash,
    ) -> Result<Session, Error> {
        if switch::is_off() {
            return Err(switch::answer());
        }
        let adapter = match (description.driver_versioned, adapter) {
            (false, _) => None,
            (true, Some(adapter)) => Some(adapter),
            (true, None) => return Err(Error::InvalidArgument("a driver-versioned cache needs an adapter")),
        };
        let driver = adapter.map_or([0; 32], Adapter::digest);
        let mut base = description.identifier.text();
        if let Some(adapter) = adapter {
            base = format!("{base}-{}", adapter.short_digest());
        }
        let limits = Limits::of(description);
        let mut open = OPEN.get().lock();
        let same = |entry: &&mut Entry| {
            entry.description.identifier == description.identifier
                && is_same_stash(entry.place.as_ref(), place)
        };
        for entry in open.iter_mut().filter(same) {
            let (one, other) = (&entry.description, description);
            if one.mode != other.mode {
                return Err(Error::OpenWithOther(Other::Mode));
            }
            if (one.driver_versioned, one.working_directory)
                != (other.driver_versioned, other.working_directory)
            {
                return Err(Error::OpenWithOther(Other::Flags));
            }
            if entry.base == base {
                if (one.version, entry.driver) != (other.version, driver) {
                    return Err(Error::OpenWithOther(Other::Version));
                }
                entry.cache.available()?;
                entry.cache.allow(&limits);
                entry.sessions += 1;
                return Ok(Session::of(description, entry.cache.clone()));
            }
        }
        let is_in_stash = description.mode == Mode::Disk && !description.working_directory;
        // The stash's own folder is looked into when it is opened.
        if !is_in_stash && place.is_some_and(is_disabled_by_settings) {
            return Err(switch::answer());
        }
        let files = match description.mode {
            Mode::Memory => None,
            Mode::Disk => {
                let identity = Identity {
                    identifier: description.identifier.0,
                    version: description.version,
                    driver,
                    number: 0,
                };
                let location = location(description, place)?;
                Some(Files::open(location, Names::of(&base), identity, Versions::Own)?)
            }
        };
        let cache = Arc::new(Cache::new(hash, limits, files, place.cloned()));
        let (description, place) = (description.clone(), place.cloned());
        let session = Session::of(&description, cache.clone());
        open.push(Entry { description, place, base, driver, sessions: 1, cache });
        Ok(session)
    }

    fn of(description: &Description, cache: Arc<Cache>) -> Session {
        Session { description: description.clone(), cache, destroyed: AtomicBool::new(false) }
    }

    fn live(&self) -> Result<&Cache, Error> {
        match self.destroyed.load(Ordering::Acquire) {
            false => Ok(&self.cache),
            true => Err(Error::NotCurrentlyAvailable("the session is destroyed")),
        }
    }

    /// Copies the value of a key to the buffer. Without a buffer, only the length of the value is returned.
    ///
    /// After an error the content of the buffer is unchanged.
    pub fn find(&self, key: &[u8], buffer: Option<&mut [u8]>) -> Result<usize, Error> {
        match buffer {
            None => self.live()?.find(key, None, |_| ()),
            Some(buffer) => {
                let room = buffer.len();
                // There is room, as `take` is not called otherwise.
                let take = |value: &[u8]| {
                    if let Some(buffer) = buffer.get_mut(..value.len()) {
                        buffer.copy_from_slice(value);
                    }
                };
                self.live()?.find(key, Some(room), take)
            }
        }
    }

    /// [`Session::find`] for a buffer that is no slice: `take` is called with the value if it has at most `room` bytes.
    pub fn find_with(&self, key: &[u8], room: usize, take: impl FnOnce(&[u8])) -> Result<usize, Error> {
        self.live()?.find(key, Some(room), take)
    }

    /// Adds an entry. When this returns, the entry outlives the process.
    pub fn store(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.live()?.store(key, value)
    }

    /// What [`Session::find`] and, with a value, [`Session::store`] say of these lengths alone: for callers that must
    /// not read so many bytes.
    pub fn check_lengths(&self, key: usize, value: Option<usize>) -> Result<(), Error> {
        let cache = self.live()?;
        match (key, value) {
            (0, _) => Err(Error::InvalidArgument("the key is empty")),
            (key, _) if key > MAX_KEY => Err(Error::InvalidArgument("the key is too long")),
            (_, Some(0)) => Err(Error::InvalidArgument("the value is empty")),
            (key, Some(value)) => cache.check_length(key, value),
            (_, None) => Ok(()),
        }
    }

    /// The entries are deleted when the last session of the cache is destroyed.
    pub fn set_delete_on_destroy(&self) {
        self.cache.set_delete_on_destroy();
    }

    /// The description that the session was created with.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Removes all entries of this cache.
    #[cfg(test)]
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.live()?.clear()
    }

    /// What dropping the session does, for a session that other threads may be using: their calls end as they would
    /// have, later calls fail.
    pub fn destroy(&self) {
        if self.destroyed.swap(true, Ordering::AcqRel) || !self.cache.is_ours() {
            return;
        }
        let mut open = OPEN.get().lock();
        let Some(at) = open.iter().position(|entry| Arc::ptr_eq(&entry.cache, &self.cache)) else { return };
        let Some(entry) = open.get_mut(at) else { return };
        entry.sessions -= 1;
        if entry.sessions == 0 {
            let entry = open.swap_remove(at);
            // With the list locked: a thread that opens the cache again finds it closed.
            entry.cache.close();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// Whether caches of these places have files beside each other. The name of the application does not matter: the caches
/// of a process are told apart by their identifiers alone.
fn is_same_stash(one: Option<&Place>, other: Option<&Place>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.root() == other.root(),
        _ => true,
    }
}

fn location(description: &Description, place: Option<&Place>) -> Result<Location, Error> {
    if description.working_directory {
        return Ok(Location::Working(Folder::shared(Path::new("."), false)?));
    }
    let place = place.ok_or(Error::NotCurrentlyAvailable("there is no cache directory: set VKSTASH_DIR"))?;
    let location = stash_of(place)?;
    if is_disabled(place, location.folder()) { Err(switch::answer()) } else { Ok(location) }
}
