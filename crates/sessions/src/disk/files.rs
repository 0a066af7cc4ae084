//! A cache on disk.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{Folder, write_all_at};
use vkstash_host::disk::ops;
use vkstash_host::signals::Quiet;
use vkstash_host::sync::Mutex;
use vkstash_store::home::Home;

use crate::description::Place;
use crate::disk::index::Lookup;
use crate::disk::names::{self, Names};
use crate::disk::open::{self, Opened, Wanted};
use crate::disk::rewrite;
use crate::disk::state::{self, Found, State};
use crate::disk::values::Values;
use crate::error::Error;
use crate::format::{self, Bad, HEAD, Identity, MARK, MOST_BLOCKS, Slot};
use crate::locks::{self, Byte, Kind, LockGuard};
use crate::patience;
use crate::pin;
use crate::scratch;

pub(crate) use crate::disk::open::Versions;

/// How often a search starts again because the files have changed.
const ROUNDS: usize = 4;

/// The folder of a cache.
pub(crate) enum Location {
    /// In the stash.
    Stash {
        folder: Folder,
        place: Place,
        /// Keeps the application's folder open, so that no process removes it.
        _home: Box<Home>,
    },
    /// The working directory, as it was when the cache was opened.
    Working(Folder),
}

impl Location {
    pub(crate) fn folder(&self) -> &Folder {
        match self {
            Location::Stash { folder, .. } | Location::Working(folder) => folder,
        }
    }
}

/// The files of a cache, which this process has open.
pub(crate) struct Files {
    location: Location,
    names: Names,
    /// Number apart, what the files must have.
    identity: Identity,
    lock: Descriptor,
    state: ArcSwap<State>,
    writable: bool,
    /// Locked by the thread that changes the files: the locks of the lock file belong to the process.
    changing: Mutex<()>,
    /// [`open::cache_hash`].
    cache: u64,
}

/// What is known of a value.
pub(crate) enum Answer<'a> {
    Value(&'a [u8]),
    /// Only its length was asked for.
    Length(usize),
}

/// What a store has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    New,
    /// The damaged entry with this key is replaced.
    Replaced,
}

impl Files {
    pub(crate) fn open(
        location: Location,
        names: Names,
        identity: Identity,
        versions: Versions,
    ) -> Result<Files, Error> {
        let folder = location.folder();
        let cache = open::cache_hash(folder, &names)?;
        let is_stash = matches!(location, Location::Stash { .. });
        let wanted = Wanted { folder, names: &names, identity: &identity, versions, is_stash };
        let Opened { lock, state, writable } = open::open(&wanted)?;
        let identity = state.identity;
        let (state, changing) = (ArcSwap::from_pointee(state), Mutex::default());
        Ok(Files { location, names, identity, lock, state, writable, changing, cache })
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The number of the value file: another one means that the cache was cleared.
    pub(crate) fn number(&self) -> u64 {
        self.state.load().identity.number
    }

    /// Finds the value of a key, whole or only its length, as `wants_value` decides from the length. `deliver` gets the
    /// number of the value file too.
    pub(crate) fn find<R>(
        &self,
        hash: u64,
        key: &[u8],
        wants_value: impl Fn(usize) -> bool,
        deliver: impl FnOnce(u64, Answer<'_>) -> R,
    ) -> Result<R, Error> {
        let mut deliver = Some(deliver);
        let mut read = |state: &State, place: format::Place| {
            let mut deliver =
                |found: Answer<'_>| deliver.take().map(|deliver| deliver(state.identity.number, found));
            scratch::with(|buffer| {
                let length = (place.length as usize).saturating_sub(HEAD + key.len());
                if !wants_value(length) {
                    if let Some(length) = state.values.length_of(place, key, buffer)? {
                        return Ok(deliver(Answer::Length(length)));
                    }
                }
                match state.values.read(place, buffer)? {
                    Some(record) if record.hash != hash => Ok(None),
                    Some(record) if record.key == key => Ok(deliver(Answer::Value(record.value))),
                    Some(_) => Err(Error::HashCollision),
                    None => Ok(None),
                }
            })
        };
        let state = self.state.load();
        if let Some(place) = state.index.remembered(hash) {
            // What is remembered may have been replaced since, because it was damaged.
            if let Some(done) = read(&state, place)? {
                return Ok(done);
            }
        }
        drop(state);
        let (state, place) = self.look(self.state.load_full(), hash)?;
        read(&state, place.ok_or(Error::NotFound)?)?.ok_or(Error::Damaged("the entry"))
    }

    /// Searches the files, the newest ones if they were replaced. Returns these too.
    fn look(&self, mut state: Arc<State>, hash: u64) -> Result<(Arc<State>, Option<format::Place>), Error> {
        for _ in 0..ROUNDS {
            match state.index.look(hash) {
                Ok(Lookup::At(_, place)) => return Ok((state, Some(place))),
                Ok(Lookup::Nowhere(_)) => return Ok((state, None)),
                // An index that was replaced is empty.
                Ok(Lookup::Damaged) | Err(Error::Damaged(_)) => match self.newer(&state)? {
                    Some(newer) => state = newer,
                    None => state = self.repair(&state)?,
                },
                Err(error) => return Err(error),
            }
        }
        Err(Error::NotCurrentlyAvailable("the files change all the time"))
    }

    /// The files that have taken the place of `state`. None: none have, or none that can be used.
    fn newer(&self, state: &Arc<State>) -> Result<Option<Arc<State>>, Error> {
        let current = self.state.load_full();
        if !Arc::ptr_eq(&current, state) {
            return Ok(Some(current));
        }
        if names::is_named(self.location.folder(), &self.names.index, state.index.file()) {
            return Ok(None);
        }
        let loaded = state::load(self.location.folder(), &self.names, &self.identity, self.writable);
        let Ok(Some(newer)) = loaded else { return Ok(None) };
        Ok(Some(self.install(state, newer)))
    }

    /// Makes a newer state the current one, unless another thread has found one.
    fn install(&self, old: &Arc<State>, newer: State) -> Arc<State> {
        let newer = Arc::new(newer);
        let before = self.state.compare_and_swap(old, newer.clone());
        if Arc::ptr_eq(&before, old) { newer } else { self.state.load_full() }
    }

    /// Whether another process has put other files in the place of these. Then they are used from now on.
    pub(crate) fn look_for_others(&self) {
        let state = self.state.load_full();
        if state.index.is_cut_off() {
            // If that fails, these are used.
            let _ = self.newer(&state);
        }
    }

    fn wait(&self, byte: Byte) -> Result<Option<LockGuard<'_>>, Error> {
        let patience = match byte {
            Byte::Opening => patience::opening(self.cache),
            Byte::Writing | Byte::Open => patience::writing(self.cache),
        };
        Ok(LockGuard::wait(&self.lock, byte, patience)?)
    }

    /// Runs `body` while no other process changes the files.
    fn changing<R>(&self, body: impl FnOnce(Arc<State>) -> Result<R, Error>) -> Result<R, Error> {
        if !self.writable {
            return Err(Error::ReadOnly);
        }
        let _changing = self.changing.lock();
        // A thread that stood behind one that has waited in vain tries once.
        let Some(_writing) = self.wait(Byte::Writing)? else {
            return Err(Error::NotCurrentlyAvailable("another process is writing"));
        };
        body(self.state.load_full())
    }

    /// An error if the index has lost its name: then others may have files with these names.
    fn check_named(&self, state: &State) -> Result<(), Error> {
        match names::is_named(self.location.folder(), &self.names.index, state.index.file()) {
            true => Ok(()),
            false => Err(Error::NotCurrentlyAvailable("the files were deleted or replaced")),
        }
    }

    /// Writes the index again, with at least that many blocks.
    fn write_index(&self, state: &Arc<State>, blocks: u32) -> Result<Arc<State>, Error> {
        self.check_named(state)?;
        let folder = self.location.folder();
        // A process may have died while it cleared the cache: then the value file is another one.
        let values = match state::find_values(folder, &self.names, self.writable)? {
            Found::Good(values) if values.identity.number != state.identity.number => Some(values),
            _ => None,
        };
        if let Some(values) = values {
            if !values.identity.has_version_of(&self.identity) {
                return Err(Error::NotCurrentlyAvailable("the files were replaced"));
            }
            let (identity, file) =
                (values.identity, Arc::new(Values::new(values.file, values.identity.tag())));
            let newer =
                rewrite::index(folder, &self.names, &identity, &file, None, Some(&state.index), blocks)?;
            return Ok(self.install(state, newer));
        }
        let slots = match state.index.slots() {
            Ok(slots) => slots,
            Err(Error::Damaged(_)) => None,
            Err(error) => return Err(error),
        };
        let (values, old) = (&state.values, Some(&state.index));
        let newer = rewrite::index(folder, &self.names, &state.identity, values, slots, old, blocks)?;
        Ok(self.install(state, newer))
    }

    /// The files to go on with if the index of `state` is damaged or was replaced.
    fn newer_or_written(&self, state: &Arc<State>) -> Result<Arc<State>, Error> {
        match self.newer(state)? {
            Some(newer) => Ok(newer),
            None => self.write_index(state, state.index.blocks()),
        }
    }

    /// Writes a damaged index again. Gives [`Error::Damaged`] if that cannot be done.
    fn repair(&self, damaged: &Arc<State>) -> Result<Arc<State>, Error> {
        // Another thread or process may have been faster.
        let is_written = Cell::new(false);
        let repaired = self.changing(|_| match self.newer(damaged)? {
            Some(newer) => Ok(newer),
            None => {
                is_written.set(true);
                self.write_index(damaged, damaged.index.blocks())
            }
        });
        match repaired {
            Ok(state) => {
                static REPAIRED: AtomicU64 = AtomicU64::new(0);
                if is_written.get() && pin::is_worth_a_line(&REPAIRED) {
                    tracing::warn!("{}: damaged, and written again", self.names.index);
                }
                Ok(state)
            }
            Err(Error::NoMemory) => Err(Error::NoMemory),
            Err(_) => Err(Error::Damaged("the index")),
        }
    }

    /// Adds an entry, unless the value file would have more than `most` bytes. When this returns, the entry is in the
    /// page cache. Returns the number of the value file too.
    pub(crate) fn store(
        &self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        most: u64,
    ) -> Result<(u64, Stored), Error> {
        self.changing(|mut state| {
            let quiet = Quiet::begin()?;
            for _ in 0..ROUNDS {
                let (at, stored) = match state.index.look(hash) {
                    Ok(Lookup::Nowhere(Some(free))) => (free, Stored::New),
                    Ok(Lookup::Nowhere(None)) => {
                        if state.index.blocks() >= MOST_BLOCKS {
                            return Err(Error::CacheFull);
                        }
                        state = self.write_index(&state, state.index.blocks() * 2)?;
                        continue;
                    }
                    Ok(Lookup::At(at, place)) => {
                        self.judge(&state, place, hash, key)?;
                        (at, Stored::Replaced)
                    }
                    Ok(Lookup::Damaged) | Err(Error::Damaged(_)) => {
                        state = self.newer_or_written(&state)?;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let (place, before) = state.values.append(&quiet, hash, key, value, most)?;
                if let Err(error) = state.index.put(&quiet, at, &Slot { hash, place }) {
                    state.values.cut(before);
                    return Err(error);
                }
                return Ok((state.identity.number, stored));
            }
            Err(Error::Damaged("the index"))
        })
    }

    /// An error, unless the record with the hash is damaged.
    fn judge(&self, state: &State, place: format::Place, hash: u64, key: &[u8]) -> Result<(), Error> {
        scratch::with(|buffer| match state.values.read(place, buffer)? {
            Some(record) if record.hash != hash => Ok(()),
            Some(record) if record.key == key => Err(Error::AlreadyExists),
            Some(_) => Err(Error::HashCollision),
            None => Ok(()),
        })
    }

    /// Puts empty files in the place of these, also for the other processes that have them open.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.changing(|state| {
            let state = self.newer(&state)?.unwrap_or(state);
            self.check_named(&state)?;
            let folder = self.location.folder();
            let newer = rewrite::wipe(folder, &self.names, &self.identity, Some(&state.index))?;
            self.install(&state, newer);
            Ok(())
        })
    }

    /// Deletes the files. False: another process has them open.
    pub(crate) fn delete_alone(&self) -> Result<bool, Error> {
        if !self.writable {
            return Err(Error::ReadOnly);
        }
        let _changing = self.changing.lock();
        let Some(_opening) = self.wait(Byte::Opening)? else { return Ok(false) };
        let is_named = names::is_named(self.location.folder(), &self.names.lock, &self.lock);
        if !is_named || !locks::set(&self.lock, Byte::Open, Kind::Exclusive)? {
            return Ok(false);
        }
        self.delete().map(|()| true)
    }

    /// The lock file is deleted last: without it others would not know that the cache is open.
    fn delete(&self) -> Result<(), Error> {
        let folder = self.location.folder();
        let is_this = |of: &Identity| of.identifier == self.identity.identifier;
        // What another one has put there meanwhile stays.
        let values = match state::find_values(folder, &self.names, false) {
            Ok(Found::Good(file)) => is_this(&file.identity),
            Ok(Found::Bad(bad, ..)) => bad == Bad::Damaged,
            _ => false,
        };
        let index = match state::find_index(folder, &self.names, false) {
            Ok(Found::Good(file)) => is_this(&file.identity),
            Ok(Found::Bad(bad, ..)) => bad == Bad::Damaged,
            _ => false,
        };
        let files = [(values, &self.names.values), (index, &self.names.index), (true, &self.names.lock)];
        for (_, name) in files.into_iter().filter(|(is_ours, _)| *is_ours) {
            folder.remove_file(name)?;
        }
        Ok(())
    }

    /// Gives the lock of an open cache back. `delete`: the last process that does this deletes the files.
    pub(crate) fn close(&self, delete: bool) {
        // Waits for a thread that is storing.
        let _changing = self.changing.lock();
        let is_marked = || ops::fstat(&self.lock).is_ok_and(|stat| stat.st_size != 0);
        if self.writable && (delete || is_marked()) {
            if let Err(error) = self.delete_or_mark() {
                static KEPT: AtomicU64 = AtomicU64::new(0);
                if pin::is_worth_a_line(&KEPT) {
                    tracing::warn!("{}: cannot be deleted: {error}", self.names.index);
                }
            }
        }
        // If that fails, the lock ends with the descriptor.
        let _ = locks::set(&self.lock, Byte::Open, Kind::Free);
    }

    fn delete_or_mark(&self) -> Result<(), Error> {
        let folder = self.location.folder();
        let Some(_opening) = self.wait(Byte::Opening)? else {
            // The process that is opening the cache finds the mark now, or when it closes the cache.
            return self.mark();
        };
        if !names::is_named(folder, &self.names.lock, &self.lock) {
            // Deleted by hand, and perhaps created again by a process that asks for nothing.
            return Ok(());
        }
        if !locks::set(&self.lock, Byte::Open, Kind::Exclusive)? {
            return self.mark();
        }
        self.delete()
    }

    fn mark(&self) -> Result<(), Error> {
        write_all_at(&self.lock, &MARK, 0).map_err(|(_, error)| error.into())
    }
}
