//! The parts of a payload.

use proptest::prelude::*;

use super::super::varint::VarintError;
use super::super::{payload, varint};

proptest! {
    #[test]
    fn words_are_decoded_as_they_were_encoded(
        words in proptest::collection::vec(any::<u32>(), 0..200),
        shift in 0..32,
    ) {
        let words: Vec<u32> = words.iter().map(|word| word >> shift).collect();
        let bytes = varint::encode(&words);
        prop_assert_eq!(varint::decode(&bytes, words.len()), Ok(words.clone()));
        prop_assert_eq!(varint::decode(&bytes, words.len() + 1), Err(VarintError::TooShort));
        if let Some(fewer) = words.len().checked_sub(1) {
            prop_assert_eq!(varint::decode(&bytes, fewer), Err(VarintError::TooLong));
            prop_assert_eq!(varint::decode(&bytes[..bytes.len() - 1], words.len()), Err(VarintError::TooShort));
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
        count in 0..70usize,
    ) {
        if let Ok(words) = varint::decode(&bytes, count) {
            prop_assert_eq!(words.len(), count);
        }
    }
}

#[test]
fn words_have_the_bytes_that_fossilize_gives_them() {
    for (word, bytes) in [
        (0, &[0][..]),
        (0x7f, &[0x7f]),
        (0x80, &[0x80, 1]),
        (0x0723_0203, &[0x83, 0x84, 0x8c, 0x39]),
        (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0xf]),
    ] {
        assert_eq!(varint::encode(&[word]), bytes);
    }
    // A longer form of 0, a word of 33 bits, one that never ends, more words than bytes.
    assert_eq!(varint::decode(&[0x80, 0], 1), Ok(vec![0]));
    assert_eq!(varint::decode(&[0xff, 0xff, 0xff, 0xff, 0x1f], 1), Err(VarintError::TooWide));
    assert_eq!(varint::decode(&[0x80; 9], 1), Err(VarintError::TooWide));
    assert_eq!(varint::decode(&[0; 9], usize::MAX), Err(VarintError::TooShort));
}

#[test]
fn a_payload_has_two_parts() {
    assert_eq!(payload::split(b"{}"), (&b"{}"[..], None));
    assert_eq!(payload::split(b"{}\0a\0b"), (&b"{}"[..], Some(&b"a\0b"[..])));
    assert_eq!(payload::split(&payload::join(b"", b"")), (&b""[..], Some(&b""[..])));
}
