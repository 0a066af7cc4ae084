//! Shader stages.

use std::ffi::c_char;
use std::ptr;

use ash::vk;

use super::arena::{Arena, Chain};
use super::extensions::chain_plain;
use super::mappings::mappings;
use super::{Device, RebuildError, StageCode, ensure, found};
use crate::capture::flags::{DERIVATIVE, DESCRIPTOR_HEAP, FAIL_ON, LOOKED_INTO, hashed};
use crate::capture::graphics::Dynamic;
use vkstash_model::recipe::{Bytes, Code, Stage};
use vkstash_model::record::Key;

/// The flags of a pipeline that derives from none, as capture writes them.
pub fn checked_flags(flags: u64) -> Result<u64, RebuildError> {
    if flags & DERIVATIVE != 0 {
        return Err(RebuildError::Derivative);
    }
    let looked_into = vk::PipelineCreateFlags::from_raw(LOOKED_INTO as u32);
    match hashed(flags, looked_into) {
        Ok(known) if known == flags => Ok(flags),
        _ => Err(RebuildError::Flags(flags)),
    }
}

/// A pipeline's flags as a create info holds them: those that the member has no room for need a structure
/// (contract 3.4).
pub fn put_flags(
    arena: &mut Arena,
    chain: &mut Chain,
    flags: u64,
    stages: &[Stage<'_>],
) -> Result<vk::PipelineCreateFlags, RebuildError> {
    let mut flags = checked_flags(flags)?;
    if stages.iter().any(|stage| matches!(stage.code, Code::Native { .. })) {
        // VUID-VkPipelineShaderStageModuleIdentifierCreateInfoEXT-pNext-06850.
        flags |= FAIL_ON;
    }
    match u32::try_from(flags) {
        Ok(flags) => Ok(vk::PipelineCreateFlags::from_raw(flags)),
        Err(_) => {
            let flags = vk::PipelineCreateFlags2KHR::from_raw(flags);
            let info = vk::PipelineCreateFlags2CreateInfoKHR { flags, ..Default::default() };
            chain.push(arena, info)?;
            Ok(vk::PipelineCreateFlags::empty())
        }
    }
}

/// The pipeline layout, which descriptor heaps leave no place for.
pub fn layout(
    flags: u64,
    layout: Option<&Key>,
    is_read: bool,
    device: &impl Device,
) -> Result<vk::PipelineLayout, RebuildError> {
    match layout {
        Some(_) if flags & DESCRIPTOR_HEAP != 0 => {
            Err(RebuildError::Contradiction("a layout beside descriptor heaps"))
        }
        Some(digest) => found(device.layout(digest), "pipeline layout", digest),
        None if is_read && flags & DESCRIPTOR_HEAP == 0 => Err(RebuildError::Contradiction("no layout")),
        None => Ok(vk::PipelineLayout::null()),
    }
}

/// The dynamic states, which are those that capture knows, sorted.
pub fn dynamic(arena: &mut Arena, states: &[i32]) -> Result<(Dynamic, *const DynamicInfo), RebuildError> {
    /// A limit above the number of dynamic states that exist.
    const MOST: usize = 128;
    let sorted = states.len() <= MOST && states.windows(2).all(|pair| pair[0] < pair[1]);
    ensure(sorted, "dynamic states that are not sorted")?;
    let list = arena.copy(states)?;
    let info = vk::PipelineDynamicStateCreateInfo {
        dynamic_state_count: list.count,
        p_dynamic_states: list.pointer.cast(),
        ..Default::default()
    };
    let info = if states.is_empty() { ptr::null() } else { arena.place(info)?.cast_const() };
    // SAFETY: NULL, or a structure of the arena whose array is as long as it says.
    let read = unsafe { Dynamic::read(info) };
    let read = read.map_err(|_| RebuildError::Contradiction("an unknown dynamic state"))?;
    Ok((read, info))
}

type DynamicInfo = vk::PipelineDynamicStateCreateInfo<'static>;

/// The create info of one shader stage.
pub fn stage<'a>(
    arena: &mut Arena,
    stage: &Stage<'_>,
    device: &'a impl Device,
) -> Result<vk::PipelineShaderStageCreateInfo<'a>, RebuildError> {
    ensure(stage.stage.is_power_of_two(), "a stage that is not one")?;
    let mut chain = Chain::default();
    chain_plain(arena, &mut chain, &stage.extensions)?;
    if !stage.mappings.is_empty() {
        let info = mappings(arena, &stage.mappings)?;
        chain.push(arena, info)?;
    }
    let mut module = vk::ShaderModule::null();
    match &stage.code {
        Code::Module(identity) => match found(device.module(identity), "module", identity)? {
            StageCode::Module(live) => module = live,
            StageCode::Inline(flags, code) => {
                let info = vk::ShaderModuleCreateInfo {
                    flags,
                    code_size: size_of_val(code),
                    p_code: code.as_ptr(),
                    ..Default::default()
                };
                chain.push(arena, info)?;
            }
        },
        Code::Native { algorithm, identifier } => {
            ensure((1..=32).contains(&identifier.0.len()), "an identifier of an illegal size")?;
            if !device.has_identifiers_of(algorithm) {
                return Err(RebuildError::ForeignIdentifier);
            }
            let identifier = arena.copy(identifier.0)?;
            let info = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT {
                identifier_size: identifier.count,
                p_identifier: identifier.pointer,
                ..Default::default()
            };
            chain.push(arena, info)?;
        }
    }
    Ok(vk::PipelineShaderStageCreateInfo {
        p_next: chain.head(),
        flags: vk::PipelineShaderStageCreateFlags::from_raw(stage.flags),
        stage: vk::ShaderStageFlags::from_raw(stage.stage),
        module,
        p_name: name(arena, stage.entry_point)?,
        p_specialization_info: specialization(arena, &stage.specialization)?,
        ..Default::default()
    })
}

pub fn name(arena: &mut Arena, name: Bytes<'_>) -> Result<*const c_char, RebuildError> {
    ensure(!name.0.contains(&0), "a zero inside the name of an entry point")?;
    // The list ends with one element more than the name has.
    let length = name.0.len() + 1;
    let terminated = arena.list(0..length, |_, index| Ok(name.0.get(index).copied().unwrap_or(0)))?;
    Ok(terminated.pointer.cast())
}

/// Values one after the other, each aligned to its size.
pub fn specialization(
    arena: &mut Arena,
    constants: &[(u32, Bytes<'_>)],
) -> Result<*const vk::SpecializationInfo<'static>, RebuildError> {
    if constants.is_empty() {
        return Ok(ptr::null());
    }
    let mut end = 0_usize;
    let entries = arena.list(constants.iter(), |_, &(constant_id, value)| {
        let start = end.next_multiple_of(value.0.len().clamp(1, 8).next_power_of_two());
        end = start.checked_add(value.0.len()).ok_or(RebuildError::Memory)?;
        let offset = u32::try_from(start).map_err(|_| RebuildError::Memory)?;
        Ok(vk::SpecializationMapEntry { constant_id, offset, size: value.0.len() })
    })?;
    let data = arena.zeroed(end)?;
    // SAFETY: `entries` has one element for each constant; their values lie one after the other below `end`, and
    // `zeroed` gave that many bytes.
    unsafe {
        let entries = std::slice::from_raw_parts(entries.pointer, constants.len());
        for (entry, (_, value)) in entries.iter().zip(constants) {
            ptr::copy_nonoverlapping(value.0.as_ptr(), data.add(entry.offset as usize), value.0.len());
        }
    }
    let info = vk::SpecializationInfo {
        map_entry_count: entries.count,
        p_map_entries: entries.pointer,
        data_size: end,
        p_data: data.cast_const().cast(),
        ..Default::default()
    };
    Ok(arena.place(info)?.cast_const())
}
