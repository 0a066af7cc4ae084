//! Module identities: what a shader module is called everywhere in the stash.

use ash::vk;
use sha2::{Digest, Sha256};

use crate::key;
use crate::record::Key;

/// VkPhysicalDeviceShaderModuleIdentifierPropertiesEXT::shaderModuleIdentifierAlgorithmUUID where the layer
/// answers with module identities. Constant for ever: identifiers outlive drivers and versions of this
/// layer (contract 2.3).
pub const ALGORITHM_UUID: [u8; 16] = *b"vkstash-sha256-1";

/// Separates module identities from every other digest; a new way of computing them needs a new tag and a
/// new [`ALGORITHM_UUID`].
const TAG: &[u8; 12] = b"vks:module1\0";

/// SHA-256 over a schema tag, the module's flags and its SPIR-V words: all that the identity may depend on
/// (contract 2.2).
pub fn module_identity(flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
    Sha256::new()
        .chain_update(TAG)
        .chain_update(flags.as_raw().to_le_bytes())
        .chain_update(code)
        .finalize()
        .into()
}

/// A driver's own identifier: 1 to 32 bytes (contract 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeIdentifier {
    size: u8,
    bytes: [u8; 32],
}

impl NativeIdentifier {
    /// None where the size is not one that an identifier can have.
    pub fn new(bytes: &[u8]) -> Option<NativeIdentifier> {
        let size = u8::try_from(bytes.len()).ok().filter(|&size| (1..=32).contains(&size))?;
        let mut padded = [0; 32];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(NativeIdentifier { size, bytes: padded })
    }

    /// The bytes that count.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }

    /// The name under which the pair (identifier, module identity) is stored.
    pub fn digest(&self) -> Key {
        key::digest(key::IDENTIFIER, self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_depends_on_flags_and_code_alone_and_never_changes() {
        let identity =
            |flags, code: &[u8]| module_identity(vk::ShaderModuleCreateFlags::from_raw(flags), code);
        assert_eq!(identity(0, &[1, 2, 3, 4]), identity(0, &[1, 2, 3, 4]));
        assert_ne!(identity(0, &[1, 2, 3, 4]), identity(1, &[1, 2, 3, 4]));
        assert_ne!(identity(0, &[1, 2, 3, 4]), identity(0, &[1, 2, 3, 5]));
        let hex: String = identity(0, &[]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN_EMPTY);
    }

    /// printf 'vks:module1\0\0\0\0\0' | sha256sum
    const GOLDEN_EMPTY: &str = "aabb3287b987a8ddc64cb2e2af37a6053f9e1e0ad2927b8de60986d291162761";

    #[test]
    fn identifiers_are_equal_by_size_and_those_bytes() {
        assert_eq!(NativeIdentifier::new(&[]), None);
        assert_eq!(NativeIdentifier::new(&[0; 33]), None);
        let short = NativeIdentifier::new(&[7, 0]);
        assert_ne!(short, NativeIdentifier::new(&[7]));
        assert_ne!(short.map(|id| id.digest()), NativeIdentifier::new(&[7]).map(|id| id.digest()));
    }
}
