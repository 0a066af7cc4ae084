//! The hash for the driver's keys and identifiers.

use sha2::{Digest as _, Sha256};

/// Contents of an object.
pub type Digest = [u8; 32];

/// Collects content. Everything is written with its length or a fixed size, so different sequences differ. The second
/// hash leaves out the code of shaders.
#[derive(Clone, Default)]
pub struct Hasher(Sha256, Sha256);

impl Hasher {
    /// A hasher for one kind of content.
    pub fn new(kind: &str) -> Hasher {
        let mut hasher = Hasher::default();
        hasher.bytes(kind.as_bytes());
        hasher
    }

    /// A number.
    pub fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
        self.1.update(number.to_le_bytes());
    }

    /// A 32-bit number, for the enums, flags and booleans of Vulkan.
    pub fn word(&mut self, number: u32) {
        self.number(number.into());
    }

    /// A signed number, for raw enums.
    pub fn signed(&mut self, number: i32) {
        self.number(number as u32 as u64);
    }

    /// A float, as its bits.
    pub fn float(&mut self, number: f32) {
        self.word(number.to_bits());
    }

    /// Hashes these bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
        self.1.update(bytes);
    }

    /// Bytes of code, and what replaces them in the shape.
    pub fn code(&mut self, code: &[u8], shape: &[u8]) {
        self.0.update((code.len() as u64).to_le_bytes());
        self.0.update(code);
        self.1.update((shape.len() as u64).to_le_bytes());
        self.1.update(shape);
    }

    /// The digest without code.
    pub fn shape(&self) -> Digest {
        self.1.clone().finalize().into()
    }

    /// The digest.
    pub fn finish(self) -> Digest {
        self.0.finalize().into()
    }
}

/// A digest of one byte string.
pub fn digest(kind: &str, bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::new(kind);
    hasher.bytes(bytes);
    hasher.finish()
}
