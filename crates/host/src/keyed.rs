//! The hasher of maps whose keys come from files.

use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::fast::{FoldHasher, SeedableRandomState};

use crate::util::random;

/// Makes hashers whose results the writer of a file cannot foresee: all bytes of a key count, with a secret of this
/// map. A file with keys that were chosen to collide could otherwise make a map grow, or a look-up last, without end.
#[derive(Clone, Debug)]
pub struct Keyed(SeedableRandomState);

impl Default for Keyed {
    fn default() -> Self {
        Keyed(SeedableRandomState::with_seed(random(), SharedSeed::global_random()))
    }
}

impl BuildHasher for Keyed {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}
