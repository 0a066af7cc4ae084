//! The program that most suites run: it creates pipelines as a value describes them.

mod description;
mod heap;
mod objects;
mod parts;

use std::sync::Arc;
use std::time::Duration;

use ash::vk::{self, Handle};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::description::{Caches, Code, End, Shader, UNKNOWN_STRUCTURE, Work};

use self::objects::Objects;
use self::parts::Parts;
use crate::child;
use crate::test_driver::TestDriver;
use crate::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};

/// Creation feedback of one pipeline, as VkPipelineCreationFeedbackFlags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Flags of the pipeline's feedback.
    pub pipeline: u32,
    /// Flags of the feedback of each of its stages.
    pub stages: Vec<u32>,
}

impl Feedback {
    /// Whether a flag says that the application's cache held the pipeline.
    pub fn says_hit(&self) -> bool {
        let hit = vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT.as_raw();
        self.stages.iter().chain([&self.pipeline]).any(|flags| flags & hit != 0)
    }
}

/// The results of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The result of each call, as a number.
    pub results: Vec<i32>,
    /// Whether each pipeline was created.
    pub made: Vec<bool>,
    /// Creation feedback of each pipeline, if it was requested.
    pub feedback: Vec<Feedback>,
    /// Each cache's data at the end.
    pub data: Vec<Vec<u8>>,
    /// Ids of validation messages.
    pub messages: Vec<String>,
    /// The pipelines, for tests in the same process.
    #[serde(skip)]
    pub pipelines: Vec<vk::Pipeline>,
}

impl Done {
    /// Every call succeeded and created its pipelines.
    pub fn all_made(&self) -> bool {
        self.results.iter().all(|&result| result == 0) && self.made.iter().all(|&made| made)
    }

    /// Every call answered COMPILE_REQUIRED and created nothing.
    pub fn all_refused(&self) -> bool {
        let required = vk::Result::PIPELINE_COMPILE_REQUIRED.as_raw();
        self.results.iter().all(|&result| result == required) && self.made.iter().all(|&made| !made)
    }
}

/// The step: runs the program that the value describes, and answers with [`Done`].
pub fn step(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).expect("a description of work");
    let options = InstanceOptions { messages: work.messages, ..InstanceOptions::default() };
    let instance = Instance::new(&options).expect("an instance");
    let device = Arc::new(Device::new(&instance, &work.device_options()).expect("a device"));
    let done = work.on_threads(&device);
    let finish = |done: &Done| serde_json::to_value(done).expect("JSON");
    match work.end {
        End::Orderly => {
            drop(device);
            finish(&Done { messages: instance.messages(), ..done })
        }
        End::Exit => {
            std::mem::forget(device);
            std::mem::forget(instance);
            finish(&done)
        }
        End::UnderscoreExit(ms) => {
            child::answer(&finish(&done));
            std::thread::sleep(Duration::from_millis(ms));
            // SAFETY: _exit has no preconditions; it ends the process.
            unsafe { libc::_exit(0) }
        }
        End::Kill(ms) => {
            child::answer(&finish(&done));
            std::thread::sleep(Duration::from_millis(ms));
            // SAFETY: kill takes plain numbers; it ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            unreachable!("SIGKILL cannot be caught")
        }
    }
}

impl Work {
    /// The options that the device needs.
    pub fn device_options(&self) -> DeviceOptions {
        let by_identifier =
            matches!(self.code, Code::Identifier | Code::Bytes | Code::ModuleAndEmptyIdentifier);
        DeviceOptions {
            cache_control: self.cache_control || self.fail_on || self.early_return || by_identifier,
            identifiers: self.identifiers || by_identifier,
            dynamic_rendering: self.shader == Shader::DynamicRendering,
            maintenance5: self.flags2 || self.heap != 0 || self.code == Code::Inline,
            descriptor_heap: self.heap != 0,
            executables: false,
            features: self.features.clone(),
            without_queue: false,
            extensions: Vec::new(),
            switches: Vec::new(),
        }
    }

    /// Runs on a device of its own, with the test driver. Also gives the driver's records from before and after the end
    /// of that device, which must have left no pipeline behind.
    ///
    /// # Panics
    /// If a pipeline is left, and if there is no such device.
    pub fn recorded(&self) -> (Done, [Value; 2]) {
        let instance = Instance::new(&InstanceOptions::default()).expect("an instance");
        let device = Device::new(&instance, &self.device_options()).expect("a device");
        let done = self.run(&device);
        let driver = TestDriver::open();
        let before = driver.take_record();
        drop(device);
        let after = driver.take_record();
        assert_eq!(after["pipelines"], Value::Array(Vec::new()), "nothing is left behind");
        drop(Arc::into_inner(instance));
        (done, [before, after])
    }

    fn on_threads(&self, device: &Device) -> Done {
        std::thread::scope(|scope| {
            let start = |_| scope.spawn(|| self.run(device));
            let threads: Vec<_> = (0..self.threads).map(start).collect();
            let parts =
                threads.into_iter().map(|thread| thread.join().expect("a thread that does not panic"));
            parts.fold(Done::default(), |mut all, part| {
                all.results.extend(part.results);
                all.made.extend(part.made);
                all.feedback.extend(part.feedback);
                all.data.extend(part.data);
                all
            })
        })
    }

    /// Creates the pipelines on this device.
    pub fn run(&self, device: &Device) -> Done {
        let mut done = Done::default();
        let objects = Objects::new(self, device);
        let shared = (self.caches == Caches::Shared).then(|| device.cache(&self.initial_data));
        let constants: Vec<u32> = (self.first..self.first + self.count).collect();
        for batch in constants.chunks(self.batch as usize) {
            let fresh = (self.caches == Caches::Fresh).then(|| device.cache(&[]));
            let cache = shared.or(fresh).unwrap_or_default();
            self.call(device, &objects, cache, batch, &mut done);
            if let Some(cache) = fresh {
                done.data.push(device.cache_data(cache));
                device.destroy_cache(cache);
            }
        }
        if let Some(cache) = shared {
            done.data.push(device.cache_data(cache));
            device.destroy_cache(cache);
        }
        done
    }

    /// Creates the pipelines with this cache, which the caller owns.
    pub fn run_through(&self, device: &Device, cache: vk::PipelineCache) -> Done {
        let mut done = Done::default();
        let objects = Objects::new(self, device);
        let constants: Vec<u32> = (self.first..self.first + self.count).collect();
        for batch in constants.chunks(self.batch as usize) {
            self.call(device, &objects, cache, batch, &mut done);
        }
        done
    }

    /// One creation call.
    fn call(
        &self,
        device: &Device,
        objects: &Objects,
        cache: vk::PipelineCache,
        batch: &[u32],
        done: &mut Done,
    ) {
        let mut parts: Vec<Box<Parts>> =
            batch.iter().enumerate().map(|(index, &value)| self.parts(device, value, index)).collect();
        parts.iter_mut().for_each(|parts| parts.link(self));
        // SAFETY: the create infos point into `parts`, which outlives the call; the driver must not follow the
        // invalid pointers.
        let (result, pipelines) = unsafe {
            if self.shader.is_graphics() {
                let infos: Vec<_> = parts.iter().map(|parts| parts.graphics(self, objects)).collect();
                device.create_graphics(cache, &infos)
            } else {
                let infos: Vec<_> = parts.iter().map(|parts| parts.compute(self, objects)).collect();
                device.create_compute(cache, &infos)
            }
        };
        done.results.push(result.as_raw());
        done.made.extend(pipelines.iter().map(|pipeline| !pipeline.is_null()));
        done.pipelines.extend(&pipelines);
        if self.feedback {
            done.feedback.extend(parts.iter().map(|parts| Feedback {
                pipeline: parts.feedback.flags.as_raw(),
                stages: parts.stage_feedback.iter().map(|feedback| feedback.flags.as_raw()).collect(),
            }));
        }
    }

    fn flags(&self, index: usize) -> vk::PipelineCreateFlags {
        let mut flags = vk::PipelineCreateFlags::empty();
        if self.fail_on || matches!(self.code, Code::Identifier | Code::Bytes) {
            flags |= vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        }
        if self.early_return {
            flags |= vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;
        }
        if self.derivatives {
            flags |= match index {
                0 => vk::PipelineCreateFlags::ALLOW_DERIVATIVES,
                _ => vk::PipelineCreateFlags::DERIVATIVE,
            };
        }
        flags
    }

    fn codes(&self, value: u32) -> Vec<(vk::ShaderStageFlags, Vec<u32>)> {
        match self.shader {
            Shader::Compute => vec![(vk::ShaderStageFlags::COMPUTE, spirv::compute(value))],
            Shader::Lengthy => vec![(vk::ShaderStageFlags::COMPUTE, spirv::compute_storing(value))],
            Shader::Specialized => vec![(vk::ShaderStageFlags::COMPUTE, spirv::compute_specialized(0))],
            Shader::RenderPass | Shader::DynamicRendering => vec![
                (vk::ShaderStageFlags::VERTEX, spirv::vertex(0.5)),
                (vk::ShaderStageFlags::FRAGMENT, spirv::fragment(value as f32)),
            ],
        }
    }
}
