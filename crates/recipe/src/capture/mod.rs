//! From Vulkan create infos to the model.
//!
//! Only members that contract 6 allows to be read are dereferenced; everything that is ignored is absent
//! from the recipe. What cannot be described is refused with a reason.
//!
//! - [`objects`] samplers, descriptor set layouts, pipeline layouts
//! - [`render_pass`] both forms of render passes
//! - [`parsed`] the create options of a pipeline, and where its parts stand; [`flags`] which flags are hashed
//! - [`stage`] shader stages; [`mappings`] their descriptor heap mappings
//! - [`compute`], [`graphics`], [`ray_tracing`] pipelines, libraries and links
//! - [`shaders`] shader objects

pub mod compute;
pub mod flags;
pub mod graphics;
pub mod mappings;
pub mod objects;
pub mod parsed;
pub mod ray_tracing;
pub mod render_pass;
pub mod shaders;
pub mod stage;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(crate) mod tests;

use std::ffi::c_void;

use ash::vk;
use smallvec::SmallVec;

use super::chain::{self, Refusal, Special};
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::recipe::{OwnedExtension, Recipe};
use vkstash_model::record::Key;

/// What capture asks about objects that were created earlier.
pub trait Objects {
    /// The identity of a live module.
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal>;
    /// The identity of inline code, which is hashed now.
    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key;
    /// The identity that a driver's identifier (or the layer's) stands for, where it is known.
    fn identified(&self, identifier: &NativeIdentifier) -> Option<Key>;
    /// The algorithm of those identifiers.
    fn algorithm(&self) -> [u8; 16];
    /// The digest of a live pipeline layout.
    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal>;
    /// The digest of a live render pass and what the subpass uses.
    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal>;
    /// The key and the traits of a pipeline that is a library.
    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal>;
    /// Whether the device has VkPhysicalDeviceBlendOperationAdvancedFeaturesEXT switched on (contract 6).
    fn advanced_blend(&self) -> bool;
    /// The flags for tools with which cached pipelines give the same answers as compiled ones.
    fn looked_into(&self) -> vk::PipelineCreateFlags;
}

/// The attachments of a subpass that decide whether depth and blend state may be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubpassUse {
    /// A colour attachment other than VK_ATTACHMENT_UNUSED.
    pub color: bool,
    /// A depth or stencil attachment other than VK_ATTACHMENT_UNUSED.
    pub depth_stencil: bool,
}

/// A pipeline from which others are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its key.
    pub key: Key,
    /// The properties of the library on which a link depends.
    pub traits: LibraryTraits,
}

/// The properties of a library that decide which state a link may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibraryTraits {
    /// VkGraphicsPipelineLibraryFlagsEXT: the subsets in it.
    pub subsets: u32,
    /// Rasterizer discard is on, statically.
    pub discards: bool,
    /// A layout in it has independent sets, so a link has to name the layout that they make together. Known of rebuilt
    /// libraries only.
    pub has_independent_sets: bool,
}

/// The identities of SPIR-V that stands inside stages, in the order of the stages.
pub type InlineModules = SmallVec<[Key; 2]>;

/// Values from which a recipe borrows beside the program's memory, and hashes that capture has computed.
#[derive(Default)]
pub struct Scratch {
    algorithm: [u8; 16],
    identifiers: SmallVec<[Option<NativeIdentifier>; 5]>,
    /// SPIR-V inside stages is hashed here, and nowhere else in a call.
    pub inline: InlineModules,
}

/// A pipeline as it was captured.
pub struct Captured<'a> {
    /// Everything that decides what the driver makes.
    pub recipe: Recipe<'a>,
    /// The properties on which links depend where the pipeline is a library.
    pub traits: LibraryTraits,
}

/// Plain structures of a chain that must outlive the call; none with pointers belongs there but what `special`
/// reads.
///
/// # Safety
/// As [`chain::scan`].
unsafe fn owned_extensions<'a>(
    p_next: *const c_void,
    special: impl FnMut(&'a vk::BaseInStructure<'a>) -> Result<Special, Refusal>,
) -> Result<Vec<OwnedExtension>, Refusal> {
    // SAFETY: `p_next` is NULL or a valid chain; what is borrowed from it is copied before this call returns.
    let borrowed = unsafe { chain::scan(p_next, special) }?.plain;
    let owned = borrowed.iter().map(|e| OwnedExtension { s_type: e.s_type, members: e.members.0.to_vec() });
    Ok(owned.collect())
}

/// [`owned_extensions`] of a chain in which no structure with pointers belongs.
///
/// # Safety
/// As [`chain::scan`].
unsafe fn owned_plain(p_next: *const c_void) -> Result<Vec<OwnedExtension>, Refusal> {
    // SAFETY: `p_next` is NULL or a valid chain; the closure refuses special structures unread.
    unsafe { owned_extensions(p_next, |_| Ok(Special::Foreign)) }
}

/// A slice of an array that may be NULL or wild where its count is 0.
///
/// # Safety
/// `pointer` is valid for `count` elements unless `count` is 0 (contract 6: count-0 arrays may be garbage).
unsafe fn array<'a, T>(pointer: *const T, count: u32) -> &'a [T] {
    if count == 0 || pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for the pointer where the count is not 0.
    unsafe { std::slice::from_raw_parts(pointer, count as usize) }
}
