//! Control over all application-managed caches: switching them off, and clearing them.

use rustix::fs::OFlags;
use vkstash_host::disk::folder::{FILE_MODE, Folder};
use vkstash_host::disk::ops;

use crate::cache::{Cache, DISABLED, is_disabled_in};
use crate::description::{Guid, Place};
use crate::disk::files::{Files, Versions};
use crate::disk::names::{self, Names};
use crate::error::Error;
use crate::format::Identity;
use crate::session::{OPEN, existing, stash_of};
use crate::switch;

/// Switches the caches of this process off, or on again. While they are off, creating, finding and storing fail with
/// [`Error::NotCurrentlyAvailable`]. What is stored stays.
pub fn disable(disabled: bool) {
    switch::set(disabled);
}

/// Whether [`disable`] has switched them off.
pub fn is_disabled() -> bool {
    switch::is_off()
}

/// [`disable`] for all processes of an application, those that run included: they notice within 100 ms.
pub fn disable_stored(place: &Place, disabled: bool) -> Result<(), Error> {
    let location = stash_of(place)?;
    let folder = location.folder();
    if !disabled {
        return Ok(folder.remove_file(DISABLED)?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match ops::openat(folder, DISABLED, flags, FILE_MODE) {
        Ok(_) => Ok(()),
        // Whatever it is, it disables.
        Err(_) if is_disabled_in(folder) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether [`disable_stored`] has switched them off.
pub fn is_stored_disabled(place: &Place) -> Result<bool, Error> {
    Ok(is_disabled_in(stash_of(place)?.folder()))
}

/// Removes all entries of the caches that this process has open, and of the application's caches in the stash. Caches
/// in working directories that this process has not open are left alone. All are tried; the first error is returned.
pub fn clear(place: Option<&Place>) -> Result<(), Error> {
    let open = OPEN.get().lock();
    let mut failed = None;
    let mut note = |result: Result<(), Error>| {
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
    };
    for entry in open.iter() {
        note(Cache::clear(entry.cache()));
    }
    if let Some(place) = place {
        match bases(place) {
            Ok(bases) => {
                let others =
                    bases.iter().filter(|base| !open.iter().any(|entry| entry.has_files(place, base)));
                others.for_each(|base| note(remove(place, base)));
            }
            Err(error) => note(Err(error)),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// How many caches an application has in the stash. Creates nothing.
pub fn count(place: &Place) -> Result<u64, Error> {
    match existing(place)? {
        Some(folder) => Ok(bases_in(&folder)?.len() as u64),
        None => Ok(0),
    }
}

/// What the names of an application's files begin with.
fn bases(place: &Place) -> Result<Vec<String>, Error> {
    bases_in(stash_of(place)?.folder())
}

fn bases_in(folder: &Folder) -> Result<Vec<String>, Error> {
    let names = folder.names(names::INDEX)?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(names::INDEX)).map(str::to_owned).collect())
}

/// Whether a cache with files of these names is driver-versioned. None: files with these names are not ours.
pub(crate) fn is_base(base: &str) -> Option<bool> {
    let is_digits = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Guid::of_text(base.get(..36)?)?;
    match base.get(36..)?.strip_prefix('-') {
        None if base.len() == 36 => Some(false),
        Some(digits) if is_digits(digits) => Some(true),
        _ => None,
    }
}

fn open_any(place: &Place, base: &str) -> Result<Option<Files>, Error> {
    let identifier = base.get(..36).and_then(Guid::of_text);
    // Files with other names are not ours.
    let Some(identifier) = identifier else { return Ok(None) };
    let identity = Identity { identifier: identifier.0, version: 0, driver: [0; 32], number: 0 };
    Files::open(stash_of(place)?, Names::of(base), identity, Versions::Any).map(Some)
}

/// Deletes a cache. False: a process has it open.
pub(crate) fn remove_closed(place: &Place, base: &str) -> Result<bool, Error> {
    let Some(files) = open_any(place, base)? else { return Ok(false) };
    let removed = files.delete_alone();
    files.close(false);
    removed
}

/// Deletes a cache that this process has not open, or clears it if another process has it open.
fn remove(place: &Place, base: &str) -> Result<(), Error> {
    let Some(files) = open_any(place, base)? else { return Ok(()) };
    let removed = match files.delete_alone() {
        Ok(true) => Ok(()),
        Ok(false) => files.clear(),
        Err(error) => Err(error),
    };
    files.close(false);
    removed
}
