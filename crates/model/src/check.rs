//! Whether a record is what its key says: who can make a file can put any bytes under any key.

use crate::identifier::module_identity;
use crate::key::{self, digest};
use crate::payload;
use vkstash_store::format::record::{Key, Kind};

/// Whether keys of this kind are those of their payloads.
pub fn names_payload(kind: Kind) -> bool {
    match kind {
        Kind::Module | Kind::Layout | Kind::RenderPass | Kind::Recipe | Kind::DeviceConfiguration => true,
        Kind::Use
        | Kind::Artifact
        | Kind::IdentifierPair
        | Kind::Verified
        | Kind::CrashCount
        | Kind::Failed
        | Kind::Same
        | Kind::Cost
        | Kind::Estimates
        | Kind::Found => false,
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
