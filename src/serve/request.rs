//! One creation of a pipeline once it is described.

use super::call::Call;
use super::create_info::{CreateInfo, Creation};
use vkstash_model::counters::BypassReason;
use vkstash_model::key;
use vkstash_model::recipe::Parts;
use vkstash_model::record::Key;
use vkstash_model::shader_set::ShaderSet;
use vkstash_recipe::capture::{Captured, InlineModules, Library, LibraryTraits, Objects, Scratch};
use vkstash_recipe::chain::Refusal;

/// What the stash knows a pipeline by.
pub struct DescribedPipeline<'a> {
    /// The digest of its recipe.
    pub key: Key,
    /// The encoded recipe.
    pub recipe: &'a [u8],
    /// What the recipe names by digest.
    pub parts: Parts,
    /// The shaders of the pipeline.
    pub shaders: ShaderSet,
    /// The identities of SPIR-V inside its stages.
    pub inline: InlineModules,
    traits: LibraryTraits,
}

impl<'a> DescribedPipeline<'a> {
    /// Captures a pipeline of the device whose objects these are, leaves its encoded recipe in `buffer`, and hashes it.
    ///
    /// Never inlined into its caller, whose further calls would stand on top of the 7 KiB of stack that a recipe
    /// takes: the C library gives a thread's stack back to the system when the thread ends, but for the first 16 KiB.
    ///
    /// # Safety
    /// `creation` is of a valid create info, whose objects belong to the device that `objects` describes.
    #[inline(never)]
    pub unsafe fn of<I: CreateInfo>(
        objects: &impl Objects,
        creation: &Creation<'_, I>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<DescribedPipeline<'a>, Refusal> {
        let mut scratch = Scratch::default();
        let (parts, shaders, traits) = {
            // SAFETY: the create info is valid, and its handles are of the device whose objects `objects` are.
            let Captured { recipe, traits } = unsafe { creation.capture(objects, &mut scratch) }?;
            let encoded = key::encode(&recipe, buffer);
            encoded.map_err(|_| Refusal::plain(BypassReason::NotCacheable))?;
            (recipe.pipeline.parts(), ShaderSet::of(&recipe.pipeline), traits)
        };
        let key = key::digest(key::RECIPE, buffer);
        Ok(DescribedPipeline { key, recipe: buffer, parts, shaders, inline: scratch.inline, traits })
    }

    /// What the pipeline is remembered as where it is a library.
    pub fn library(&self) -> Library {
        Library { key: self.key, traits: self.traits }
    }
}

/// What every source works with that looks something up: the call, and what it is about.
pub struct Request<'a, I> {
    /// The call.
    pub call: Call<'a, I>,
    /// The description of the pipeline that the call creates.
    pub pipeline: &'a DescribedPipeline<'a>,
}

impl<I> Clone for Request<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Request<'_, I> {}

impl<I: CreateInfo> Request<'_, I> {
    /// Whether background work will record what the driver has of this request.
    pub fn is_recorded_by_workers(&self) -> bool {
        self.call.may_be_left_to_workers()
            && self
                .call
                .device
                .stored()
                .is_some_and(|stored| stored.failed(&self.pipeline.key).may_be_recorded())
    }
}
