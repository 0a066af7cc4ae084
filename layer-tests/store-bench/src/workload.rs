//! The stored data: the same bytes in every process, generated from a counter.

use sha2::{Digest as _, Sha256};

/// SHA-256 of an entry's number.
pub type Key = [u8; 32];

/// Numbers from here on are never stored.
pub const ABSENT: u64 = 1 << 48;
/// Numbers from here on are single puts.
pub const PUTS: u64 = 1 << 40;
/// Numbers from here on are those of other live writers.
pub const OTHERS: u64 = 1 << 44;

/// Lengths have a log-normal distribution with this mean, between the two bounds. In bytes.
const MEAN: f64 = 9.0 * 1024.0;
const SIGMA: f64 = 0.7;
const SHORTEST: f64 = 1024.0;
const LONGEST: f64 = 65536.0;

/// A small generator for incompressible bytes and random choices.
pub struct Random(u64);

impl Random {
    /// Starts a sequence of numbers that depends on the seed alone.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number (SplitMix64).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn random_of(number: u64) -> Random {
    Random::new(number.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0x7653_7461_7368)
}

/// The key of an entry.
pub fn key(number: u64) -> Key {
    Sha256::digest(number.to_le_bytes()).into()
}

/// The length of an entry's value, in bytes.
pub fn length(number: u64) -> usize {
    let mut random = random_of(!number);
    // The sum of twelve uniform numbers is nearly normal, and rounds the same everywhere.
    let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let median = MEAN * (-SIGMA * SIGMA / 2.0).exp();
    (median * (SIGMA * normal).exp()).clamp(SHORTEST, LONGEST) as usize
}

/// The value of an entry.
pub fn value(number: u64) -> Box<[u8]> {
    let mut bytes = vec![0; length(number)].into_boxed_slice();
    let mut random = random_of(number);
    for chunk in bytes.chunks_mut(8) {
        let word = random.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

/// Whether `bytes` can be the value of an entry, by length and first bytes: cheap enough for a million entries.
pub fn looks_like(number: u64, bytes: &[u8]) -> bool {
    bytes.len() == length(number) && bytes.starts_with(&random_of(number).next().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_about_nine_kilobytes_and_within_bounds() {
        let lengths: Vec<usize> = (0..20_000).map(length).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((mean / MEAN - 1.0).abs() < 0.03, "{mean}");
        assert!(lengths.iter().all(|length| (1024..=65536).contains(length)));
    }

    #[test]
    fn a_value_is_the_same_in_every_process() {
        let digest = Sha256::digest(value(7));
        assert_eq!(digest[..4], [61, 182, 54, 25]);
        assert!(looks_like(7, &value(7)));
        assert!(!looks_like(8, &value(7)));
    }
}
