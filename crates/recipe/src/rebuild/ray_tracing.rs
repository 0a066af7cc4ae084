//! Ray tracing pipelines and libraries.

use ash::vk;

use super::arena::{Arena, Chain};
use super::extensions::chain_plain;
use super::stage::{dynamic, layout, put_flags, stage};
use super::{Device, RebuildError, Rebuilt, ensure, found};
use vkstash_model::recipe::RayTracing;

/// The create info of a ray tracing pipeline.
pub fn ray_tracing<'a>(
    tracing: &RayTracing<'_>,
    device: &'a impl Device,
) -> Result<Rebuilt<'a, vk::RayTracingPipelineCreateInfoKHR<'a>>, RebuildError> {
    let mut arena = Arena::default();
    let mut chain = Chain::default();
    let flags = put_flags(&mut arena, &mut chain, tracing.flags, &tracing.stages)?;
    chain_plain(&mut arena, &mut chain, &tracing.extensions)?;
    let stages = arena.list(tracing.stages.iter(), |arena, given| stage(arena, given, device))?;
    let groups = arena.list(tracing.groups.iter(), |_, &[ty, shaders @ ..]| {
        let named = |&shader: &u32| shader == vk::SHADER_UNUSED_KHR || shader < stages.count;
        ensure(shaders.iter().all(named), "a group of a shader that is not there")?;
        let [general_shader, closest_hit_shader, any_hit_shader, intersection_shader] = shaders;
        Ok(vk::RayTracingShaderGroupCreateInfoKHR {
            ty: vk::RayTracingShaderGroupTypeKHR::from_raw(ty as i32),
            general_shader,
            closest_hit_shader,
            any_hit_shader,
            intersection_shader,
            ..Default::default()
        })
    })?;
    let (_, dynamic) = dynamic(&mut arena, &tracing.dynamic)?;
    let mut info = vk::RayTracingPipelineCreateInfoKHR {
        p_next: chain.head(),
        flags,
        stage_count: stages.count,
        p_stages: stages.pointer,
        group_count: groups.count,
        p_groups: groups.pointer,
        max_pipeline_ray_recursion_depth: tracing.max_recursion,
        p_dynamic_state: dynamic,
        layout: layout(tracing.flags, tracing.layout.as_ref(), true, device)?,
        ..Default::default()
    };
    if !tracing.libraries.is_empty() {
        let libraries = arena.list(tracing.libraries.iter(), |_, key| {
            found(device.library(key), "library", key).map(|(library, _)| library)
        })?;
        let libraries = vk::PipelineLibraryCreateInfoKHR {
            library_count: libraries.count,
            p_libraries: libraries.pointer,
            ..Default::default()
        };
        info.p_library_info = arena.place(libraries)?;
    }
    if let Some((payload, attributes)) = tracing.interface {
        let interface = vk::RayTracingPipelineInterfaceCreateInfoKHR {
            max_pipeline_ray_payload_size: payload,
            max_pipeline_ray_hit_attribute_size: attributes,
            ..Default::default()
        };
        info.p_library_interface = arena.place(interface)?;
    }
    Ok(Rebuilt::new(info, arena))
}
