//! The caches of an application as commands that clean up see them. Caches in working directories are not among them:
//! nothing but the program and the user removes those.

use std::time::{Duration, SystemTime};

use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops;
use vkstash_host::sort;

use crate::control;
use crate::description::Place;
use crate::disk::names::{self, Names};
use crate::error::Error;
use crate::session::existing;

/// One cache in the stash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCache {
    /// What the names of its files begin with.
    pub base: String,
    /// What its files take on the disk.
    pub bytes: u64,
    /// When it was last opened, or written to.
    pub last_use: SystemTime,
    /// The cache belongs to one adapter and driver.
    pub is_driver_versioned: bool,
}

/// The caches of an application, the one that was used first coming first. Creates nothing.
pub fn list(place: &Place) -> Result<Vec<StoredCache>, Error> {
    let Some(folder) = existing(place)? else { return Ok(Vec::new()) };
    let mut all: Vec<StoredCache> = folder
        .names(names::INDEX)?
        .iter()
        .filter_map(|name| name.strip_suffix(names::INDEX))
        .filter_map(|base| stored(&folder, base))
        .collect();
    sort::by(&mut all, |one, other| (one.last_use, &one.base).cmp(&(other.last_use, &other.base)));
    Ok(all)
}

fn stored(folder: &Folder, base: &str) -> Option<StoredCache> {
    let is_driver_versioned = control::is_base(base)?;
    let Names { index, values, lock, .. } = Names::of(base);
    let stats: Vec<_> =
        [index, values, lock].iter().filter_map(|name| ops::statat(folder, name).ok()).collect();
    // The index is sparse.
    let bytes = stats.iter().map(|stat| u64::try_from(stat.st_blocks).unwrap_or(0) * 512).sum();
    let modified = stats.iter().map(|stat| u64::try_from(stat.st_mtime).unwrap_or(0)).max()?;
    let last_use = SystemTime::UNIX_EPOCH + Duration::from_secs(modified);
    Some(StoredCache { base: base.to_owned(), bytes, last_use, is_driver_versioned })
}

/// Deletes a cache that nobody has open. False: a process has it open.
pub fn remove(place: &Place, base: &str) -> Result<bool, Error> {
    control::remove_closed(place, base)
}
