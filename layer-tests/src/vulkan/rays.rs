//! Shader stages and groups of ray tracing pipelines.

use ash::vk;
use vk::RayTracingShaderGroupTypeKHR as Type;
use vk::ShaderStageFlags as Stage;

type Group = vk::RayTracingShaderGroupCreateInfoKHR<'static>;

const UNUSED: u32 = vk::SHADER_UNUSED_KHR;

/// A stage of each kind. The groups name them by their places.
pub const STAGES: [vk::ShaderStageFlags; 6] = [
    Stage::RAYGEN_KHR,
    Stage::MISS_KHR,
    Stage::CLOSEST_HIT_KHR,
    Stage::ANY_HIT_KHR,
    Stage::INTERSECTION_KHR,
    Stage::CALLABLE_KHR,
];

/// A group of the stage at this place alone.
pub fn general(stage: u32) -> Group {
    group(Type::GENERAL, [stage, UNUSED, UNUSED, UNUSED])
}

/// Groups of every kind over [`STAGES`]: general, triangles with closest hit and any hit, procedural with intersection.
pub fn groups() -> [Group; 5] {
    [
        general(0),
        general(1),
        group(Type::TRIANGLES_HIT_GROUP, [UNUSED, 2, 3, UNUSED]),
        group(Type::PROCEDURAL_HIT_GROUP, [UNUSED, 2, UNUSED, 4]),
        general(5),
    ]
}

fn group(ty: Type, [general, closest_hit, any_hit, intersection]: [u32; 4]) -> Group {
    Group::default()
        .ty(ty)
        .general_shader(general)
        .closest_hit_shader(closest_hit)
        .any_hit_shader(any_hit)
        .intersection_shader(intersection)
}
