//! Descriptions of a device's objects, made when they were created, or why that cannot be done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;

use super::by_handle::Objects;
use vkstash_host::sort;
use vkstash_model::counters::BypassReason;
use vkstash_model::key;
use vkstash_model::recipe::{Sampler, SetLayout, YcbcrConversion};
use vkstash_model::record::Key;
use vkstash_recipe::capture::{Library, SubpassUse, objects};
use vkstash_recipe::chain::Refusal;

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
pub struct SamplerObject {
    /// The description.
    pub description: Described<Sampler>,
    /// Which creation of its handle it is: a number that no other sampler of the process has.
    pub creation: u64,
    /// Workers may use it: it was created without an allocator, and has no colour conversion, which the program may
    /// destroy before it.
    pub may_be_lent: bool,
}

/// A sampler that a layout was made with. Its handle may be that of another one by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSampler {
    /// The handle.
    pub handle: vk::Sampler,
    /// [`SamplerObject::creation`].
    pub creation: u64,
}

/// The immutable samplers of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImmutableSamplers {
    /// Each of them, by set, binding and place. Layouts of one description are identically defined if these are equal
    /// (contract 3.9). None: the layout has none.
    pub objects: Option<Arc<[LiveSampler]>>,
    /// Workers may use the layout: neither it nor what it was made of was created with an allocator, and each of the
    /// samplers may be lent.
    pub may_be_lent: bool,
}

/// A descriptor set layout.
pub struct SetLayoutObject {
    /// The description.
    pub description: Described<SetLayout>,
    /// The immutable samplers.
    pub samplers: ImmutableSamplers,
}

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
    /// The immutable samplers of a layout; none for render passes.
    pub samplers: ImmutableSamplers,
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
        let samplers = ImmutableSamplers { objects: None, may_be_lent: false };
        Ok(Encoded { digest: key::digest(tag, &bytes), bytes: bytes.into_boxed_slice(), subpasses, samplers })
    }

    /// Of a pipeline layout, made of the set layouts that are known. `has_allocator`: it was created with one.
    ///
    /// # Safety
    /// `info` is a valid VkPipelineLayoutCreateInfo.
    pub unsafe fn of_layout(
        set_layouts: &Objects<SetLayoutObject>,
        info: &vk::PipelineLayoutCreateInfo<'_>,
        has_allocator: bool,
    ) -> Described<Encoded> {
        let (mut used, mut may_be_lent) = (Vec::new(), !has_allocator);
        let set_layout = |handle| {
            let read = |set: &SetLayoutObject| {
                may_be_lent &= set.samplers.may_be_lent;
                used.extend(set.samplers.objects.iter().flat_map(|objects| objects.iter().copied()));
                set.description.clone()
            };
            set_layouts.read(handle, read).unwrap_or_else(unknown)
        };
        // SAFETY: `info` is valid: its arrays have setLayoutCount and pushConstantRangeCount elements.
        let layout = unsafe { objects::pipeline_layout(info, set_layout) }?;
        let samplers = ImmutableSamplers::new(used, may_be_lent);
        Encoded::of(key::LAYOUT, &layout, Vec::new()).map(|encoded| Encoded { samplers, ..encoded })
    }
}

impl ImmutableSamplers {
    fn new(objects: Vec<LiveSampler>, may_be_lent: bool) -> ImmutableSamplers {
        let objects = (!objects.is_empty()).then(|| objects.into());
        ImmutableSamplers { objects, may_be_lent }
    }
}

impl SamplerObject {
    /// A sampler that was just created with this handle: another one, unless the handle is that of a live one, which
    /// drivers may give out again (contract 7.2).
    ///
    /// # Safety
    /// `info` is a valid VkSamplerCreateInfo.
    pub unsafe fn of(
        info: &vk::SamplerCreateInfo<'_>,
        handle: vk::Sampler,
        live: &Objects<SamplerObject>,
        conversions: &Objects<ConversionObject>,
        has_allocator: bool,
    ) -> SamplerObject {
        static CREATIONS: AtomicU64 = AtomicU64::new(0);
        let conversion = |handle| conversions.read(handle, Clone::clone).unwrap_or_else(unknown);
        // SAFETY: `info` is a valid VkSamplerCreateInfo; a conversion is looked up by its handle, not dereferenced.
        let description = unsafe { objects::sampler(info, conversion) };
        let is_plain = description.as_ref().is_ok_and(|sampler| sampler.conversion.is_none());
        let creation = live.read(handle, |sampler| sampler.creation);
        SamplerObject {
            description,
            creation: creation.unwrap_or_else(|| CREATIONS.fetch_add(1, Ordering::Relaxed)),
            may_be_lent: is_plain && !has_allocator,
        }
    }
}

impl SetLayoutObject {
    /// Of a set layout, made with the samplers that are known. `has_allocator`: it was created with one.
    ///
    /// # Safety
    /// `info` is a valid VkDescriptorSetLayoutCreateInfo.
    pub unsafe fn of(
        info: &vk::DescriptorSetLayoutCreateInfo<'_>,
        samplers: &Objects<SamplerObject>,
        has_allocator: bool,
    ) -> SetLayoutObject {
        let (mut used, mut may_be_lent) = (Vec::new(), !has_allocator);
        let sampler = |binding, handle| {
            let read = |sampler: &SamplerObject| {
                may_be_lent &= sampler.may_be_lent;
                let live = LiveSampler { handle, creation: sampler.creation };
                used.push(((binding, used.len()), live));
                sampler.description.clone()
            };
            samplers.read(handle, read).unwrap_or_else(unknown)
        };
        // SAFETY: `info` is valid: pBindings has bindingCount elements; samplers are looked up by their handles.
        let description = unsafe { objects::set_layout(info, sampler) };
        // As the bindings of the description.
        sort::by_key(&mut used, |(place, _)| *place);
        let used = used.into_iter().map(|(_, sampler)| sampler).collect();
        SetLayoutObject { description, samplers: ImmutableSamplers::new(used, may_be_lent) }
    }
}

/// What is made of an object that is not known is not described.
fn unknown<T>() -> Described<T> {
    Err(Refusal::plain(BypassReason::UnknownObject))
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    /// Binding numbers, and the handles of the samplers of each.
    fn set_layout(known: &Objects<SamplerObject>, bindings: &[(u32, [u64; 2])]) -> SetLayoutObject {
        let samplers: Vec<_> =
            bindings.iter().map(|(_, numbers)| numbers.map(vk::Sampler::from_raw)).collect();
        let binding = |(number, samplers)| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(number)
                .descriptor_type(vk::DescriptorType::SAMPLER)
                .immutable_samplers(samplers)
        };
        let numbers = bindings.iter().map(|(number, _)| *number);
        let bindings: Vec<_> = numbers.zip(samplers.iter().map(|pair| &pair[..])).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: a valid create info; samplers are looked up by their handles.
        unsafe { SetLayoutObject::of(&info, known, false) }
    }

    /// Samplers of one description, so that layouts of them differ in nothing else.
    fn samplers(handles: &[u64]) -> Objects<SamplerObject> {
        let (known, conversions) = (Objects::default(), Objects::default());
        for handle in handles.iter().map(|handle| vk::Sampler::from_raw(*handle)) {
            let info = vk::SamplerCreateInfo::default();
            // SAFETY: a valid create info.
            let sampler = unsafe { SamplerObject::of(&info, handle, &known, &conversions, false) };
            known.insert(handle, sampler);
        }
        known
    }

    #[test]
    fn layouts_of_the_same_samplers_are_equal_whatever_the_order_of_their_bindings() {
        let known = samplers(&[1, 2, 3]);
        let one = set_layout(&known, &[(0, [1, 2]), (1, [2, 3])]);
        let other_order = set_layout(&known, &[(1, [2, 3]), (0, [1, 2])]);
        let exchanged = set_layout(&known, &[(1, [1, 2]), (0, [2, 3])]);
        assert_eq!(one.description.unwrap(), exchanged.description.unwrap(), "of equal samplers");
        assert_eq!(one.samplers, other_order.samplers);
        assert_ne!(one.samplers, exchanged.samplers, "the objects are in other places");
    }

    #[test]
    fn a_handle_that_is_used_again_is_another_sampler_and_one_that_is_shared_is_the_same() {
        let known = samplers(&[1, 1]);
        let creation = |known: &Objects<SamplerObject>| {
            known.read(vk::Sampler::from_raw(1), |sampler| sampler.creation).unwrap()
        };
        let first = creation(&known);
        assert_ne!(creation(&samplers(&[1])), first);
        known.remove(vk::Sampler::from_raw(1));
        assert_eq!(creation(&known), first, "it was created twice");
    }
}
