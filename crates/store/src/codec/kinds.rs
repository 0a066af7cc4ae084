//! Choice of the compression for each kind of record.

use crate::codec::module::encode_module;
use crate::codec::recipe::encode_recipe;
use crate::format::codec::Codec;
use vkstash_model::record::Kind;

/// Fills `out` with a record's payload as it is to be stored. For [`Codec::Plain`] the payload is stored unchanged, and
/// the content of `out` is not specified.
///
/// Artifacts are read while the program waits. Decompressing one takes three to four times as long as reading it
/// (docs/evidence/measurements.md), so they are not compressed.
pub fn encode(kind: Kind, payload: &[u8], out: &mut Vec<u8>) -> Codec {
    match kind {
        Kind::Module => encode_module(payload, out),
        Kind::Layout | Kind::RenderPass | Kind::Recipe | Kind::DeviceConfiguration => {
            encode_recipe(payload, out)
        }
        Kind::Use
        | Kind::Artifact
        | Kind::IdentifierPair
        | Kind::Verified
        | Kind::CrashCount
        | Kind::Failed
        | Kind::Same
        | Kind::Cost
        | Kind::Estimates
        | Kind::Found => Codec::Plain,
    }
}
