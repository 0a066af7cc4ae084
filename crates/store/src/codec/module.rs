//! The codec of a module's payload: VkShaderModuleCreateFlags (u32), then the code that the program gave.

use crate::codec::plain::plain;
use crate::codec::{spirv, zstd};
use crate::format::codec::Codec;

/// Fills `out` with a module's payload as it is to be stored. Takes any bytes, and stores the same bytes always in the
/// same way.
pub fn encode_module(payload: &[u8], out: &mut Vec<u8>) -> Codec {
    zstd::with_encoder(|encoder| {
        let compressed = encoder.as_mut().and_then(|encoder| {
            encoder.filtered.clear();
            let filtered = spirv::encode(payload, &mut encoder.filtered);
            if filtered && encoder.compress_filtered(out) && out.len() < payload.len() {
                return Some(Codec::Spirv);
            }
            (encoder.compress(payload, out) && out.len() < payload.len()).then_some(Codec::Zstd)
        });
        compressed.unwrap_or_else(|| plain(payload, out))
    })
}
