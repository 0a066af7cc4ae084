//! The create infos of pipelines of any kind, and their copies that differ only as they must.

use std::ffi::c_void;

use ash::vk::{self, Handle};

use crate::state::devices::device::Device;
use vkstash_recipe::capture::flags::{DERIVATIVE, FAIL_ON};
use vkstash_recipe::capture::parsed::Parsed;
use vkstash_recipe::capture::{Captured, Objects, Scratch, compute, graphics, ray_tracing};
use vkstash_recipe::chain::{self, Arena, Edit, Refusal};

/// What the kinds of create infos have in common.
pub trait CreateInfo: Copy {
    /// Reads the create options.
    ///
    /// # Safety
    /// `self` is a valid create info, with what it points to, for as long as the result is used.
    unsafe fn parse(&self) -> Parsed<'_>;

    /// Captures the recipe.
    ///
    /// # Safety
    /// `self` is a valid create info of the device whose objects `objects` describes, and `parsed` was read from it.
    unsafe fn capture<'a>(
        &'a self,
        parsed: &Parsed<'a>,
        objects: &impl Objects,
        scratch: &'a mut Scratch,
    ) -> Result<Captured<'a>, Refusal>;

    /// vkCreate*Pipelines with this one create info.
    ///
    /// # Safety
    /// `self` is a valid create info of the device, `cache` is NULL or a live cache of it, and `allocator` is the
    /// program's.
    unsafe fn create(
        &self,
        device: &Device,
        cache: vk::PipelineCache,
        allocator: *const vk::AllocationCallbacks<'_>,
        pipeline: &mut vk::Pipeline,
    ) -> vk::Result;

    /// The create info's own flags, of 32 bits; VkPipelineCreateFlags2CreateInfoKHR overrides them.
    fn flags_mut(&mut self) -> &mut vk::PipelineCreateFlags;
    /// The head of the pNext chain.
    fn p_next(&self) -> *const c_void;
    /// The head of the pNext chain, to be replaced.
    fn p_next_mut(&mut self) -> &mut *const c_void;
    /// The base pipeline's handle and index.
    fn base_mut(&mut self) -> (&mut vk::Pipeline, &mut i32);

    /// The handles of its pipeline layout and render pass. Where the specification has them ignored, they may be
    /// anything.
    fn layout_and_render_pass(&self) -> (vk::PipelineLayout, vk::RenderPass);

    /// Replaces the stages.
    ///
    /// # Safety
    /// `stages` holds as many stages as there were and outlives every use of the create info.
    unsafe fn set_stages(&mut self, stages: &[vk::PipelineShaderStageCreateInfo<'_>]);
}

/// What differs between the kinds: how they are read and captured, the command that makes one, with what it takes
/// between the device and the cache, and the objects that they name.
macro_rules! create_info {
    (
        $info:ident, $parse:path, $capture:path, $command:ident $(($between:expr))?, $render_pass:expr,
        $set_stages:expr
    ) => {
        impl CreateInfo for vk::$info<'_> {
            unsafe fn parse(&self) -> Parsed<'_> {
                // SAFETY: `self` is a valid create info (# Safety of `CreateInfo::parse`).
                unsafe { $parse(self) }
            }

            unsafe fn capture<'a>(
                &'a self,
                parsed: &Parsed<'a>,
                objects: &impl Objects,
                scratch: &'a mut Scratch,
            ) -> Result<Captured<'a>, Refusal> {
                // SAFETY: `self` is a valid create info of the device, and `parsed` was read from it.
                unsafe { $capture(self, parsed, objects, scratch) }
            }

            unsafe fn create(
                &self,
                device: &Device,
                cache: vk::PipelineCache,
                allocator: *const vk::AllocationCallbacks<'_>,
                pipeline: &mut vk::Pipeline,
            ) -> vk::Result {
                match device.table.$command {
                    // SAFETY: a valid create info, array count 1; the cache is NULL or of this device
                    // (VUID-vkCreateComputePipelines-pipelineCache-parent and its likes).
                    Some(create) => unsafe {
                        create(device.handle, $($between,)? cache, 1, self, allocator, pipeline)
                    },
                    None => vk::Result::ERROR_UNKNOWN,
                }
            }

            fn flags_mut(&mut self) -> &mut vk::PipelineCreateFlags {
                &mut self.flags
            }

            fn p_next(&self) -> *const c_void {
                self.p_next
            }

            fn p_next_mut(&mut self) -> &mut *const c_void {
                &mut self.p_next
            }

            fn base_mut(&mut self) -> (&mut vk::Pipeline, &mut i32) {
                (&mut self.base_pipeline_handle, &mut self.base_pipeline_index)
            }

            fn layout_and_render_pass(&self) -> (vk::PipelineLayout, vk::RenderPass) {
                let render_pass: fn(&Self) -> vk::RenderPass = $render_pass;
                (self.layout, render_pass(self))
            }

            unsafe fn set_stages(&mut self, stages: &[vk::PipelineShaderStageCreateInfo<'_>]) {
                let set: fn(&mut Self, &[vk::PipelineShaderStageCreateInfo<'_>]) = $set_stages;
                set(self, stages);
            }
        }
    };
}

create_info!(
    ComputePipelineCreateInfo,
    Parsed::compute,
    compute::compute,
    create_compute_pipelines,
    |_| vk::RenderPass::null(),
    |info, stages| if let [stage] = stages {
        // SAFETY: only the lifetime differs, and the caller vouches for it.
        info.stage = unsafe { std::mem::transmute_copy(stage) };
    }
);
create_info!(
    GraphicsPipelineCreateInfo,
    Parsed::graphics,
    graphics::graphics,
    create_graphics_pipelines,
    |info| info.render_pass,
    |info, stages| info.p_stages = stages.as_ptr().cast()
);
// Never deferred: what the caller passes must not have to outlive the call.
create_info!(
    RayTracingPipelineCreateInfoKHR,
    Parsed::ray_tracing,
    ray_tracing::ray_tracing,
    create_ray_tracing_pipelines_khr(vk::DeferredOperationKHR::null()),
    |_| vk::RenderPass::null(),
    |info, stages| info.p_stages = stages.as_ptr().cast()
);

/// One create info and what was parsed of it, which stay in step in every copy.
#[derive(Clone, Copy)]
pub struct Creation<'a, I> {
    /// The create info.
    pub info: I,
    /// Its create options.
    pub parsed: Parsed<'a>,
}

impl<'a, I: CreateInfo> Creation<'a, I> {
    /// Reads a create info, once for the whole call.
    ///
    /// # Safety
    /// `info` is a valid create info, with what it points to, for `'a`.
    pub unsafe fn of(info: &'a I) -> Creation<'a, I> {
        // SAFETY: `info` is a valid create info; what `parse` borrows from it lives for `'a`.
        Creation { info: *info, parsed: unsafe { info.parse() } }
    }

    /// Captures the recipe.
    ///
    /// # Safety
    /// The create info and what it points to are valid, and its objects are those of `objects`' device.
    pub unsafe fn capture<'b>(
        &'b self,
        objects: &impl Objects,
        scratch: &'b mut Scratch,
    ) -> Result<Captured<'b>, Refusal> {
        // SAFETY: `self.info` is valid, and `self.parsed` was read from it: the two stay in step in every copy.
        unsafe { self.info.capture(&self.parsed, objects, scratch) }
    }

    /// Makes it the create info of a call of its own: a base pipeline of the same batch is named by its handle
    /// (contract 3.3), which `made` tells. Where there is none it is no derivative; being one is only a hint.
    ///
    /// # Safety
    /// `self.info` is a valid create info; it is used only while `arena` and the original live and stay put.
    pub unsafe fn stand_alone(&mut self, arena: &mut Arena, made: impl FnOnce(usize) -> vk::Pipeline) {
        if !self.parsed.is_derivative() {
            return;
        }
        let (base, base_index) = self.info.base_mut();
        let Ok(from) = usize::try_from(*base_index) else { return };
        (*base, *base_index) = (made(from), -1);
        if base.is_null() {
            // Where the chain cannot be copied, it stays a derivative of VK_NULL_HANDLE.
            // SAFETY: `self.info` is valid; `arena` and the original outlive its use (the caller's # Safety section).
            unsafe { self.change_flags(0, DERIVATIVE, arena) };
        }
    }

    /// Adds and removes these bits of VkPipelineCreateFlags2, wherever the effective flags stand. False where the chain
    /// cannot be copied: nothing is changed.
    ///
    /// # Safety
    /// `self.info` is a valid create info; it is used only while `arena` and the original live and stay put.
    pub unsafe fn change_flags(&mut self, add: u64, remove: u64, arena: &mut Arena) -> bool {
        let changed = |flags: u64| (flags | add) & !remove;
        if self.parsed.flags2 {
            // SAFETY: the chain of `self.info` is valid, and the table's sizes are those of the structures;
            // the cast follows the sType, and changes the arena's copy.
            let head = unsafe {
                chain::copy_chain(arena, self.info.p_next(), chain::table_size, |node| {
                    if (*node).s_type == vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR {
                        let flags = &mut (*node.cast::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>()).flags;
                        *flags = vk::PipelineCreateFlags2KHR::from_raw(changed(flags.as_raw()));
                    }
                    Edit::Keep
                })
            };
            let Some(head) = head else { return false };
            *self.info.p_next_mut() = head;
        } else {
            let flags = self.info.flags_mut();
            *flags = vk::PipelineCreateFlags::from_raw(changed(u64::from(flags.as_raw())) as u32);
        }
        self.parsed.flags = changed(self.parsed.flags);
        true
    }

    /// A copy without these flags. None where the chain cannot be copied.
    ///
    /// # Safety
    /// As [`Creation::change_flags`].
    pub unsafe fn without_flags(&self, remove: u64, arena: &mut Arena) -> Option<Creation<'a, I>> {
        let mut copy = *self;
        // SAFETY: `copy` has the same valid chain as `self`; the caller keeps `arena` and the original while
        // it is used.
        unsafe { copy.change_flags(0, remove, arena) }.then_some(copy)
    }

    /// Forbids compiling (VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT).
    ///
    /// # Safety
    /// As [`Creation::change_flags`].
    pub unsafe fn forbid_compiling(&mut self, arena: &mut Arena) -> bool {
        // SAFETY: `self.info` is valid, and `arena` outlives its use; FAIL_ON is a bit of
        // VkPipelineCreateFlags2.
        unsafe { self.change_flags(FAIL_ON, 0, arena) }
    }

    /// A copy with other stages.
    ///
    /// # Safety
    /// `stages` holds as many stages as there were; what they point to lives as long as the copy is used.
    pub unsafe fn with_stages<'b>(
        &self,
        stages: &'b [vk::PipelineShaderStageCreateInfo<'b>],
    ) -> Creation<'b, I>
    where
        'a: 'b,
    {
        let mut copy = *self;
        // SAFETY: `stages` has as many elements as the stages that it replaces, and `'b` keeps them alive.
        unsafe { copy.info.set_stages(stages) };
        Creation { info: copy.info, parsed: Parsed { stages, ..copy.parsed } }
    }
}
