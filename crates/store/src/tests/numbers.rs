//! Reproducible random numbers. Also compiled into the tests of the tool's own crate.

/// A reproducible stream of numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^ number >> 31
    }
}

/// How many seeds a test tries; the variable asks for more, or for less.
pub(crate) fn seeds(usual: u64) -> u64 {
    let asked = std::env::var("VKSTASH_TEST_SEEDS").ok();
    asked.map_or(usual, |asked| asked.parse().unwrap())
}

/// The first of them.
pub(crate) fn first_seed() -> u64 {
    std::env::var("VKSTASH_TEST_FIRST_SEED").map_or(0, |first| first.parse().unwrap())
}
