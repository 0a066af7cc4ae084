//! Codecs: how payloads are stored.

/// How a payload is stored. The numbers are in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Unchanged.
    Plain = 0,
    /// One zstd frame.
    Zstd = 1,
    /// One zstd frame of the output of the SPIR-V filter.
    Spirv = 2,
    /// The content of one zstd block that needs the dictionary of recipes.
    Dictionary = 3,
}

impl Codec {
    /// The codec with that number in files.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Zstd),
            2 => Some(Self::Spirv),
            3 => Some(Self::Dictionary),
            _ => None,
        }
    }

    /// The number in files.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Why a stored payload cannot be decoded. The output is empty then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The decoded payload has another length than the record says.
    #[error("the payload is not of the recorded length")]
    Length,
    /// The stored payload is no valid zstd frame.
    #[error("the payload does not decompress")]
    Zstd,
    /// The streams of the filter do not fit together.
    #[error("the filtered payload is damaged")]
    Filter,
    /// Not enough memory.
    #[error("not enough memory for the payload")]
    Memory,
}
