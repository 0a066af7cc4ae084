//! Artifacts with equal data: if this process has written the data to the part, only a reference is written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::format::fingerprint::Fingerprint;
use crate::part::open::Part;
use crate::segment::append::{Item, Payload, RecordId};
use vkstash_host::keyed::Keyed;
use vkstash_model::record::{Key, Kind};
use vkstash_model::same::{Same, data_of};

/// The number of artifacts that are remembered. After that many the memory is cleared.
const REMEMBERED: usize = 1 << 14;

/// The artifacts that this process has written, by part and by the fingerprint of their data.
#[derive(Default)]
pub(crate) struct Duplicates {
    parts: HashMap<String, HashMap<Fingerprint, Key, Keyed>>,
    remembered: usize,
    buffer: Vec<u8>,
}

impl Duplicates {
    /// The records to be written in place of `items`: a reference in place of each artifact whose data was written.
    pub(crate) fn replace<'a>(&mut self, part: &Part, items: &'a [Item]) -> Cow<'a, [Item]> {
        let mut replaced = Cow::Borrowed(items);
        if !part.is_of_a_device() {
            return replaced;
        }
        for (at, item) in items.iter().enumerate() {
            if item.0.kind != Kind::Artifact {
                continue;
            }
            if let Some(same) = self.reference(part, item, &items[..at]) {
                replaced.to_mut()[at] = same;
            }
        }
        replaced
    }

    /// The reference for an artifact. `None`: the artifact itself is written. `before` are the records before it in the
    /// batch.
    fn reference(&mut self, part: &Part, item: &Item, before: &[Item]) -> Option<Item> {
        let (id, payload) = item;
        let print = Fingerprint::of(&payload.0)?;
        if self.remembered >= REMEMBERED {
            (self.parts, self.remembered) = (HashMap::new(), 0);
        }
        let known = match self.parts.get_mut(part.name()) {
            Some(known) => known,
            None => self.parts.entry(part.name().to_owned()).or_default(),
        };
        let Some(target) = known.get(&print).copied().filter(|target| *target != id.key) else {
            self.remembered += usize::from(known.insert(print, id.key).is_none());
            return None;
        };
        let has_the_data = part.read_itself(Kind::Artifact, &target, &mut self.buffer)
            && data_of(&self.buffer) == data_of(&payload.0);
        if !has_the_data || part.crash_count(&target) > 0 || part.crash_count(&id.key) > 0 {
            known.insert(print, id.key);
            return None;
        }
        // A reader finds an artifact record before a reference of the same key.
        if before.iter().any(|(other, _)| other == id) || part.supersedes(id) {
            return None;
        }
        let same = Same::of(&payload.0, target)?;
        Some((RecordId { kind: Kind::Same, ..*id }, Arc::new(Payload(same.encode().into()))))
    }
}
