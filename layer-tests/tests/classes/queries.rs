//! Queries about a pipeline: statistics, internal representations, VK_AMD_shader_info, and captured binaries.

use std::ptr;

use ash::{amd, khr, vk};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vkstash_layer_tests::vulkan::binaries;

use super::rig::Rig;

use vk::PipelineCreateFlags as Flags;

pub const STATISTICS: Flags = Flags::CAPTURE_STATISTICS_KHR;
pub const REPRESENTATIONS: Flags = Flags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn text(chars: &[std::ffi::c_char]) -> String {
    chars.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect()
}

/// Every query about a pipeline that was created with these flags.
pub fn look(rig: &Rig, pipeline: vk::Pipeline, flags: Flags) -> Value {
    if pipeline == vk::Pipeline::null() || !rig.has(khr::pipeline_executable_properties::NAME) {
        return Value::Null;
    }
    let (instance, device) = (&rig.device.instance.raw, &rig.device.raw);
    let commands = khr::pipeline_executable_properties::Device::new(instance, device);
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    // SAFETY: a live pipeline of a device with pipelineExecutableInfo.
    let list = unsafe { commands.get_pipeline_executable_properties(&info) }.unwrap();
    let mut executables = Vec::new();
    for (index, one) in list.iter().enumerate() {
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index as u32);
        let mut statistics = Vec::new();
        if flags.contains(STATISTICS) {
            // SAFETY: a live pipeline that was created with the flag, on a device with pipelineExecutableInfo.
            for statistic in unsafe { commands.get_pipeline_executable_statistics(&info) }.unwrap() {
                // SAFETY: every member of the union is plain data, and the driver wrote it or it is zero.
                let value = unsafe { statistic.value.u64 };
                statistics.push((text(&statistic.name), statistic.format.as_raw(), value));
            }
        }
        let representations = match flags.contains(REPRESENTATIONS) {
            true => representations(rig, &commands, &info),
            false => Vec::new(),
        };
        executables.push(json!({
            "name": text(&one.name), "stages": one.stages.as_raw(), "subgroup": one.subgroup_size,
            "statistics": statistics, "representations": representations,
        }));
    }
    json!(executables)
}

/// Name, size and digest of each; a text ends at its NUL, and nothing is written after that.
fn representations(
    rig: &Rig,
    commands: &khr::pipeline_executable_properties::Device,
    info: &vk::PipelineExecutableInfoKHR<'_>,
) -> Vec<(String, usize, String)> {
    let get = commands.fp().get_pipeline_executable_internal_representations_khr;
    let device = rig.device.raw.handle();
    let mut count = 0;
    // SAFETY: the two-call idiom, twice: for the list, and for the data of each element.
    unsafe {
        let _ = get(device, info, &mut count, ptr::null_mut());
        let mut list = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
        let _ = get(device, info, &mut count, list.as_mut_ptr());
        let mut data: Vec<Vec<u8>> = list.iter().map(|one| vec![0; one.data_size]).collect();
        for (one, data) in list.iter_mut().zip(&mut data) {
            one.p_data = data.as_mut_ptr().cast();
        }
        let _ = get(device, info, &mut count, list.as_mut_ptr());
        let all = list.iter().zip(data);
        all.map(|(one, data)| {
            let end = data.iter().position(|&byte| byte == 0).filter(|_| one.is_text != 0);
            let data = &data[..end.unwrap_or(data.len())];
            (text(&one.name), data.len(), hash(data))
        })
        .collect()
    }
}

/// VK_AMD_shader_info, which needs no flag.
pub fn shader_info(rig: &Rig, pipeline: vk::Pipeline, stage: vk::ShaderStageFlags) -> Value {
    if !rig.has(amd::shader_info::NAME) {
        return Value::Null;
    }
    let commands = amd::shader_info::Device::new(&rig.device.instance.raw, &rig.device.raw);
    // SAFETY: a live pipeline with this stage.
    let (used, code) = unsafe {
        (
            commands.get_shader_info_statistics(pipeline, stage),
            commands.get_shader_info_disassembly(pipeline, stage),
        )
    };
    let used = used.map(|used| {
        let resources = used.resource_usage;
        json!([
            resources.num_used_vgprs,
            resources.num_used_sgprs,
            resources.lds_usage_size_in_bytes,
            resources.scratch_mem_usage_in_bytes,
            used.num_physical_vgprs,
            used.num_available_vgprs,
        ])
    });
    json!([used.ok(), code.ok().map(|code| hash(&code))])
}

/// Lengths of the binaries captured from a pipeline that was created with CAPTURE_DATA, and whether it can be created
/// from them.
pub fn capture(rig: &Rig, pipeline: vk::Pipeline) -> Value {
    let made = match binaries::captured(&rig.device, pipeline) {
        Ok(made) => made,
        Err(result) => return json!(result.as_raw()),
    };
    let listed = binaries::contents(&rig.device, &made);
    let contents: Vec<_> = listed.iter().map(|(key, data)| (hash(key), data.len(), hash(data))).collect();
    let released = binaries::release(&rig.device, pipeline);
    made.iter().for_each(|&binary| binaries::destroy(&rig.device, binary));
    json!({ "contents": contents, "released": released.as_raw() })
}
