//! Payloads that are stored as they are.

use crate::base::memory;
use crate::format::codec::Codec;

/// Stores `payload` as it is.
pub(crate) fn plain(payload: &[u8], out: &mut Vec<u8>) -> Codec {
    out.clear();
    // Who stores it takes the payload itself: without memory there is nothing to see here.
    if memory::reserve(out, payload.len()) {
        out.extend_from_slice(payload);
    }
    Codec::Plain
}
