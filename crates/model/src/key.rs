//! Encoding and hashing: the one place where the key's bytes are decided.

use bincode::config::Configuration;
use bincode::enc::write::Writer;
use bincode::error::EncodeError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::record::Key;

/// Little-endian, variable-length integers, no limit: never to be changed without a new schema number.
const CONFIGURATION: Configuration = bincode::config::standard();

/// Why something could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The encoder refused.
    #[error("cannot encode: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    /// Not the bytes of such a value.
    #[error("cannot decode: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    /// Bytes were left over.
    #[error("{0} bytes left over after decoding")]
    LeftOver(usize),
}

/// Encodes into a buffer that is cleared first and reused by the caller.
pub fn encode<T: Serialize>(value: &T, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
    buffer.clear();
    bincode::serde::encode_into_writer(value, Appended(buffer), CONFIGURATION)?;
    Ok(())
}

/// Appends to a buffer. Most pieces of a recipe are one byte, which needs no call.
struct Appended<'a>(&'a mut Vec<u8>);

impl Writer for Appended<'_> {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        match bytes {
            [byte] => self.0.push(*byte),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Decodes a whole buffer; text and bytes are borrowed from it.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    let (value, used) = bincode::serde::borrow_decode_from_slice(bytes, CONFIGURATION)?;
    if used != bytes.len() {
        return Err(CodecError::LeftOver(bytes.len() - used));
    }
    Ok(value)
}

/// SHA-256 of an encoded recipe, layout or render pass. The tag keeps the kinds apart.
pub fn digest(tag: &[u8; 8], encoded: &[u8]) -> Key {
    Sha256::new().chain_update(tag).chain_update(encoded).finalize().into()
}

/// Tag of recipes.
pub const RECIPE: &[u8; 8] = b"vks:rcp\0";
/// Tag of pipeline layouts.
pub const LAYOUT: &[u8; 8] = b"vks:lay\0";
/// Tag of render passes.
pub const RENDER_PASS: &[u8; 8] = b"vks:rpa\0";
/// Tag of the options of a driver.
pub const DRIVER_OPTIONS: &[u8; 8] = b"vks:opt\0";
/// Tag of device configurations.
pub const DEVICE_CONFIGURATION: &[u8; 8] = b"vks:dev\0";
/// Tag of drivers' identifiers.
pub const IDENTIFIER: &[u8; 8] = b"vks:idn\0";
