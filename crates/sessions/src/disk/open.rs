//! Opening the files of a cache: what is wiped, repaired or refused.

use std::sync::Arc;

use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops;

use crate::disk::index::Index;
use crate::disk::names::{self, Names};
use crate::disk::ours;
use crate::disk::rewrite;
use crate::disk::state::{self, Found, IndexFile, State, ValueFile};
use crate::disk::values::Values;
use crate::error::{Error, Other, Reason};
use crate::format::{Bad, FIRST_BLOCKS, Identity, MARK, VALUE_HEADER, hash, value_header};
use crate::locks::{self, Byte, Kind, LockGuard};
use crate::patience;

/// How often the lock file is opened again because another process has deleted it.
const ROUNDS: usize = 16;

/// Which versions are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// That of the program; others are wiped.
    Own,
    /// Any, because the cache is opened to be cleared.
    Any,
}

/// The open files.
pub(crate) struct Opened {
    pub(crate) lock: Descriptor,
    pub(crate) state: State,
    /// False on a read-only file system.
    pub(crate) writable: bool,
}

/// What is opened, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) names: &'a Names,
    pub(crate) identity: &'a Identity,
    pub(crate) versions: Versions,
    /// The folder is the stash's own. Elsewhere a file must say that it is the cache's before anything is done to it.
    pub(crate) is_stash: bool,
}

/// Opens the cache, and creates it if it is missing. The result holds the shared lock of an open cache.
pub(crate) fn open(wanted: &Wanted<'_>) -> Result<Opened, Error> {
    for _ in 0..ROUNDS {
        let (lock, is_new) = match names::open_lock(wanted.folder, &wanted.names.lock) {
            Ok(Some(lock)) => lock,
            Ok(None) => continue,
            Err(Error::ReadOnly) => return open_to_read(wanted.folder, wanted.names, wanted.identity),
            Err(error) => return Err(error),
        };
        if let Some(opened) = open_behind(wanted, lock, is_new)? {
            return Ok(opened);
        }
    }
    Err(Error::NotCurrentlyAvailable("other processes delete the cache"))
}

/// Opens the cache of a lock file that this process has open, and has created if it `is_new`. None: the lock file has
/// lost its name.
pub(crate) fn open_behind(
    wanted: &Wanted<'_>,
    lock: Descriptor,
    is_new: bool,
) -> Result<Option<Opened>, Error> {
    let &Wanted { folder, names, .. } = wanted;
    let cache = cache_hash(folder, names)?;
    let Some(opening) = LockGuard::wait(&lock, Byte::Opening, patience::opening(cache))? else {
        return Err(Error::NotCurrentlyAvailable("another process is opening the cache"));
    };
    if !names::is_named(folder, &names.lock, &lock) {
        return Ok(None);
    }
    let state = match (Opening { wanted, lock: &lock, cache }).open() {
        Ok(state) => state,
        Err(error) => {
            // Beside files that are the user's own there is nothing of ours. Another process may have opened the cache
            // since this one created the lock file, though; one that waits to open it finds that it has lost its name.
            if is_new && locks::set(&lock, Byte::Open, Kind::Exclusive)? {
                let _ = folder.remove_file(&names.lock);
            }
            return Err(error);
        }
    };
    if !locks::set(&lock, Byte::Open, Kind::Shared)? {
        return Err(Error::NotCurrentlyAvailable("another process is wiping the cache"));
    }
    drop(opening);
    names::note_use(&lock);
    Ok(Some(Opened { lock, state, writable: true }))
}

fn open_to_read(folder: &Folder, names: &Names, wanted: &Identity) -> Result<Opened, Error> {
    let (lock, _) = names::open(folder, &names.lock, false)?.ok_or(Error::ReadOnly)?;
    if !locks::set(&lock, Byte::Open, Kind::Shared)? {
        return Err(Error::NotCurrentlyAvailable("another process is wiping the cache"));
    }
    let state = state::load(folder, names, wanted, false)?.ok_or(Error::ReadOnly)?;
    Ok(Opened { lock, state, writable: false })
}

/// What opening needs. The lock of [`Byte::Opening`] is held.
struct Opening<'a> {
    wanted: &'a Wanted<'a>,
    lock: &'a Descriptor,
    /// [`cache_hash`].
    cache: u64,
}

/// Tells caches apart, for [`patience`].
pub(crate) fn cache_hash(folder: &Folder, names: &Names) -> Result<u64, Error> {
    let stat = ops::fstat(folder)?;
    Ok(hash(names.lock.as_bytes()) ^ hash(&stat.st_ino.to_le_bytes()))
}

impl Opening<'_> {
    fn open(&self) -> Result<State, Error> {
        if self.is_to_be_deleted()? && locks::set(self.lock, Byte::Open, Kind::Exclusive)? {
            self.check(&self.find_index()?, &self.find_values()?)?;
            let state = rewrite::wipe(self.wanted.folder, self.wanted.names, self.wanted.identity, None)?;
            ops::ftruncate(self.lock, 0)?;
            return Ok(state);
        }
        match self.look(None)? {
            Some(state) => Ok(state),
            None => {
                // Another process may be replacing the files at this moment.
                let patience = patience::writing(self.cache);
                let writing = LockGuard::wait(self.lock, Byte::Writing, patience)?;
                let writing = writing.ok_or(Error::NotCurrentlyAvailable("another process is writing"))?;
                self.look(Some(&writing))?.ok_or(Error::Damaged("the files"))
            }
        }
    }

    fn find_index(&self) -> Result<Found<IndexFile>, Error> {
        state::find_index(self.wanted.folder, self.wanted.names, true)
    }

    fn find_values(&self) -> Result<Found<ValueFile>, Error> {
        state::find_values(self.wanted.folder, self.wanted.names, true)
    }

    /// Whether the lock file says so. Refuses a lock file that is the user's.
    fn is_to_be_deleted(&self) -> Result<bool, Error> {
        let content = state::first_bytes(self.lock, MARK.len() + 1)?;
        if content.is_empty() || content == MARK || self.wanted.is_stash {
            return Ok(!content.is_empty());
        }
        Err(refused(&self.wanted.names.lock, Reason::Foreign))
    }

    /// Refuses files that may be the user's own. In the stash they are the cache's.
    fn check(&self, index: &Found<IndexFile>, values: &Found<ValueFile>) -> Result<(), Error> {
        if self.wanted.is_stash {
            return Ok(());
        }
        if let Found::Bad(bad, file, length) = index {
            let known = if let Found::Good(values) = values { Some(&values.identity) } else { None };
            if !ours::is_index(*bad, file, *length, known)? {
                return Err(refused(&self.wanted.names.index, Reason::Foreign));
            }
        }
        if let Found::Bad(bad, file, length) = values {
            let known = if let Found::Good(index) = index { Some(index) } else { None };
            if !ours::is_values(*bad, file, *length, known)? {
                return Err(refused(&self.wanted.names.values, Reason::Foreign));
            }
        }
        Ok(())
    }

    /// Opens the files, and repairs them if they are damaged. None: they are, and `writing` is not locked.
    fn look(&self, writing: Option<&LockGuard<'_>>) -> Result<Option<State>, Error> {
        let (index, values) = (self.find_index()?, self.find_values()?);
        self.check(&index, &values)?;
        let of_index = if let Found::Good(index) = &index { Some(index.identity) } else { None };
        let identity = if let Found::Good(values) = &values { Some(values.identity) } else { of_index };
        let identity = match identity {
            Some(identity) => identity,
            None => return self.unknown(&index, &values).map(Some),
        };
        if identity.identifier != self.wanted.identity.identifier {
            return Err(refused(&self.wanted.names.values, Reason::OtherIdentifier));
        }
        if self.wanted.versions == Versions::Own && !identity.has_version_of(self.wanted.identity) {
            return self.wipe_alone().map(Some);
        }
        let state = match (index, values) {
            (Found::Good(index), Found::Good(values)) if index.identity == values.identity => State {
                identity,
                index: Index::new(index.file, index.blocks)?,
                values: Arc::new(Values::new(values.file, identity.tag())),
            },
            _ if writing.is_none() => return Ok(None),
            (index, Found::Good(values)) => self.index_again(identity, index, values)?,
            (Found::Good(index), Found::Bad(bad, file, _)) => {
                self.header_again(identity, index, bad, file)?
            }
            _ => self.wipe_alone()?,
        };
        Ok(Some(state))
    }

    /// The state where neither the index nor the value file has a valid header.
    fn unknown(&self, index: &Found<IndexFile>, values: &Found<ValueFile>) -> Result<State, Error> {
        match (index, values) {
            (Found::Missing, Found::Missing) => {
                rewrite::wipe(self.wanted.folder, self.wanted.names, self.wanted.identity, None)
            }
            (Found::Bad(Bad::Damaged | Bad::Zeros, ..), _)
            | (_, Found::Bad(Bad::Damaged | Bad::Zeros, ..)) => self.wipe_alone(),
            (_, Found::Bad(..)) => Err(refused(&self.wanted.names.values, Reason::Foreign)),
            _ => Err(refused(&self.wanted.names.index, Reason::Foreign)),
        }
    }

    /// The index is missing, damaged, or that of another value file.
    fn index_again(
        &self,
        identity: Identity,
        index: Found<IndexFile>,
        values: ValueFile,
    ) -> Result<State, Error> {
        let old = match index {
            Found::Missing => None,
            Found::Good(IndexFile { file, .. }) | Found::Bad(_, file, _) => Some(Index::new(file, 0)?),
        };
        let values = Arc::new(Values::new(values.file, identity.tag()));
        rewrite::index(
            self.wanted.folder,
            self.wanted.names,
            &identity,
            &values,
            None,
            old.as_ref(),
            FIRST_BLOCKS,
        )
    }

    /// The header of the value file is damaged.
    fn header_again(
        &self,
        identity: Identity,
        index: IndexFile,
        bad: Bad,
        file: Descriptor,
    ) -> Result<State, Error> {
        let header = value_header(&identity);
        let found = state::first_bytes(&file, VALUE_HEADER)?;
        if bad == Bad::Foreign && !ours::is_like(&found, &header) {
            return Err(refused(&self.wanted.names.values, Reason::Foreign));
        }
        let values = Values::new(file, identity.tag());
        values.write_header(&header)?;
        Ok(State { identity, index: Index::new(index.file, index.blocks)?, values: Arc::new(values) })
    }

    /// Wipes the cache, if nobody else has it open.
    fn wipe_alone(&self) -> Result<State, Error> {
        if !locks::set(self.lock, Byte::Open, Kind::Exclusive)? {
            return Err(Error::OpenWithOther(Other::Version));
        }
        rewrite::wipe(self.wanted.folder, self.wanted.names, self.wanted.identity, None)
    }
}

fn refused(name: &str, reason: Reason) -> Error {
    Error::Refused { name: name.to_owned(), reason }
}
