//! How payloads are stored, as numbers in files.

/// How a payload is stored. The numbers stand in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Plain = 0,
    /// One zstd frame.
    Zstd = 1,
    /// The SPIR-V filter, its output in one zstd frame.
    Spirv = 2,
    /// One zstd block that leans on the dictionary of recipes.
    Dictionary = 3,
}

impl Codec {
    /// The codec that a file names by this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Zstd),
            2 => Some(Self::Spirv),
            3 => Some(Self::Dictionary),
            _ => None,
        }
    }

    /// What a file calls it.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Why a stored payload has no meaning. What was to be filled is empty then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Not of the length that the record promises.
    #[error("the payload is not of the recorded length")]
    Length,
    /// Not a zstd frame, or a damaged one.
    #[error("the payload does not decompress")]
    Zstd,
    /// The filter's streams do not fit together.
    #[error("the filtered payload is damaged")]
    Filter,
    /// No memory for it.
    #[error("not enough memory for the payload")]
    Memory,
}
