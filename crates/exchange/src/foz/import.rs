//! Takes in the recipes of an archive of Fossilize, and what they name. Its content is not trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::path::Path;
use std::ptr;

use ash::vk;
use serde::Serialize;
use vkstash_fossilize::archive::{self, Entry, Reader, Tag};
use vkstash_fossilize::json::read::Entry as Object;
use vkstash_fossilize::json::{ParsedDocument, parse};
use vkstash_host::disk::errors::OpenError;
use vkstash_host::util::unix_ms;
use vkstash_model::app_name::AppName;
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::module_identity;
use vkstash_model::record::{Key, Kind, RunDevices, UseRecord};
use vkstash_model::{key, payload, structures};
use vkstash_recipe::application::Application;
use vkstash_recipe::capture::parsed::Parsed;
use vkstash_recipe::capture::render_pass::{render_pass, render_pass2, uses};
use vkstash_recipe::capture::{
    Captured, Library, Scratch, compute, graphics, objects as describe, ray_tracing,
};
use vkstash_recipe::chain::Refusal;
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_recipe::rebuild::pipeline::pipeline;

use super::chain::unlink;
use super::objects::{Known, found};
use crate::sink::{NotWritten, Sink};

/// Reasons that are counted apart. An archive may give any number of them.
const MOST_REASONS: usize = 100;
/// The run that imported uses belong to: older than every run of a program, whose order workers follow.
const RUN: u64 = 1;

/// Why an archive was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum FozError {
    /// It is none, or cannot be read.
    #[error(transparent)]
    Archive(#[from] archive::OpenError),
    /// The stash cannot be opened.
    #[error("cannot open the stash: {0}")]
    Open(#[from] OpenError),
    /// Records cannot be written.
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
}

/// What became of an archive's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FozImported {
    /// Records that are new here, by [`Kind::name`].
    pub records: BTreeMap<&'static str, u64>,
    /// Objects that the stash had already.
    pub present: u64,
    /// Objects that were left out, by the reason.
    pub refused: BTreeMap<String, u64>,
    /// Entries of tags that are not known, by the tag's number.
    pub unknown_tags: BTreeMap<u64, u64>,
    /// Entries whose header makes no sense, or that stand in the archive twice.
    pub skipped: u64,
    /// Bytes at the end that are no complete entry: the archive was cut, or another program is writing to it.
    pub tail: u64,
}

/// What the programs of an archive call themselves, sorted.
pub fn applications(archive: &Reader) -> Vec<Vec<u8>> {
    let documents =
        archive.entries_of(Tag::ApplicationInfo).iter().filter_map(|entry| archive.read(entry).ok());
    let names = documents.filter_map(|text| Some(application(&parse(&text).ok()?)?.name));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Takes everything into the stash of one application below `root`. `progress` is told how many entries are done, and
/// how many there are.
pub fn import(
    archive: &Reader,
    root: &Path,
    app: &AppName,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FozImported, FozError> {
    let sink = Sink::open(root, app)?;
    let mut intake =
        Intake { archive, sink, known: Known::default(), imported: skipped(archive), done: 0, progress };
    intake.run()?;
    intake.sink.settle()?;
    Ok(intake.imported)
}

/// What the index of the archive left out.
fn skipped(archive: &Reader) -> FozImported {
    let skipped = archive.skipped();
    let number = |(&tag, &count): (&u128, &u64)| (u64::try_from(tag).unwrap_or(u64::MAX), count);
    FozImported {
        unknown_tags: skipped.unknown_tags.iter().map(number).collect(),
        skipped: skipped.duplicates
            + skipped.malformed_names
            + skipped.malformed_headers
            + skipped.too_large
            + skipped.over_limit
            + skipped.other_unknown,
        tail: skipped.tail,
        ..FozImported::default()
    }
}

/// Why an object is not taken.
enum Problem {
    /// It names an object that was not read, or not yet.
    Unknown,
    Refused(String),
    NotWritten(NotWritten),
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        match (refusal.reason, refusal.s_type) {
            (BypassReason::UnknownObject, _) => Problem::Unknown,
            (reason, 0) => Problem::Refused(reason.name().replace('_', " ")),
            (reason, s_type) => {
                let name = structures::name(vk::StructureType::from_raw(s_type));
                Problem::Refused(format!("{}: {name}", reason.name().replace('_', " ")))
            }
        }
    }
}

impl From<key::CodecError> for Problem {
    fn from(error: key::CodecError) -> Problem {
        Problem::Refused(error.to_string())
    }
}

impl From<NotWritten> for Problem {
    fn from(error: NotWritten) -> Problem {
        Problem::NotWritten(error)
    }
}

/// The import, as far as it is.
struct Intake<'a> {
    archive: &'a Reader,
    sink: Sink,
    known: Known,
    imported: FozImported,
    done: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Intake<'_> {
    /// Objects before what names them.
    fn run(&mut self) -> Result<(), NotWritten> {
        self.each(Tag::Sampler, |intake, document| all(&document.samplers, |object| intake.sampler(object)))?;
        self.each(Tag::DescriptorSetLayout, |intake, document| {
            all(&document.set_layouts, |object| intake.set_layout(object))
        })?;
        self.each(Tag::PipelineLayout, |intake, document| {
            all(&document.pipeline_layouts, |object| intake.pipeline_layout(object))
        })?;
        self.each(Tag::ShaderModule, |intake, document| {
            all(&document.modules, |object| intake.module(object))
        })?;
        self.each(Tag::RenderPass, Self::render_passes)?;
        self.each(Tag::ComputePipeline, Self::compute_pipelines)?;
        self.each(Tag::GraphicsPipeline, Self::graphics_pipelines)?;
        self.each(Tag::RaytracingPipeline, Self::ray_tracing_pipelines)?;
        self.device()
    }

    /// Reads the entries of a tag. What names objects that come later is tried again, as long as that brings anything.
    fn each(
        &mut self,
        tag: Tag,
        take: impl Fn(&mut Self, &ParsedDocument) -> Result<(), Problem>,
    ) -> Result<(), NotWritten> {
        let mut left: Vec<Entry> = self.archive.entries_of(tag).to_vec();
        loop {
            let before = left.len();
            let mut unknown = Vec::new();
            for entry in left {
                match self.document(&entry).and_then(|document| take(self, &document)) {
                    Ok(()) => self.tell(),
                    Err(Problem::Unknown) => unknown.push(entry),
                    Err(Problem::Refused(reason)) => {
                        self.refuse(reason, 1);
                        self.tell();
                    }
                    Err(Problem::NotWritten(error)) => return Err(error),
                }
            }
            if unknown.is_empty() || unknown.len() == before {
                self.refuse(
                    "names an object that the archive does not have".to_owned(),
                    unknown.len() as u64,
                );
                return Ok(());
            }
            left = unknown;
        }
    }

    fn tell(&mut self) {
        self.done += 1;
        (self.progress)(self.done, self.archive.entries().len() as u64);
    }

    fn refuse(&mut self, reason: String, count: u64) {
        let refused = &mut self.imported.refused;
        let is_new = refused.len() < MOST_REASONS || refused.contains_key(&reason);
        if count > 0 {
            *refused.entry(if is_new { reason } else { "other reasons".to_owned() }).or_default() += count;
        }
    }

    /// The document of an entry, whose only object has the hash that the entry's name says.
    fn document(&self, entry: &Entry) -> Result<ParsedDocument, Problem> {
        let damaged = |_| Problem::Refused("damaged".to_owned());
        let text = self.archive.read(entry).map_err(damaged)?;
        let document = parse(&text).map_err(|error| Problem::Refused(error.problem.to_string()))?;
        let hashes = hashes(&document);
        match hashes.as_slice() {
            [hash] if *hash == entry.hash() => Ok(document),
            _ => Err(Problem::Refused("an entry of another object than its name says".to_owned())),
        }
    }

    /// Writes a record that others name, or finds it there.
    fn put(&mut self, kind: Kind, key: &Key, record: &[u8]) -> Result<(), NotWritten> {
        let portable = self.sink.stash().portable().clone();
        if portable.contains(kind, key) {
            self.imported.present += 1;
            return Ok(());
        }
        self.sink.put(&portable, kind, key, record)?;
        *self.imported.records.entry(kind.name()).or_default() += 1;
        Ok(())
    }

    fn sampler(&mut self, object: &Object<vk::SamplerCreateInfo<'static>>) -> Result<(), Problem> {
        let mut info = object.info;
        // SAFETY: the chain of a document that lives during this call; nothing else reads it meanwhile. The cast
        // follows the sType.
        let conversion = unsafe {
            let node = unlink(&mut info.p_next, vk::StructureType::SAMPLER_YCBCR_CONVERSION_CREATE_INFO);
            let found = node.map(|node| *node.cast::<vk::SamplerYcbcrConversionCreateInfo<'_>>());
            found.map(|found| vk::SamplerYcbcrConversionCreateInfo { p_next: ptr::null(), ..found })
        };
        // SAFETY: a create info without a chain of its own, or with what was left of the document's.
        let conversion = conversion.map(|info| unsafe { describe::conversion(&info) }).transpose()?;
        let unknown = Refusal::plain(BypassReason::UnknownObject);
        // SAFETY: the create info of a document that lives during this call.
        let mut sampler = unsafe { describe::sampler(&info, |_| Err(unknown)) }?;
        sampler.conversion = conversion;
        self.known.samplers.insert(object.hash, sampler);
        Ok(())
    }

    fn set_layout(
        &mut self,
        object: &Object<vk::DescriptorSetLayoutCreateInfo<'static>>,
    ) -> Result<(), Problem> {
        // SAFETY: the create info of a document that lives during this call.
        let layout =
            unsafe { describe::set_layout(&object.info, |_, sampler| found(&self.known.samplers, sampler)) }?;
        self.known.set_layouts.insert(object.hash, layout);
        Ok(())
    }

    fn pipeline_layout(
        &mut self,
        object: &Object<vk::PipelineLayoutCreateInfo<'static>>,
    ) -> Result<(), Problem> {
        // SAFETY: the create info of a document that lives during this call.
        let layout =
            unsafe { describe::pipeline_layout(&object.info, |set| found(&self.known.set_layouts, set)) }?;
        let mut record = Vec::new();
        key::encode(&layout, &mut record)?;
        let digest = key::digest(key::LAYOUT, &record);
        self.put(Kind::Layout, &digest, &record)?;
        let independent = vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT.as_raw();
        self.known.independent_sets.insert(digest, layout.flags & independent != 0);
        self.known.layouts.insert(object.hash, digest);
        Ok(())
    }

    fn module(&mut self, object: &Object<vk::ShaderModuleCreateInfo<'static>>) -> Result<(), Problem> {
        let info = &object.info;
        // SAFETY: the code of a document that lives during this call; it has codeSize bytes.
        let code = unsafe { vkstash_recipe::capture::stage::code(info) };
        let identity = module_identity(info.flags, code);
        let record = payload::module_record(info.flags, code)
            .ok_or_else(|| Problem::Refused("no memory for a module".to_owned()))?;
        self.put(Kind::Module, &identity, &record)?;
        self.known.modules.insert(object.hash, identity);
        Ok(())
    }

    fn render_passes(&mut self, document: &ParsedDocument) -> Result<(), Problem> {
        all(&document.render_passes, |object| {
            // SAFETY: the create info of a document that lives during this call.
            let pass = unsafe { render_pass(&object.info) }?;
            self.render_pass(object.hash, &pass)
        })?;
        all(&document.render_passes2, |object| {
            // SAFETY: as above.
            let pass = unsafe { render_pass2(&object.info) }?;
            self.render_pass(object.hash, &pass)
        })
    }

    fn render_pass(&mut self, hash: u64, pass: &vkstash_model::recipe::RenderPass) -> Result<(), Problem> {
        let mut record = Vec::new();
        key::encode(pass, &mut record)?;
        let digest = key::digest(key::RENDER_PASS, &record);
        self.put(Kind::RenderPass, &digest, &record)?;
        self.known.uses.insert(digest, uses(pass));
        self.known.render_passes.insert(hash, (digest, uses(pass)));
        Ok(())
    }

    fn compute_pipelines(&mut self, document: &ParsedDocument) -> Result<(), Problem> {
        all(&document.compute, |object| {
            let mut scratch = Scratch::default();
            // SAFETY: the create info of a document that lives during this call.
            let parsed = unsafe { Parsed::compute(&object.info) };
            // SAFETY: as above, and `parsed` was read of it.
            let captured = unsafe { compute::compute(&object.info, &parsed, &self.known, &mut scratch) }?;
            let (key, record, library) = encoded(&captured, &self.known)?;
            self.recipe(object.hash, &key, &record, library)
        })
    }

    fn graphics_pipelines(&mut self, document: &ParsedDocument) -> Result<(), Problem> {
        all(&document.graphics, |object| {
            let mut scratch = Scratch::default();
            // SAFETY: the create info of a document that lives during this call.
            let parsed = unsafe { Parsed::graphics(&object.info) };
            // SAFETY: as above, and `parsed` was read of it.
            let captured = unsafe { graphics::graphics(&object.info, &parsed, &self.known, &mut scratch) }?;
            let (key, record, library) = encoded(&captured, &self.known)?;
            self.recipe(object.hash, &key, &record, library)
        })
    }

    fn ray_tracing_pipelines(&mut self, document: &ParsedDocument) -> Result<(), Problem> {
        all(&document.ray_tracing, |object| {
            let mut scratch = Scratch::default();
            // SAFETY: the create info of a document that lives during this call.
            let parsed = unsafe { Parsed::ray_tracing(&object.info) };
            // SAFETY: as above, and `parsed` was read of it.
            let captured =
                unsafe { ray_tracing::ray_tracing(&object.info, &parsed, &self.known, &mut scratch) }?;
            let (key, record, library) = encoded(&captured, &self.known)?;
            self.recipe(object.hash, &key, &record, library)
        })
    }

    fn recipe(&mut self, hash: u64, key: &Key, record: &[u8], library: Library) -> Result<(), Problem> {
        self.known.pipelines.insert(hash, library);
        self.known.traits.insert(*key, library.traits);
        let sequence = u32::try_from(self.done).unwrap_or(u32::MAX);
        self.put(Kind::Recipe, key, record)?;
        let portable = self.sink.stash().portable().clone();
        if !portable.contains(Kind::Use, key) {
            let used = UseRecord { unix_ms: unix_ms(), sequence, devices: RunDevices::ALL, run: RUN };
            self.sink.put(&portable, Kind::Use, key, &used.encode())?;
        }
        Ok(())
    }

    /// What Fossilize keeps of the device, where the stash knows of none: only with a device pipelines can be made.
    fn device(&mut self) -> Result<(), NotWritten> {
        let portable = self.sink.stash().portable().clone();
        let mut is_known = false;
        portable.for_each(Kind::DeviceConfiguration, &mut |_, _| is_known = true);
        for entry in self.archive.entries_of(Tag::ApplicationInfo) {
            let text = self.archive.read(entry).ok().filter(|_| !is_known);
            let Some(document) = text.and_then(|text| parse(&text).ok()) else { continue };
            let (Some(application), Some(parsed)) = (application(&document), document.application) else {
                continue;
            };
            let info =
                vk::DeviceCreateInfo { p_next: (&raw const parsed.features).cast(), ..Default::default() };
            // SAFETY: the chain of a document that lives during this call.
            let configuration = unsafe { DeviceConfiguration::read(&info, &application) };
            if let Ok((digest, record)) = configuration.encoded() {
                self.put(Kind::DeviceConfiguration, &digest, &record)?;
                is_known = true;
            }
        }
        Ok(())
    }
}

/// Takes the objects of a document, which are one.
fn all<T>(objects: &[Object<T>], take: impl FnMut(&Object<T>) -> Result<(), Problem>) -> Result<(), Problem> {
    objects.iter().try_for_each(take)
}

/// The key and the record of a pipeline that can be made again.
fn encoded(captured: &Captured<'_>, known: &Known) -> Result<(Key, Vec<u8>, Library), Problem> {
    pipeline(&captured.recipe, known)
        .map_err(|error| Problem::Refused(format!("a pipeline that no device could make: {error}")))?;
    let mut record = Vec::new();
    key::encode(&captured.recipe, &mut record)?;
    let key = key::digest(key::RECIPE, &record);
    Ok((key, record, Library { key, traits: captured.traits }))
}

/// The hashes of all objects of a document.
fn hashes(document: &ParsedDocument) -> Vec<u64> {
    fn of<T>(objects: &[Object<T>]) -> impl Iterator<Item = u64> + '_ {
        objects.iter().map(|object| object.hash)
    }
    of(&document.samplers)
        .chain(of(&document.set_layouts))
        .chain(of(&document.pipeline_layouts))
        .chain(of(&document.modules))
        .chain(of(&document.render_passes))
        .chain(of(&document.render_passes2))
        .chain(of(&document.compute))
        .chain(of(&document.graphics))
        .chain(of(&document.ray_tracing))
        .collect()
}

/// What the program of a document calls itself.
fn application(document: &ParsedDocument) -> Option<Application> {
    let info = document.application.as_ref()?.info;
    let name = |pointer: *const std::ffi::c_char| {
        // SAFETY: NULL, or a string of the document, which lives during this call.
        if pointer.is_null() { Vec::new() } else { unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec() }
    };
    Some(Application {
        name: name(info.p_application_name),
        version: info.application_version,
        engine: name(info.p_engine_name),
        engine_version: info.engine_version,
        api_version: info.api_version.max(vk::API_VERSION_1_0),
    })
}
