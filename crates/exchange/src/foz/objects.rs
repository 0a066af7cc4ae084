//! Objects of an archive that its pipelines refer to by hash: samplers, layouts, render passes, modules and libraries.

use std::collections::HashMap;

use ash::vk::{self, Handle};
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::{NativeIdentifier, module_identity};
use vkstash_model::recipe::{Sampler, SetLayout};
use vkstash_model::record::Key;
use vkstash_recipe::capture::{Library, LibraryTraits, Objects, SubpassUse};
use vkstash_recipe::chain::Refusal;
use vkstash_recipe::rebuild::{Device, Limits, StageCode};

/// What was read of an archive so far.
#[derive(Default)]
pub(super) struct Known {
    pub(super) samplers: HashMap<u64, Sampler>,
    pub(super) set_layouts: HashMap<u64, SetLayout>,
    /// Pipeline layouts.
    pub(super) layouts: HashMap<u64, Key>,
    pub(super) render_passes: HashMap<u64, (Key, Vec<SubpassUse>)>,
    pub(super) modules: HashMap<u64, Key>,
    /// Pipelines, any of which may be a library.
    pub(super) pipelines: HashMap<u64, Library>,
    /// Layouts by their digests: whether they have independent sets.
    pub(super) independent_sets: HashMap<Key, bool>,
    /// Render passes by their digests.
    pub(super) uses: HashMap<Key, Vec<SubpassUse>>,
    /// Pipelines by their keys.
    pub(super) traits: HashMap<Key, LibraryTraits>,
}

/// The object of an archive that a handle stands for.
pub(super) fn found<T: Clone>(objects: &HashMap<u64, T>, handle: impl Handle) -> Result<T, Refusal> {
    objects.get(&handle.as_raw()).cloned().ok_or(Refusal::plain(BypassReason::UnknownObject))
}

impl Objects for Known {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        found(&self.modules, module)
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        module_identity(flags, code)
    }

    fn identified(&self, _: &NativeIdentifier) -> Option<Key> {
        None
    }

    fn algorithm(&self) -> [u8; 16] {
        [0; 16]
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        found(&self.layouts, layout)
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        let unknown = Refusal::plain(BypassReason::UnknownObject);
        let (key, uses) = self.render_passes.get(&render_pass.as_raw()).ok_or(unknown)?;
        Ok((*key, *uses.get(subpass as usize).ok_or(unknown)?))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        found(&self.pipelines, library)
    }

    /// Fossilize does not keep that feature.
    fn advanced_blend(&self) -> bool {
        false
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        vk::PipelineCreateFlags::empty()
    }
}

/// Any handle that is none of nothing: what is rebuilt to be checked goes to no driver.
fn some<T: Handle>() -> T {
    T::from_raw(1)
}

/// A device for which everything that was captured can be rebuilt, unless it contradicts itself.
impl Device for Known {
    fn module(&self, _: &Key) -> Option<StageCode<'_>> {
        Some(StageCode::Module(some()))
    }

    fn has_identifiers_of(&self, _: &[u8; 16]) -> bool {
        false
    }

    fn layout(&self, digest: &Key) -> Option<vk::PipelineLayout> {
        self.independent_sets.contains_key(digest).then(some)
    }

    fn has_independent_sets(&self, layout: &Key) -> bool {
        self.independent_sets.get(layout).copied().unwrap_or_default()
    }

    fn render_pass(&self, digest: &Key, subpass: u32) -> Option<(vk::RenderPass, SubpassUse)> {
        Some((some(), *self.uses.get(digest)?.get(subpass as usize)?))
    }

    fn library(&self, key: &Key) -> Option<(vk::Pipeline, LibraryTraits)> {
        Some((some(), *self.traits.get(key)?))
    }

    fn advanced_blend(&self) -> bool {
        false
    }

    fn limits(&self) -> Limits {
        UNLIMITED
    }
}

/// What no device has. The devices that make these pipelines have limits of their own.
pub(super) const UNLIMITED: Limits = Limits {
    viewports: u32::MAX,
    vertex_bindings: u32::MAX,
    vertex_attributes: u32::MAX,
    color_attachments: u32::MAX,
    sets: u32::MAX,
    discard_rectangles: u32::MAX,
    sample_locations: u32::MAX,
};
