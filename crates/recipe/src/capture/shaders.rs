//! Shader objects: one, or those of a call that are linked together.

use std::ffi::CStr;

use ash::vk;
use smallvec::SmallVec;

use super::stage::specialization;
use super::{InlineModules, Objects, array, mappings};
use crate::chain::{self, Refusal, Special};
use vkstash_model::counters::BypassReason;
use vkstash_model::newer;
use vkstash_model::recipe::{Bytes, Code, Mapping, Pipeline, Recipe, SCHEMA, Shaders, Stage};
use vkstash_model::record::Key;

/// The flags that are hashed as they are: those of the extension itself, indirect bindable, descriptor heap, mixed
/// special indices, 64-bit indexing and independent sets.
pub const HASHED: u32 = 0xFF | 1 << 10 | 1 << 12 | 1 << 15 | 1 << 18;

/// The pipeline layout that has the set layouts and push constants of a shader object.
pub fn layout<'a>(info: &vk::ShaderCreateInfoEXT<'a>) -> vk::PipelineLayoutCreateInfo<'a> {
    vk::PipelineLayoutCreateInfo {
        set_layout_count: info.set_layout_count,
        p_set_layouts: info.p_set_layouts,
        push_constant_range_count: info.push_constant_range_count,
        p_push_constant_ranges: info.p_push_constant_ranges,
        ..Default::default()
    }
}

/// Captures shader objects that are made of SPIR-V, in this order. `layout` is the digest of their [`layout`]; `inline`
/// gets the identities of their code.
///
/// # Safety
/// `infos` are valid create infos for `'a`, of shaders of SPIR-V.
pub unsafe fn shaders<'a>(
    infos: &[&'a vk::ShaderCreateInfoEXT<'a>],
    layout: Key,
    objects: &impl Objects,
    inline: &mut InlineModules,
) -> Result<Recipe<'a>, Refusal> {
    let mut shaders = Shaders { stages: SmallVec::new(), next_stages: SmallVec::new(), layout };
    for info in infos {
        // SAFETY: a valid create info of a shader of SPIR-V, which lives for `'a`.
        shaders.stages.push(unsafe { shader(info, objects, inline) }?);
        shaders.next_stages.push(info.next_stage.as_raw());
    }
    Ok(Recipe { schema: SCHEMA, pipeline: Pipeline::Shaders(shaders) })
}

/// # Safety
/// As [`shaders`].
unsafe fn shader<'a>(
    info: &'a vk::ShaderCreateInfoEXT<'a>,
    objects: &impl Objects,
    inline: &mut InlineModules,
) -> Result<Stage<'a>, Refusal> {
    let is_spirv = info.code_type == vk::ShaderCodeTypeEXT::SPIRV;
    if info.s_type != vk::StructureType::SHADER_CREATE_INFO_EXT || !is_spirv || info.p_name.is_null() {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    if info.flags.as_raw() & !HASHED != 0 {
        return Err(Refusal::plain(BypassReason::UnknownFlag));
    }
    let mut mapped: SmallVec<[Mapping; 0]> = SmallVec::new();
    // SAFETY: the chain of the valid create info lives for `'a`; the cast follows the sType.
    let extensions = unsafe {
        chain::scan(info.p_next, |node| match node.s_type {
            newer::BINDING_MAPPINGS => {
                mapped = mappings::mappings(&*(&raw const *node).cast())?;
                Ok(Special::Read)
            }
            _ => Ok(Special::Foreign),
        })
    }?;
    // SAFETY: pCode has codeSize bytes (VUID-VkShaderCreateInfoEXT-pCode-parameter).
    let identity = objects.inline_module(vk::ShaderModuleCreateFlags::empty(), unsafe { code(info) });
    inline.push(identity);
    // SAFETY: pName is NULL-terminated (VUID-VkShaderCreateInfoEXT-pName-parameter), and is not NULL.
    let entry_point = Bytes(unsafe { CStr::from_ptr(info.p_name) }.to_bytes());
    Ok(Stage {
        flags: info.flags.as_raw(),
        stage: info.stage.as_raw(),
        code: Code::Module(identity),
        entry_point,
        // SAFETY: pSpecializationInfo is NULL or valid (VUID-VkShaderCreateInfoEXT-pSpecializationInfo-parameter).
        specialization: unsafe { specialization(info.p_specialization_info) }?,
        mappings: mapped,
        extensions,
    })
}

/// The code of a create info, as bytes.
///
/// # Safety
/// `info` is valid: `pCode` points to `codeSize` bytes.
pub unsafe fn code<'a>(info: &vk::ShaderCreateInfoEXT<'a>) -> &'a [u8] {
    let length = u32::try_from(info.code_size).unwrap_or(u32::MAX);
    // SAFETY: pCode points to codeSize bytes (VUID-VkShaderCreateInfoEXT-pCode-parameter).
    unsafe { array(info.p_code.cast(), length) }
}
