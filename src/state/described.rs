//! What is remembered of a device's objects: described when they were created, or why that cannot be done.

use ash::vk;

use super::objects::Objects;
use vkstash_model::counters::BypassReason;
use vkstash_model::key;
use vkstash_model::recipe::{Sampler, SetLayout, YcbcrConversion};
use vkstash_recipe::capture::{Library, SubpassUse, objects};
use vkstash_recipe::chain::Refusal;
use vkstash_store::format::record::Key;

/// A shader module.
pub struct Module {
    /// Its identity.
    pub identity: Key,
    /// Why pipelines with it must bypass: an unknown structure in its chain.
    pub refusal: Option<Refusal>,
}

/// A sampler or set layout that can be described, or why not.
pub type Described<T> = Result<T, Refusal>;

/// A sampler.
pub type SamplerObject = Described<Sampler>;
/// A descriptor set layout.
pub type SetLayoutObject = Described<SetLayout>;

/// A colour conversion.
pub type ConversionObject = Described<YcbcrConversion>;
/// A pipeline that is a library.
pub type LibraryObject = Described<Library>;

/// A pipeline layout or render pass: its digest, and its encoding for the store.
pub struct Encoded {
    /// The digest.
    pub digest: Key,
    /// The encoding.
    pub bytes: Box<[u8]>,
    /// What each subpass uses; empty for layouts.
    pub subpasses: Vec<SubpassUse>,
}

/// A pipeline layout or render pass that can be described, or why not.
pub type EncodedObject = Described<Encoded>;

impl Encoded {
    /// Encodes and hashes a description.
    pub fn of(
        tag: &[u8; 8],
        description: &impl serde::Serialize,
        subpasses: Vec<SubpassUse>,
    ) -> Described<Encoded> {
        let mut bytes = Vec::new();
        key::encode(description, &mut bytes).map_err(|_| Refusal::plain(BypassReason::NotCacheable))?;
        Ok(Encoded { digest: key::digest(tag, &bytes), bytes: bytes.into_boxed_slice(), subpasses })
    }

    /// Of a pipeline layout, made of the set layouts that are known.
    ///
    /// # Safety
    /// `info` is a valid VkPipelineLayoutCreateInfo.
    pub unsafe fn of_layout(
        set_layouts: &Objects<SetLayoutObject>,
        info: &vk::PipelineLayoutCreateInfo<'_>,
    ) -> Described<Encoded> {
        // SAFETY: `info` is valid: its arrays have setLayoutCount and pushConstantRangeCount elements.
        let layout = unsafe { objects::pipeline_layout(info, |set| described(set_layouts, set)) }?;
        Encoded::of(key::LAYOUT, &layout, Vec::new())
    }
}

/// The description of a live object.
pub fn described<T: Clone + Send + Sync + 'static>(
    objects: &Objects<Described<T>>,
    handle: impl vk::Handle,
) -> Described<T> {
    let known = objects.read(handle, |object| object.clone());
    known.unwrap_or(Err(Refusal::plain(BypassReason::UnknownObject)))
}
