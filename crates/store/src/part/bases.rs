//! The same part in the bases: stashes that are looked into after the user's own, and never written.

use std::sync::Arc;

use crate::disk::home::Home;
use crate::format::file::PartIdentity;
use crate::format::record::{Key, Kind};
use crate::part::queue::{Destination, Shared};
use crate::part::read_only::ReadOnlyPart;
use crate::part::read_only_parts::{Lister, ReadOnlyParts};

/// Whether a base's records of that kind count. What a driver did on the machine of whoever made the base, and when a
/// program ran there, says nothing here. Crash counts count for the base's own artifacts
/// ([`ReadOnlyPart::read_artifact`]).
fn counts(kind: Kind) -> bool {
    match kind {
        Kind::Module
        | Kind::Layout
        | Kind::RenderPass
        | Kind::Recipe
        | Kind::Setup
        | Kind::Artifact
        | Kind::Same
        | Kind::IdentifierPair
        | Kind::Cost => true,
        Kind::Use | Kind::CrashCount | Kind::Verified | Kind::Failed | Kind::Comparison => false,
    }
}

/// The part in the bases.
#[derive(Default)]
pub(crate) struct Bases {
    parts: ReadOnlyParts,
}

/// What is needed to find them.
pub(crate) struct Place<'a> {
    pub(crate) home: &'a Home,
    pub(crate) identity: &'a PartIdentity,
    /// The part's folder in that of the application.
    pub(crate) folder_name: &'a str,
}

impl Bases {
    /// Whether one of them has the record, damaged or not.
    pub(crate) fn contain<D: Destination>(
        &self,
        shared: &Shared<D>,
        place: &Place<'_>,
        kind: Kind,
        key: &Key,
    ) -> bool {
        self.any(shared, place, kind, |part| part.contains(kind, key))
    }

    /// Reads the record from the first base that has it. False: `buffer` is empty.
    pub(crate) fn read<D: Destination>(
        &self,
        shared: &Shared<D>,
        place: &Place<'_>,
        kind: Kind,
        key: &Key,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let is_read = self.any(shared, place, kind, |part| match kind {
            Kind::Artifact => part.read_artifact(key, buffer),
            _ => part.read(kind, key, buffer),
        });
        if !is_read {
            buffer.clear();
        }
        is_read
    }

    /// Whether there may be a record of that kind. False is certain for those that are open.
    pub(crate) fn have_any<D: Destination>(&self, shared: &Shared<D>, place: &Place<'_>, kind: Kind) -> bool {
        self.any(shared, place, kind, |part| part.has_any(kind))
    }

    fn any<D: Destination>(
        &self,
        shared: &Shared<D>,
        place: &Place<'_>,
        kind: Kind,
        has: impl FnMut(&Arc<ReadOnlyPart>) -> bool,
    ) -> bool {
        if !place.home.has_bases() || !counts(kind) {
            return false;
        }
        self.parts.open_more(shared, place);
        self.parts.open().iter().any(has)
    }
}

impl Lister for Place<'_> {
    const MOST: usize = 16;

    fn list(&self, interrupted: &dyn Fn() -> bool) -> Option<Vec<ReadOnlyPart>> {
        let folders = self.home.open_bases(interrupted)?;
        let mut found = Vec::new();
        for folder in folders {
            match folder.sub_until(self.folder_name, false, interrupted) {
                Ok(folder) => found.push(ReadOnlyPart::new(folder, self.identity.clone())),
                Err(error) if error.is_for_now() => return None,
                Err(error) if error.is_missing() => {}
                Err(error) => tracing::warn!("a base is not used: {error}"),
            }
        }
        // The first base is looked into first.
        found.reverse();
        Some(found)
    }

    fn wants(&self, _part: &ReadOnlyPart) -> bool {
        true
    }
}
