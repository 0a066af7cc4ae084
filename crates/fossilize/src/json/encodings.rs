//! Encodings of bytes and SPIR-V: base64, and integers of variable length.

use super::error::{ParseError, Problem};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648, section 4).
pub fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let used = digit <= group.len();
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if used { DIGITS[value as usize].into() } else { '=' });
        }
    }
    text
}

/// The bytes of a base64 text, which must be padded.
pub fn from_base64(text: &str) -> Result<Vec<u8>, ParseError> {
    let malformed = || ParseError::new(Problem::Encoding("base64"));
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if text.len() % 4 != 0 || padding > 2 {
        return Err(malformed());
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(malformed()),
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Ok(bytes)
}

/// Words in groups of seven bits, the lowest first; the top bit of a byte says that another one follows.
pub fn to_varint(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() * 2);
    for &word in words {
        let mut rest = word;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

/// `count` words, which take all of the bytes.
pub fn from_varint(bytes: &[u8], count: u64) -> Result<Vec<u32>, ParseError> {
    let malformed = || ParseError::new(Problem::Encoding("varint"));
    // Each word takes a byte at least, so this bounds the memory, too.
    let count = usize::try_from(count).ok().filter(|&count| count <= bytes.len()).ok_or_else(malformed)?;
    let mut words = Vec::with_capacity(count);
    let mut rest = bytes.iter();
    while words.len() < count {
        let (mut word, mut shift) = (0u32, 0);
        loop {
            let &byte = rest.next().filter(|_| shift < 32).ok_or_else(malformed)?;
            word |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        words.push(word);
    }
    if rest.next().is_some() { Err(malformed()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        for text in ["A", "AA=", "A===", "====", "AAA ", "A=AA", "AA-_"] {
            assert!(from_base64(text).is_err(), "{text}");
        }
    }

    #[test]
    fn varint_is_seven_bits_a_byte() {
        let words = [0, 0x7f, 0x80, 0x3fff, 0x4000, u32::MAX];
        let bytes = [0, 0x7f, 0x80, 1, 0xff, 0x7f, 0x80, 0x80, 1, 0xff, 0xff, 0xff, 0xff, 0xf];
        assert_eq!(to_varint(&words), bytes);
        assert_eq!(from_varint(&bytes, 6).unwrap(), words);
        assert!(from_varint(&bytes, 5).is_err());
        assert!(from_varint(&bytes, 7).is_err());
        assert!(from_varint(&bytes, u64::MAX).is_err());
        assert!(from_varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0], 1).is_err());
    }

    proptest! {
        #[test]
        fn what_is_packed_can_be_unpacked(words: Vec<u32>, bytes: Vec<u8>) {
            prop_assert_eq!(from_varint(&to_varint(&words), words.len() as u64), Ok(words));
            prop_assert_eq!(from_base64(&to_base64(&bytes)), Ok(bytes));
        }
    }
}
