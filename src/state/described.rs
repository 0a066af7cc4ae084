//! What is remembered of a device's objects: described when they were created, or why that cannot be done.

use std::sync::{Mutex, OnceLock};

use crate::recipe::capture::{Library, SubpassUse};
use crate::recipe::chain::Refusal;
use crate::recipe::model::{Sampler, SetLayout, YcbcrConversion};
use vkstash_store::base::memory::Taken;
use vkstash_store::base::util::lock;
use vkstash_store::format::record::Key;

/// A shader module.
pub struct Module {
    /// Its identity, once somebody needed it.
    pub identity: OnceLock<Key>,
    /// What it is computed from, where that was put off.
    pub unhashed: Option<Unhashed>,
    /// Why pipelines with it must bypass: an unknown structure in its chain.
    pub refusal: Option<Refusal>,
}

impl Module {
    /// The program has destroyed it, so its code will not be hashed any more.
    pub fn drop_code(&self) {
        if let Some(unhashed) = &self.unhashed {
            drop(lock(&unhashed.record).take());
        }
    }
}

/// Code that was copied when the module was created and may never have to be hashed: the driver may have
/// every pipeline that is made of it.
pub struct Unhashed {
    /// The module's record (flags, then the SPIR-V words) and the room that it takes, until it is hashed and
    /// handed to the store.
    pub record: Mutex<Option<(Box<[u8]>, Taken)>>,
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
