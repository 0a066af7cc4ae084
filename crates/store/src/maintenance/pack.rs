//! Merging everything, for stashes that are only read from now on.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::AtFlags;

use crate::bounds::Room;
use crate::maintenance::merge;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::survey::Survey;
use crate::maintenance::uses::Uses;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops as disk;

/// Makes one file of each part below `root`, with the records in the order of their first use. Files that somebody
/// writes to stay, and so does a part that is too large for one file.
pub fn pack(root: &Path) -> Result<(), OpenError> {
    let root = Arc::new(Folder::root(root, false)?);
    let never = || false;
    for application in &Survey::of(&root, &never).applications {
        let uses = Uses::of(application, &never);
        for part in &application.parts {
            let job = merge::Job {
                part,
                uses: &uses,
                evicted: &HashMap::new(),
                choice: merge::Choice::All,
                interrupted: &never,
            };
            job.run(Room { must_free: 0, scratch: u64::MAX }, &mut Outcome::default());
            // Nobody else has the stash open; a reader needs no lock.
            if let Some(folder) = part.open() {
                let _ = disk::unlinkat(&*folder, merge::LOCK, AtFlags::empty());
            }
        }
    }
    Ok(())
}
