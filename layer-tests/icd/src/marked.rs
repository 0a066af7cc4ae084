//! Modules whose code has a word that a fault names.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::config;
use crate::hash::Digest;

static MARKED: LazyLock<Mutex<HashMap<Digest, Vec<u32>>>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, HashMap<Digest, Vec<u32>>> {
    MARKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a module, if its code has such words.
pub fn note(digest: &Digest, code: &[u8]) {
    let faults = &config::current().faults;
    let has = |word: &u32| code.chunks_exact(4).any(|bytes| bytes == word.to_le_bytes());
    let words: Vec<u32> = faults.iter().filter_map(|fault| fault.word).filter(has).collect();
    if !words.is_empty() {
        lock().insert(*digest, words);
    }
}

/// The words of a module that faults name.
pub fn words(digest: &Digest) -> Vec<u32> {
    lock().get(digest).cloned().unwrap_or_default()
}
