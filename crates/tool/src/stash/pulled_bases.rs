//! The bases that `vkstash-remote` has fetched, for `vkstash gc`: they yield before anything of the stash does.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::FlockOperation;
use vkstash_exchange::pulled::{self, BASE, REPLACED, entries};
use vkstash_host::disk::errors::OpenError;
use vkstash_store::settings;
use vkstash_store::stash::inspect::list_applications;

use crate::config::in_force;
use crate::stash::session_caches;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The number of applications' bases.
    pub(crate) bases: u64,
    pub(crate) bytes: u64,
}

/// What they take of the limit of a stash.
pub(crate) fn bytes(root: &Path) -> u64 {
    pulled::usage(pulled::folder(root))
}

/// Removes bases until they fit beside the records and the caches of sessions.
pub(crate) fn clean(root: &Path) -> Result<Removed, OpenError> {
    let limits = in_force::limits_to_enforce(root, &settings::read(root));
    let (Some(limits), Some(folder)) = (limits, pulled::folder(root)) else { return Ok(Removed::default()) };
    let applications = list_applications(root)?;
    let sessions = applications.iter().flat_map(|info| session_caches::of(root, info)).map(|kept| kept.bytes);
    let own = in_force::sum(applications.iter().map(in_force::bytes).chain(sessions));
    Ok(remove_down_to(&folder, limits.total_bytes.saturating_sub(own)))
}

/// Removes bases until all stores take at most so many bytes: first what was replaced or withdrawn, then the
/// application's base that was fetched longest ago.
fn remove_down_to(folder: &Path, most: u64) -> Removed {
    let usage = || pulled::usage([folder.to_owned()]);
    let before = usage();
    let (mut left, mut removed) = (before, Removed::default());
    for (part, count) in [(REPLACED, 0), (BASE, 1)] {
        let bases = entries(folder).into_iter().flat_map(|store| entries(&store.join(part)));
        let mut bases: Vec<_> = bases.collect();
        bases.sort_by_cached_key(|base| (modified(base), base.clone()));
        for base in bases {
            if left > most && remove(&base).is_some() {
                removed.bases += count;
                left = usage();
            }
        }
    }
    removed.bytes = before.saturating_sub(left);
    removed
}

/// Removes an application's base in one step: programs find all of it or nothing, and keep the files that they have
/// open. None: a process pulls from that store, or it cannot be removed.
fn remove(base: &Path) -> Option<()> {
    let store = base.ancestors().nth(2)?;
    // A pull holds this lock.
    let lock =
        File::options().create(true).read(true).append(true).mode(0o600).open(store.join("lock")).ok()?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    // The next pull deletes what is left there.
    let removed = store.join("tmp").join(base.file_name()?);
    fs::rename(base, &removed).ok()?;
    fs::remove_dir_all(&removed).ok()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.symlink_metadata().and_then(|found| found.modified()).ok()
}
