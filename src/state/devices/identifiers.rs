//! The identities of a device's modules, and what its driver calls them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use ash::vk;

use super::decided::IdentifierMode;
use super::device::Device;
use crate::state::process::switches::{self, CacheKinds};
use vkstash_model::counters::Count;
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::record::{Key, Kind};

impl Device {
    /// Queues a module's record if the stash does not have it (code that it has is not copied), and learns
    /// what the driver calls it.
    ///
    /// # Safety
    /// `module` is a live module of this device.
    pub unsafe fn keep_module(
        &self,
        module: vk::ShaderModule,
        identity: &Key,
        record: impl FnOnce() -> Option<Box<[u8]>>,
    ) {
        if switches::is_off(CacheKinds::CONVERSIONS) {
            self.count(Count::ModulesSwitchedOff);
            return;
        }
        let Some(stored) = self.stored() else { return };
        if !stored.has_module(identity) {
            self.count(Count::ModulesNew);
            stored.put_module(self.counters(), identity, record());
        }
        if self.decided.identifiers == IdentifierMode::Native {
            // SAFETY: `module` is live; the mode is Native only if the program enabled the extension on this device.
            if let Some(native) = unsafe { self.native_identifier(module) } {
                self.learn_pair(&native, identity);
            }
        }
    }

    /// The identity of a shader module, also of one that the parent process created before this one was forked from
    /// it.
    pub fn module_identity(&self, module: vk::ShaderModule) -> Option<Key> {
        // Reading waits for no thread.
        let known = self.objects.modules.read(module, |module| module.identity);
        known.or_else(|| self.parents.as_ref()?.module_identity(module))
    }

    /// # Safety
    /// `module` is a live module of this device, on which the program enabled the extension.
    unsafe fn native_identifier(&self, module: vk::ShaderModule) -> Option<NativeIdentifier> {
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: `module` is a live module of `self.handle`, whose program enabled shaderModuleIdentifier (06884).
        unsafe { (self.table.get_shader_module_identifier?)(self.handle, module, &mut identifier) };
        NativeIdentifier::new(identifier.identifier.get(..identifier.identifier_size as usize)?)
    }

    /// Learns what the driver calls code that never made a module: a program that passes its code inside the
    /// stages may still name it by identifier later.
    ///
    /// # Safety
    /// `flags` and `code` are those of a valid VkShaderModuleCreateInfo.
    pub unsafe fn keep_inline_identifier(
        &self,
        flags: vk::ShaderModuleCreateFlags,
        code: &[u8],
        identity: &Key,
    ) {
        if self.decided.identifiers != IdentifierMode::Native {
            return;
        }
        let Some(query) = self.table.get_shader_module_create_info_identifier else { return };
        // Flags and code alone: in a stage's chain, what follows the create info belongs to the stage.
        let info = vk::ShaderModuleCreateInfo {
            flags,
            code_size: code.len(),
            p_code: code.as_ptr().cast(),
            ..Default::default()
        };
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: a live device that enabled the extension natively; `info` has valid flags and code, and no chain.
        unsafe { query(self.handle, &info, &mut identifier) };
        let bytes = identifier.identifier.get(..identifier.identifier_size as usize);
        if let Some(native) = bytes.and_then(NativeIdentifier::new) {
            self.learn_pair(&native, identity);
        }
    }

    /// Learns that a driver's identifier stands for a module: the driver has just said so.
    fn learn_pair(&self, native: &NativeIdentifier, identity: &Key) {
        let before = self.pairs().pin().insert(*native, *identity).copied();
        if before == Some(*identity) || switches::is_off(CacheKinds::CONVERSIONS) {
            return;
        }
        if let Some(stored) = self.stored() {
            let digest = native.digest();
            // What was known before came from the stash, and is wrong.
            if before.is_some() || !stored.device.contains(Kind::IdentifierPair, &digest) {
                stored.device.put(Kind::IdentifierPair, &digest, Box::new(*identity));
            }
        }
    }

    pub(super) fn pair(&self, native: &NativeIdentifier) -> Option<Key> {
        let pairs = self.pairs().pin();
        if let Some(identity) = pairs.get(native) {
            return Some(*identity);
        }
        if switches::is_off(CacheKinds::CONVERSIONS) {
            return None;
        }
        let mut bytes = Vec::new();
        if !self.stored()?.read_pair(&native.digest(), &mut bytes) {
            return None;
        }
        let identity = Key::try_from(bytes.as_slice()).ok()?;
        pairs.insert(*native, identity);
        Some(identity)
    }
}
