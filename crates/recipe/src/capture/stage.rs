//! Shader stages.

use std::ffi::CStr;

use ash::vk;
use smallvec::SmallVec;

use super::{InlineModules, Objects, array, mappings};
use crate::chain::{self, Refusal, Special};
use vkstash_host::sort;
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::newer;
use vkstash_model::recipe::{Bytes, Code, Mapping, Stage};

/// How a stage names its code.
#[derive(Clone, Copy)]
pub enum Named<'a> {
    /// A live module.
    Module(vk::ShaderModule),
    /// VkShaderModuleCreateInfo in the stage's chain.
    Inline(&'a vk::ShaderModuleCreateInfo<'a>),
    /// An identifier of 1 to 32 bytes, and no module.
    Identifier(NativeIdentifier),
}

/// What stands in a stage's chain for its code.
struct Chained<'a> {
    inline: Option<&'a vk::ShaderModuleCreateInfo<'a>>,
    identifier: Option<&'a vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'a>>,
}

impl<'a> Chained<'a> {
    /// # Safety
    /// The chain of a valid stage (contract 6).
    unsafe fn read(stage: &vk::PipelineShaderStageCreateInfo<'a>) -> Chained<'a> {
        let mut chained = Chained { inline: None, identifier: None };
        // SAFETY: pNext is NULL or a valid chain (VUID-VkPipelineShaderStageCreateInfo-pNext-pNext).
        for node in unsafe { chain::walk(stage.p_next) } {
            // SAFETY: `walk` yields valid structures, and the casts follow the sType.
            unsafe {
                match (*node).s_type {
                    vk::StructureType::SHADER_MODULE_CREATE_INFO => chained.inline = Some(&*node.cast()),
                    vk::StructureType::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT => {
                        chained.identifier = Some(&*node.cast());
                    }
                    _ => {}
                }
            }
        }
        chained
    }
}

/// What a create info says of its stages' code before any identifier is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// A stage has neither a module nor SPIR-V, though it needs it: its code is named by an identifier, or not at all.
    pub lacks_code: bool,
    /// A stage carries an identifier structure, of whatever size.
    pub identifier_structure: bool,
}

impl Naming {
    /// How these stages name their code.
    ///
    /// # Safety
    /// Valid stages of a create info whose stages may be read (contract 6).
    pub unsafe fn of(stages: &[vk::PipelineShaderStageCreateInfo<'_>]) -> Naming {
        let mut naming = Naming::default();
        for stage in stages {
            // SAFETY: `stage` is one of the valid stages, whose chain lives as long as the stage is borrowed.
            let Chained { inline, identifier } = unsafe { Chained::read(stage) };
            naming.lacks_code |= stage.module == vk::ShaderModule::null() && inline.is_none();
            naming.identifier_structure |= identifier.is_some();
        }
        naming
    }
}

/// How a stage names its code; None where it names none (or an identifier of an illegal size).
///
/// # Safety
/// `stage` is a valid stage of a create info whose stages may be read (contract 6).
pub unsafe fn named<'a>(stage: &vk::PipelineShaderStageCreateInfo<'a>) -> Option<Named<'a>> {
    if stage.module != vk::ShaderModule::null() {
        return Some(Named::Module(stage.module));
    }
    // SAFETY: the stage is valid, and so is its chain, which lives for `'a`.
    let Chained { inline, identifier } = unsafe { Chained::read(stage) };
    if let Some(info) = inline {
        return Some(Named::Inline(info));
    }
    let info = identifier.filter(|info| info.identifier_size <= 32)?;
    // SAFETY: valid for its size (contract 2.4); not read where the size is 0, which lets the pointer be garbage, or
    // above 32, which is illegal.
    let bytes = unsafe { array(info.p_identifier, info.identifier_size) };
    NativeIdentifier::new(bytes).map(Named::Identifier)
}

/// The SPIR-V of a create info, as bytes.
///
/// # Safety
/// `info` is valid: `pCode` points to `codeSize` bytes (VUID-VkShaderModuleCreateInfo-pCode-parameter).
pub unsafe fn code<'a>(info: &vk::ShaderModuleCreateInfo<'a>) -> &'a [u8] {
    if info.code_size == 0 || info.p_code.is_null() {
        return &[];
    }
    // SAFETY: pCode points to codeSize bytes (VUID-VkShaderModuleCreateInfo-pCode-parameter), and codeSize is not 0.
    unsafe { std::slice::from_raw_parts(info.p_code.cast(), info.code_size) }
}

/// Captures one stage.
///
/// # Safety
/// As [`named`]; what the stage points to lives for `'a`.
pub unsafe fn stage<'a>(
    stage: &vk::PipelineShaderStageCreateInfo<'a>,
    objects: &impl Objects,
    algorithm: &'a [u8; 16],
    identifiers: &'a mut Option<NativeIdentifier>,
    inline: &mut InlineModules,
) -> Result<Stage<'a>, Refusal> {
    let mut mapped: SmallVec<[Mapping; 0]> = SmallVec::new();
    // SAFETY: the chain of the valid stage lives for `'a`; the cast follows the sType.
    let extensions = unsafe {
        chain::scan(stage.p_next, |node| match node.s_type {
            vk::StructureType::SHADER_MODULE_CREATE_INFO => Ok(Special::Read),
            vk::StructureType::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT => Ok(Special::Read),
            newer::BINDING_MAPPINGS => {
                mapped = mappings::mappings(&*(&raw const *node).cast())?;
                Ok(Special::Read)
            }
            _ => Ok(Special::Foreign),
        })
    }?;
    // SAFETY: `stage` is a valid stage of a create info whose stages may be read (contract 6).
    let named = unsafe { named(stage) }.ok_or(Refusal::plain(BypassReason::UnknownObject))?;
    let code = match named {
        Named::Module(module) => Code::Module(objects.module(module)?),
        Named::Inline(info) => {
            // SAFETY: an inline create info is as valid as one passed to vkCreateShaderModule.
            let identity = objects.inline_module(info.flags, unsafe { code(info) });
            inline.push(identity);
            Code::Module(identity)
        }
        Named::Identifier(identifier) => match objects.identified(&identifier) {
            Some(identity) => Code::Module(identity),
            None => {
                let kept = identifiers.insert(identifier);
                Code::Native { algorithm: *algorithm, identifier: Bytes(kept.as_bytes()) }
            }
        },
    };
    if stage.p_name.is_null() {
        return Err(Refusal::plain(BypassReason::WrongStructure));
    }
    // SAFETY: pName is a NULL-terminated string (VUID-VkPipelineShaderStageCreateInfo-pName-parameter).
    let entry_point = Bytes(unsafe { CStr::from_ptr(stage.p_name) }.to_bytes());
    // SAFETY: pSpecializationInfo is NULL or valid.
    let specialization = unsafe { specialization(stage.p_specialization_info) }?;
    let flags = stage.flags.as_raw();
    let stage = stage.stage.as_raw();
    Ok(Stage { flags, stage, code, entry_point, specialization, mappings: mapped, extensions })
}

/// Specialization constants: only the bytes that an entry names are part of the pipeline.
///
/// # Safety
/// `info` is NULL or points to a VkSpecializationInfo that is valid for `'a`.
pub unsafe fn specialization<'a>(
    info: *const vk::SpecializationInfo<'a>,
) -> Result<SmallVec<[(u32, Bytes<'a>); 4]>, Refusal> {
    // SAFETY: pSpecializationInfo is NULL or valid
    // (VUID-VkPipelineShaderStageCreateInfo-pSpecializationInfo-parameter).
    let Some(info) = (unsafe { info.as_ref() }) else { return Ok(SmallVec::new()) };
    // SAFETY: pMapEntries is valid for mapEntryCount entries.
    let entries = unsafe { array(info.p_map_entries, info.map_entry_count) };
    let data: &[u8] = if info.data_size == 0 || info.p_data.is_null() {
        &[]
    } else {
        // SAFETY: pData is valid for dataSize bytes, which is not 0.
        unsafe { std::slice::from_raw_parts(info.p_data.cast(), info.data_size) }
    };
    let mut constants: SmallVec<[(u32, Bytes<'a>); 4]> = SmallVec::with_capacity(entries.len());
    for entry in entries {
        let start = entry.offset as usize;
        let value = start.checked_add(entry.size).and_then(|end| data.get(start..end));
        constants
            .push((entry.constant_id, Bytes(value.ok_or(Refusal::plain(BypassReason::WrongStructure))?)));
    }
    sort::sort(&mut constants);
    Ok(constants)
}
