//! The last use of each key, as the portable part of an application notes it.

use std::collections::{HashMap, HashSet};

use crate::bounds::LastUse;
use crate::maintenance::contents::{Live, PartContents};
use crate::maintenance::survey::ApplicationFolder;
use vkstash_host::keyed::Keyed;
use vkstash_host::timer::never;
use vkstash_model::record::{Key, Kind, UseRecord};

/// All uses in a portable part, with their runs: those that a later run has superseded are there until their segment is
/// merged.
pub(crate) fn recorded(application: &ApplicationFolder) -> Vec<(Key, UseRecord)> {
    let mut uses = Vec::new();
    let contents = application.portable().and_then(|part| PartContents::of(part, &never));
    for contents in contents.iter() {
        contents.for_each_recorded(Kind::Use, |key, payload| {
            uses.extend(UseRecord::decode(payload).map(|record| (*key, record)));
        });
    }
    uses
}

/// The newest use of each key.
#[derive(Default)]
pub(crate) struct Uses {
    by_key: HashMap<Key, LastUse, Keyed>,
    /// Keys that running processes use.
    current: HashSet<Key, Keyed>,
}

impl Uses {
    pub(crate) fn of(application: &ApplicationFolder, interrupted: &dyn Fn() -> bool) -> Uses {
        application
            .portable()
            .and_then(|part| PartContents::of(part, interrupted))
            .map(|contents| Uses::in_part(&contents))
            .unwrap_or_default()
    }

    /// The uses in a portable part.
    pub(crate) fn in_part(portable: &PartContents) -> Uses {
        let mut uses = Uses::default();
        portable.for_each(Kind::Use, |live, key, payload| {
            let Some(record) = UseRecord::decode(payload) else { return };
            let UseRecord { unix_ms, run, sequence, .. } = record;
            uses.by_key.insert(*key, LastUse { unix_ms, run, order: sequence });
            if portable.member(live).open {
                uses.current.insert(*key);
            }
        });
        uses
    }

    /// The newest use of each key.
    pub(crate) fn into_map(self) -> HashMap<Key, LastUse, Keyed> {
        self.by_key
    }

    pub(crate) fn is_current(&self, key: &Key) -> bool {
        self.current.contains(key)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<LastUse> {
        self.by_key.get(key).copied()
    }

    /// The last use of a record. A record without a noted use counts as used when it was written.
    pub(crate) fn last(&self, contents: &PartContents, live: &Live, key: &Key) -> LastUse {
        self.get(key).unwrap_or_else(|| {
            let age = contents.age(live);
            let order = u32::try_from(live.row.offset / 8).unwrap_or(u32::MAX);
            LastUse { unix_ms: age, run: age, order }
        })
    }
}
