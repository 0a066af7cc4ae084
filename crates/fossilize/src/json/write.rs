//! Writes documents, one object each: the entries of an archive.
//!
//! Handles in the create infos are hashes of other objects: whoever has other handles replaces them first.

use std::ptr;

use ash::vk;

use super::chain::{nothing_in, write_chain};
use super::encodings::to_varint;
use super::error::WriteError;
use super::form::Json;
use super::read::Link;
use super::table;
use super::writer::Writer;

/// The version that is written.
const VERSION: u32 = 6;

/// Begins a document.
fn begin() -> Writer {
    let mut writer = table::writer();
    writer.open('{');
    writer.name("version");
    writer.raw(VERSION);
    writer
}

/// Ends it.
fn end(mut writer: Writer) -> Vec<u8> {
    writer.close('}');
    writer.finish().into_bytes()
}

/// Begins the object of a section.
fn begin_object(section: &str, hash: u64) -> Writer {
    let mut writer = begin();
    writer.name(section);
    writer.open('{');
    writer.hash(hash);
    writer.raw(':');
    writer
}

/// # Safety
/// `info` is valid as [`Json::write`] wants it.
unsafe fn document<T: Json>(section: &str, hash: u64, info: &T) -> Result<Vec<u8>, WriteError> {
    let mut writer = begin_object(section, hash);
    // SAFETY: `info` is valid (this function's # Safety section).
    unsafe { info.write(&mut writer)? };
    writer.close('}');
    Ok(end(writer))
}

/// Functions that write a create info, and take it with any lifetime.
macro_rules! documents {
    ($($(#[$doc:meta])* $name:ident: $type:ident = $section:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Each pointer in `info`, and in what it points to, is NULL, or valid for as many elements as its count says,
        /// or the first structure of a valid chain. Pointers that Vulkan would not follow are no exception: where
        /// dynamic state replaces an array, the pointer to it is NULL or valid.
        pub unsafe fn $name(hash: u64, info: &vk::$type<'_>) -> Result<Vec<u8>, WriteError> {
            // SAFETY: lifetimes have no part in the memory of a structure, and nothing is kept beyond this call.
            let info = unsafe { &*ptr::from_ref(info).cast::<vk::$type<'static>>() };
            // SAFETY: `info` is valid (this function's # Safety section).
            unsafe { document($section, hash, info) }
        }
    )* };
}

documents! {
    /// A sampler. A colour conversion is a VkSamplerYcbcrConversionCreateInfo in its chain, in the place of
    /// VkSamplerYcbcrConversionInfo.
    sampler: SamplerCreateInfo = "samplers";
    /// A descriptor set layout.
    set_layout: DescriptorSetLayoutCreateInfo = "setLayouts";
    /// A pipeline layout.
    pipeline_layout: PipelineLayoutCreateInfo = "pipelineLayouts";
    /// A render pass.
    render_pass: RenderPassCreateInfo = "renderPasses";
    /// A render pass of the second version.
    render_pass2: RenderPassCreateInfo2 = "renderPasses2";
    /// A compute pipeline. Its stage has a module; SPIR-V and identifiers in its chain are left out.
    compute: ComputePipelineCreateInfo = "computePipelines";
    /// A graphics pipeline, complete or a part. Each stage has a module, as for [`compute`].
    graphics: GraphicsPipelineCreateInfo = "graphicsPipelines";
    /// A ray tracing pipeline. Each stage has a module, as for [`compute`].
    ray_tracing: RayTracingPipelineCreateInfoKHR = "raytracingPipelines";
}

/// A module: the document, a NUL, and the SPIR-V packed.
///
/// # Safety
/// pCode is valid for codeSize bytes, and pNext is a valid chain.
pub unsafe fn module(hash: u64, info: &vk::ShaderModuleCreateInfo<'_>) -> Result<Vec<u8>, WriteError> {
    // SAFETY: a valid chain (this function's # Safety section).
    unsafe { nothing_in(info.p_next)? };
    if info.code_size % 4 != 0 {
        return Err(WriteError::CodeSize(info.code_size));
    }
    let words: &[u32] = match info.code_size {
        0 => &[],
        _ if info.p_code.is_null() => return Err(WriteError::Null("pCode")),
        // SAFETY: valid for the size (this function's # Safety section).
        size => unsafe { std::slice::from_raw_parts(info.p_code, size / 4) },
    };
    let packed = to_varint(words);
    let mut writer = begin_object("shaderModules", hash);
    writer.open('{');
    let members = [
        ("varintOffset", 0),
        ("varintSize", packed.len()),
        ("codeSize", info.code_size),
        ("flags", info.flags.as_raw() as usize),
    ];
    for (name, value) in members {
        writer.name(name);
        writer.raw(value);
    }
    writer.close('}');
    writer.close('}');
    let mut bytes = end(writer);
    bytes.push(0);
    bytes.extend(packed);
    Ok(bytes)
}

/// Whether Fossilize keeps a structure of the chain of VkPhysicalDeviceFeatures2.
pub fn keeps_features(s_type: vk::StructureType) -> bool {
    table::FEATURES.iter().any(|known| known.s_type == s_type)
}

/// The application and its features: robustBufferAccess, and the structures of the chain, which are those that
/// Fossilize keeps ([`keeps_features`]).
///
/// # Safety
/// The names of `info` are NULL or end with NUL, and both chains are valid.
pub unsafe fn application(
    info: &vk::ApplicationInfo<'_>,
    features: &vk::PhysicalDeviceFeatures2<'_>,
) -> Result<Vec<u8>, WriteError> {
    let mut writer = begin();
    writer.name("applicationInfo");
    // SAFETY: lifetimes have no part in the memory of a structure, and nothing is kept beyond this call.
    let info = unsafe { &*ptr::from_ref(info).cast::<vk::ApplicationInfo<'static>>() };
    // SAFETY: the names and the chain are valid (this function's # Safety section).
    unsafe { info.write(&mut writer)? };
    writer.name("physicalDeviceFeatures");
    writer.open('{');
    writer.name("robustBufferAccess");
    writer.raw(features.features.robust_buffer_access);
    if !features.p_next.is_null() {
        writer.name("pNext");
        // SAFETY: a valid chain (this function's # Safety section).
        unsafe { write_chain(table::FEATURES, features.p_next, &mut writer)? };
    }
    writer.close('}');
    Ok(end(writer))
}

/// That an object was used by an application.
pub fn link(link: &Link) -> Vec<u8> {
    let mut writer = begin();
    writer.name("link");
    writer.open('{');
    writer.name("application");
    writer.hash(link.application);
    writer.name("tag");
    writer.raw(link.tag);
    writer.name("hash");
    writer.hash(link.hash);
    writer.close('}');
    end(writer)
}
