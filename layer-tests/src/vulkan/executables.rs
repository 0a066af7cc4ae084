//! Statistics that a driver gives of a pipeline's code (VK_KHR_pipeline_executable_properties).

use std::ptr;

use ash::{khr, vk};

use super::Device;

/// Names and values of a statistic.
pub type Statistic = (String, u64);

/// Statistics of all executables of a live pipeline, on a device with [`super::DeviceOptions::executables`].
///
/// The specification requires CAPTURE_STATISTICS (03274). RADV answers without the flag, too, and compiles pipelines
/// with the flag differently.
pub fn statistics(device: &Device, pipeline: vk::Pipeline) -> Vec<Vec<Statistic>> {
    let commands = khr::pipeline_executable_properties::Device::new(&device.instance.raw, &device.raw);
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    let mut count = 0;
    let query = commands.fp().get_pipeline_executable_properties_khr;
    // SAFETY: a live pipeline; NULL asks for the count.
    let result = unsafe { query(device.raw.handle(), &info, &mut count, ptr::null_mut()) };
    assert_eq!(result, vk::Result::SUCCESS);
    (0..count).map(|index| of_executable(device, pipeline, index)).collect()
}

/// Statistics of one executable.
pub fn of_executable(device: &Device, pipeline: vk::Pipeline, index: u32) -> Vec<Statistic> {
    let commands = khr::pipeline_executable_properties::Device::new(&device.instance.raw, &device.raw);
    let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index);
    let query = commands.fp().get_pipeline_executable_statistics_khr;
    let mut count = 0;
    // SAFETY: a live pipeline, and the two-call idiom.
    let list = unsafe {
        let _ = query(device.raw.handle(), &info, &mut count, ptr::null_mut());
        let mut list = vec![vk::PipelineExecutableStatisticKHR::default(); count as usize];
        let _ = query(device.raw.handle(), &info, &mut count, list.as_mut_ptr());
        list
    };
    let describe = |statistic: &vk::PipelineExecutableStatisticKHR<'_>| {
        let name = statistic.name_as_c_str().unwrap().to_string_lossy().into_owned();
        // SAFETY: every member of the union is plain data, and the driver wrote it or it is zero.
        (name, unsafe { statistic.value.u64 })
    };
    list.iter().map(describe).collect()
}
