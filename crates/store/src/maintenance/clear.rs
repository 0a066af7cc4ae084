//! Clearing kinds of caches, for a user who wants them gone now.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::bounds::{Cause, Room};
use crate::maintenance::contents::PartContents;
use crate::maintenance::merge;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::survey::{PartFolder, Survey};
use crate::maintenance::uses::Uses;
use crate::settings::CacheKinds;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_model::record::Kind;

/// What clearing has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// The number of records that are gone.
    pub records: u64,
    /// Bytes of files that are gone.
    pub bytes: u64,
    /// The number of records that stay: running programs write to their files, or they could not be removed.
    pub kept: u64,
}

/// The records that these kinds of caches consist of. What is known of crashes and refusals stays.
fn records_of(kinds: CacheKinds) -> Vec<Kind> {
    let mut records = Vec::new();
    if kinds.has(CacheKinds::COMPILATIONS) {
        records.extend([
            Kind::Artifact,
            Kind::Same,
            Kind::Verified,
            Kind::Cost,
            Kind::Estimates,
            Kind::Found,
        ]);
    }
    if kinds.has(CacheKinds::CONVERSIONS) {
        records.extend([Kind::Module, Kind::IdentifierPair]);
    }
    records
}

/// Empties the caches of these kinds, as far as they consist of records: of the application in that folder, or of all
/// applications. A running program goes on with what it has open. A missing root counts as empty.
pub fn clear(root: &Path, application: Option<&str>, kinds: CacheKinds) -> Result<Cleared, OpenError> {
    let kinds = &records_of(kinds)[..];
    let root = match Folder::root(root, false) {
        Ok(root) => Arc::new(root),
        Err(OpenError::Unreadable { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Cleared::default());
        }
        Err(error) => return Err(error),
    };
    let never = || false;
    let survey = Survey::of(&root, &never);
    let mut cleared = Cleared::default();
    for of in survey.applications.iter().filter(|of| application.is_none_or(|name| name == of.name)) {
        for part in &of.parts {
            let evicted = records(part, kinds);
            if evicted.is_empty() {
                continue;
            }
            let uses = Uses::of(of, &never);
            let job = merge::Job {
                part,
                uses: &uses,
                evicted: &evicted,
                choice: merge::Choice::Evicted,
                interrupted: &never,
            };
            let mut outcome = Outcome::default();
            job.run(Room { must_free: 0, scratch: u64::MAX }, &mut outcome);
            cleared.records += outcome.evicted_records;
            cleared.bytes += outcome.freed.saturating_sub(outcome.written);
            cleared.kept += records(part, kinds).len() as u64;
        }
    }
    Ok(cleared)
}

/// The records of these kinds, by hash.
fn records(part: &PartFolder, kinds: &[Kind]) -> HashMap<u64, Cause> {
    let Some(identity) = part.identity(&|| false) else { return HashMap::new() };
    let contents = part
        .open()
        .and_then(|folder| PartContents::read_again(&folder, identity, &Default::default(), &|| false));
    let of = |contents: &PartContents| {
        let live = kinds.iter().flat_map(|&kind| contents.of_kind(kind));
        live.map(|live| (live.row.hash, Cause::Cleared)).collect()
    };
    contents.as_ref().map(of).unwrap_or_default()
}
