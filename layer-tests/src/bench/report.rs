//! The output of `vkstash-corpus --json`, which `vkstash-bench` reads.

use serde::{Deserialize, Serialize};

/// One run of the client.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The device that compiled.
    pub device: Device,
    /// Names of the modules, in the order of their pipelines.
    pub modules: Vec<String>,
    /// Nanoseconds from before vkCreateInstance until the device and its pipeline layout were created.
    pub startup_ns: u64,
    /// How often in a millisecond the computing thread did its piece of work; 0 if there was none.
    #[serde(default)]
    pub spun: f64,
    /// How often in a millisecond of its own processor time the computing thread did its piece of work.
    #[serde(default)]
    pub spun_processor: f64,
    /// KiB of memory that the process occupied before the first pipeline.
    #[serde(default)]
    pub resident_kib: u64,
    /// The rounds, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// Nanoseconds of vkDestroyDevice and vkDestroyInstance together.
    pub teardown_ns: u64,
}

/// A Vulkan device as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// VkPhysicalDeviceProperties::deviceName.
    pub name: String,
    /// VkPhysicalDeviceDriverProperties::driverName, empty below Vulkan 1.2.
    pub driver: String,
    /// VkPhysicalDeviceDriverProperties::driverInfo, empty below Vulkan 1.2.
    pub driver_info: String,
    /// VkPhysicalDeviceProperties::driverVersion, in the driver's own packing.
    pub driver_version: u32,
    /// Major, minor and patch of the device's Vulkan version.
    pub api_version: String,
    /// PCI vendor.
    pub vendor_id: u32,
    /// The vendor's device number.
    pub device_id: u32,
    /// A real GPU: neither a CPU driver nor a driver's null device.
    pub gpu: bool,
}

/// What a round measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Creation in the habit that the options name.
    Create,
    /// Creation into the cache from which the hits are taken.
    Fill,
    /// First use of every entry of a freshly loaded VkPipelineCache.
    Hit,
}

/// One creation of all pipelines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// What this round measured.
    pub kind: Kind,
    /// Wall nanoseconds of the whole round, gaps between the calls included.
    pub total_ns: u64,
    /// Nanoseconds of processor time of the one thread that created the pipelines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_ns: Option<u64>,
    /// User-mode instructions of the one thread that created the pipelines, if the machine counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// One element for each module, in the order of [`Report::modules`].
    pub calls: Vec<Call>,
}

/// What one pipeline cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Call {
    /// Nanoseconds of the vkCreateComputePipelines that made the pipeline.
    pub create_ns: u64,
    /// Nanoseconds of vkCreateShaderModule, 0 where no module was needed.
    pub module_ns: u64,
    /// Nanoseconds spent with this pipeline's own VkPipelineCache: creating, reading and destroying it.
    pub cache_ns: u64,
    /// The VkResult of the last vkCreateComputePipelines.
    pub result: i32,
    /// VkPipelineCreationFeedbackFlags of the pipeline, if they were requested.
    pub feedback: Option<u32>,
}

impl Call {
    /// Nanoseconds of all calls that this pipeline needed.
    pub fn whole_ns(&self) -> u64 {
        self.create_ns + self.module_ns + self.cache_ns
    }
}

impl Report {
    /// The calls of every round of one kind.
    pub fn calls(&self, kind: Kind) -> impl Iterator<Item = &Call> {
        self.rounds.iter().filter(move |round| round.kind == kind).flat_map(|round| &round.calls)
    }
}
