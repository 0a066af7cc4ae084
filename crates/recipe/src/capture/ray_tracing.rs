//! Ray tracing pipelines and libraries (VK_KHR_ray_tracing_pipeline).

use ash::vk;
use smallvec::SmallVec;

use super::flags::{self, DESCRIPTOR_HEAP};
use super::graphics::{Dynamic, own_binaries};
use super::parsed::Parsed;
use super::stage;
use super::{Captured, LibraryTraits, Objects, Scratch, array};
use crate::chain::{self, Refusal, Special};
use vkstash_model::counters::BypassReason;
use vkstash_model::recipe::{Pipeline, RayTracing, Recipe, SCHEMA};

/// Captures a ray tracing pipeline.
///
/// # Safety
/// `info` is a valid create info for `'a`, and `parsed` was read of it.
pub unsafe fn ray_tracing<'a>(
    info: &vk::RayTracingPipelineCreateInfoKHR<'a>,
    parsed: &Parsed<'a>,
    objects: &impl Objects,
    scratch: &'a mut Scratch,
) -> Result<Captured<'a>, Refusal> {
    if info.s_type != vk::StructureType::RAY_TRACING_PIPELINE_CREATE_INFO_KHR {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    let flags = flags::hashed(parsed.flags, objects.looked_into())?;
    // SAFETY: the chain of a valid create info; the other pointers are NULL or valid, pGroups for groupCount groups.
    let (extensions, dynamic, groups, library_info, interface) = unsafe {
        (
            chain::scan(info.p_next, |node| match node.s_type {
                vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR => Ok(Special::Read),
                _ => own_binaries(node),
            })?,
            Dynamic::read(info.p_dynamic_state)?,
            array(info.p_groups, info.group_count),
            info.p_library_info.as_ref(),
            info.p_library_interface.as_ref(),
        )
    };
    let given = parsed.stages;
    scratch.algorithm = objects.algorithm();
    scratch.identifiers.resize(given.len(), None);
    let mut stages = SmallVec::with_capacity(given.len());
    for (info, kept) in given.iter().zip(&mut scratch.identifiers) {
        // SAFETY: each is a valid stage.
        stages.push(unsafe { stage::stage(info, objects, &scratch.algorithm, kept, &mut scratch.inline) }?);
    }
    let groups = groups.iter().map(group).collect::<Result<_, _>>()?;
    let mut libraries = SmallVec::new();
    if let Some(info) = library_info {
        // SAFETY: `info` is pLibraryInfo of the program's valid create info, so its chain is valid until the command
        // returns.
        unsafe { chain::scan_empty(info.p_next) }?;
    }
    // Their groups follow the pipeline's own in this order (contract 7.6).
    for &library in parsed.libraries {
        libraries.push(objects.library(library)?.key);
    }
    let interface = match interface {
        Some(info) => {
            // SAFETY: `info` is pLibraryInterface of the program's valid create info, so its chain is valid until the
            // command returns.
            unsafe { chain::scan_empty(info.p_next) }?;
            Some((info.max_pipeline_ray_payload_size, info.max_pipeline_ray_hit_attribute_size))
        }
        None => None,
    };
    let layout = match flags & DESCRIPTOR_HEAP {
        0 => Some(objects.layout(info.layout)?),
        _ => None,
    };
    let pipeline = Pipeline::RayTracing(RayTracing {
        flags,
        stages,
        groups,
        max_recursion: info.max_pipeline_ray_recursion_depth,
        interface,
        libraries,
        dynamic: dynamic.0.iter().copied().collect(),
        layout,
        extensions,
    });
    Ok(Captured { recipe: Recipe { schema: SCHEMA, pipeline }, traits: LibraryTraits::default() })
}

/// Describes a shader group. Which of its shaders count follows from its type.
fn group(info: &vk::RayTracingShaderGroupCreateInfoKHR<'_>) -> Result<[u32; 5], Refusal> {
    if info.s_type != vk::StructureType::RAY_TRACING_SHADER_GROUP_CREATE_INFO_KHR {
        return Err(Refusal { reason: BypassReason::WrongStructure, s_type: info.s_type.as_raw() });
    }
    // SAFETY: the chain of a valid structure. pShaderGroupCaptureReplayHandle counts with a flag that refuses.
    unsafe { chain::scan_empty(info.p_next) }?;
    let [general, closest_hit, any_hit, intersection] =
        [info.general_shader, info.closest_hit_shader, info.any_hit_shader, info.intersection_shader];
    Ok([info.ty.as_raw() as u32, general, closest_hit, any_hit, intersection])
}
