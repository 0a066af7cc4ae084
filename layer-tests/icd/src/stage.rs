//! The content of a shader stage in the driver's key.

use ash::vk::{self, Handle as _};

use crate::config::Config;
use crate::content::{self, plain_chain, slice};
use crate::handles::Device;
use crate::hash::{Digest, Hasher};
use crate::record::{Call, violation};
use crate::{chain, heaps, marked, objects};

/// The bytes of a module in keys and identifiers.
pub fn identifier<'a>(config: &Config, digest: &'a Digest) -> &'a [u8] {
    &digest[..config.identifier_bytes()]
}

/// Adds a stage; gives its digest, and says whether it has no code, because it is named by an identifier or by nothing.
/// If binaries replace all code, modules and identifiers are ignored (contract 5.5).
///
/// # Safety
/// `stage` is a stage of a valid create info, so its chain, name and specialization are valid until the program's call
/// returns.
pub unsafe fn add(
    pipeline: &mut Hasher,
    call: &mut Call,
    config: &Config,
    device: &Device,
    stage: &vk::PipelineShaderStageCreateInfo<'_>,
    binaries: bool,
) -> (Digest, bool) {
    let mut own = Hasher::new("shader");
    let hasher = &mut own;
    // SAFETY: the program passes a valid stage, so its chain, name and specialization are valid.
    unsafe {
        call.stage_p_next.extend(chain::types(call.command, stage.p_next));
        hasher.word(stage.flags.as_raw());
        hasher.word(stage.stage.as_raw());
        let by_identifier = !binaries && module(hasher, call, config, device, stage);
        if binaries {
            hasher.code(&[], &[]);
        }
        if stage.p_name.is_null() {
            violation(format!("{}: a stage has no entry point", call.command));
        } else {
            hasher.bytes(std::ffi::CStr::from_ptr(stage.p_name).to_bytes());
        }
        specialization(hasher, stage.p_specialization_info);
        plain_chain(hasher, stage.p_next);
        if !binaries {
            heaps::add(hasher, call, device, stage.p_next);
        }
        let shape = own.shape();
        let digest = own.finish();
        pipeline.code(&digest, &shape);
        (digest, by_identifier)
    }
}

/// Adds the specialization data that entries name.
///
/// # Safety
/// `info` is NULL or valid with its arrays during this call.
pub unsafe fn specialization(hasher: &mut Hasher, info: *const vk::SpecializationInfo<'_>) {
    // SAFETY: NULL or valid, so the arrays have their counts.
    let (data, entries) = unsafe {
        let Some(info) = info.as_ref() else { return };
        let data = slice(info.p_data.cast::<u8>(), info.data_size as u32);
        (data, slice(info.p_map_entries, info.map_entry_count))
    };
    let value = |entry: &vk::SpecializationMapEntry| {
        let start = entry.offset as usize;
        (entry.constant_id, data.get(start..start + entry.size).unwrap_or_default())
    };
    let mut constants: Vec<(u32, &[u8])> = entries.iter().map(value).collect();
    constants.sort_unstable();
    for (id, value) in constants {
        hasher.word(id);
        hasher.bytes(value);
    }
}

/// # Safety
/// `stage` is a stage of a valid create info, so its chain is valid until the program's call returns.
unsafe fn module(
    hasher: &mut Hasher,
    call: &mut Call,
    config: &Config,
    device: &Device,
    stage: &vk::PipelineShaderStageCreateInfo<'_>,
) -> bool {
    // SAFETY: the caller passes a stage whose chain is valid until the program's call returns.
    let (named, inline) = unsafe {
        (
            chain::find::<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'_>>(stage.p_next),
            chain::find::<vk::ShaderModuleCreateInfo<'_>>(stage.p_next),
        )
    };
    if named.is_some() && !(config.identifiers && device.identifiers) {
        violation(format!("{}: a module identifier reached a driver without identifiers", call.command));
    }
    let named = named.filter(|named| named.identifier_size != 0 && config.identifiers);
    if !stage.module.is_null() {
        if named.is_some() {
            violation(format!("{}: a stage has a module and an identifier", call.command));
        }
        let digest = objects::contents(call.command, device.handle, "VkShaderModule", stage.module.as_raw());
        call.words.extend(marked::words(&digest));
        hasher.code(identifier(config, &digest), &[]);
    } else if let Some(named) = named {
        // SAFETY: `named` is in the chain of a valid stage, so pIdentifier has identifierSize bytes.
        hasher.code(unsafe { slice(named.p_identifier, named.identifier_size) }, &[]);
        return true;
    } else if let Some(inline) = inline {
        if !(device.maintenance5 || device.libraries) {
            violation(format!("{}: inline code without maintenance5 or libraries", call.command));
        }
        // SAFETY: `inline` is in the chain of a valid stage, so it is a valid create info of a module.
        let digest = unsafe { content::module(inline) };
        call.words.extend(marked::words(&digest));
        hasher.code(identifier(config, &digest), &[]);
    } else {
        violation(format!("{}: a stage has no module, identifier or code", call.command));
        return true;
    }
    false
}
