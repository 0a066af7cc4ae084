//! Ray tracing pipelines.

use ash::vk;

use super::guard_page::{forbidden, place, place_one};
use super::helpers::{assert_all_differ, handle, of_ray_tracing, reason, shader};
use crate::chain::Refusal;
use vkstash_model::counters::BypassReason;

/// The parts of one.
#[derive(Clone, Debug)]
pub struct Rays {
    pub stages: Vec<vk::PipelineShaderStageCreateInfo<'static>>,
    pub groups: Vec<vk::RayTracingShaderGroupCreateInfoKHR<'static>>,
    /// Without any, there is no VkPipelineLibraryCreateInfoKHR.
    pub libraries: Vec<vk::Pipeline>,
    pub interface: Option<vk::RayTracingPipelineInterfaceCreateInfoKHR<'static>>,
    pub dynamic: Vec<vk::DynamicState>,
    pub info: vk::RayTracingPipelineCreateInfoKHR<'static>,
}

pub fn group(ty: vk::RayTracingShaderGroupTypeKHR) -> vk::RayTracingShaderGroupCreateInfoKHR<'static> {
    vk::RayTracingShaderGroupCreateInfoKHR::default()
        .ty(ty)
        .general_shader(vk::SHADER_UNUSED_KHR)
        .closest_hit_shader(vk::SHADER_UNUSED_KHR)
        .any_hit_shader(vk::SHADER_UNUSED_KHR)
        .intersection_shader(vk::SHADER_UNUSED_KHR)
}

impl Default for Rays {
    fn default() -> Self {
        use vk::{RayTracingShaderGroupTypeKHR as T, ShaderStageFlags as S};
        Rays {
            stages: vec![shader(S::RAYGEN_KHR, 1), shader(S::CLOSEST_HIT_KHR, 2)],
            groups: vec![
                group(T::GENERAL).general_shader(0),
                group(T::TRIANGLES_HIT_GROUP).closest_hit_shader(1),
            ],
            libraries: Vec::new(),
            interface: None,
            dynamic: Vec::new(),
            info: vk::RayTracingPipelineCreateInfoKHR::default()
                .layout(handle(5))
                .max_pipeline_ray_recursion_depth(1),
        }
    }
}

impl Rays {
    /// The recipe's bytes; `change` sees the create info last.
    pub fn bytes_after(
        &self,
        change: impl FnOnce(&mut vk::RayTracingPipelineCreateInfoKHR<'static>),
    ) -> Result<Vec<u8>, Refusal> {
        let mut info = self.info;
        info.stage_count = self.stages.len() as u32;
        info.p_stages = place(&self.stages);
        info.group_count = self.groups.len() as u32;
        info.p_groups = place(&self.groups);
        if !self.libraries.is_empty() {
            let mut libraries = vk::PipelineLibraryCreateInfoKHR::default();
            libraries.library_count = self.libraries.len() as u32;
            libraries.p_libraries = place(&self.libraries);
            info.p_library_info = place_one(libraries);
        }
        if let Some(interface) = self.interface {
            info.p_library_interface = place_one(interface);
        }
        let mut dynamic = vk::PipelineDynamicStateCreateInfo::default();
        dynamic.dynamic_state_count = self.dynamic.len() as u32;
        dynamic.p_dynamic_states = place(&self.dynamic);
        info.p_dynamic_state = place_one(dynamic);
        change(&mut info);
        // SAFETY: the copy was made just now.
        of_ray_tracing(unsafe { &*place_one(info) }).map(|(bytes, _)| bytes)
    }
}

/// Every change to it that matters.
pub const CHANGES: &[(&str, fn(&mut Rays))] = &[
    ("flags", |r| r.info.flags ^= vk::PipelineCreateFlags::RAY_TRACING_SKIP_AABBS_KHR),
    ("library", |r| r.info.flags ^= vk::PipelineCreateFlags::LIBRARY_KHR),
    ("stage module", |r| r.stages[0].module = handle(70)),
    ("stage name", |r| r.stages[0].p_name = c"other".as_ptr()),
    ("stage kind", |r| r.stages[0].stage = vk::ShaderStageFlags::CALLABLE_KHR),
    ("stages' order", |r| r.stages.reverse()),
    ("stage count", |r| r.stages.push(shader(vk::ShaderStageFlags::MISS_KHR, 9))),
    ("group type", |r| {
        r.groups[0].ty = vk::RayTracingShaderGroupTypeKHR::from_raw(r.groups[0].ty.as_raw() ^ 4)
    }),
    ("general", |r| r.groups[0].general_shader ^= 1),
    ("closest hit", |r| r.groups[0].closest_hit_shader ^= 2),
    ("any hit", |r| r.groups[0].any_hit_shader ^= 4),
    ("intersection", |r| r.groups[0].intersection_shader ^= 8),
    ("groups' order", |r| r.groups.reverse()),
    ("group count", |r| r.groups.push(group(vk::RayTracingShaderGroupTypeKHR::GENERAL))),
    ("recursion", |r| r.info.max_pipeline_ray_recursion_depth ^= 4),
    ("layout", |r| r.info.layout = handle(50)),
    ("libraries", |r| r.libraries.push(handle(21))),
    ("payload", |r| {
        let mut interface = r.interface.unwrap_or_default();
        interface.max_pipeline_ray_payload_size ^= 64;
        r.interface = Some(interface);
    }),
    ("attributes", |r| {
        let mut interface = r.interface.unwrap_or_default();
        interface.max_pipeline_ray_hit_attribute_size ^= 64;
        r.interface = Some(interface);
    }),
    ("stack size", |r| match r.dynamic.pop() {
        Some(_) => {}
        None => r.dynamic.push(vk::DynamicState::RAY_TRACING_PIPELINE_STACK_SIZE_KHR),
    }),
];

fn all_of(base: &Rays) -> Vec<(String, Result<Vec<u8>, Refusal>)> {
    let mut captures = vec![("nothing".to_owned(), base.bytes_after(|_| {}))];
    for (name, make) in CHANGES {
        let mut changed = base.clone();
        make(&mut changed);
        captures.push(((*name).to_owned(), changed.bytes_after(|_| {})));
    }
    captures
}

#[test]
fn every_part_separates() {
    assert_all_differ(all_of(&Rays::default()));
    let with_libraries = Rays {
        libraries: vec![handle(11), handle(12)],
        interface: Some(vk::RayTracingPipelineInterfaceCreateInfoKHR::default()),
        ..Rays::default()
    };
    let mut captures = all_of(&with_libraries);
    let mut turned = with_libraries.clone();
    turned.libraries.reverse();
    captures.push(("their groups follow in their order".to_owned(), turned.bytes_after(|_| {})));
    captures.push(("without".to_owned(), Rays::default().bytes_after(|_| {})));
    assert_all_differ(captures);
}

#[test]
fn what_does_not_matter_joins() {
    let mut base = Rays::default();
    base.dynamic = vec![vk::DynamicState::RAY_TRACING_PIPELINE_STACK_SIZE_KHR];
    let bytes = base.bytes_after(|_| {}).unwrap();
    let option = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    assert_eq!(bytes, base.bytes_after(|info| info.flags = option).unwrap());
    assert_eq!(bytes, base.bytes_after(|info| info.base_pipeline_index = 3).unwrap());
    base.dynamic.extend_from_within(..);
    assert_eq!(bytes, base.bytes_after(|_| {}).unwrap());
}

#[test]
fn handles_of_groups_stay_unread_and_replayed_ones_refuse() {
    let mut rays = Rays::default();
    let bytes = rays.bytes_after(|_| {}).unwrap();
    rays.groups[0].p_shader_group_capture_replay_handle = forbidden();
    assert_eq!(bytes, rays.bytes_after(|_| {}).unwrap());
    let replay = vk::PipelineCreateFlags::RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_KHR;
    let refused = rays.bytes_after(|info| info.flags = replay);
    assert_eq!(reason(refused), Err(BypassReason::NotCacheable));
    rays.groups[0].s_type = vk::StructureType::APPLICATION_INFO;
    assert_eq!(reason(rays.bytes_after(|_| {})), Err(BypassReason::WrongStructure));
}

#[test]
fn arrays_without_elements_stay_unread() {
    let empty = Rays { stages: Vec::new(), groups: Vec::new(), ..Rays::default() };
    let info = vk::PipelineLibraryCreateInfoKHR { p_libraries: forbidden(), ..Default::default() };
    assert!(empty.bytes_after(|rays| rays.p_library_info = place_one(info)).is_ok());
}
