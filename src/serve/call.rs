//! One creation of a pipeline before it is described, and the calls to the driver.

use std::cell::Cell;

use ash::vk;

use super::create_info::{CreateInfo, Creation};
use crate::faults;
use crate::state::caches::pipeline_class::PipelineClass;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use vkstash_recipe::capture::parsed::Parsed;

/// What one create info is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result of this element alone.
    pub result: vk::Result,
    /// VK_NULL_HANDLE unless the result is VK_SUCCESS.
    pub pipeline: vk::Pipeline,
}

impl Answer {
    /// VK_PIPELINE_COMPILE_REQUIRED and no handle (contract 3.1).
    pub fn compile_required() -> Answer {
        Answer { result: vk::Result::PIPELINE_COMPILE_REQUIRED, pipeline: vk::Pipeline::null() }
    }
}

/// One creation of a pipeline, as far as it is known before anything is described: all that the sources work with that
/// needs no key.
pub struct Call<'a, I> {
    /// The device.
    pub device: &'a Device,
    /// The cache that the program passed.
    pub program_cache: &'a ProgramCache,
    /// The allocation callbacks that the program passed, or NULL.
    pub allocator: *const vk::AllocationCallbacks<'a>,
    /// The program's create info, or a copy that differs only as it must.
    pub creation: &'a Creation<'a, I>,
}

impl<I> Clone for Call<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Call<'_, I> {}

impl<'a, I: CreateInfo> Call<'a, I> {
    /// The create options.
    pub fn parsed(&self) -> &'a Parsed<'a> {
        &self.creation.parsed
    }

    /// The class of pipelines that it is of.
    pub fn class(&self) -> PipelineClass {
        PipelineClass::of(self.parsed())
    }

    /// A call with the same device, cache and allocator, and a changed create info.
    pub fn with<'b>(&self, creation: &'b Creation<'b, I>) -> Call<'b, I>
    where
        'a: 'b,
    {
        Call { device: self.device, program_cache: self.program_cache, allocator: self.allocator, creation }
    }

    /// A stage has no code but an emulated identifier, which the driver cannot resolve. Before the pipeline is captured
    /// this includes stages that have neither code nor identifier.
    pub fn names_code_of_the_layers(&self) -> bool {
        self.parsed().naming.lacks_code && self.device.decided.identifiers == IdentifierMode::Emulated
    }

    /// Whether the driver's caches hold pipelines like this one as a whole.
    pub fn keeps_whole(&self) -> bool {
        self.device.policy.whole_pipelines && self.class() == PipelineClass::Complete
    }

    /// Whether background work may make this call again, and record what the driver gives it.
    pub fn may_be_left_to_workers(&self) -> bool {
        let (device, parsed) = (self.device, self.parsed());
        device.work.driver_hits.are_recorded()
            && device.wants_recipes()
            && !(parsed.is_linked() || parsed.is_derivative())
            && (device.policy.workers_make_ray_tracing
                || parsed.bind_point != vk::PipelineBindPoint::RAY_TRACING_KHR)
            && !self.names_code_of_the_layers()
            && device.records_artifacts(self.class())
    }

    /// Calls the driver with the cache that the program passed.
    ///
    /// # Safety
    /// The call's create info is valid, its cache is NULL or a live one of the device, its allocator NULL or valid.
    pub unsafe fn create(&self) -> Answer {
        // SAFETY: the create info, the cache and the allocator are those that the program passed to the command.
        unsafe { self.create_with(self.program_cache.handle(), &self.creation.info) }
    }

    /// Calls the driver with this cache and this copy of the create info.
    ///
    /// # Safety
    /// As [`CreateInfo::create`].
    pub unsafe fn create_with(&self, cache: vk::PipelineCache, info: &I) -> Answer {
        let mut pipeline = vk::Pipeline::null();
        // SAFETY: `info` is valid, `cache` is NULL or a live cache of the device (# Safety of
        // `CreateInfo::create`), and the allocator is the program's.
        let result = unsafe { info.create(self.device, cache, self.allocator, &mut pipeline) };
        if result != vk::Result::SUCCESS {
            pipeline = vk::Pipeline::null();
        }
        let answer = Answer { result, pipeline };
        if result == vk::Result::SUCCESS {
            // The variable is destroyed when the thread's local storage is: from then on hooks pass calls on.
            let _ = LAST_MADE.try_with(|made| made.set(Some(answer)));
            faults::here("pipeline made");
        }
        answer
    }
}

thread_local! {
    /// The last pipeline that the driver made on this thread: it belongs to the program, although the layer may fail
    /// before it is handed on.
    static LAST_MADE: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// Takes the last pipeline that the driver made on this thread, if it made one since the last call of this function.
pub fn take_made() -> Option<Answer> {
    LAST_MADE.try_with(Cell::take).ok().flatten()
}
