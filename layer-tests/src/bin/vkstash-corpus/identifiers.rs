//! Module identifiers, kept from one run to the next with the UUID of their algorithm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use ash::vk;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::vulkan::Gpu;

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    algorithm: [u8; vk::UUID_SIZE],
    /// Identifiers by the SHA-256 of the module.
    identifiers: BTreeMap<String, Vec<u8>>,
}

/// The identifiers of earlier runs and of this one.
pub(crate) struct Book {
    known: BTreeMap<String, Vec<u8>>,
    learned: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Book {
    /// Reads the identifiers in `path`, if they are of the device's algorithm.
    pub(crate) fn open(path: &Path, gpu: &Gpu) -> Result<Self, Failure> {
        let mut known = BTreeMap::new();
        if path.exists() {
            let stored: Stored = serde_json::from_slice(&fs::read(path)?)?;
            if stored.algorithm == gpu.identifier_algorithm {
                known = stored.identifiers;
            }
        }
        Ok(Self { known, learned: Mutex::default() })
    }

    /// The module's identifier, if an earlier run learned it.
    pub(crate) fn get(&self, digest: &str) -> Option<&[u8]> {
        self.known.get(digest).map(Vec::as_slice)
    }

    /// Queries a module's identifier.
    pub(crate) fn learn(&self, gpu: &Gpu, digest: &str, module: vk::ShaderModule) {
        let Some(commands) = &gpu.identifiers else { return };
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: a live module of this device, on which the extension and its feature are enabled.
        unsafe {
            (commands.fp().get_shader_module_identifier_ext)(gpu.device.handle(), module, &mut identifier);
        }
        let size = (identifier.identifier_size as usize).min(identifier.identifier.len());
        let bytes = identifier.identifier[..size].to_vec();
        self.learned.lock().unwrap().insert(digest.to_owned(), bytes);
    }

    /// Writes all identifiers to `path`.
    pub(crate) fn save(self, path: &Path, gpu: &Gpu) -> Result<(), Failure> {
        let mut identifiers = self.known;
        identifiers.extend(self.learned.into_inner().unwrap());
        let stored = Stored { algorithm: gpu.identifier_algorithm, identifiers };
        Ok(fs::write(path, serde_json::to_vec(&stored)?)?)
    }
}
