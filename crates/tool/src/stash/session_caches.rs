//! The caches of sessions, as `vkstash stats` counts them and `vkstash gc` treats them: they count against the limits,
//! and yield after the records.

use std::path::Path;
use std::time::SystemTime;

use vkstash_host::disk::errors::OpenError;
use vkstash_host::util::believed;
use vkstash_model::app_name::AppName;
use vkstash_sessions::description::Place;
use vkstash_sessions::upkeep::{self, StoredCache};
use vkstash_store::bounds;
use vkstash_store::settings;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::config::in_force;
use crate::term::time;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) caches: u64,
    pub(crate) bytes: u64,
}

/// What of an application was not used for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unused {
    pub(crate) caches: u64,
    pub(crate) bytes: u64,
    /// The number of caches that stay, because a process has them open.
    pub(crate) in_use: u64,
    /// The last use of any of them.
    pub(crate) last_use: SystemTime,
}

/// A cache that may be removed.
struct Candidate {
    place: Place,
    /// The number of its application.
    application: usize,
    kept: StoredCache,
}

impl Candidate {
    fn last_use(&self) -> u64 {
        time::unix_ms(self.kept.last_use)
    }
}

/// Removes driver-versioned caches that are older than the limit of age, and then, from the one that was used longest
/// ago on, what exceeds a limit. A cache that a process has open stays.
pub(crate) fn clean(root: &Path) -> Result<Removed, OpenError> {
    let read = settings::read(root);
    let Some(limits) = in_force::limits_to_enforce(root, &read) else { return Ok(Removed::default()) };
    let of_root = read.all();
    let applications = list_applications(root)?;
    let limit_of = |info: &ApplicationInfo| {
        let own = read.of(&info.folder);
        in_force::application_limit(&of_root, &own).value.unwrap_or(u64::MAX)
    };
    let mut candidates = candidates(root, &applications);
    let mut removed = Removed::default();
    let uses = candidates.iter().map(Candidate::last_use);
    let runs = applications.iter().map(|info| info.runs.until_unix_ms);
    let reference = bounds::reference_of(uses.chain(runs), time::now());
    let is_expired = |candidate: &Candidate| {
        let age = reference.saturating_sub(candidate.last_use());
        candidate.kept.is_driver_versioned && age > limits.device_age
    };
    candidates.retain(|candidate| !(is_expired(candidate) && remove(candidate, &mut removed)));

    let mut sizes: Vec<u64> = applications.iter().map(in_force::bytes).collect();
    candidates.iter().for_each(|candidate| sizes[candidate.application] += candidate.kept.bytes);
    let most: Vec<u64> = applications.iter().map(limit_of).collect();
    for candidate in &candidates {
        let at = candidate.application;
        let is_over = sizes[at] > most[at] || in_force::sum(sizes.iter().copied()) > limits.total_bytes;
        if is_over && remove(candidate, &mut removed) {
            sizes[at] = sizes[at].saturating_sub(candidate.kept.bytes);
        }
    }
    Ok(removed)
}

/// Removes the caches of an application that were last used before a time. In a dry run they stay.
pub(crate) fn remove_unused(
    root: &Path,
    info: &ApplicationInfo,
    before: SystemTime,
    is_dry_run: bool,
) -> Unused {
    let mut unused = Unused { caches: 0, bytes: 0, in_use: 0, last_use: SystemTime::UNIX_EPOCH };
    let place = place(root, info);
    for kept in of(root, info).into_iter().filter(|kept| kept.last_use < before) {
        unused.last_use = unused.last_use.max(kept.last_use);
        if is_dry_run || upkeep::remove(&place, &kept.base).unwrap_or(false) {
            unused.caches += 1;
            unused.bytes = unused.bytes.saturating_add(kept.bytes);
        } else {
            unused.in_use += 1;
        }
    }
    unused
}

fn place(root: &Path, info: &ApplicationInfo) -> Place {
    Place::new(root, &AppName { display: info.display.clone(), folder: info.folder.clone() })
}

/// The caches of an application. One whose caches cannot be read has none.
pub(crate) fn of(root: &Path, info: &ApplicationInfo) -> Vec<StoredCache> {
    upkeep::list(&place(root, info)).unwrap_or_default()
}

/// All caches, the one that was used longest ago first. An application whose caches cannot be read has none.
fn candidates(root: &Path, applications: &[ApplicationInfo]) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (application, info) in applications.iter().enumerate() {
        let place = place(root, info);
        let caches = upkeep::list(&place).unwrap_or_default();
        all.extend(caches.into_iter().map(|kept| Candidate { place: place.clone(), application, kept }));
    }
    let now = time::now();
    all.sort_by_key(|candidate| (believed(candidate.last_use(), now), candidate.last_use()));
    all
}

fn remove(candidate: &Candidate, removed: &mut Removed) -> bool {
    let done = upkeep::remove(&candidate.place, &candidate.kept.base).unwrap_or(false);
    if done {
        removed.caches += 1;
        removed.bytes += candidate.kept.bytes;
    }
    done
}
