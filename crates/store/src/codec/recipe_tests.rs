//! The dictionary, and what is stored with it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::collection::vec;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::codec::dictionary::DICTIONARY;
use crate::codec::{decode_into, encode_recipe};
use crate::format::codec::{Codec, CodecError};
use vkstash_host::text::hex;

/// Encoded recipes, layouts and render passes, as they are published.
fn golden() -> Vec<Vec<u8>> {
    let lines = include_str!("../../../../tests/golden/recipes-2.txt").lines();
    let digits = lines.map(|line| line.split_once(' ').unwrap().0.as_bytes());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(|digits| digits.chunks(2).map(byte).collect()).collect()
}

fn round_trip(payload: &[u8]) -> (Codec, Vec<u8>) {
    let (mut stored, mut back) = (vec![1, 2, 3], vec![4]);
    let codec = encode_recipe(payload, &mut stored);
    assert_eq!(decode_into(codec, &stored, payload.len(), &mut back), Ok(()));
    assert_eq!(back, payload);
    assert_eq!(codec == Codec::Plain, stored.len() == payload.len());
    assert!(stored.len() <= payload.len());
    (codec, stored)
}

/// What is in files can only be read with the same bytes: an intended change needs a new codec.
#[test]
fn the_dictionary_is_what_it_always_was() {
    assert_eq!(DICTIONARY.len(), 8192);
    let digest: [u8; 32] = Sha256::digest(DICTIONARY).into();
    assert_eq!(hex(&digest), "415099e637612c702e5871e27dfc9963961e714dfea2e40a38237e9680ca10f5");
    let format = include_str!("../../../../docs/format.md");
    assert!(format.contains(&hex(&digest)), "docs/format.md names it");
}

/// Written by the first version of the codec: the first golden recipe.
#[test]
fn what_was_stored_once_comes_back() {
    const STORED: &[u8] = &[16, 2, 2, 4, 240, 192, 109, 220, 61, 224, 151, 109, 184, 135, 245, 10, 114];
    let payload = golden().swap_remove(0);
    let mut back = Vec::new();
    assert_eq!(decode_into(Codec::Dictionary, STORED, payload.len(), &mut back), Ok(()));
    assert_eq!(back, payload);
}

#[test]
fn recipes_come_back_and_are_smaller_than_with_zstd_alone() {
    let (mut with, mut alone) = (0, 0);
    for payload in golden() {
        let (codec, stored) = round_trip(&payload);
        assert_eq!(codec, Codec::Dictionary);
        with += stored.len();
        alone += zstd::bulk::compress(&payload, 19).unwrap().len();
    }
    assert!(with * 4 < alone * 3, "{with} against {alone}");
}

#[test]
fn what_does_not_get_smaller_is_stored_as_it_is() {
    assert_eq!(round_trip(&[]).0, Codec::Plain);
    assert_eq!(round_trip(&[7]).0, Codec::Plain);
    let digests: Vec<u8> =
        (0..8_u8).flat_map(|number| -> [u8; 32] { Sha256::digest([number]).into() }).collect();
    assert_eq!(round_trip(&digests).0, Codec::Plain);
}

#[test]
fn payloads_of_the_longest_block_and_beyond_come_back() {
    for length in [1 << 10, (128 << 10) - 1, 128 << 10, (128 << 10) + 1, 300_000] {
        // One byte again and again makes another kind of block.
        round_trip(&vec![5; length]);
        let text: Vec<u8> = golden().concat().into_iter().cycle().take(length).collect();
        let codec = if length <= 128 << 10 { Codec::Dictionary } else { Codec::Plain };
        assert_eq!(round_trip(&text).0, codec);
    }
}

#[test]
fn the_same_recipe_is_stored_the_same_way_by_every_thread() {
    let here: Vec<_> = golden().iter().map(|payload| round_trip(payload)).collect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                round_trip(&[9; 5000]);
                golden().iter().rev().map(|payload| round_trip(payload)).collect::<Vec<_>>()
            })
        })
        .collect();
    for thread in threads {
        let mut there = thread.join().unwrap();
        there.reverse();
        assert_eq!(there, here);
    }
}

#[test]
fn other_codecs_have_no_dictionary_before_and_after_a_recipe() {
    let payload = golden().concat();
    let (recipe, plain) = (round_trip(&payload).1, zstd::bulk::compress(&payload, 3).unwrap());
    let mut out = Vec::new();
    for _ in 0..2 {
        assert_eq!(decode_into(Codec::Zstd, &plain, payload.len(), &mut out), Ok(()));
        assert_eq!(decode_into(Codec::Dictionary, &recipe, payload.len(), &mut out), Ok(()));
        assert_eq!(out, payload);
        assert!(decode_into(Codec::Zstd, &recipe, payload.len(), &mut out).is_err());
    }
}

#[test]
fn every_cut_and_another_length_are_errors() {
    for payload in golden() {
        let stored = round_trip(&payload).1;
        let mut out = Vec::new();
        for length in 0..stored.len() {
            let cut = decode_into(Codec::Dictionary, &stored[..length], payload.len(), &mut out);
            assert!(cut.is_err() && out.is_empty(), "{length}");
        }
        for length in [0, 1, payload.len() - 1, payload.len() + 1, 2 * payload.len()] {
            assert!(decode_into(Codec::Dictionary, &stored, length, &mut out).is_err() && out.is_empty());
        }
    }
}

/// A record's head may promise anything: no memory is taken for what no block can hold.
#[test]
fn a_length_that_no_block_has_takes_no_memory() {
    let mut out = Vec::new();
    for length in [(128 << 10) + 1, 64 << 20, usize::MAX] {
        assert_eq!(decode_into(Codec::Dictionary, &[0; 40], length, &mut out), Err(CodecError::Length));
        assert_eq!(out.capacity(), 0);
    }
}

proptest! {
    #[test]
    fn any_bytes_come_back(bytes in vec(any::<u8>(), 0..2000)) {
        round_trip(&bytes);
    }

    #[test]
    fn recipes_with_any_bytes_in_them_come_back(
        which in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..60)) {
        let mut payload = which.get(&golden()).clone();
        for (at, byte) in changes {
            *at.get_mut(&mut payload) = byte;
        }
        round_trip(&payload[..=cut.index(payload.len())]);
    }

    #[test]
    fn damage_does_no_harm(which in any::<prop::sample::Index>(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..10)) {
        let payload = which.get(&golden()).clone();
        let mut stored = round_trip(&payload).1;
        for (at, byte) in flips {
            *at.get_mut(&mut stored) = byte;
        }
        let mut out = Vec::new();
        match decode_into(Codec::Dictionary, &stored, payload.len(), &mut out) {
            Ok(()) => prop_assert_eq!(out.len(), payload.len()),
            Err(_) => prop_assert!(out.is_empty()),
        }
        prop_assert!(out.capacity() <= payload.len());
    }
}
