//! Training of the dictionary, with zstd's own trainer.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use vkstash_model::key;
use vkstash_model::recipe::OwnedExtension;
use vkstash_model::record::{Key, Kind};

use super::samples::{self, KINDS, Program};
use super::ways::Way;
use crate::failure::Failure;
use crate::progress::progress;

/// Number of trainings, each with other random digests: their results differ by a few percent.
const ATTEMPTS: u32 = 12;

/// A dictionary of at most `size` bytes. The same stashes give the same dictionary.
pub(super) fn train(programs: &[Program], size: usize) -> Result<Vec<u8>, Failure> {
    let shown: Vec<_> = programs.iter().flat_map(shown).collect();
    let check = with_digests(&shown, ATTEMPTS);
    let mut best: Option<(usize, Vec<u8>)> = None;
    for attempt in 0..ATTEMPTS {
        let dictionary = zstd::dict::from_samples(&with_digests(&shown, attempt), size)?;
        let mut way = Way::with_dictionary(&dictionary)?;
        let stored = check.iter().map(|sample| way.encode(sample).length).sum();
        progress(&format!("attempt {attempt}: {} samples are stored in {stored} bytes", check.len()));
        if best.as_ref().is_none_or(|(least, _)| stored < *least) {
            best = Some((stored, dictionary));
        }
    }
    best.map(|(_, dictionary)| dictionary).ok_or_else(|| "nothing to train on".into())
}

/// How many samples of a kind the trainer is shown of each program, which are worth the same so. Set-ups are long
/// and there is one of them in a stash.
fn most(kind: Kind) -> usize {
    match kind {
        Kind::Recipe => 64,
        Kind::Layout => 32,
        Kind::RenderPass => 8,
        _ => 4,
    }
}

/// The samples of one program: repeated if there are few, evenly spread if there are many.
fn shown(program: &Program) -> Vec<(Kind, &[u8])> {
    let mut shown = Vec::new();
    for kind in KINDS {
        // Recipes that differ only in digests count as one.
        let different: BTreeMap<Vec<u8>, &[u8]> =
            program.of(kind).map(|payload| (with_other_digests(kind, payload, None), payload)).collect();
        let different: Vec<_> = different.into_values().collect();
        progress(&format!("{}: {} different ones of kind {}", program.name, different.len(), kind.name()));
        if !different.is_empty() {
            let step = different.len().div_ceil(most(kind));
            shown.extend(
                different.iter().step_by(step).cycle().take(most(kind)).map(|&payload| (kind, payload)),
            );
        }
    }
    shown
}

fn with_digests(shown: &[(Kind, &[u8])], attempt: u32) -> Vec<Vec<u8>> {
    let first = attempt * shown.len() as u32;
    (first..)
        .zip(shown)
        .map(|(number, (kind, payload))| with_other_digests(*kind, payload, Some(number)))
        .collect()
}

/// A payload with other digests: random ones for each number, or zeros; and without the program's names. Content that
/// differs from stash to stash is useless in a dictionary.
fn with_other_digests(kind: Kind, payload: &[u8], number: Option<u32>) -> Vec<u8> {
    if kind == Kind::DeviceConfiguration {
        return without_names(payload).unwrap_or_default();
    }
    let mut bytes = payload.to_vec();
    if kind == Kind::Recipe {
        for digest in samples::digests(payload) {
            let other: Key = number.map_or([0; 32], |number| {
                Sha256::new().chain_update(number.to_le_bytes()).chain_update(digest).finalize().into()
            });
            replace(&mut bytes, &digest, &other);
        }
    }
    bytes
}

/// A set-up as it is encoded: schema; the program's name and version, the engine's, the API's; features,
/// structures, extensions.
type Setup = (u32, (Vec<u8>, u32, Vec<u8>, u32, u32), Vec<u32>, Vec<OwnedExtension>, Vec<Vec<u8>>);

fn without_names(payload: &[u8]) -> Option<Vec<u8>> {
    let mut setup: Setup = key::decode(payload).ok()?;
    setup.1.0.clear();
    setup.1.2.clear();
    let mut bytes = Vec::new();
    key::encode(&setup, &mut bytes).ok()?;
    Some(bytes)
}

/// Replaces `digest` by `other` everywhere.
fn replace(bytes: &mut [u8], digest: &Key, other: &Key) {
    let places: Vec<_> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(digest)).collect();
    for at in places {
        bytes[at..at + digest.len()].copy_from_slice(other);
    }
}
