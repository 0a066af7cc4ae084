//! VK_KHR_pipeline_executable_properties: one executable for each stage, with statistics and a representation
//! computed from the pipeline's key.

use std::ffi::c_char;

use ash::vk::{self, Handle as _};

use crate::command::command;
use crate::hash::digest;
use crate::lists::list;
use crate::objects::{self, Body, Pipeline};
use crate::record::{Call, plain, violation};
use crate::{config, handles};

const STATISTICS: u64 = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR.as_raw() as u64;
const REPRESENTATIONS: u64 = vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR.as_raw() as u64;

fn find(call: &Call, device: vk::Device, handle: vk::Pipeline) -> Option<Pipeline> {
    let device = handles::device(call.command, device)?;
    match objects::get(call.command, device.handle, "VkPipeline", handle.as_raw()) {
        Some(Body::Pipeline(pipeline)) => Some(pipeline),
        _ => None,
    }
}

/// The pipeline of an executable, if it was created with this flag and still has the captured data.
fn captured(
    call: &Call,
    device: vk::Device,
    info: &vk::PipelineExecutableInfoKHR<'_>,
    flag: u64,
) -> Option<Pipeline> {
    let pipeline = find(call, device, info.pipeline)?;
    if pipeline.flags & flag == 0 {
        violation(format!("{}: the pipeline was created without the flag (03276, 03278)", call.command));
        return None;
    }
    if info.executable_index >= pipeline.stages {
        violation(format!("{}: no executable {}", call.command, info.executable_index));
        return None;
    }
    (config::current().caches_statistics || !pipeline.made_before).then_some(pipeline)
}

fn write(text: &str, target: &mut [c_char]) {
    for (to, from) in target.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

/// vkGetPipelineExecutablePropertiesKHR.
pub unsafe extern "system" fn properties(
    device: vk::Device,
    info: *const vk::PipelineInfoKHR<'_>,
    count: *mut u32,
    out: *mut vk::PipelineExecutablePropertiesKHR<'_>,
) -> vk::Result {
    command(plain("vkGetPipelineExecutablePropertiesKHR"), |call| {
        // SAFETY: the program passes a valid structure that names the pipeline, a valid count, and an output that is
        // NULL or has as many elements.
        unsafe {
            let stages = find(call, device, (*info).pipeline).map_or(0, |pipeline| pipeline.stages);
            let one = |stage: u32| {
                let mut own = vk::PipelineExecutablePropertiesKHR::default().subgroup_size(32);
                write(&format!("stage {stage}"), &mut own.name);
                own
            };
            list(&(0..stages).map(one).collect::<Vec<_>>(), count, out)
        }
    })
}

/// vkGetPipelineExecutableStatisticsKHR.
pub unsafe extern "system" fn statistics(
    device: vk::Device,
    info: *const vk::PipelineExecutableInfoKHR<'_>,
    count: *mut u32,
    out: *mut vk::PipelineExecutableStatisticKHR<'_>,
) -> vk::Result {
    command(plain("vkGetPipelineExecutableStatisticsKHR"), |call| {
        // SAFETY: the program passes a valid structure that names the executable, a valid count, and an output that is
        // NULL or has as many elements.
        unsafe {
            let own = captured(call, device, &*info, STATISTICS).map(|pipeline| {
                let digest = digest("statistics", &pipeline.key);
                let value = u64::from_le_bytes(std::array::from_fn(|at| digest[at]));
                let mut own = vk::PipelineExecutableStatisticKHR::default()
                    .format(vk::PipelineExecutableStatisticFormatKHR::UINT64)
                    .value(vk::PipelineExecutableStatisticValueKHR { u64: value });
                write("instructions", &mut own.name);
                own
            });
            list(own.as_slice(), count, out)
        }
    })
}

/// vkGetPipelineExecutableInternalRepresentationsKHR: reports that there is one, without its text.
pub unsafe extern "system" fn representations(
    device: vk::Device,
    info: *const vk::PipelineExecutableInfoKHR<'_>,
    count: *mut u32,
    out: *mut vk::PipelineExecutableInternalRepresentationKHR<'_>,
) -> vk::Result {
    command(plain("vkGetPipelineExecutableInternalRepresentationsKHR"), |call| {
        // SAFETY: the program passes a valid structure that names the executable, a valid count, and an output that is
        // NULL or has as many elements.
        unsafe {
            let own = captured(call, device, &*info, REPRESENTATIONS).map(|pipeline| {
                let mut own = vk::PipelineExecutableInternalRepresentationKHR::default();
                write(&format!("code {:02x?}", &pipeline.key[..4]), &mut own.name);
                own
            });
            list(own.as_slice(), count, out)
        }
    })
}
