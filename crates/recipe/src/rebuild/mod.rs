//! From the model back to Vulkan create infos: the reverse of [`capture`](super::capture).
//!
//! Capturing what was rebuilt gives the same recipe, byte for byte. State that the recipe does not hold, because
//! the driver ignores it, is NULL or has a legal value. No driver is called here.
//!
//! A recipe comes from a file, and anybody may have written the file. Every array is as long as the count beside it;
//! counts and numbers by which drivers index arrays of their own stay within [`Limits`]; what contradicts itself is
//! refused. Other values are handed on as they were recorded. A recipe that capture would not write may be rebuilt
//! nevertheless: no request of a program has its key.
//!
//! - [`pipeline`] pipelines of any kind: [`compute`], [`graphics`], [`ray_tracing`], libraries and links
//! - [`shaders`] shader objects
//! - [`objects`] colour conversions, samplers, descriptor set layouts, pipeline layouts
//! - [`render_pass`] render passes, in the form that can express them
//! - `stage` shader stages; `mappings` their descriptor heap mappings
//! - `extensions` pNext chains; `words` the numbers of structures with pointers
//! - `arena` the memory of what was rebuilt
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

mod arena;
pub mod compute;
mod extensions;
pub mod graphics;
mod mappings;
pub mod objects;
pub mod pipeline;
pub mod ray_tracing;
pub mod render_pass;
pub mod shaders;
mod stage;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(crate) mod tests;
mod words;

pub use arena::Rebuilt;

use ash::vk;

use super::capture::{LibraryTraits, SubpassUse};
use vkstash_model::record::Key;

/// Code of a stage.
#[derive(Clone, Copy, Debug)]
pub enum StageCode<'a> {
    /// A live module.
    Module(vk::ShaderModule),
    /// SPIR-V that is put into the stage's chain, which needs maintenance5 or graphics pipeline libraries
    /// (contract 3.10).
    Inline(vk::ShaderModuleCreateFlags, &'a [u32]),
}

/// The caller's device: the objects that a recipe names by digest, and the properties that decide which state drivers
/// read.
pub trait Device {
    /// The code with this identity.
    fn module(&self, identity: &Key) -> Option<StageCode<'_>>;
    /// Whether this algorithm made the identifiers of the device's own driver. A pipeline with such an identifier
    /// gets VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT, as the specification requires.
    fn has_identifiers_of(&self, algorithm: &[u8; 16]) -> bool;
    /// The pipeline layout with this digest.
    fn layout(&self, digest: &Key) -> Option<vk::PipelineLayout>;
    /// Whether this layout has VK_PIPELINE_LAYOUT_CREATE_INDEPENDENT_SETS_BIT_EXT.
    fn has_independent_sets(&self, _layout: &Key) -> bool {
        false
    }
    /// The render pass with this digest, and what the subpass uses.
    fn render_pass(&self, digest: &Key, subpass: u32) -> Option<(vk::RenderPass, SubpassUse)>;
    /// The pipeline library with this key, and the properties on which a link depends.
    fn library(&self, key: &Key) -> Option<(vk::Pipeline, LibraryTraits)>;
    /// Whether VkPhysicalDeviceBlendOperationAdvancedFeaturesEXT is switched on: then drivers read blend attachments
    /// unless VK_DYNAMIC_STATE_COLOR_BLEND_ADVANCED_EXT is dynamic too (contract 6).
    fn advanced_blend(&self) -> bool;
    /// The limits of the elements that drivers copy into arrays of their own.
    fn limits(&self) -> Limits;
}

/// The most elements of each kind that a device takes. Drivers copy them into arrays of fixed size, and do not check
/// their number.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Viewports and scissors.
    pub viewports: u32,
    /// Vertex bindings, and their numbers.
    pub vertex_bindings: u32,
    /// Vertex attributes, and their locations.
    pub vertex_attributes: u32,
    /// Colour attachments of a subpass or of dynamic rendering.
    pub color_attachments: u32,
    /// Descriptor sets of a pipeline layout.
    pub sets: u32,
    /// Discard rectangles.
    pub discard_rectangles: u32,
    /// Sample locations of a pixel grid.
    pub sample_locations: u32,
}

impl Limits {
    /// A device's own limits; where an extension has a limit, the least that it may be.
    pub fn of(limits: &vk::PhysicalDeviceLimits) -> Limits {
        Limits {
            viewports: limits.max_viewports,
            vertex_bindings: limits.max_vertex_input_bindings,
            vertex_attributes: limits.max_vertex_input_attributes,
            color_attachments: limits.max_color_attachments,
            sets: limits.max_bound_descriptor_sets,
            discard_rectangles: 4,
            sample_locations: 32,
        }
    }
}

/// Why a create info could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// The recipe has another version of the encoding.
    #[error("schema {0} is not that of this version")]
    Schema(u32),
    /// The caller does not have what the recipe names.
    #[error("there is no {0} of this digest")]
    Missing(&'static str, Key),
    /// A stage is named by an identifier of another driver, and its code was never seen.
    #[error("the code is named by the identifier of another driver")]
    ForeignIdentifier,
    /// The pipeline derives from one that the recipe does not name.
    #[error("the base of a derivative is not recorded")]
    Derivative,
    /// Libraries whose layouts have independent sets are linked without the layout that these make together. Drivers
    /// take that from some programs, but the create info is not valid.
    #[error("a link of libraries with independent sets names no layout")]
    LinkWithoutLayout,
    /// Flags that capture refuses.
    #[error("unknown flags {0:#x}")]
    Flags(u64),
    /// A structure (by its VkStructureType) that capture never puts here, or whose numbers are no such structure.
    #[error("a structure of type {0} that cannot stand here, or is damaged")]
    Structure(i32),
    /// More than the device has room for.
    #[error("more {0} than the device takes")]
    Limit(&'static str),
    /// Parts that contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The recipe is of shader objects.
    #[error("it is of shader objects, and of no pipeline")]
    NoPipeline,
    /// There is no memory for the create info.
    #[error("no memory")]
    Memory,
}

/// What a device has by digest, or why the create info can't be made.
fn found<T>(object: Option<T>, kind: &'static str, digest: &Key) -> Result<T, RebuildError> {
    object.ok_or(RebuildError::Missing(kind, *digest))
}

/// Refuses what contradicts itself.
fn ensure(holds: bool, otherwise: &'static str) -> Result<(), RebuildError> {
    if holds { Ok(()) } else { Err(RebuildError::Contradiction(otherwise)) }
}

/// Refuses more than a limit.
fn within(count: impl TryInto<u32>, most: u32, kind: &'static str) -> Result<(), RebuildError> {
    match count.try_into() {
        Ok(count) if count <= most => Ok(()),
        _ => Err(RebuildError::Limit(kind)),
    }
}

/// Refuses another version of the encoding.
fn same_schema(schema: u32) -> Result<(), RebuildError> {
    if schema == vkstash_model::recipe::SCHEMA { Ok(()) } else { Err(RebuildError::Schema(schema)) }
}
