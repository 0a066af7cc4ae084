//! SPIR-V words as Fossilize stores them: seven bits a byte, the lowest first, the highest bit of a byte set if another
//! byte of the word follows.

/// Why bytes are not the stated words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VarintError {
    /// The bytes end before the last word does.
    #[error("the code ends before its stated number of words")]
    TooShort,
    /// Bytes are left behind the last word.
    #[error("the code goes on behind its stated number of words")]
    TooLong,
    /// A word has more than 32 bits.
    #[error("a word of the code has more than 32 bits")]
    TooWide,
}

/// The bytes of these words, each in its shortest form.
pub fn encode(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len());
    for &word in words {
        let mut rest = word;
        while rest >= 0x80 {
            // The lowest seven bits.
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

/// The `count` words that exactly these bytes stand for. Takes at most four times the memory of the bytes, whatever
/// `count` is. Words in a longer form than the shortest are accepted, as in Fossilize; bits above the 32nd, which
/// Fossilize drops, are not.
pub fn decode(bytes: &[u8], count: usize) -> Result<Vec<u32>, VarintError> {
    if count > bytes.len() {
        return Err(VarintError::TooShort);
    }
    let mut words = Vec::with_capacity(count);
    let mut bytes = bytes.iter();
    for _ in 0..count {
        words.push(word(&mut bytes)?);
    }
    if bytes.len() == 0 { Ok(words) } else { Err(VarintError::TooLong) }
}

fn word<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Result<u32, VarintError> {
    let mut word = 0;
    for shift in [0, 7, 14, 21, 28] {
        let &byte = bytes.next().ok_or(VarintError::TooShort)?;
        let bits = u32::from(byte & 0x7f);
        if shift == 28 && bits > 0xf {
            return Err(VarintError::TooWide);
        }
        word |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(word);
        }
    }
    Err(VarintError::TooWide)
}
