//! What is remembered of a device's objects: described when they were created, or why that cannot be done.

use vkstash_model::recipe::{Sampler, SetLayout, YcbcrConversion};
use vkstash_recipe::capture::{Library, SubpassUse};
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
