//! Reads documents: one entry of an archive, or several objects in one text.

use ash::vk;

use super::arena::Arena;
use super::chain::read_chain;
use super::document::{Object, Value};
use super::encodings::{from_base64, from_varint};
use super::error::{ParseError, Problem};
use super::form::Json;
use super::members::{object, only, read, required, text};
use super::reader::Reader;
use super::scalars::hash;
use super::table;

/// The longest text, in bytes. A document takes up to 40 times the memory of its text, and the text of a pipeline is
/// short: SPIR-V is not part of it in documents of today.
pub const MOST_TEXT: usize = 16 << 20;

/// An object of a document.
#[derive(Clone, Copy, Debug)]
pub struct Entry<T> {
    /// The object's hash, which other objects name it by.
    pub hash: u64,
    /// The create info. Handles in it are hashes of other objects.
    pub info: T,
}

/// That an object was used by an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The hash of the application and its features.
    pub application: u64,
    /// The kind of the object, as the archive numbers kinds.
    pub tag: u32,
    /// The object.
    pub hash: u64,
}

/// What a document says of the application.
#[derive(Clone, Copy)]
pub struct Application {
    /// Names and versions.
    pub info: vk::ApplicationInfo<'static>,
    /// robustBufferAccess, and in the chain the features that Fossilize keeps.
    pub features: vk::PhysicalDeviceFeatures2<'static>,
}

/// What a document holds. The pointers in it are valid as long as this value lives: whoever copies a create info keeps
/// it no longer than that.
#[derive(Default)]
pub struct ParsedDocument {
    /// Modules.
    pub modules: Vec<Entry<vk::ShaderModuleCreateInfo<'static>>>,
    /// Samplers. A colour conversion is a VkSamplerYcbcrConversionCreateInfo in the chain, which Vulkan allows no
    /// sampler: the caller makes a conversion of it.
    pub samplers: Vec<Entry<vk::SamplerCreateInfo<'static>>>,
    /// Descriptor set layouts.
    pub set_layouts: Vec<Entry<vk::DescriptorSetLayoutCreateInfo<'static>>>,
    /// Pipeline layouts.
    pub pipeline_layouts: Vec<Entry<vk::PipelineLayoutCreateInfo<'static>>>,
    /// Render passes.
    pub render_passes: Vec<Entry<vk::RenderPassCreateInfo<'static>>>,
    /// Render passes of the second version.
    pub render_passes2: Vec<Entry<vk::RenderPassCreateInfo2<'static>>>,
    /// Compute pipelines.
    pub compute: Vec<Entry<vk::ComputePipelineCreateInfo<'static>>>,
    /// Graphics pipelines, complete ones and parts.
    pub graphics: Vec<Entry<vk::GraphicsPipelineCreateInfo<'static>>>,
    /// Ray tracing pipelines.
    pub ray_tracing: Vec<Entry<vk::RayTracingPipelineCreateInfoKHR<'static>>>,
    /// The application, where the document tells it.
    pub application: Option<Application>,
    /// The hash of the application whose objects these are, where the document tells it.
    pub used_by: Option<u64>,
    /// A link.
    pub link: Option<Link>,
    /// Keeps what the create infos point to.
    _arena: Arena,
}

// SAFETY: all pointers lead into the value's own arena, and nothing of it is bound to a thread.
unsafe impl Send for ParsedDocument {}

/// Reads a document of version 5 or 6. What follows the first NUL of `bytes` is packed SPIR-V.
pub fn parse(bytes: &[u8]) -> Result<ParsedDocument, ParseError> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (json, binary) = bytes.split_at(end);
    if json.len() > MOST_TEXT {
        return Err(ParseError::new(Problem::TooLong(json.len())));
    }
    let syntax = |error: serde_json::Error| ParseError::new(Problem::Syntax(error.to_string()));
    let document: Value = serde_json::from_slice(json).map_err(syntax)?;
    let document = object(&document)?;
    let mut reader = table::reader();
    let version: u32 = read(document, "version", &mut reader)?;
    if !(5..=6).contains(&version) {
        return Err(ParseError::new(Problem::Version(version)).inside("version"));
    }
    only(
        document,
        &SECTIONS,
        &["version", "application", "applicationInfo", "physicalDeviceFeatures", "link"],
    )?;
    let [modules, samplers, sets, layouts, passes, passes2, compute, graphics, rays] = SECTIONS;
    let packed = binary.get(1..).unwrap_or_default();
    let parsed = ParsedDocument {
        modules: section(document, modules, &mut reader, |value, reader| module(value, packed, reader))?,
        samplers: section(document, samplers, &mut reader, Json::read)?,
        set_layouts: section(document, sets, &mut reader, Json::read)?,
        pipeline_layouts: section(document, layouts, &mut reader, Json::read)?,
        render_passes: section(document, passes, &mut reader, Json::read)?,
        render_passes2: section(document, passes2, &mut reader, Json::read)?,
        compute: section(document, compute, &mut reader, Json::read)?,
        graphics: section(document, graphics, &mut reader, Json::read)?,
        ray_tracing: section(document, rays, &mut reader, Json::read)?,
        application: application(document, &mut reader)?,
        used_by: used_by(document)?,
        link: link(document, &mut reader)?,
        _arena: Arena::default(),
    };
    Ok(ParsedDocument { _arena: reader.arena, ..parsed })
}

const SECTIONS: [&str; 9] = [
    "shaderModules",
    "samplers",
    "setLayouts",
    "pipelineLayouts",
    "renderPasses",
    "renderPasses2",
    "computePipelines",
    "graphicsPipelines",
    "raytracingPipelines",
];

/// The objects of a kind, each under its hash.
fn section<T>(
    document: &Object,
    name: &str,
    reader: &mut Reader,
    mut make: impl FnMut(&Value, &mut Reader) -> Result<T, ParseError>,
) -> Result<Vec<Entry<T>>, ParseError> {
    let Some(value) = document.get(name) else { return Ok(Vec::new()) };
    let mut entry = |(key, value): (&str, &Value)| {
        let info = hash(key).and_then(|hash| Ok(Entry { hash, info: make(value, reader)? }));
        info.map_err(|error| error.inside(key).inside(name))
    };
    object(value).map_err(|error| error.inside(name))?.iter().map(&mut entry).collect()
}

/// A module: packed behind the text, or in base64 as part of it.
fn module(
    value: &Value,
    packed: &[u8],
    reader: &mut Reader,
) -> Result<vk::ShaderModuleCreateInfo<'static>, ParseError> {
    let module = object(value)?;
    only(module, &["flags", "codeSize", "varintOffset", "varintSize", "code"], &[])?;
    let flags: u32 = read(module, "flags", reader)?;
    let size: u64 = read(module, "codeSize", reader)?;
    if size % 4 != 0 {
        return Err(ParseError::new(Problem::Range).inside("codeSize"));
    }
    let words = if module.contains("varintOffset") && module.contains("varintSize") {
        let offset: usize = read(module, "varintOffset", reader)?;
        let length: usize = read(module, "varintSize", reader)?;
        let bytes = offset.checked_add(length).and_then(|end| packed.get(offset..end));
        let bytes = bytes.ok_or_else(|| ParseError::new(Problem::Range).inside("varintSize"))?;
        from_varint(bytes, size / 4).map_err(|error| error.inside("codeSize"))?
    } else {
        let bytes = from_base64(text(module, "code")?).map_err(|error| error.inside("code"))?;
        if bytes.len() as u64 != size {
            let length = Problem::Length { found: bytes.len() as u64, expected: size };
            return Err(ParseError::new(length).inside("code"));
        }
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect()
    };
    Ok(vk::ShaderModuleCreateInfo {
        flags: vk::ShaderModuleCreateFlags::from_raw(flags),
        code_size: words.len() * 4,
        p_code: reader.arena.list(words),
        ..Default::default()
    })
}

/// Both parts are empty where the recorder was told nothing.
fn application(document: &Object, reader: &mut Reader) -> Result<Option<Application>, ParseError> {
    let (Some(info), Some(features)) =
        (document.get("applicationInfo"), document.get("physicalDeviceFeatures"))
    else {
        return Ok(None);
    };
    let inside = |error: ParseError| error.inside("physicalDeviceFeatures");
    let features = object(features).map_err(inside)?;
    let empty = matches!(info, Value::Object(info) if !info.contains("apiVersion"));
    if empty || !features.contains("robustBufferAccess") {
        return Ok(None);
    }
    let info = Json::read(info, reader).map_err(|error| error.inside("applicationInfo"))?;
    only(features, &["robustBufferAccess", "pNext"], &[]).map_err(inside)?;
    let mut made = vk::PhysicalDeviceFeatures2::default();
    made.features.robust_buffer_access = read(features, "robustBufferAccess", reader).map_err(inside)?;
    if let Some(chain) = features.get("pNext") {
        let chain = read_chain(table::FEATURES, chain, reader);
        made.p_next = chain.map_err(|error| inside(error.inside("pNext")))?;
    }
    Ok(Some(Application { info, features: made }))
}

fn used_by(document: &Object) -> Result<Option<u64>, ParseError> {
    if !document.contains("application") {
        return Ok(None);
    }
    hash(text(document, "application")?).map(Some).map_err(|error| error.inside("application"))
}

fn link(document: &Object, reader: &mut Reader) -> Result<Option<Link>, ParseError> {
    if !document.contains("link") {
        return Ok(None);
    }
    let mut parts = || {
        let link = object(required(document, "link")?)?;
        only(link, &["application", "tag", "hash"], &[])?;
        let named = |name: &str| hash(text(link, name)?).map_err(|error| error.inside(name));
        Ok(Link { application: named("application")?, tag: read(link, "tag", reader)?, hash: named("hash")? })
    };
    parts().map(Some).map_err(|error: ParseError| error.inside("link"))
}
