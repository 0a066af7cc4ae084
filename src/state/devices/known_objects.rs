//! Objects of a device, as capture asks for them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use ash::vk::{self, Handle};

use super::decided::IdentifierMode;
use super::device::Device;
use crate::state::objects::by_handle::Objects;
use crate::state::objects::described::{EncodedObject, LibraryObject, Module};
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::{self, NativeIdentifier};
use vkstash_model::record::Key;
use vkstash_recipe::capture::{self, Library, SubpassUse};
use vkstash_recipe::chain::Refusal;

fn unknown_object() -> Refusal {
    Refusal::plain(BypassReason::UnknownObject)
}

/// What is made of an object is refused like that, where that was left to the driver by design.
fn opaque(refusal: &Refusal) -> Refusal {
    let reason = if refusal.reason.is_by_design() { refusal.reason } else { BypassReason::OpaqueObject };
    Refusal { reason, s_type: refusal.s_type }
}

fn digest_of(objects: &Objects<EncodedObject>, handle: impl Handle) -> Result<Key, Refusal> {
    let read = |object: &EncodedObject| object.as_ref().map(|o| o.digest).map_err(opaque);
    objects.read(handle, read).unwrap_or_else(|| Err(unknown_object()))
}

impl capture::Objects for Device {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        let read = |object: &Module| {
            object.refusal.as_ref().map_or(Ok(object.identity), |refusal| Err(opaque(refusal)))
        };
        self.objects.modules.read(module, read).unwrap_or_else(|| Err(unknown_object()))
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        identifier::module_identity(flags, code)
    }

    fn identified(&self, identifier: &NativeIdentifier) -> Option<Key> {
        match self.decided.identifiers {
            IdentifierMode::Emulated => Key::try_from(identifier.as_bytes()).ok(),
            _ => self.pair(identifier),
        }
    }

    fn algorithm(&self) -> [u8; 16] {
        match self.decided.identifiers {
            IdentifierMode::Emulated => identifier::ALGORITHM_UUID,
            _ => self.physical.algorithm,
        }
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        digest_of(&self.objects.layouts, layout)
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        let read = |object: &EncodedObject| match object {
            Err(refusal) => Err(opaque(refusal)),
            Ok(object) => match object.subpasses.get(subpass as usize) {
                Some(uses) => Ok((object.digest, *uses)),
                None => Err(Refusal::plain(BypassReason::WrongStructure)),
            },
        };
        self.objects.render_passes.read(render_pass, read).unwrap_or_else(|| Err(unknown_object()))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        let read = |object: &LibraryObject| object.as_ref().copied().map_err(opaque);
        self.objects.libraries.read(library, read).unwrap_or_else(|| Err(unknown_object()))
    }

    fn advanced_blend(&self) -> bool {
        self.decided.advanced_blend()
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        self.policy.looked_into
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_an_object_that_is_left_alone_by_design_is_left_alone_by_design() {
        let made_of = |reason| opaque(&Refusal { reason, s_type: 7 }).reason;
        assert_eq!(made_of(BypassReason::OwnBinaries), BypassReason::OwnBinaries);
        assert_eq!(made_of(BypassReason::UnknownStructure), BypassReason::OpaqueObject);
    }
}
