//! Ways of storing a payload.

use vkstash_store::codec::{decode_into, encode_recipe};
use vkstash_store::format::codec::Codec;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use crate::failure::Failure;

/// Bytes in front of a block that the store leaves out.
const HEADS: usize = 9;

/// The compression level for recipes.
const LEVEL: i32 = 19;

/// One way to compress recipes.
pub(super) struct Way {
    pub(super) name: &'static str,
    /// None: the store's own codec compresses.
    zstd: Option<Zstd>,
    out: Vec<u8>,
}

struct Zstd {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// Bytes of a frame that need not be stored.
    saved: usize,
}

/// A payload as it is stored.
pub(super) struct Stored {
    codec: Codec,
    bytes: Vec<u8>,
    /// Stored bytes.
    pub(super) length: usize,
}

impl Way {
    /// zstd alone, with this dictionary if there is one, and the store's codec.
    pub(super) fn all(dictionary: Option<&[u8]>) -> Result<Vec<Way>, Failure> {
        let (compressor, decompressor) = (Compressor::new(3)?, Decompressor::new()?);
        let alone = Zstd { compressor, decompressor, saved: 0 };
        let mut ways = vec![Way { name: "zstd-3", zstd: Some(alone), out: Vec::new() }];
        if let Some(dictionary) = dictionary {
            ways.push(Way::with_dictionary(dictionary)?);
        }
        ways.push(Way { name: "the store's codec", zstd: None, out: Vec::new() });
        Ok(ways)
    }

    /// The store's codec with another dictionary.
    pub(super) fn with_dictionary(dictionary: &[u8]) -> Result<Way, Failure> {
        let mut compressor = Compressor::with_dictionary(LEVEL, dictionary)?;
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        let decompressor = Decompressor::with_dictionary(dictionary)?;
        let zstd = Zstd { compressor, decompressor, saved: HEADS };
        Ok(Way { name: "this dictionary", zstd: Some(zstd), out: Vec::new() })
    }

    /// Encodes; the payload stays as it is if that does not make it smaller.
    pub(super) fn encode(&mut self, payload: &[u8]) -> Stored {
        let mut bytes = Vec::new();
        let Some(zstd) = &mut self.zstd else {
            let codec = encode_recipe(payload, &mut bytes);
            return Stored { codec, length: bytes.len(), bytes };
        };
        bytes.reserve(compress_bound(payload.len()));
        zstd.compressor.compress_to_buffer(payload, &mut bytes).expect("zstd compresses everything");
        let length = bytes.len() - zstd.saved;
        if length < payload.len() {
            return Stored { codec: Codec::Zstd, bytes, length };
        }
        Stored { codec: Codec::Plain, bytes: payload.to_vec(), length: payload.len() }
    }

    /// Whether decoding gives the payload.
    pub(super) fn decode(&mut self, stored: &Stored, payload: &[u8]) -> bool {
        match &mut self.zstd {
            Some(zstd) if stored.codec == Codec::Zstd => {
                self.out.resize(payload.len(), 0);
                zstd.decompressor
                    .decompress_to_buffer(&stored.bytes, &mut self.out[..])
                    .expect("what it compressed");
            }
            _ => {
                decode_into(stored.codec, &stored.bytes, payload.len(), &mut self.out)
                    .expect("what it encoded");
            }
        }
        self.out == payload
    }
}
