//! The two parts of a payload: JSON, and bytes to which the JSON refers.
//!
//! Fossilize takes all up to the first zero byte for JSON, and all behind it for binary. Shader modules have their code
//! there: `varintOffset` counts from the byte behind the zero, `varintSize` is in bytes, `codeSize` in bytes of the
//! decoded words ([`varint`](super::varint)). Older archives have modules without a binary part: their JSON has
//! the member `code` in base64. All other entries are JSON alone.

/// The JSON of a payload, and its binary part; none without a zero byte.
pub fn split(payload: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = payload.splitn(2, |&byte| byte == 0);
    (parts.next().unwrap_or_default(), parts.next())
}

/// A payload of JSON and a binary part. JSON has no zero byte: writers escape it.
pub fn join(json: &[u8], binary: &[u8]) -> Vec<u8> {
    [json, &[0], binary].concat()
}
