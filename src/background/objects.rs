//! Vulkan objects of the layer's own, made of the stash's records: what a recipe names by digest.

use std::collections::HashMap;
use std::ptr;

use ash::vk;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::state::process::dispatch::DeviceTable;
use vkstash_host::sync::{Mutex, MutexGuard};
use vkstash_model::recipe::{Code, PipelineLayout, Recipe, RenderPass, Sampler, SetLayout, Shaders};
use vkstash_model::record::{Key, Kind};
use vkstash_model::{check, key, payload};
use vkstash_recipe::capture::render_pass::uses;
use vkstash_recipe::capture::{LibraryTraits, SubpassUse};
use vkstash_recipe::rebuild::render_pass::{Form, render_pass};
use vkstash_recipe::rebuild::{self, Limits, RebuildError, Rebuilt, StageCode, objects, shaders};

/// What of a device decides how recipes are made into calls again.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTraits {
    /// The algorithm of the identifiers of the device's own driver, where the program may use them.
    pub algorithm: Option<[u8; 16]>,
    /// VkPhysicalDeviceBlendOperationAdvancedFeaturesEXT is on.
    pub advanced_blend: bool,
    /// The device's limits.
    pub limits: Limits,
    /// Whether layouts with immutable samplers are made. A pipeline made with a copy of a sampler is not compatible
    /// with the program's descriptor sets (contract 3.9).
    pub immutable_samplers: bool,
}

/// A pipeline layout that a recipe names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedLayout {
    /// The digest of its description.
    pub digest: Key,
    /// The layout.
    pub handle: vk::PipelineLayout,
    /// It has VK_PIPELINE_LAYOUT_CREATE_INDEPENDENT_SETS_BIT_EXT.
    pub is_independent: bool,
}

/// A record by kind and key. False: there is none, or it is damaged.
pub type ReadRecord<'a> = &'a dyn Fn(Kind, &Key, &mut Vec<u8>) -> bool;

/// A library that exists, and what a link has to know of it.
pub type LiveLibrary = (Key, vk::Pipeline, LibraryTraits);

/// Why the objects of a recipe could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The stash does not have it, or something else stands in its place.
    #[error("the stash has no {} of this digest", .0.name())]
    NoRecord(Kind, Key),
    /// A layout has immutable samplers, and no layout of the program's may be used in its place.
    #[error("the layout has immutable samplers")]
    ImmutableSamplers,
    /// A layout has immutable samplers, and the program has none of this digest now.
    #[error("the program has no such layout yet")]
    LayoutAwaited,
    /// The driver refuses to make one.
    #[error("the driver answers {1:?} to the {0} of this recipe")]
    Driver(&'static str, vk::Result),
    /// The object's create info cannot be made of the record.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
}

/// Layouts and render passes that were made for recipes. They live as long as the device: before maintenance4 a layout
/// must outlive the pipelines that were made with it (contract 3.8).
pub struct OwnObjects {
    device: vk::Device,
    table: DeviceTable,
    traits: DeviceTraits,
    /// Not locked while the driver makes one: of two threads that make the same object, one destroys its own again.
    made: Mutex<KnownObjects>,
}

#[derive(Default)]
struct KnownObjects {
    /// Samplers by the encoding of their descriptions, with their conversions or NULL.
    samplers: HashMap<Vec<u8>, (vk::Sampler, vk::SamplerYcbcrConversion), FxBuildHasher>,
    /// Descriptor set layouts by the encoding of their descriptions.
    sets: HashMap<Vec<u8>, vk::DescriptorSetLayout, FxBuildHasher>,
    /// Pipeline layouts, and whether they have VK_PIPELINE_LAYOUT_CREATE_INDEPENDENT_SETS_BIT_EXT.
    layouts: HashMap<Key, (vk::PipelineLayout, bool), FxBuildHasher>,
    passes: HashMap<Key, (vk::RenderPass, Vec<SubpassUse>), FxBuildHasher>,
}

/// Everything that one recipe names, for as long as this value lives.
pub struct RecipeObjects<'a> {
    own: &'a OwnObjects,
    modules: SmallVec<[(Key, vk::ShaderModule); 5]>,
    layout: Option<NamedLayout>,
    pass: Option<(Key, vk::RenderPass, Vec<SubpassUse>)>,
    libraries: &'a [LiveLibrary],
}

type RebuiltLayout = Rebuilt<'static, vk::PipelineLayoutCreateInfo<'static>>;

/// Everything that the shader objects of one recipe name. The set layouts are those of [`OwnObjects`].
pub struct ShaderParts {
    digest: Key,
    layout: RebuiltLayout,
    codes: Vec<(Key, Vec<u32>)>,
}

impl shaders::Device for ShaderParts {
    fn code(&self, identity: &Key) -> Option<&[u32]> {
        self.codes.iter().find(|(known, _)| known == identity).map(|(_, code)| &code[..])
    }

    fn layout(&self, digest: &Key) -> Option<&vk::PipelineLayoutCreateInfo<'_>> {
        (*digest == self.digest).then(|| self.layout.info())
    }
}

impl OwnObjects {
    /// Nothing is made yet. The commands are those of the next layer, or of the loader.
    pub fn new(device: vk::Device, table: DeviceTable, traits: DeviceTraits) -> OwnObjects {
        OwnObjects { device, table, traits, made: Mutex::default() }
    }

    /// The records that [`OwnObjects::prepare`] will read.
    pub fn lacks(&self, recipe: &Recipe<'_>) -> SmallVec<[(Kind, Key); 7]> {
        let mut lacks = SmallVec::new();
        let parts = recipe.pipeline.parts();
        let made = self.made();
        let layout = parts.layout.filter(|digest| !made.layouts.contains_key(digest));
        let pass = parts.render_pass.filter(|digest| !made.passes.contains_key(digest));
        drop(made);
        lacks.extend(layout.map(|digest| (Kind::Layout, digest)));
        lacks.extend(pass.map(|digest| (Kind::RenderPass, digest)));
        for stage in recipe.pipeline.stages() {
            if let Code::Module(identity) = &stage.code {
                if !lacks.contains(&(Kind::Module, *identity)) {
                    lacks.push((Kind::Module, *identity));
                }
            }
        }
        lacks
    }

    /// The layout of the program's, by digest and flags, that a recipe needs of whose layout this is the record. None:
    /// one of the layer's own will do.
    pub fn borrows(
        &self,
        digest: &Key,
        record: &[u8],
    ) -> Result<Option<(Key, vk::PipelineLayoutCreateFlags)>, ObjectError> {
        if self.traits.immutable_samplers || !check::is_true(Kind::Layout, digest, record) {
            return Ok(None);
        }
        let Ok(described) = key::decode::<PipelineLayout>(record) else { return Ok(None) };
        let mut samplers = immutable_samplers(&described).peekable();
        if samplers.peek().is_none() {
            return Ok(None);
        }
        if samplers.any(|sampler| sampler.conversion.is_some()) {
            return Err(ObjectError::ImmutableSamplers);
        }
        Ok(Some((*digest, vk::PipelineLayoutCreateFlags::from_raw(described.flags))))
    }

    /// Makes what a recipe names, but for the layout, where there is one of the program's.
    ///
    /// # Safety
    /// The device is alive, and the layout of the program's is, as long as the result is used.
    pub unsafe fn prepare<'a>(
        &'a self,
        recipe: &Recipe<'_>,
        read: ReadRecord<'_>,
        borrowed: Option<NamedLayout>,
        libraries: &'a [LiveLibrary],
    ) -> Result<RecipeObjects<'a>, ObjectError> {
        let modules = SmallVec::new();
        let mut ready = RecipeObjects { own: self, modules, layout: borrowed, pass: None, libraries };
        let parts = recipe.pipeline.parts();
        let mut buffer = Vec::new();
        // SAFETY: `self.device` is alive, and the table has its commands; `self` owns what is made, until `destroy`.
        unsafe {
            if let Some(digest) = parts.layout.filter(|_| borrowed.is_none()) {
                let (handle, is_independent) = self.layout(&digest, read, &mut buffer)?;
                ready.layout = Some(NamedLayout { digest, handle, is_independent });
            }
            if let Some(digest) = parts.render_pass {
                let (pass, uses) = self.pass(&digest, read, &mut buffer)?;
                ready.pass = Some((digest, pass, uses));
            }
            for stage in recipe.pipeline.stages() {
                let Code::Module(identity) = &stage.code else { continue };
                if ready.modules.iter().all(|(known, _)| known != identity) {
                    let module = self.module(identity, read, &mut buffer)?;
                    ready.modules.push((*identity, module));
                }
            }
        }
        Ok(ready)
    }

    /// What the shader objects of a recipe are made of.
    ///
    /// # Safety
    /// The device is alive.
    pub unsafe fn prepare_shaders(
        &self,
        shaders: &Shaders<'_>,
        read: ReadRecord<'_>,
    ) -> Result<ShaderParts, ObjectError> {
        let mut buffer = Vec::new();
        // SAFETY: the device is alive (the caller's # Safety section).
        let layout = unsafe { self.rebuilt_layout(&shaders.layout, read, &mut buffer) }?;
        let mut parts = ShaderParts { digest: shaders.layout, layout, codes: Vec::new() };
        for stage in &shaders.stages {
            let Code::Module(identity) = &stage.code else { continue };
            checked(Kind::Module, identity, read, &mut buffer)?;
            let (_, words) = payload::module(&buffer).ok_or(ObjectError::Rebuild(RebuildError::Memory))?;
            parts.codes.push((*identity, words));
        }
        Ok(parts)
    }

    /// The create info of a layout, whose set layouts are made.
    ///
    /// # Safety
    /// The device is alive.
    unsafe fn rebuilt_layout(
        &self,
        digest: &Key,
        read: ReadRecord<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<RebuiltLayout, ObjectError> {
        checked(Kind::Layout, digest, read, buffer)?;
        let no_record = ObjectError::NoRecord(Kind::Layout, *digest);
        let described: PipelineLayout = key::decode(buffer).map_err(|_| no_record)?;
        if !self.traits.immutable_samplers && immutable_samplers(&described).next().is_some() {
            return Err(ObjectError::ImmutableSamplers);
        }
        let mut failed = None;
        let set = |set: &SetLayout| {
            // SAFETY: the device is alive while this layout is made (the caller's # Safety section).
            let made = unsafe { self.set_layout(set) };
            made.map_err(|error| failed = Some(error)).ok()
        };
        let rebuilt = objects::pipeline_layout(&described, self.traits.limits, set);
        match failed {
            Some(error) => Err(error),
            None => Ok(rebuilt?),
        }
    }

    /// Destroys everything: no pipeline is made with it any more.
    ///
    /// # Safety
    /// The device is alive, and every pipeline that was made with these objects is destroyed or, with maintenance4,
    /// no longer needs them.
    pub unsafe fn destroy(&self) {
        let made = std::mem::take(&mut *self.made());
        // SAFETY: the device is alive, no live pipeline needs these objects, and `made` has each of them
        // once. Each was created on this device without an allocator.
        unsafe {
            made.layouts.into_values().for_each(|(layout, _)| self.destroy_layout(layout));
            made.sets.into_values().for_each(|set| self.destroy_set_layout(set));
            made.samplers.into_values().for_each(|made| self.destroy_sampler(made));
            made.passes.into_values().for_each(|(pass, _)| self.destroy_pass(pass));
        }
    }

    /// # Safety
    /// The device is alive; the layout was made on it without an allocator, and is not used any more.
    unsafe fn destroy_layout(&self, layout: vk::PipelineLayout) {
        if let Some(destroy) = self.table.destroy_pipeline_layout {
            // SAFETY: as this method.
            unsafe { destroy(self.device, layout, ptr::null()) };
        }
    }

    /// # Safety
    /// The device is alive; the layout was made on it without an allocator, and is not used any more.
    unsafe fn destroy_set_layout(&self, set: vk::DescriptorSetLayout) {
        if let Some(destroy) = self.table.destroy_descriptor_set_layout {
            // SAFETY: as this method.
            unsafe { destroy(self.device, set, ptr::null()) };
        }
    }

    /// # Safety
    /// The device is alive; the sampler, and its conversion where it has one, were made on it without an allocator, and
    /// are not used any more.
    unsafe fn destroy_sampler(&self, (sampler, conversion): (vk::Sampler, vk::SamplerYcbcrConversion)) {
        // SAFETY: as this method.
        unsafe {
            if let Some(destroy) = self.table.destroy_sampler {
                destroy(self.device, sampler, ptr::null());
            }
            self.destroy_conversion(conversion);
        }
    }

    /// # Safety
    /// The device is alive; the render pass was made on it without an allocator, and is not used any more.
    unsafe fn destroy_pass(&self, pass: vk::RenderPass) {
        if let Some(destroy) = self.table.destroy_render_pass {
            // SAFETY: as this method.
            unsafe { destroy(self.device, pass, ptr::null()) };
        }
    }

    fn made(&self) -> MutexGuard<'_, KnownObjects> {
        self.made.lock()
    }

    /// # Safety
    /// The device is alive.
    unsafe fn module(
        &self,
        identity: &Key,
        read: ReadRecord<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<vk::ShaderModule, ObjectError> {
        checked(Kind::Module, identity, read, buffer)?;
        let (flags, words) = payload::module(buffer).ok_or(ObjectError::Rebuild(RebuildError::Memory))?;
        let info = vk::ShaderModuleCreateInfo::default().flags(flags).code(&words);
        let create = command(self.table.create_shader_module, "module")?;
        let mut module = vk::ShaderModule::null();
        // SAFETY: the device is alive; the SPIR-V is what a program of this user has passed to a driver, as
        // its digest shows.
        let result = unsafe { create(self.device, &info, ptr::null(), &mut module) };
        succeeded(result, "module").map(|()| module)
    }

    /// # Safety
    /// The device is alive.
    unsafe fn layout(
        &self,
        digest: &Key,
        read: ReadRecord<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<(vk::PipelineLayout, bool), ObjectError> {
        if let Some(layout) = self.made().layouts.get(digest) {
            return Ok(*layout);
        }
        // SAFETY: the device is alive (the caller's # Safety section).
        let rebuilt = unsafe { self.rebuilt_layout(digest, read, buffer) }?;
        let create = command(self.table.create_pipeline_layout, "layout")?;
        let mut layout = vk::PipelineLayout::null();
        // SAFETY: the device is alive; the create info is rebuilt of a program's, and its set layouts are of
        // this device.
        let result = unsafe { create(self.device, rebuilt.info(), ptr::null(), &mut layout) };
        succeeded(result, "layout")?;
        let flags = rebuilt.info().flags;
        let made = (layout, flags.contains(vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT));
        let known = *self.made().layouts.entry(*digest).or_insert(made);
        if known.0 != layout {
            // SAFETY: the device is alive; `layout` was just made, and nothing was made with it.
            unsafe { self.destroy_layout(layout) };
        }
        Ok(known)
    }

    /// # Safety
    /// The device is alive.
    unsafe fn set_layout(&self, described: &SetLayout) -> Result<vk::DescriptorSetLayout, ObjectError> {
        let encoding = encoding(described)?;
        if let Some(set) = self.made().sets.get(&encoding) {
            return Ok(*set);
        }
        let mut failed = None;
        let sampler = |sampler: &Sampler| {
            // SAFETY: the device is alive while this set layout is made (the caller's # Safety section).
            let made = unsafe { self.sampler(sampler) };
            made.map_err(|error| failed = Some(error)).ok()
        };
        let rebuilt = objects::set_layout(described, sampler);
        if let Some(error) = failed {
            return Err(error);
        }
        let rebuilt = rebuilt?;
        let create = command(self.table.create_descriptor_set_layout, "set layout")?;
        let mut set = vk::DescriptorSetLayout::null();
        // SAFETY: the device is alive; the create info is rebuilt of a program's, and its samplers are of this device.
        let result = unsafe { create(self.device, rebuilt.info(), ptr::null(), &mut set) };
        succeeded(result, "set layout")?;
        let known = *self.made().sets.entry(encoding).or_insert(set);
        if known != set {
            // SAFETY: the device is alive; `set` was just made, and nothing was made with it.
            unsafe { self.destroy_set_layout(set) };
        }
        Ok(known)
    }

    /// # Safety
    /// The device is alive.
    unsafe fn sampler(&self, described: &Sampler) -> Result<vk::Sampler, ObjectError> {
        let encoding = encoding(described)?;
        if let Some((sampler, _)) = self.made().samplers.get(&encoding) {
            return Ok(*sampler);
        }
        let mut conversion = vk::SamplerYcbcrConversion::null();
        if let Some(described) = &described.conversion {
            let rebuilt = objects::conversion(described)?;
            let create = command(self.table.create_sampler_ycbcr_conversion, "conversion")?;
            // SAFETY: the device is alive; the conversion's create info is rebuilt of a program's.
            let result = unsafe { create(self.device, rebuilt.info(), ptr::null(), &mut conversion) };
            succeeded(result, "conversion")?;
        }
        // SAFETY: the device is alive; `conversion` is NULL or was just made on it, of what `described` has.
        match unsafe { self.sampler_with(described, conversion) } {
            Ok(sampler) => {
                let made = (sampler, conversion);
                let known = *self.made().samplers.entry(encoding).or_insert(made);
                if known != made {
                    // SAFETY: the device is alive; both were just made, and nothing was made with the sampler.
                    unsafe { self.destroy_sampler(made) };
                }
                Ok(known.0)
            }
            Err(error) => {
                // SAFETY: the device is alive; `conversion` was just made without an allocator, and no
                // sampler was made with it.
                unsafe { self.destroy_conversion(conversion) };
                Err(error)
            }
        }
    }

    /// # Safety
    /// The device is alive.
    unsafe fn sampler_with(
        &self,
        described: &Sampler,
        conversion: vk::SamplerYcbcrConversion,
    ) -> Result<vk::Sampler, ObjectError> {
        let rebuilt = objects::sampler(described, conversion)?;
        let create = command(self.table.create_sampler, "sampler")?;
        let mut sampler = vk::Sampler::null();
        // SAFETY: the device is alive; the create info is rebuilt of a program's, and its conversion is of this device.
        let result = unsafe { create(self.device, rebuilt.info(), ptr::null(), &mut sampler) };
        succeeded(result, "sampler").map(|()| sampler)
    }

    /// # Safety
    /// The device is alive, and the conversion, where it is one, was made without an allocator and is not used any
    /// more.
    unsafe fn destroy_conversion(&self, conversion: vk::SamplerYcbcrConversion) {
        if let Some(destroy) = self.table.destroy_sampler_ycbcr_conversion {
            // SAFETY: the device is alive, `conversion` was made without an allocator and is unused; NULL is ignored.
            unsafe { destroy(self.device, conversion, ptr::null()) };
        }
    }

    /// # Safety
    /// The device is alive.
    unsafe fn pass(
        &self,
        digest: &Key,
        read: ReadRecord<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<(vk::RenderPass, Vec<SubpassUse>), ObjectError> {
        if let Some((pass, uses)) = self.made().passes.get(digest) {
            return Ok((*pass, uses.clone()));
        }
        checked(Kind::RenderPass, digest, read, buffer)?;
        let no_record = ObjectError::NoRecord(Kind::RenderPass, *digest);
        let described: RenderPass = key::decode(buffer).map_err(|_| no_record)?;
        let uses = uses(&described);
        let mut pass = vk::RenderPass::null();
        let result = match render_pass(&described, self.traits.limits)? {
            Form::First(rebuilt) => {
                let create = command(self.table.create_render_pass, "render pass")?;
                // SAFETY: the device is alive; the VkRenderPassCreateInfo is rebuilt of a program's.
                unsafe { create(self.device, rebuilt.info(), ptr::null(), &mut pass) }
            }
            Form::Second(rebuilt) => {
                let create = command(self.table.create_render_pass2, "render pass")?;
                // SAFETY: the device is alive; the VkRenderPassCreateInfo2 is rebuilt of a program's.
                unsafe { create(self.device, rebuilt.info(), ptr::null(), &mut pass) }
            }
        };
        succeeded(result, "render pass")?;
        let known = self.made().passes.entry(*digest).or_insert((pass, uses)).clone();
        if known.0 != pass {
            // SAFETY: the device is alive; `pass` was just made, and nothing was made with it.
            unsafe { self.destroy_pass(pass) };
        }
        Ok(known)
    }
}

impl RecipeObjects<'_> {
    /// The identity of a module of these.
    pub fn identity_of(&self, module: vk::ShaderModule) -> Option<Key> {
        self.modules.iter().find(|(_, made)| *made == module).map(|(identity, _)| *identity)
    }

    /// The digest of the layout, if it is that of this recipe.
    pub fn digest_of_layout(&self, layout: vk::PipelineLayout) -> Option<Key> {
        self.layout.filter(|named| named.handle == layout).map(|named| named.digest)
    }

    /// The digest of the render pass, if it is that of this recipe, and what the subpass uses.
    pub fn digest_of_pass(&self, pass: vk::RenderPass, subpass: u32) -> Option<(Key, SubpassUse)> {
        let (digest, made, uses) = self.pass.as_ref()?;
        let uses = uses.get(subpass as usize)?;
        (*made == pass).then_some((*digest, *uses))
    }
}

impl rebuild::Device for RecipeObjects<'_> {
    fn module(&self, identity: &Key) -> Option<StageCode<'_>> {
        let found = self.modules.iter().find(|(known, _)| known == identity);
        found.map(|(_, module)| StageCode::Module(*module))
    }

    fn has_identifiers_of(&self, algorithm: &[u8; 16]) -> bool {
        self.own.traits.algorithm.as_ref() == Some(algorithm)
    }

    fn layout(&self, digest: &Key) -> Option<vk::PipelineLayout> {
        self.layout.filter(|named| named.digest == *digest).map(|named| named.handle)
    }

    fn has_independent_sets(&self, layout: &Key) -> bool {
        self.layout.is_some_and(|named| named.digest == *layout && named.is_independent)
    }

    fn render_pass(&self, digest: &Key, subpass: u32) -> Option<(vk::RenderPass, SubpassUse)> {
        let (known, pass, uses) = self.pass.as_ref()?;
        let uses = uses.get(subpass as usize)?;
        (known == digest).then_some((*pass, *uses))
    }

    fn library(&self, key: &Key) -> Option<(vk::Pipeline, LibraryTraits)> {
        let found = self.libraries.iter().find(|(known, ..)| known == key);
        found.map(|(_, pipeline, traits)| (*pipeline, *traits))
    }

    fn advanced_blend(&self) -> bool {
        self.own.traits.advanced_blend
    }

    fn limits(&self) -> Limits {
        self.own.traits.limits
    }
}

impl Drop for RecipeObjects<'_> {
    fn drop(&mut self) {
        let Some(destroy) = self.own.table.destroy_shader_module else { return };
        for (_, module) in &self.modules {
            // SAFETY: made by `prepare` on a device that outlives this value; no call uses it any more.
            unsafe { destroy(self.own.device, *module, ptr::null()) };
        }
    }
}

fn immutable_samplers(layout: &PipelineLayout) -> impl Iterator<Item = &Sampler> {
    let bindings = layout.sets.iter().flatten().flat_map(|set| &set.bindings);
    bindings.flat_map(|binding| &binding.immutable_samplers)
}

/// Reads a record whose key says what it holds.
fn checked(kind: Kind, digest: &Key, read: ReadRecord<'_>, buffer: &mut Vec<u8>) -> Result<(), ObjectError> {
    let whole = read(kind, digest, buffer) && check::is_true(kind, digest, buffer);
    if whole { Ok(()) } else { Err(ObjectError::NoRecord(kind, *digest)) }
}

fn encoding(description: &impl serde::Serialize) -> Result<Vec<u8>, ObjectError> {
    let mut bytes = Vec::new();
    key::encode(description, &mut bytes).map_err(|_| ObjectError::Rebuild(RebuildError::Memory))?;
    Ok(bytes)
}

/// A command that this device may lack.
fn command<F>(command: Option<F>, object: &'static str) -> Result<F, ObjectError> {
    command.ok_or(ObjectError::Driver(object, vk::Result::ERROR_FEATURE_NOT_PRESENT))
}

fn succeeded(result: vk::Result, object: &'static str) -> Result<(), ObjectError> {
    if result == vk::Result::SUCCESS { Ok(()) } else { Err(ObjectError::Driver(object, result)) }
}
