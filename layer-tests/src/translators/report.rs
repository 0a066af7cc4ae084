//! The results of a translator's run.

use std::time::Duration;

use ash::vk;
use serde::{Deserialize, Serialize};

use super::gpu::Gpu;
use crate::bench::numbers::median;

/// What a translator did in one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// VkPhysicalDeviceProperties::deviceName.
    pub device: String,
    /// The device has VK_EXT_shader_module_identifier and the other features that the client needs for it.
    pub identifiers: bool,
    /// shaderModuleIdentifierAlgorithmUUID, zero without the extension.
    pub algorithm: [u8; 16],
    /// The identifiers of an earlier run were rejected because another algorithm made them.
    pub book_rejected: bool,
    /// Pipelines that a program could use; links are counted separately.
    pub pipelines: u32,
    /// Pipelines and pipeline libraries requested by identifiers alone.
    pub requested_by_identifier: u32,
    /// Pipelines and pipeline libraries that were created from their identifiers alone.
    pub served_by_identifier: u32,
    /// Pipelines and pipeline libraries whose identifiers were answered with VK_PIPELINE_COMPILE_REQUIRED.
    pub compile_required: u32,
    /// Pipelines and libraries whose shaders were translated after such an answer.
    pub fallback_translations: u32,
    /// Pipelines and libraries whose shaders were translated at all.
    pub translations: u32,
    /// Creations of pipeline libraries, repeated ones included.
    pub libraries: u32,
    /// Links.
    pub links: Links,
    /// Caches whose data was kept.
    pub blobs: u32,
    /// Bytes of that data.
    pub blob_bytes: u64,
    /// Results that the client cannot use, in words: errors, unknown positive codes, unexpected handles.
    pub failures: Vec<String>,
    /// Times of the calls.
    pub times: Times,
    /// Ids of validation messages.
    pub messages: Vec<String>,
}

/// Links of libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// Fast links, without LINK_TIME_OPTIMIZATION.
    pub fast: u32,
    /// Links with LINK_TIME_OPTIMIZATION, or whole pipelines made on a worker thread.
    pub optimised: u32,
    /// Links that failed; the program remembers that and does without them.
    pub failed: u32,
    /// Links that were not tried, because they failed before.
    pub memoised: u32,
}

/// Times of calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// Pipelines and libraries made by identifiers alone.
    pub by_identifier: Latency,
    /// Requests by identifiers alone that were refused.
    pub refused: Latency,
    /// Pipelines and libraries made from code.
    pub from_code: Latency,
    /// Fast links.
    pub fast_link: Latency,
    /// Optimised pipelines of the worker thread.
    pub optimised: Latency,
}

/// Times of calls of one kind, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency(pub Vec<u64>);

impl Latency {
    /// Adds a call.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took.as_nanos() as u64);
    }

    /// The median in microseconds; NaN for no calls.
    pub fn p50(&self) -> f64 {
        median(&self.0.iter().map(|&nanos| nanos as f64 / 1e3).collect::<Vec<_>>())
    }

    /// The worst in microseconds; 0 for no calls.
    pub fn max(&self) -> f64 {
        self.0.iter().max().map_or(0.0, |&nanos| nanos as f64 / 1e3)
    }
}

impl Report {
    /// An empty report of this device.
    pub fn of(gpu: &Gpu) -> Report {
        Report {
            device: gpu.name.clone(),
            identifiers: gpu.identifiers.is_some(),
            algorithm: gpu.algorithm,
            ..Report::default()
        }
    }

    /// Records results that no translator expects, and says whether there is a pipeline. Both translators know one
    /// positive code, and only in answer to requests that forbid compiling.
    pub fn judge(
        &mut self,
        what: &str,
        result: vk::Result,
        pipeline: vk::Pipeline,
        may_refuse: bool,
    ) -> bool {
        let refused = result == vk::Result::PIPELINE_COMPILE_REQUIRED;
        let made = result == vk::Result::SUCCESS;
        if !(made || refused && may_refuse) {
            self.failures.push(format!("{what}: {result:?}"));
        }
        if made == (pipeline == vk::Pipeline::null()) {
            self.failures.push(format!("{what}: {result:?} with handle {pipeline:?}"));
        }
        made
    }

    /// Records a request by identifiers alone.
    pub fn asked(&mut self, result: vk::Result, took: Duration) {
        self.requested_by_identifier += 1;
        if result == vk::Result::SUCCESS {
            self.served_by_identifier += 1;
            self.times.by_identifier.add(took);
        } else {
            self.times.refused.add(took);
        }
        if result == vk::Result::PIPELINE_COMPILE_REQUIRED {
            self.compile_required += 1;
        }
    }

    /// Records a creation from code; `again`: its identifiers had been refused before.
    pub fn translated(&mut self, took: Duration, again: bool) {
        self.translations += 1;
        self.fallback_translations += u32::from(again);
        self.times.from_code.add(took);
    }
}
