//! Uncompressed payloads.

use crate::format::codec::Codec;
use vkstash_host::memory;

/// Copies `payload`.
pub(crate) fn plain(payload: &[u8], out: &mut Vec<u8>) -> Codec {
    out.clear();
    // The caller stores the payload itself, so a failure to copy it does not matter.
    if memory::reserve(out, payload.len()) {
        out.extend_from_slice(payload);
    }
    Codec::Plain
}
