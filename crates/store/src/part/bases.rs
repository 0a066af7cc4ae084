//! The counterparts of a part in the bases: stashes that are looked into after the user's own, and never written.

use std::path::Path;
use std::sync::Arc;

use crate::format::file::PartIdentity;
use crate::home::{Home, MOST_BASES};
use crate::part::queue::{Destination, Shared};
use crate::part::read_only::ReadOnlyPart;
use crate::part::read_only_parts::{Candidate, Lister, ReadOnlyParts};
use crate::part::tallies::Tallies;
use vkstash_host::disk::errors::OpenError;
use vkstash_model::record::{Key, Kind};

/// Whether records of that kind are read from a base. Records about the behaviour of a driver and about uses tell of
/// the machine where the base was made, and not of this one. A base's crash counts decide about its own artifacts only
/// ([`ReadOnlyPart::read_artifact`]).
fn counts(kind: Kind) -> bool {
    match kind {
        Kind::Module
        | Kind::Layout
        | Kind::RenderPass
        | Kind::Recipe
        | Kind::DeviceConfiguration
        | Kind::Artifact
        | Kind::Same
        | Kind::IdentifierPair
        | Kind::Cost => true,
        Kind::Use | Kind::CrashCount | Kind::Verified | Kind::Failed | Kind::Estimates | Kind::Found => false,
    }
}

/// The part in the bases.
#[derive(Default)]
pub(crate) struct Bases {
    parts: ReadOnlyParts,
}

/// The names by which the part is found in the bases.
pub(crate) struct Place<'a> {
    pub(crate) home: &'a Home,
    pub(crate) identity: &'a PartIdentity,
    /// The part's folder in that of the application.
    pub(crate) folder_name: &'a str,
}

impl Bases {
    /// Whether one of them has the record, as far as is known.
    pub(crate) fn contain<D: Destination>(
        &self,
        shared: &Arc<Shared<D>>,
        place: &Place<'_>,
        kind: Kind,
        key: &Key,
    ) -> bool {
        self.any(shared, place, kind, |part| part.contains(kind, key))
    }

    /// Reads the record from the first base that has it. False: `buffer` is empty.
    pub(crate) fn read<D: Destination>(
        &self,
        shared: &Arc<Shared<D>>,
        place: &Place<'_>,
        kind: Kind,
        key: &Key,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let told = |folder: &Path| shared.tallies.damaged_in_a_base(folder);
        let is_read = self.any(shared, place, kind, |part| match kind {
            Kind::Artifact => part.read_artifact(key, buffer, &told),
            _ => part.read(kind, key, buffer, &told),
        });
        if !is_read {
            buffer.clear();
        }
        is_read
    }

    /// Whether there may be a record of that kind. False is certain for those that are open.
    pub(crate) fn have_any<D: Destination>(
        &self,
        shared: &Arc<Shared<D>>,
        place: &Place<'_>,
        kind: Kind,
    ) -> bool {
        self.any(shared, place, kind, |part| part.has_any(kind))
    }

    /// Whether one of them is not open or not known, so that a miss proves nothing.
    pub(crate) fn are_incomplete(&self, place: &Place<'_>) -> bool {
        !place.home.knows_bases() || !place.home.bases().is_empty() && !self.parts.are_all_open()
    }

    /// The counterparts that are open.
    #[cfg(test)]
    pub(crate) fn open(&self) -> Vec<Arc<ReadOnlyPart>> {
        (*self.parts.open()).to_vec()
    }

    fn any<D: Destination>(
        &self,
        shared: &Arc<Shared<D>>,
        place: &Place<'_>,
        kind: Kind,
        has: impl FnMut(&Arc<ReadOnlyPart>) -> bool,
    ) -> bool {
        if place.home.bases().is_empty() || !counts(kind) {
            return false;
        }
        self.parts.open_more(shared, place);
        self.parts.open().iter().any(has)
    }
}

impl Lister for Place<'_> {
    const MOST: usize = MOST_BASES;

    fn list(&self, _: &Tallies, patient: bool, _: &dyn Fn() -> bool) -> Option<Vec<Candidate>> {
        let is_known = self.home.knows_bases();
        (is_known || !patient).then(|| (0..self.home.bases().len()).map(Candidate::numbered).collect())
    }

    fn open(
        &self,
        number: usize,
        tallies: &Tallies,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<ReadOnlyPart>, OpenError> {
        let Some(path) = self.home.bases().get(number) else { return Ok(None) };
        let folder = self.home.open_base(path, interrupted).and_then(|folder| {
            folder.map(|folder| folder.sub_until(self.folder_name, false, interrupted)).transpose()
        });
        match folder {
            Ok(folder) => Ok(folder.map(|folder| ReadOnlyPart::new(folder, self.identity.clone()))),
            Err(error) if error.is_for_now() => Err(error),
            // The base has nothing of this device.
            Err(error) if error.is_missing() && path.is_dir() => Ok(None),
            Err(error) => {
                tallies.base_not_used(path, error.to_string());
                Ok(None)
            }
        }
    }

    fn given_up(&self, number: usize, tallies: &Tallies) {
        if let Some(path) = self.home.bases().get(number) {
            tallies.base_not_used(path, format!("{} could not be read in time", path.display()));
        }
    }

    fn wants(&self, _part: &ReadOnlyPart) -> bool {
        true
    }
}
