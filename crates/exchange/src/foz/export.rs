//! Writes the recipes of an application, and what they name, as an archive of Fossilize.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CString, c_void};
use std::io::Write;
use std::ptr;
use std::sync::Arc;

use ash::vk::{self, Handle};
use vkstash_fossilize::archive::{self, Tag, Writer};
use vkstash_fossilize::json::{WriteError, write};
use vkstash_model::recipe::{Code, OwnedExtension, PipelineLayout, Recipe, RenderPass, Sampler, SetLayout};
use vkstash_model::record::{Key, Kind};
use vkstash_model::{key, payload, registry, structures};
use vkstash_recipe::application::Application;
use vkstash_recipe::capture::render_pass::uses;
use vkstash_recipe::capture::{LibraryTraits, SubpassUse};
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_recipe::rebuild::pipeline::{Info, pipeline};
use vkstash_recipe::rebuild::render_pass::{Form, render_pass};
use vkstash_recipe::rebuild::{Device, Limits, StageCode, objects};
use vkstash_store::part::open::Part;

use super::chain::unlink;
use super::objects::UNLIMITED;

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FozExportError {
    /// The file does not take it.
    #[error(transparent)]
    Archive(#[from] archive::WriteError),
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FozExported {
    /// Pipelines.
    pub pipelines: u64,
    /// All objects.
    pub objects: u64,
    /// Pipelines that were left out, by the reason.
    pub refused: BTreeMap<String, u64>,
}

/// Writes the pipelines of portable parts. `progress` is told how many of a part are done, and how many it has.
pub fn export(
    parts: &[Arc<Part>],
    sink: impl Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FozExported, FozExportError> {
    let mut archive = Writer::new(sink)?;
    let mut exported = FozExported::default();
    for portable in parts {
        let recipes = all_recipes(portable);
        Output::new(portable, &mut archive, &mut exported).part(&recipes, progress)?;
    }
    archive.finish()?;
    Ok(exported)
}

/// Writes the pipeline of this key, the libraries that it links, and the program's devices.
pub fn export_one(portable: &Arc<Part>, key: &Key, sink: impl Write) -> Result<FozExported, FozExportError> {
    let mut archive = Writer::new(sink)?;
    let mut exported = FozExported::default();
    let recipes = recipe_with_libraries(portable, key);
    Output::new(portable, &mut archive, &mut exported).part(&recipes, &mut |_, _| {})?;
    archive.finish()?;
    Ok(exported)
}

/// Recipes with their keys, libraries before the links that name them.
type Recipes = Vec<(Key, Vec<u8>)>;

fn all_recipes(portable: &Part) -> Recipes {
    let mut recipes = Vec::new();
    portable.for_each(Kind::Recipe, &mut |key, record| recipes.push((*key, record.to_vec())));
    recipes.sort_by_cached_key(|(key, record)| {
        let recipe = key::decode::<Recipe<'_>>(record);
        (recipe.map_or(0, |recipe| recipe.pipeline.libraries().len()), *key)
    });
    recipes
}

/// What is not in the stash is left out.
fn recipe_with_libraries(portable: &Part, key: &Key) -> Recipes {
    let (mut recipes, mut seen) = (Recipes::new(), HashSet::new());
    // A stack, because libraries may link libraries to any depth. With a record: its libraries are in the list.
    let mut stack = Vec::from([(*key, None)]);
    while let Some((key, record)) = stack.pop() {
        if let Some(record) = record {
            recipes.push((key, record));
            continue;
        }
        let mut record = Vec::new();
        if !seen.insert(key) || !portable.read(Kind::Recipe, &key, &mut record) {
            continue;
        }
        let decoded = key::decode::<Recipe<'_>>(&record);
        let libraries = decoded.map_or(Vec::new(), |recipe| recipe.pipeline.libraries().to_vec());
        stack.push((key, Some(record)));
        stack.extend(libraries.into_iter().map(|library| (library, None)));
    }
    recipes
}

/// Why a pipeline is left out.
enum Problem {
    Refused(String),
    Archive(archive::WriteError),
}

impl From<archive::WriteError> for Problem {
    fn from(error: archive::WriteError) -> Problem {
        Problem::Archive(error)
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Problem {
        match error {
            WriteError::Structure(s_type) => {
                let name = structures::name(s_type);
                Problem::Refused(format!("Fossilize does not know {name}"))
            }
            other => Problem::Refused(other.to_string()),
        }
    }
}

impl From<vkstash_recipe::rebuild::RebuildError> for Problem {
    fn from(error: vkstash_recipe::rebuild::RebuildError) -> Problem {
        Problem::Refused(error.to_string())
    }
}

impl From<key::CodecError> for Problem {
    fn from(error: key::CodecError) -> Problem {
        Problem::Refused(error.to_string())
    }
}

/// What recipes name, as it stands in the archive: handles are hashes.
#[derive(Default)]
struct Known {
    modules: HashSet<Key>,
    /// Whether the layout has independent sets.
    layouts: HashMap<Key, bool>,
    render_passes: HashMap<Key, Vec<SubpassUse>>,
    pipelines: HashMap<Key, LibraryTraits>,
}

/// An object's hash: Fossilize takes any number that is the object's alone.
fn hash(key: &Key) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *key;
    // 0 stands for no object.
    u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1)
}

impl Device for Known {
    fn module(&self, identity: &Key) -> Option<StageCode<'_>> {
        self.modules.contains(identity).then(|| StageCode::Module(vk::ShaderModule::from_raw(hash(identity))))
    }

    fn has_identifiers_of(&self, _: &[u8; 16]) -> bool {
        false
    }

    fn layout(&self, digest: &Key) -> Option<vk::PipelineLayout> {
        self.layouts.contains_key(digest).then(|| vk::PipelineLayout::from_raw(hash(digest)))
    }

    fn has_independent_sets(&self, layout: &Key) -> bool {
        self.layouts.get(layout).copied().unwrap_or_default()
    }

    fn render_pass(&self, digest: &Key, subpass: u32) -> Option<(vk::RenderPass, SubpassUse)> {
        let used = *self.render_passes.get(digest)?.get(subpass as usize)?;
        Some((vk::RenderPass::from_raw(hash(digest)), used))
    }

    fn library(&self, key: &Key) -> Option<(vk::Pipeline, LibraryTraits)> {
        Some((vk::Pipeline::from_raw(hash(key)), *self.pipelines.get(key)?))
    }

    fn advanced_blend(&self) -> bool {
        false
    }

    fn limits(&self) -> Limits {
        UNLIMITED
    }
}

/// The archive, as far as it is.
struct Output<'a, W> {
    portable: &'a Arc<Part>,
    archive: &'a mut Writer<W>,
    known: Known,
    exported: &'a mut FozExported,
}

impl<'a, W: Write> Output<'a, W> {
    fn new(portable: &'a Arc<Part>, archive: &'a mut Writer<W>, exported: &'a mut FozExported) -> Self {
        Output { portable, archive, known: Known::default(), exported }
    }

    /// The recorded devices, and these recipes with what they name.
    fn part(
        &mut self,
        recipes: &Recipes,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), archive::WriteError> {
        self.devices()?;
        let total = recipes.len() as u64;
        for (done, (key, record)) in recipes.iter().enumerate() {
            match self.recipe(key, record) {
                Ok(()) => self.exported.pipelines += 1,
                Err(Problem::Refused(reason)) => *self.exported.refused.entry(reason).or_default() += 1,
                Err(Problem::Archive(error)) => return Err(error),
            }
            progress(done as u64 + 1, total);
        }
        Ok(())
    }

    fn write(&mut self, tag: Tag, hash: u64, document: &[u8]) -> Result<(), archive::WriteError> {
        self.exported.objects += u64::from(self.archive.write(tag, hash, document)?);
        Ok(())
    }

    fn read(&self, kind: Kind, key: &Key, what: &str) -> Result<Vec<u8>, Problem> {
        let mut record = Vec::new();
        match self.portable.read(kind, key, &mut record) {
            true => Ok(record),
            false => Err(Problem::Refused(format!("its {what} is not in the stash"))),
        }
    }

    /// The recorded devices: Fossilize keeps the program's names and few features.
    fn devices(&mut self) -> Result<(), archive::WriteError> {
        let mut records = Vec::new();
        self.portable.for_each(Kind::DeviceConfiguration, &mut |key, record| {
            records.push((*key, record.to_vec()));
        });
        for (key, record) in records {
            let Ok(configuration) = key::decode::<DeviceConfiguration>(&record) else { continue };
            if let Some(document) = application(&configuration) {
                self.write(Tag::ApplicationInfo, hash(&key), &document)?;
            }
        }
        Ok(())
    }

    fn recipe(&mut self, key: &Key, record: &[u8]) -> Result<(), Problem> {
        let recipe = key::decode::<Recipe<'_>>(record)?;
        for stage in recipe.pipeline.stages() {
            match &stage.code {
                Code::Module(identity) => self.module(identity)?,
                Code::Native { .. } => {
                    return Err(Problem::Refused("its code was never seen, only an identifier".to_owned()));
                }
            }
        }
        let parts = recipe.pipeline.parts();
        parts.layout.iter().try_for_each(|digest| self.layout(digest))?;
        parts.render_pass.iter().try_for_each(|digest| self.render_pass(digest))?;
        let hash = hash(key);
        let (tag, document, traits) = match pipeline(&recipe, &self.known)? {
            // SAFETY: what was rebuilt is valid, and lives during this call.
            Info::Compute(rebuilt) => unsafe {
                (Tag::ComputePipeline, write::compute(hash, rebuilt.info())?, LibraryTraits::default())
            },
            // SAFETY: as above.
            Info::Graphics(rebuilt, traits) => unsafe {
                (Tag::GraphicsPipeline, write::graphics(hash, rebuilt.info())?, traits)
            },
            // SAFETY: as above.
            Info::RayTracing(rebuilt) => unsafe {
                (Tag::RaytracingPipeline, write::ray_tracing(hash, rebuilt.info())?, LibraryTraits::default())
            },
        };
        self.write(tag, hash, &document)?;
        self.known.pipelines.insert(*key, traits);
        Ok(())
    }

    fn module(&mut self, identity: &Key) -> Result<(), Problem> {
        if self.known.modules.contains(identity) {
            return Ok(());
        }
        let record = self.read(Kind::Module, identity, "module")?;
        let (flags, code) = payload::module(&record)
            .ok_or_else(|| Problem::Refused("a module that is too short".to_owned()))?;
        let info = vk::ShaderModuleCreateInfo { flags, ..Default::default() }.code(&code);
        // SAFETY: the code lives during this call.
        let document = unsafe { write::module(hash(identity), &info) }?;
        self.write(Tag::ShaderModule, hash(identity), &document)?;
        self.known.modules.insert(*identity);
        Ok(())
    }

    fn layout(&mut self, digest: &Key) -> Result<(), Problem> {
        if self.known.layouts.contains_key(digest) {
            return Ok(());
        }
        let record = self.read(Kind::Layout, digest, "layout")?;
        let layout = key::decode::<PipelineLayout>(&record)?;
        for set in layout.sets.iter().flatten() {
            self.set_layout(set)?;
        }
        let rebuilt = objects::pipeline_layout(&layout, UNLIMITED, |set| {
            Some(vk::DescriptorSetLayout::from_raw(hash_of(set).ok()?))
        })?;
        // SAFETY: what was rebuilt is valid, and lives during this call.
        let document = unsafe { write::pipeline_layout(hash(digest), rebuilt.info()) }?;
        self.write(Tag::PipelineLayout, hash(digest), &document)?;
        let independent = vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT.as_raw();
        self.known.layouts.insert(*digest, layout.flags & independent != 0);
        Ok(())
    }

    fn set_layout(&mut self, set: &SetLayout) -> Result<(), Problem> {
        for sampler in set.bindings.iter().flat_map(|binding| &binding.immutable_samplers) {
            self.sampler(sampler)?;
        }
        let rebuilt =
            objects::set_layout(set, |sampler| Some(vk::Sampler::from_raw(hash_of(sampler).ok()?)))?;
        let hash = hash_of(set)?;
        // SAFETY: what was rebuilt is valid, and lives during this call.
        let document = unsafe { write::set_layout(hash, rebuilt.info()) }?;
        Ok(self.write(Tag::DescriptorSetLayout, hash, &document)?)
    }

    fn sampler(&mut self, sampler: &Sampler) -> Result<(), Problem> {
        let conversion = sampler.conversion.as_ref().map(objects::conversion).transpose()?;
        let handle = u64::from(conversion.is_some());
        let rebuilt = objects::sampler(sampler, vk::SamplerYcbcrConversion::from_raw(handle))?;
        let mut info = *rebuilt.info();
        let mut converted = conversion.as_ref().map(|conversion| *conversion.info());
        if let Some(converted) = &mut converted {
            if !converted.p_next.is_null() {
                return Err(Problem::Refused("a colour conversion with a chain".to_owned()));
            }
            // Fossilize keeps the conversion itself where Vulkan has its handle.
            // SAFETY: the chain of what was rebuilt here, which nothing else reads.
            unsafe { unlink(&mut info.p_next, vk::StructureType::SAMPLER_YCBCR_CONVERSION_INFO) };
            converted.p_next = info.p_next;
            info.p_next = (&raw const *converted).cast();
        }
        let hash = hash_of(sampler)?;
        // SAFETY: what was rebuilt is valid, and lives during this call.
        let document = unsafe { write::sampler(hash, &info) }?;
        Ok(self.write(Tag::Sampler, hash, &document)?)
    }

    fn render_pass(&mut self, digest: &Key) -> Result<(), Problem> {
        if self.known.render_passes.contains_key(digest) {
            return Ok(());
        }
        let record = self.read(Kind::RenderPass, digest, "render pass")?;
        let pass = key::decode::<RenderPass>(&record)?;
        let hash = hash(digest);
        // SAFETY: what was rebuilt is valid, and lives during this call.
        let document = unsafe {
            match render_pass(&pass, UNLIMITED)? {
                Form::First(rebuilt) => write::render_pass(hash, rebuilt.info())?,
                Form::Second(rebuilt) => write::render_pass2(hash, rebuilt.info())?,
            }
        };
        self.write(Tag::RenderPass, hash, &document)?;
        self.known.render_passes.insert(*digest, uses(&pass));
        Ok(())
    }
}

/// The hash of what has no record of its own.
fn hash_of(object: &impl serde::Serialize) -> Result<u64, key::CodecError> {
    let mut record = Vec::new();
    key::encode(object, &mut record)?;
    Ok(hash(&key::digest(key::LAYOUT, &record)))
}

/// The document of a device that a program has created. None: a name holds a zero.
fn application(configuration: &DeviceConfiguration) -> Option<Vec<u8>> {
    let Application { name, version, engine, engine_version, api_version } = &configuration.application;
    let [name, engine] = [name, engine].map(|name| CString::new(name.as_slice()));
    let (name, engine) = (name.ok()?, engine.ok()?);
    let info = vk::ApplicationInfo {
        p_application_name: name.as_ptr(),
        application_version: *version,
        p_engine_name: engine.as_ptr(),
        engine_version: *engine_version,
        api_version: *api_version,
        ..Default::default()
    };
    // Each structure with 8-byte alignment: type, padding, pNext, the switches.
    let mut chain: Vec<Vec<u64>> = Vec::new();
    let mut next: *const c_void = ptr::null();
    for structure in configuration.structures.iter().filter(|structure| is_kept(structure)) {
        let mut words = vec![u64::from(structure.s_type as u32), next.expose_provenance() as u64];
        let padded = structure.members.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        words.extend(padded);
        next = words.as_ptr().cast();
        chain.push(words);
    }
    let mut features = vk::PhysicalDeviceFeatures2 { p_next: next.cast_mut(), ..Default::default() };
    features.features.robust_buffer_access = configuration.features.first().copied().unwrap_or_default();
    // SAFETY: the names end with NUL; each structure of the chain has the members of its type (`is_kept`), and lives
    // during this call.
    unsafe { write::application(&info, &features) }.ok()
}

/// Whether Fossilize keeps these features, and all of them are here.
fn is_kept(structure: &OwnedExtension) -> bool {
    let s_type = vk::StructureType::from_raw(structure.s_type);
    let is_whole = registry::of_device(s_type).is_some_and(|row| 4 * row.switches == structure.members.len());
    is_whole && write::keeps_features(s_type)
}
