//! A shader object, and its binary, which contains the shader's shape, so that wrong use is noticed.

use crate::config::Config;
use crate::hash::{Digest, digest};

/// A binary: magic, version, UUID, shape, key, set, salt, code, 32 bytes of checksum, and zeros for `code_bytes`.
const MAGIC: [u8; 4] = *b"VSBD";
const CODE: usize = 64;
const SIZE: usize = 4 + 4 + 16 + 3 * 32 + 8 + CODE + 32;

/// A VkShaderEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// Its create info with the code.
    pub key: Digest,
    /// Its create info without the code.
    pub shape: Digest,
    /// The shaders that it is linked with; zeros: none.
    pub set: Digest,
    /// The binary to which it points.
    pub code: Option<KeptCode>,
}

/// The program's memory that a shader object points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCode {
    address: usize,
    length: usize,
    digest: Digest,
}

impl KeptCode {
    /// A binary, which stays where it is.
    pub fn new(binary: &[u8]) -> KeptCode {
        KeptCode {
            address: binary.as_ptr().expose_provenance(),
            length: binary.len(),
            digest: digest("kept", binary),
        }
    }

    /// Whether the memory still holds it. A program that has freed it may be ended by the look.
    pub fn is_there(&self) -> bool {
        let address = std::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: none: the test driver reads what real drivers read, and memory that is gone is what it looks for.
        let binary = unsafe { std::slice::from_raw_parts(address, self.length) };
        digest("kept", binary) == self.digest
    }
}

/// The digest of the shaders with these keys, which are linked.
pub fn set(keys: impl Iterator<Item = Digest>) -> Digest {
    let mut keys: Vec<Digest> = keys.collect();
    keys.sort_unstable();
    digest("linked shaders", &keys.concat())
}

impl Shader {
    /// Its binary. The salt has no meaning.
    pub fn binary(&self, config: &Config, salt: u64) -> Vec<u8> {
        self.binary_of(config, config.shader_binary_version, salt)
    }

    fn binary_of(&self, config: &Config, version: u32, salt: u64) -> Vec<u8> {
        let code =
            [digest("code", &self.key), digest("linked code", &[self.key, self.set].concat())].concat();
        let version = version.to_le_bytes();
        let head = [&MAGIC[..], &version, &config.shader_uuid(), &self.shape, &self.key, &self.set].concat();
        let mut data = [head, salt.to_le_bytes().to_vec(), code].concat();
        data.extend(digest("shader binary", &data));
        data.resize(SIZE + config.code_bytes.unwrap_or(0), 0);
        data
    }

    /// The shader of a binary that is whole and that a driver with this configuration takes.
    pub fn parse(data: &[u8], config: &Config) -> Option<Shader> {
        if data.len() < SIZE {
            return None;
        }
        let part = |at: usize| -> Digest { std::array::from_fn(|i| data[at + i]) };
        let version = u32::from_le_bytes(std::array::from_fn(|i| data[4 + i]));
        let salt = u64::from_le_bytes(std::array::from_fn(|i| data[120 + i]));
        let shader = Shader { shape: part(24), key: part(56), set: part(88), code: None };
        let is_whole = shader.binary_of(config, version, salt) == data;
        (is_whole && version <= config.shader_binary_version).then_some(shader)
    }
}
