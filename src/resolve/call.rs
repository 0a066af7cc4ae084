//! One creation call of any kind, and its copies with changed flags.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::num::NonZeroU64;

use ash::vk::{self, Handle};
use rustc_hash::FxBuildHasher;

use crate::faults;
use crate::recipe::capture::graphics::subsets::{self, Subsets};
use crate::recipe::capture::stage::{self, Named, Steering};
use crate::recipe::capture::{Objects, Scratch, compute, graphics, ray_tracing};
use crate::recipe::chain::{self, Arena, Edit, Refusal};
use crate::recipe::model::Recipe;
use crate::state::device::Device;

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

/// What the kinds of create infos have in common.
pub trait CreateInfo: Copy {
    /// Captures the recipe.
    ///
    /// # Safety
    /// A valid create info of the device.
    unsafe fn capture<'a>(
        &'a self,
        objects: &impl Objects,
        scratch: &'a mut Scratch,
    ) -> Result<(Recipe<'a>, Steering), Refusal>;

    /// vkCreate*Pipelines with this one create info.
    ///
    /// # Safety
    /// A valid create info of the device, a cache of the device or none, and the program's allocator.
    unsafe fn create(
        &self,
        device: &Device,
        cache: vk::PipelineCache,
        allocator: *const vk::AllocationCallbacks<'_>,
        pipeline: &mut vk::Pipeline,
    ) -> vk::Result;

    /// Whether it links libraries and has no shaders of its own, neither optimized again nor to become a library:
    /// there is nothing to compile, nobody will ask for its key, and it has to be instant.
    ///
    /// # Safety
    /// A valid create info.
    unsafe fn is_fast_link(&self) -> bool {
        false
    }

    /// The old flags.
    fn flags_mut(&mut self) -> &mut vk::PipelineCreateFlags;
    /// The chain.
    fn p_next_mut(&mut self) -> &mut *const c_void;
    /// The base pipeline's handle and index.
    fn base_mut(&mut self) -> (&mut vk::Pipeline, &mut i32);

    /// The stages.
    ///
    /// # Safety
    /// A valid create info; for graphics one whose stages may be read (06600).
    unsafe fn stages(&self) -> &[vk::PipelineShaderStageCreateInfo<'_>];

    /// Replaces the stages.
    ///
    /// # Safety
    /// `stages` holds as many stages as there were and outlives every use of the create info.
    unsafe fn set_stages(&mut self, stages: &[vk::PipelineShaderStageCreateInfo<'_>]);
}

impl CreateInfo for vk::ComputePipelineCreateInfo<'_> {
    unsafe fn capture<'a>(
        &'a self,
        objects: &impl Objects,
        scratch: &'a mut Scratch,
    ) -> Result<(Recipe<'a>, Steering), Refusal> {
        // SAFETY: the caller's contract.
        unsafe { compute::compute(self, objects, scratch) }
    }

    unsafe fn create(
        &self,
        device: &Device,
        cache: vk::PipelineCache,
        allocator: *const vk::AllocationCallbacks<'_>,
        pipeline: &mut vk::Pipeline,
    ) -> vk::Result {
        match device.table.create_compute_pipelines {
            // SAFETY: the caller's contract.
            Some(create) => unsafe { create(device.handle, cache, 1, self, allocator, pipeline) },
            None => vk::Result::ERROR_UNKNOWN,
        }
    }

    fn flags_mut(&mut self) -> &mut vk::PipelineCreateFlags {
        &mut self.flags
    }

    fn p_next_mut(&mut self) -> &mut *const c_void {
        &mut self.p_next
    }

    fn base_mut(&mut self) -> (&mut vk::Pipeline, &mut i32) {
        (&mut self.base_pipeline_handle, &mut self.base_pipeline_index)
    }

    unsafe fn stages(&self) -> &[vk::PipelineShaderStageCreateInfo<'_>] {
        std::slice::from_ref(&self.stage)
    }

    unsafe fn set_stages(&mut self, stages: &[vk::PipelineShaderStageCreateInfo<'_>]) {
        if let [stage] = stages {
            // SAFETY: only the lifetime differs, and the caller vouches for it.
            self.stage = unsafe { std::mem::transmute_copy(stage) };
        }
    }
}

impl CreateInfo for vk::GraphicsPipelineCreateInfo<'_> {
    unsafe fn is_fast_link(&self) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            let (flags, _) = stage::effective_flags(self.flags, self.p_next);
            flags & !stage::PLAIN_LINK == 0
                && !subsets::linked(self.p_next).is_empty()
                && !Subsets::provided(flags, self.p_next).shaders()
        }
    }

    unsafe fn capture<'a>(
        &'a self,
        objects: &impl Objects,
        scratch: &'a mut Scratch,
    ) -> Result<(Recipe<'a>, Steering), Refusal> {
        // SAFETY: the caller's contract.
        unsafe { graphics::graphics(self, objects, scratch) }
    }

    unsafe fn create(
        &self,
        device: &Device,
        cache: vk::PipelineCache,
        allocator: *const vk::AllocationCallbacks<'_>,
        pipeline: &mut vk::Pipeline,
    ) -> vk::Result {
        match device.table.create_graphics_pipelines {
            // SAFETY: the caller's contract.
            Some(create) => unsafe { create(device.handle, cache, 1, self, allocator, pipeline) },
            None => vk::Result::ERROR_UNKNOWN,
        }
    }

    fn flags_mut(&mut self) -> &mut vk::PipelineCreateFlags {
        &mut self.flags
    }

    fn p_next_mut(&mut self) -> &mut *const c_void {
        &mut self.p_next
    }

    fn base_mut(&mut self) -> (&mut vk::Pipeline, &mut i32) {
        (&mut self.base_pipeline_handle, &mut self.base_pipeline_index)
    }

    unsafe fn stages(&self) -> &[vk::PipelineShaderStageCreateInfo<'_>] {
        // SAFETY: the chain of a valid create info.
        let subsets = unsafe {
            let (flags, _) = stage::effective_flags(self.flags, self.p_next);
            Subsets::provided(flags, self.p_next)
        };
        if self.stage_count == 0 || self.p_stages.is_null() || !subsets.shaders() {
            return &[];
        }
        // SAFETY: valid for its count where a subset that reads stages is present (06600).
        unsafe { std::slice::from_raw_parts(self.p_stages, self.stage_count as usize) }
    }

    unsafe fn set_stages(&mut self, stages: &[vk::PipelineShaderStageCreateInfo<'_>]) {
        self.p_stages = stages.as_ptr().cast();
    }
}

impl CreateInfo for vk::RayTracingPipelineCreateInfoKHR<'_> {
    unsafe fn capture<'a>(
        &'a self,
        objects: &impl Objects,
        scratch: &'a mut Scratch,
    ) -> Result<(Recipe<'a>, Steering), Refusal> {
        // SAFETY: the caller's contract.
        unsafe { ray_tracing::ray_tracing(self, objects, scratch) }
    }

    /// Never deferred: what the caller passes must not have to outlive the call.
    unsafe fn create(
        &self,
        device: &Device,
        cache: vk::PipelineCache,
        allocator: *const vk::AllocationCallbacks<'_>,
        pipeline: &mut vk::Pipeline,
    ) -> vk::Result {
        let now = vk::DeferredOperationKHR::null();
        match device.table.create_ray_tracing_pipelines_khr {
            // SAFETY: the caller's contract.
            Some(create) => unsafe { create(device.handle, now, cache, 1, self, allocator, pipeline) },
            None => vk::Result::ERROR_UNKNOWN,
        }
    }

    fn flags_mut(&mut self) -> &mut vk::PipelineCreateFlags {
        &mut self.flags
    }

    fn p_next_mut(&mut self) -> &mut *const c_void {
        &mut self.p_next
    }

    fn base_mut(&mut self) -> (&mut vk::Pipeline, &mut i32) {
        (&mut self.base_pipeline_handle, &mut self.base_pipeline_index)
    }

    unsafe fn stages(&self) -> &[vk::PipelineShaderStageCreateInfo<'_>] {
        if self.stage_count == 0 || self.p_stages.is_null() {
            return &[];
        }
        // SAFETY: valid for its count.
        unsafe { std::slice::from_raw_parts(self.p_stages, self.stage_count as usize) }
    }

    unsafe fn set_stages(&mut self, stages: &[vk::PipelineShaderStageCreateInfo<'_>]) {
        self.p_stages = stages.as_ptr().cast();
    }
}

/// Whether a stage has an identifier and no code: a driver without the extension must not see it.
///
/// # Safety
/// Valid stages.
pub unsafe fn names_code_by_identifier(stages: &[vk::PipelineShaderStageCreateInfo<'_>]) -> bool {
    // SAFETY: the caller's contract.
    stages.iter().any(|info| matches!(unsafe { stage::named(info) }, Some(Named::Identifier(_)) | None))
}

/// A number for the stages: their modules by identity, where that is known, or by handle; entry points and specialization
/// constants. None where a stage names no module, or says of its constants what cannot be. Others may have the same:
/// handles are used again.
///
/// # Safety
/// A valid create info.
pub unsafe fn number_of_stages<I: CreateInfo>(device: &Device, info: &I) -> Option<NonZeroU64> {
    let mut hasher = FxBuildHasher.build_hasher();
    // SAFETY: the caller's contract.
    for stage in unsafe { info.stages() } {
        if stage.module == vk::ShaderModule::null() {
            return None;
        }
        match device.modules.read(stage.module, |module| module.identity.get().copied()).flatten() {
            Some(identity) => identity.hash(&mut hasher),
            None => stage.module.as_raw().hash(&mut hasher),
        }
        stage.stage.as_raw().hash(&mut hasher);
        // SAFETY: the stages of a valid create info; a stage that is read has an entry point (contract 6).
        unsafe {
            if !stage.p_name.is_null() {
                CStr::from_ptr(stage.p_name).hash(&mut hasher);
            }
            stage::specialization(stage.p_specialization_info).ok()?.hash(&mut hasher);
        }
    }
    NonZeroU64::new(hasher.finish())
}

/// A create info that goes down in a call of its own: a base pipeline of the same batch is named by its handle
/// (contract 3.3), which `made` tells. Where there is none it is no derivative; being one is only a hint.
///
/// # Safety
/// A valid create info; the copy is used only while `arena` and the original live and stay where they are.
pub unsafe fn alone<I: CreateInfo>(
    info: &I,
    arena: &mut Arena,
    made: impl FnOnce(usize) -> vk::Pipeline,
) -> I {
    let mut copy = *info;
    let derivative = vk::PipelineCreateFlags::DERIVATIVE;
    // SAFETY: the caller's contract; base members may be read only of a derivative (contract 6).
    unsafe {
        let (flags, flags2) = flags_of(&mut copy);
        if flags & u64::from(derivative.as_raw()) == 0 {
            return copy;
        }
        let (base, base_index) = copy.base_mut();
        let Ok(from) = usize::try_from(*base_index) else { return copy };
        (*base, *base_index) = (made(from), -1);
        if !base.is_null() {
            return copy;
        }
        let none = vk::PipelineCreateFlags::empty();
        with_flags(&copy, flags2, none, derivative, arena).unwrap_or(copy)
    }
}

/// Makes the call with this cache.
///
/// # Safety
/// As [`CreateInfo::create`].
pub unsafe fn create<I: CreateInfo>(
    device: &Device,
    cache: vk::PipelineCache,
    info: &I,
    allocator: *const vk::AllocationCallbacks<'_>,
) -> Answer {
    let mut pipeline = vk::Pipeline::null();
    // SAFETY: the caller's contract.
    let result = unsafe { info.create(device, cache, allocator, &mut pipeline) };
    if result != vk::Result::SUCCESS {
        pipeline = vk::Pipeline::null();
    }
    let answer = Answer { result, pipeline };
    if result == vk::Result::SUCCESS {
        // Gone with the thread's local storage: then the hooks pass everything on.
        let _ = LAST_MADE.try_with(|made| made.set(Some(answer)));
        faults::here("pipeline made");
    }
    answer
}

thread_local! {
    /// What the driver has made last on this thread: the program's, although the layer fails before it is handed on.
    static LAST_MADE: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// What the driver has made on this thread since this was called before.
pub fn take_made() -> Option<Answer> {
    LAST_MADE.try_with(Cell::take).ok().flatten()
}

/// The effective flags, and whether they live in the chain.
///
/// # Safety
/// A valid create info.
pub unsafe fn flags_of<I: CreateInfo>(info: &mut I) -> (u64, bool) {
    let flags = *info.flags_mut();
    // SAFETY: the caller's contract.
    unsafe { stage::effective_flags(flags, *info.p_next_mut()) }
}

/// A copy of the create info with flags added and removed, wherever the effective flags live. None where the
/// chain cannot be copied.
///
/// # Safety
/// A valid create info; the copy is used only while `arena` and the original live and stay where they are.
pub unsafe fn with_flags<I: CreateInfo>(
    info: &I,
    flags2: bool,
    add: vk::PipelineCreateFlags,
    remove: vk::PipelineCreateFlags,
    arena: &mut Arena,
) -> Option<I> {
    let mut copy = *info;
    if !flags2 {
        *copy.flags_mut() = (*copy.flags_mut() | add) & !remove;
        return Some(copy);
    }
    // SAFETY: the caller's contract; the table's sizes are the true ones; the cast follows the sType.
    let head = unsafe {
        chain::copy_chain(arena, *copy.p_next_mut(), chain::table_size, |node| {
            if (*node).s_type == vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR {
                let flags = &mut (*node.cast::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>()).flags;
                let kept = (flags.as_raw() | u64::from(add.as_raw())) & !u64::from(remove.as_raw());
                *flags = vk::PipelineCreateFlags2KHR::from_raw(kept);
            }
            Edit::Keep
        })
    }?;
    *copy.p_next_mut() = head;
    Some(copy)
}
