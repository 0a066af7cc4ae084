//! Shader stages, and the flags of a pipeline.

use std::ffi::{CStr, c_void};

use ash::vk;
use smallvec::SmallVec;

use super::{LibraryTraits, Objects, array, mappings};
use crate::recipe::chain::{self, Refusal, Special};
use crate::recipe::identifier::NativeIdentifier;
use crate::recipe::model::{Bytes, Code, Mapping, Stage};
use crate::recipe::newer;
use crate::stats::BypassReason;

const FAIL_ON: u64 = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED.as_raw() as u64;
const EARLY_RETURN: u64 = vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE.as_raw() as u64;
/// VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR, of an extension newer than the bindings.
const CAPTURE_DATA: u64 = 1 << 31;

/// Flags that steer the call and do not change the code (contract 7.1).
const STEERING: u64 = FAIL_ON | EARLY_RETURN;

/// Flags whose pipelines drivers keep out of their caches: what comes back is asked for, not cached code.
const CAPTURING: u64 = vk::PipelineCreateFlags::RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_KHR.as_raw()
    as u64
    | CAPTURE_DATA;

/// Flags for what tools look into. They are hashed where cached pipelines answer as compiled ones do
/// ([`Objects::looked_into`]).
pub const LOOKED_INTO: u64 = (vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR.as_raw()
    | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR.as_raw())
    as u64;

/// A library that is made to be optimized again in a link.
pub const RETAINS: u64 = vk::PipelineCreateFlags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT.as_raw() as u64;

/// The pipeline is a library.
pub const LIBRARY: u64 = vk::PipelineCreateFlags::LIBRARY_KHR.as_raw() as u64;

/// Flags that a link may have and still need no compiler: those that steer the call, and those that say what
/// the link may be used for.
pub const PLAIN_LINK: u64 = STEERING
    | LOOKED_INTO
    | (vk::PipelineCreateFlags::DISABLE_OPTIMIZATION.as_raw()
        | vk::PipelineCreateFlags::ALLOW_DERIVATIVES.as_raw()
        | vk::PipelineCreateFlags::VIEW_INDEX_FROM_DEVICE_INDEX.as_raw()
        | vk::PipelineCreateFlags::INDIRECT_BINDABLE_NV.as_raw()
        | vk::PipelineCreateFlags::RENDERING_FRAGMENT_SHADING_RATE_ATTACHMENT_KHR.as_raw()
        | vk::PipelineCreateFlags::RENDERING_FRAGMENT_DENSITY_MAP_ATTACHMENT_EXT.as_raw()
        | vk::PipelineCreateFlags::COLOR_ATTACHMENT_FEEDBACK_LOOP_EXT.as_raw()
        | vk::PipelineCreateFlags::DEPTH_STENCIL_ATTACHMENT_FEEDBACK_LOOP_EXT.as_raw()
        | vk::PipelineCreateFlags::NO_PROTECTED_ACCESS_EXT.as_raw()
        | vk::PipelineCreateFlags::PROTECTED_ACCESS_ONLY_EXT.as_raw()
        | vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT.as_raw()) as u64;

/// VK_PIPELINE_CREATE_2_DESCRIPTOR_HEAP_BIT_EXT, of an extension newer than the bindings: no layout is read.
pub const DESCRIPTOR_HEAP: u64 = 1 << 36;

/// Flags newer than the bindings that are hashed as they are: spheres and swept spheres, legacy dithering,
/// descriptor heap, no opacity micromaps, indirect bindable, instrumented shaders, density per layer, mixed
/// special indices, 64-bit indexing.
const HASHED_NEWER: u64 =
    1 << 33 | 1 << 34 | DESCRIPTOR_HEAP | 1 << 37 | 1 << 38 | 1 << 39 | 1 << 40 | 1 << 41 | 1 << 43;

/// Flags that are hashed as they are.
const HASHED: u64 = HASHED_NEWER
    | LIBRARY
    | (vk::PipelineCreateFlags::DISABLE_OPTIMIZATION.as_raw()
        | vk::PipelineCreateFlags::ALLOW_DERIVATIVES.as_raw()
        | vk::PipelineCreateFlags::DERIVATIVE.as_raw()
        | vk::PipelineCreateFlags::VIEW_INDEX_FROM_DEVICE_INDEX.as_raw()
        | vk::PipelineCreateFlags::DISPATCH_BASE.as_raw()
        | vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT.as_raw()
        | vk::PipelineCreateFlags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT.as_raw()
        | vk::PipelineCreateFlags::INDIRECT_BINDABLE_NV.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_SKIP_TRIANGLES_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_SKIP_AABBS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_ANY_HIT_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_CLOSEST_HIT_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_MISS_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_INTERSECTION_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_ALLOW_MOTION_NV.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_OPACITY_MICROMAP_EXT.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_DISPLACEMENT_MICROMAP_NV.as_raw()
        | vk::PipelineCreateFlags::RENDERING_FRAGMENT_SHADING_RATE_ATTACHMENT_KHR.as_raw()
        | vk::PipelineCreateFlags::RENDERING_FRAGMENT_DENSITY_MAP_ATTACHMENT_EXT.as_raw()
        | vk::PipelineCreateFlags::COLOR_ATTACHMENT_FEEDBACK_LOOP_EXT.as_raw()
        | vk::PipelineCreateFlags::DEPTH_STENCIL_ATTACHMENT_FEEDBACK_LOOP_EXT.as_raw()
        | vk::PipelineCreateFlags::NO_PROTECTED_ACCESS_EXT.as_raw()
        | vk::PipelineCreateFlags::PROTECTED_ACCESS_ONLY_EXT.as_raw()
        | vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT.as_raw()) as u64;

/// What the program asked of a call, beside the pipeline itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT.
    pub fail_on_compile_required: bool,
    /// VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT.
    pub early_return: bool,
    /// The flags live in a VkPipelineCreateFlags2CreateInfoKHR, which replaces the old member.
    pub flags2: bool,
    /// A stage is named by identifier only.
    pub identifier_only: bool,
    /// A stage carries an identifier structure, of whatever size.
    pub identifier_structure: bool,
    /// The pipeline is a library.
    pub library: bool,
    /// Later calls look at more of it than its code: links that optimize a library again, and tools.
    pub looked_at: bool,
    /// Libraries are linked.
    pub linked: bool,
    /// A library of libraries that links optimize again. RADV (Mesa 25.0.7) that finds one in a cache, its own disk
    /// cache too, dereferences NULL in such a link.
    pub joins_retained: bool,
    /// Neither does it have shaders of its own nor are those of its libraries optimized again.
    pub nothing_to_compile: bool,
    /// What has to be known of it where it is a library.
    pub made: LibraryTraits,
}

/// The effective flags: those of VkPipelineCreateFlags2CreateInfoKHR replace the member (contract 3.4).
///
/// # Safety
/// `p_next` is a valid chain.
pub unsafe fn effective_flags(flags: vk::PipelineCreateFlags, p_next: *const c_void) -> (u64, bool) {
    // SAFETY: the caller's contract.
    for node in unsafe { chain::walk(p_next) } {
        // SAFETY: `walk` yields valid structures, and the cast follows the sType.
        unsafe {
            if (*node).s_type == vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR {
                let flags2 = (*node.cast::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>()).flags;
                return (flags2.as_raw(), true);
            }
        }
    }
    (u64::from(flags.as_raw()), false)
}

/// Sorts the flags into what is hashed and what steers.
///
/// # Safety
/// As [`effective_flags`].
pub unsafe fn flags(
    flags: vk::PipelineCreateFlags,
    p_next: *const c_void,
    objects: &impl Objects,
) -> Result<(u64, Steering), Refusal> {
    // SAFETY: the caller's contract.
    let (effective, flags2) = unsafe { effective_flags(flags, p_next) };
    if effective & CAPTURING != 0 {
        return Err(Refusal::plain(BypassReason::NotCacheable));
    }
    let answered = u64::from(objects.looked_into().as_raw());
    if effective & LOOKED_INTO & !answered != 0 {
        return Err(Refusal::plain(BypassReason::Statistics));
    }
    if effective & !(HASHED | LOOKED_INTO | STEERING) != 0 {
        return Err(Refusal::plain(BypassReason::UnknownFlag));
    }
    let steering = Steering {
        fail_on_compile_required: effective & FAIL_ON != 0,
        early_return: effective & EARLY_RETURN != 0,
        flags2,
        library: effective & LIBRARY != 0,
        looked_at: effective & (RETAINS | LOOKED_INTO) != 0,
        ..Steering::default()
    };
    Ok((effective & !STEERING, steering))
}

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

/// How a stage names its code; None where it names none (or an identifier of an illegal size).
///
/// # Safety
/// `stage` is a valid stage of a create info whose stages may be read (contract 6).
pub unsafe fn named<'a>(stage: &vk::PipelineShaderStageCreateInfo<'a>) -> Option<Named<'a>> {
    let mut inline = None;
    let mut identifier = None;
    // SAFETY: the caller's contract.
    for node in unsafe { chain::walk(stage.p_next) } {
        // SAFETY: `walk` yields valid structures; the casts follow the sType. The identifier's pointer may
        // be garbage where the size is 0 (contract 2.4), and a size above 32 is illegal: neither is read.
        unsafe {
            match (*node).s_type {
                vk::StructureType::SHADER_MODULE_CREATE_INFO => {
                    inline = Some(&*node.cast::<vk::ShaderModuleCreateInfo<'a>>());
                }
                vk::StructureType::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT => {
                    let info = &*node.cast::<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'a>>();
                    if info.identifier_size <= 32 {
                        identifier = NativeIdentifier::new(array(info.p_identifier, info.identifier_size));
                    }
                }
                _ => {}
            }
        }
    }
    if stage.module != vk::ShaderModule::null() {
        Some(Named::Module(stage.module))
    } else if let Some(info) = inline {
        Some(Named::Inline(info))
    } else {
        identifier.map(Named::Identifier)
    }
}

/// The SPIR-V of a create info, as bytes.
///
/// # Safety
/// `info` is valid: `pCode` points to `codeSize` bytes (VUID-VkShaderModuleCreateInfo-pCode-parameter).
pub unsafe fn code<'a>(info: &vk::ShaderModuleCreateInfo<'a>) -> &'a [u8] {
    if info.code_size == 0 || info.p_code.is_null() {
        return &[];
    }
    // SAFETY: the caller's contract; the size is not 0.
    unsafe { std::slice::from_raw_parts(info.p_code.cast(), info.code_size) }
}

/// Captures one stage and notes in `steering` how it is named.
///
/// # Safety
/// As [`named`]; what the stage points to lives for `'a`.
pub unsafe fn stage<'a>(
    stage: &vk::PipelineShaderStageCreateInfo<'a>,
    objects: &impl Objects,
    algorithm: &'a [u8; 16],
    identifiers: &'a mut Option<NativeIdentifier>,
    steering: &mut Steering,
) -> Result<Stage<'a>, Refusal> {
    let mut mapped: SmallVec<[Mapping; 0]> = SmallVec::new();
    // SAFETY: the caller's contract; the cast follows the sType.
    let extensions = unsafe {
        chain::scan(stage.p_next, |node| match node.s_type {
            vk::StructureType::SHADER_MODULE_CREATE_INFO => Ok(Special::Read),
            vk::StructureType::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT => {
                steering.identifier_structure = true;
                Ok(Special::Read)
            }
            newer::BINDING_MAPPINGS => {
                mapped = mappings::mappings(&*(&raw const *node).cast())?;
                Ok(Special::Read)
            }
            _ => Ok(Special::Foreign),
        })
    }?;
    // SAFETY: the caller's contract.
    let named = unsafe { named(stage) }.ok_or(Refusal::plain(BypassReason::UnknownObject))?;
    steering.identifier_only |= matches!(named, Named::Identifier(_));
    let code = match named {
        Named::Module(module) => Code::Module(objects.module(module)?),
        Named::Inline(info) => {
            // SAFETY: an inline create info is as valid as one passed to vkCreateShaderModule.
            Code::Module(objects.inline_module(info.flags, unsafe { code(info) }))
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
/// `info` is NULL or valid for `'a`.
pub unsafe fn specialization<'a>(
    info: *const vk::SpecializationInfo<'a>,
) -> Result<SmallVec<[(u32, Bytes<'a>); 4]>, Refusal> {
    // SAFETY: the caller's contract.
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
    constants.sort_unstable();
    Ok(constants)
}
