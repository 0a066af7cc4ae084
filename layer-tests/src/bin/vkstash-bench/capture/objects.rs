//! Live objects, looked up by handle in lock-free maps, as in the layer.

use std::sync::{Arc, OnceLock};

use ash::vk::{self, Handle};
use rustc_hash::FxBuildHasher;
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::{NativeIdentifier, module_identity};
use vkstash_model::record::Key;
use vkstash_recipe::capture::{Library, Objects, SubpassUse};
use vkstash_recipe::chain::Refusal;

/// Objects of each type: more than a small program has, so that look-ups are no faster than in a program.
const LIVE: u64 = 1000;

type Map<T> = papaya::HashMap<u64, Arc<T>, FxBuildHasher>;

/// Objects of every type with the handles from 1 to [`LIVE`].
pub(crate) struct Live {
    // Computed once, as in the layer: a module's code is hashed once.
    modules: Map<OnceLock<Key>>,
    layouts: Map<Key>,
    render_passes: Map<(Key, Vec<SubpassUse>)>,
    libraries: Map<Library>,
}

/// An arbitrary key: it is only copied.
pub(crate) fn key(kind: u8, number: u64) -> Key {
    let mut bytes = [kind; 32];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        let stirred = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(at as u32 * 17);
        word.copy_from_slice(&(stirred ^ u64::from(kind)).to_le_bytes());
    }
    bytes
}

fn map<T>(object: impl Fn(u64) -> T) -> Map<T> {
    let map = Map::with_hasher(FxBuildHasher);
    let pinned = map.pin();
    for handle in 1..=LIVE {
        pinned.insert(handle, Arc::new(object(handle)));
    }
    drop(pinned);
    map
}

impl Live {
    /// The live objects of all cases. `libraries`: the subsets of the first pipelines, which are libraries.
    pub(crate) fn new(libraries: &[vk::GraphicsPipelineLibraryFlagsEXT]) -> Live {
        let uses = SubpassUse { color: true, depth_stencil: true };
        let library = |handle: u64| {
            let mut library = Library { key: key(4, handle), traits: Default::default() };
            let subsets = libraries.get(handle as usize - 1);
            library.traits.subsets = subsets.map_or(0, |subsets| subsets.as_raw());
            library
        };
        Live {
            modules: map(|handle| OnceLock::from(key(1, handle))),
            layouts: map(|handle| key(2, handle)),
            render_passes: map(|handle| (key(3, handle), vec![uses])),
            libraries: map(library),
        }
    }
}

fn read<T, R>(map: &Map<T>, handle: impl Handle, read: impl FnOnce(&T) -> Option<R>) -> Result<R, Refusal> {
    let found = map.pin().get(&handle.as_raw()).and_then(|object| read(object));
    found.ok_or(Refusal::plain(BypassReason::UnknownObject))
}

impl Objects for Live {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        read(&self.modules, module, |identity| identity.get().copied())
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
        read(&self.layouts, layout, |digest| Some(*digest))
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        read(&self.render_passes, render_pass, |(digest, uses)| Some((*digest, *uses.get(subpass as usize)?)))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        read(&self.libraries, library, |library| Some(*library))
    }

    fn advanced_blend(&self) -> bool {
        false
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        vk::PipelineCreateFlags::empty()
    }
}
