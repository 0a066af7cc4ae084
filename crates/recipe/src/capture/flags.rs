//! The flags of a pipeline.

use ash::vk;

use crate::chain::Refusal;
use vkstash_model::counters::BypassReason;

/// VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT.
pub const FAIL_ON: u64 = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED.as_raw() as u64;
/// VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT.
pub const EARLY_RETURN: u64 = vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE.as_raw() as u64;
/// VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR, of an extension newer than the bindings.
const CAPTURE_DATA: u64 = 1 << 31;

/// Options of the call, which do not change the code (contract 7.1).
const CALL_OPTIONS: u64 = FAIL_ON | EARLY_RETURN;

/// VK_PIPELINE_CREATE_2_EXECUTION_GRAPH_BIT_AMDX: a node of execution graphs, which the layer passes by.
const NODE: u64 = 1 << 32;

/// Flags by which a program asks for data beside the code (handles for a replay, data of pipeline binaries). Drivers
/// keep such pipelines out of their caches.
const CAPTURING: u64 = vk::PipelineCreateFlags::RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_KHR.as_raw()
    as u64
    | CAPTURE_DATA;

/// Flags that let tools read statistics and internal representations of a pipeline. They are hashed where cached
/// pipelines give the same answers as compiled ones ([`super::Objects::looked_into`]).
pub const LOOKED_INTO: u64 = (vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR.as_raw()
    | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR.as_raw())
    as u64;

/// A library that is made to be optimized again in a link.
pub const RETAINS: u64 = vk::PipelineCreateFlags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT.as_raw() as u64;

/// The pipeline is a library.
pub const LIBRARY: u64 = vk::PipelineCreateFlags::LIBRARY_KHR.as_raw() as u64;

/// Flags that say how a pipeline may be used, and with which a link needs no compiler.
const STATED_USE: u64 = (vk::PipelineCreateFlags::DISABLE_OPTIMIZATION.as_raw()
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

/// Flags with which a link still needs no compiler: options of the call, and statements about the use of the link.
pub const PLAIN_LINK: u64 = CALL_OPTIONS | LOOKED_INTO | STATED_USE;

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
    | STATED_USE
    | (vk::PipelineCreateFlags::DERIVATIVE.as_raw()
        | vk::PipelineCreateFlags::DISPATCH_BASE.as_raw()
        | vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT.as_raw()
        | vk::PipelineCreateFlags::RETAIN_LINK_TIME_OPTIMIZATION_INFO_EXT.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_SKIP_TRIANGLES_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_SKIP_AABBS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_ANY_HIT_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_CLOSEST_HIT_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_MISS_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_NO_NULL_INTERSECTION_SHADERS_KHR.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_ALLOW_MOTION_NV.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_OPACITY_MICROMAP_EXT.as_raw()
        | vk::PipelineCreateFlags::RAY_TRACING_DISPLACEMENT_MICROMAP_NV.as_raw()) as u64;

/// The pipeline derives from another one.
pub const DERIVATIVE: u64 = vk::PipelineCreateFlags::DERIVATIVE.as_raw() as u64;

/// A link whose libraries' shaders are optimized again.
pub const OPTIMIZES_LINK: u64 = vk::PipelineCreateFlags::LINK_TIME_OPTIMIZATION_EXT.as_raw() as u64;

/// The part of the effective flags that goes into the recipe. `looked_into`: the flags of [`LOOKED_INTO`] with which
/// cached pipelines give the same answers as compiled ones.
pub fn hashed(flags: u64, looked_into: vk::PipelineCreateFlags) -> Result<u64, Refusal> {
    if flags & NODE != 0 {
        let s_type = vk::StructureType::PIPELINE_SHADER_STAGE_NODE_CREATE_INFO_AMDX.as_raw();
        return Err(Refusal { reason: BypassReason::NotCacheable, s_type });
    }
    if flags & CAPTURING != 0 {
        return Err(Refusal::plain(BypassReason::NotCacheable));
    }
    if flags & LOOKED_INTO & !u64::from(looked_into.as_raw()) != 0 {
        return Err(Refusal::plain(BypassReason::Statistics));
    }
    if flags & !(HASHED | LOOKED_INTO | CALL_OPTIONS) != 0 {
        return Err(Refusal::plain(BypassReason::UnknownFlag));
    }
    Ok(flags & !CALL_OPTIONS)
}
