//! Rules for a record that goes from one stash to another (by export and import, in a base, through a remote): whether
//! its kind goes along, and whether its payload is what its key says. Whoever can make a file can put any bytes under
//! any key.
//!
//! One list for all who send and all who take: a kind that it does not name does not compile.

use crate::identifier::module_identity;
use crate::key::{self, digest};
use crate::payload;
use crate::record::{Key, Kind, UseRecord};
use crate::same::Same;

/// What becomes of the records of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Travel {
    /// It goes along. Its key is that of its payload, so nothing else can stand under it. Portable part.
    Named,
    /// The latest use of both stashes counts, if there is a recipe of its key. Portable part.
    Use,
    /// It goes along, and whoever takes it trusts the one who made it. Device part.
    Trusted,
    /// The data that it leads to goes along under its key. Device part.
    Reference,
    /// From [`crate::record::CRASH_LIMIT`] on it goes along with the artifact of its key, and without
    /// one it says nothing elsewhere. Device part.
    Quarantine,
    /// Each machine finds it out by itself. Device part.
    Stays,
}

/// What becomes of the records of this kind.
pub const fn travel(kind: Kind) -> Travel {
    match kind {
        Kind::Module | Kind::Layout | Kind::RenderPass | Kind::Recipe | Kind::DeviceConfiguration => {
            Travel::Named
        }
        Kind::Use => Travel::Use,
        Kind::Artifact | Kind::IdentifierPair | Kind::Cost => Travel::Trusted,
        Kind::Same => Travel::Reference,
        Kind::CrashCount => Travel::Quarantine,
        Kind::Verified | Kind::Failed | Kind::Estimates | Kind::Found => Travel::Stays,
    }
}

impl Travel {
    /// Whether such records stand in the part of a device.
    pub const fn is_of_a_device(self) -> bool {
        match self {
            Travel::Named | Travel::Use => false,
            Travel::Trusted | Travel::Reference | Travel::Quarantine | Travel::Stays => true,
        }
    }
}

/// Whether keys of this kind are those of their payloads.
pub fn names_payload(kind: Kind) -> bool {
    travel(kind) == Travel::Named
}

/// Whether a record of a part, of a device or portable, may come from elsewhere, and is what its key says or has the
/// form of its kind. An artifact of a form that this version does not know is one that it does not use.
pub fn is_sound(of_device: bool, kind: Kind, key: &Key, payload: &[u8]) -> bool {
    travel(kind).is_of_a_device() == of_device
        && match kind {
            Kind::Module | Kind::Layout | Kind::RenderPass | Kind::Recipe | Kind::DeviceConfiguration => {
                is_true(kind, key, payload)
            }
            Kind::Use => UseRecord::decode(payload).is_some(),
            Kind::Artifact => payload.len() >= payload::PREFIX,
            Kind::IdentifierPair => payload.len() == size_of::<Key>(),
            Kind::Same => Same::decode(payload).is_some(),
            Kind::Cost => payload::cost(payload).is_some(),
            Kind::CrashCount => !payload.is_empty(),
            Kind::Verified | Kind::Failed | Kind::Estimates | Kind::Found => false,
        }
}

/// Whether the key of a portable record is that of its payload, so that nothing else can stand under this key. Never of
/// a kind whose key says nothing about its payload.
pub fn is_true(kind: Kind, key: &Key, payload: &[u8]) -> bool {
    let tag = match kind {
        Kind::Module => {
            let Some((flags, code)) = payload::module_parts(payload) else { return false };
            return code.len() % 4 == 0 && module_identity(flags, code) == *key;
        }
        Kind::Layout => key::LAYOUT,
        Kind::RenderPass => key::RENDER_PASS,
        Kind::Recipe => key::RECIPE,
        Kind::DeviceConfiguration => key::DEVICE_CONFIGURATION,
        _ => return false,
    };
    digest(tag, payload) == *key
}
