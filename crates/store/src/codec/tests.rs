//! Everything comes back as it was, and nothing that is damaged does harm.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::collection::vec;
use proptest::prelude::*;

use crate::codec::{decode_into, encode_module};
use crate::format::codec::Codec;

/// A module's payload of this many rounds of a loop body, with names and a constant that is no small number.
fn payload(rounds: u32) -> Vec<u8> {
    let mut words = vec![0, 0x0723_0203, 0x0001_0500, 11, 100 + 4 * rounds, 0];
    words.extend([2 << 16 | 17, 1, 6 << 16 | 11, 1, 0x4C53_4C47, 0x6474_732E, 0x3035_342E, 0]);
    for id in 0..8 {
        words.extend([4 << 16 | 5, 10 + id, 0x6E69_616D, 0]);
        words.extend([4 << 16 | 43, 2, 20 + id, 0x3F80_0000 + id]);
    }
    for round in 0..rounds {
        let next = 100 + 4 * round;
        words.extend([5 << 16 | 65, 3, next, 10 + round % 8, 20]);
        words.extend([4 << 16 | 61, 2, next + 1, next]);
        words.extend([5 << 16 | 129, 2, next + 2, next + 1, 20 + round % 5]);
        words.extend([3 << 16 | 62, next, next + 2, 2 << 16 | 248, next + 3]);
    }
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

fn round_trip(payload: &[u8]) -> (Codec, Vec<u8>) {
    let (mut stored, mut back) = (vec![1, 2, 3], vec![4]);
    let codec = encode_module(payload, &mut stored);
    assert_eq!(decode_into(codec, &stored, payload.len(), &mut back), Ok(()));
    assert_eq!(back, payload);
    assert!(stored.len() <= payload.len());
    (codec, stored)
}

#[test]
fn spirv_comes_back_and_is_smaller_than_with_zstd_alone() {
    let payload = payload(500);
    let (codec, stored) = round_trip(&payload);
    assert_eq!(codec, Codec::Spirv);
    let plain = zstd::bulk::compress(&payload, 3).unwrap();
    assert!(stored.len() * 2 < plain.len(), "{} of {}", stored.len(), plain.len());
}

#[test]
fn what_is_no_spirv_comes_back() {
    round_trip(&[]);
    assert_eq!(round_trip(&[7]).0, Codec::Plain);
    assert_eq!(round_trip(&[7; 1000]).0, Codec::Zstd);
    let swapped: Vec<u8> = payload(40).chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    assert_eq!(round_trip(&swapped).0, Codec::Zstd);
}

#[test]
fn a_module_cut_anywhere_comes_back() {
    let payload = payload(20);
    for length in 0..payload.len() {
        round_trip(&payload[..length]);
    }
}

#[test]
fn more_instructions_than_have_numbers_come_back() {
    let mut payload = payload(1);
    for round in 0..3_u32 {
        for opcode in 0..700_u32 {
            let words = 7 + (opcode + round) % 3;
            payload.extend((words << 16 | opcode).to_le_bytes());
            (1..words).for_each(|_| payload.extend([opcode as u8, 0, 0, 0]));
        }
    }
    assert_eq!(round_trip(&payload).0, Codec::Spirv);
}

#[test]
fn every_cut_of_an_encoded_module_is_an_error() {
    let payload = payload(60);
    let (codec, stored) = round_trip(&payload);
    for length in 0..stored.len() {
        let mut out = Vec::new();
        assert!(decode_into(codec, &stored[..length], payload.len(), &mut out).is_err(), "{length}");
        assert!(out.is_empty());
    }
}

#[test]
fn every_cut_of_the_filters_output_is_an_error() {
    let payload = payload(60);
    let mut filtered = Vec::new();
    assert!(crate::codec::spirv::encode(&payload, &mut filtered));
    let mut out = vec![0; payload.len()];
    assert_eq!(crate::codec::spirv::decode(&filtered, &mut out), Some(()));
    for length in 0..filtered.len() {
        assert_eq!(crate::codec::spirv::decode(&filtered[..length], &mut out), None, "{length}");
    }
}

#[test]
fn another_length_than_recorded_is_an_error() {
    let payload = payload(60);
    for codec in [Codec::Plain, Codec::Zstd, Codec::Spirv] {
        let stored = match codec {
            Codec::Plain => payload.clone(),
            Codec::Zstd => zstd::bulk::compress(&payload, 3).unwrap(),
            Codec::Spirv => round_trip(&payload).1,
            Codec::Dictionary => unreachable!("has tests of its own"),
        };
        for length in [0, 1, payload.len() - 4, payload.len() - 1, payload.len() + 1, 3 * payload.len()] {
            let mut out = Vec::new();
            assert!(decode_into(codec, &stored, length, &mut out).is_err(), "{codec:?} {length}");
            assert!(out.is_empty() && out.capacity() <= length);
        }
    }
}

#[test]
fn the_same_module_is_stored_the_same_way_by_every_thread() {
    let payload = payload(80);
    let here = round_trip(&payload);
    round_trip(&[9; 5000]);
    assert_eq!(round_trip(&payload), here);
    assert_eq!(std::thread::spawn(move || round_trip(&payload)).join().unwrap(), here);
}

/// What is in files can only be read by the same tables and predictions: an intended change needs a new codec.
#[test]
fn the_filter_writes_what_it_always_wrote() {
    let mut payload = payload(60);
    for opcode in 0..7000_u32 {
        let operands = [opcode % 90, opcode / 3, 1000 - opcode % 7, opcode % 2 * 0x3F80_0000];
        payload.extend((5 << 16 | opcode).to_le_bytes());
        operands.iter().for_each(|word| payload.extend(word.to_le_bytes()));
    }
    for round in 0..4000_u32 {
        [4 << 16 | 128, 9, 200 + round, 190 + round]
            .iter()
            .for_each(|word| payload.extend(word.to_le_bytes()));
    }
    let mut filtered = Vec::new();
    assert!(crate::codec::spirv::encode(&payload, &mut filtered));
    assert_eq!(crc32c::crc32c(&filtered), 0x9140_CA0B);
    let mut back = vec![0; payload.len()];
    assert_eq!(crate::codec::spirv::decode(&filtered, &mut back), Some(()));
    assert_eq!(back, payload);
}

#[test]
fn numbers_of_codecs_stay() {
    for (number, codec) in
        [Codec::Plain, Codec::Zstd, Codec::Spirv, Codec::Dictionary].into_iter().enumerate()
    {
        assert_eq!(codec.number(), number as u8);
        assert_eq!(Codec::from_number(number as u8), Some(codec));
    }
    assert_eq!(Codec::from_number(4), None);
}

proptest! {
    #[test]
    fn any_bytes_come_back(bytes in vec(any::<u8>(), 0..2000)) {
        round_trip(&bytes);
    }

    #[test]
    fn any_words_after_a_header_come_back(words in vec(prop_oneof![any::<u32>(), 0..300_u32,
        (1..6_u32, 0..400_u32).prop_map(|(words, opcode)| words << 16 | opcode)], 0..600)) {
        let mut bytes = payload(30);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        round_trip(&bytes);
    }

    #[test]
    fn random_bytes_do_no_harm(number in 0..4_u8, bytes in vec(any::<u8>(), 0..2000), length in 0..5000_usize) {
        let mut out = Vec::new();
        let _ = decode_into(Codec::from_number(number).unwrap(), &bytes, length, &mut out);
        prop_assert!(out.capacity() <= length.max(bytes.len()));
    }

    #[test]
    fn damage_before_zstd_does_no_harm(flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let payload = payload(50);
        let mut stored = round_trip(&payload).1;
        for (at, byte) in flips {
            *at.get_mut(&mut stored) = byte;
        }
        let mut out = Vec::new();
        if decode_into(Codec::Spirv, &stored, payload.len(), &mut out).is_ok() {
            prop_assert_eq!(out.len(), payload.len());
        }
    }

    #[test]
    fn damage_behind_zstd_does_no_harm(flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        length in 0..4000_usize) {
        let mut filtered = Vec::new();
        crate::codec::spirv::encode(&payload(50), &mut filtered);
        for (at, byte) in flips {
            *at.get_mut(&mut filtered) = byte;
        }
        let _ = crate::codec::spirv::decode(&filtered, &mut vec![0; payload(50).len()]);
        let _ = crate::codec::spirv::decode(&filtered, &mut vec![0; length]);
    }
}
