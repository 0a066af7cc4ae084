//! Which kinds of records are compressed.

use super::Codec;
use super::module::encode_module;
use crate::store::part::Kind;

/// Fills `out` with a record's payload as it is to be stored, unless that is [`Codec::Plain`]: then the payload is
/// stored as it is, and `out` holds anything.
///
/// Artifacts are read in calls that the program waits for. Reading one takes a fifth of the time that decompressing it
/// would (docs/measurements.md), so they stay as the driver gave them.
pub fn encode(kind: Kind, payload: &[u8], out: &mut Vec<u8>) -> Codec {
    match kind {
        Kind::Module => encode_module(payload, out),
        Kind::Layout
        | Kind::RenderPass
        | Kind::Recipe
        | Kind::Setup
        | Kind::Use
        | Kind::Artifact
        | Kind::IdentifierPair
        | Kind::Proven
        | Kind::Deaths => Codec::Plain,
    }
}
