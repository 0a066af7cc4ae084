//! The program's pipeline binaries, on a device whose identifiers are the layer's: the two commands that take a
//! pipeline's create info must see the code that an identifier stands for, because their answers have to be those
//! of the module (contract 2.9). Everything else about binaries goes to the driver directly.

use ash::vk;

use crate::hooks::inert::pass;
use crate::pipeline_binary::{self as api, PIPELINE_CREATE_INFO, PipelineCreateInfo};
use crate::serve::create_info::{CreateInfo, Creation};
use crate::serve::modules::{StoredModules, Stripped, without_identifiers};
use crate::state::devices::device::Device;
use crate::state::devices::live_devices;
use vkstash_host::guard::guard;
use vkstash_recipe::chain::{self, Arena};

/// vkCreatePipelineBinariesKHR.
pub unsafe extern "system" fn create(
    handle: vk::Device,
    info: *const api::CreateInfo,
    allocator: *const vk::AllocationCallbacks<'_>,
    binaries: *mut api::Handles,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, create_pipeline_binaries(info, allocator, binaries));
    };
    let Some(next) = device.table.create_pipeline_binaries else { return vk::Result::ERROR_UNKNOWN };
    let ask = || {
        // SAFETY: the program's valid arguments; the create info below lives for the call.
        unsafe {
            let given = (*info).pipeline_create_info;
            with_code(&device, given, |pipeline_create_info| {
                next(handle, &api::CreateInfo { pipeline_create_info, ..*info }, allocator, binaries)
            })
        }
    };
    // Without the code there is nothing that the driver could have (contract 5.3).
    guard("vkCreatePipelineBinariesKHR", ask, || None).unwrap_or_else(|| {
        // SAFETY: the program's valid structure; a NULL array asks for the count.
        unsafe {
            let list = &mut *binaries;
            for index in 0..list.count as usize {
                if !list.binaries.is_null() {
                    *list.binaries.add(index) = 0;
                }
            }
            list.count = 0;
        }
        api::MISSING
    })
}

/// vkGetPipelineKeyKHR.
pub unsafe extern "system" fn get_key(
    handle: vk::Device,
    info: *const PipelineCreateInfo,
    key: *mut api::Key,
) -> vk::Result {
    // SAFETY: the program passes a live device, and destroys it only after this command has returned.
    let Some(device) = (unsafe { live_devices::find(handle) }) else {
        pass!(handle, get_pipeline_key(info, key));
    };
    let Some(next) = device.table.get_pipeline_key else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: `info` is NULL or a valid structure, and `key` a place for the result: the program's arguments of this
    // command, valid until it returns. The create info that the closure gets lives during the call.
    let ask = || unsafe { with_code(&device, info, |info| next(handle, info, key)) };
    guard("vkGetPipelineKeyKHR", ask, || None).unwrap_or(vk::Result::ERROR_UNKNOWN)
}

/// Calls down with a create info whose stages have code. None where the stash lacks it.
///
/// # Safety
/// `wrapped` is NULL or valid.
unsafe fn with_code(
    device: &Device,
    wrapped: *const PipelineCreateInfo,
    below: impl FnOnce(*const PipelineCreateInfo) -> vk::Result,
) -> Option<vk::Result> {
    // SAFETY: `wrapped` is NULL or a valid VkPipelineCreateInfoKHR; each cast follows the sType of the
    // chain's first structure.
    unsafe {
        let Some(given) = wrapped.as_ref() else { return Some(below(wrapped)) };
        let node = chain::walk(given.p_next).next();
        match node.map_or(vk::StructureType::default(), |node| (*node).s_type) {
            vk::StructureType::COMPUTE_PIPELINE_CREATE_INFO => {
                translate::<vk::ComputePipelineCreateInfo<'_>>(device, given, below)
            }
            vk::StructureType::GRAPHICS_PIPELINE_CREATE_INFO => {
                translate::<vk::GraphicsPipelineCreateInfo<'_>>(device, given, below)
            }
            vk::StructureType::RAY_TRACING_PIPELINE_CREATE_INFO_KHR => {
                translate::<vk::RayTracingPipelineCreateInfoKHR<'_>>(device, given, below)
            }
            _ => Some(below(wrapped)),
        }
    }
}

/// # Safety
/// `given`'s chain starts with a valid create info of this type.
unsafe fn translate<I: CreateInfo>(
    device: &Device,
    given: &PipelineCreateInfo,
    below: impl FnOnce(*const PipelineCreateInfo) -> vk::Result,
) -> Option<vk::Result> {
    let mut arena = Arena::default();
    let mut stripped = Stripped::default();
    let mut modules = StoredModules::new(device);
    // SAFETY: the chain of `given` starts with a valid create info of type `I` (the caller's # Safety
    // section); the arena, the stages and the modules stay on this stack frame until the call is over.
    unsafe {
        let mut creation = Creation::of(&*given.p_next.cast::<I>());
        if creation.parsed.naming.lacks_code {
            creation = modules.put_in_by_identifier(&creation, device.stored()?)?;
        }
        let creation = without_identifiers(&creation, &mut arena, &mut stripped).unwrap_or(creation);
        let p_next = (&raw const creation.info).cast_mut().cast();
        let wrapped = PipelineCreateInfo { s_type: PIPELINE_CREATE_INFO, p_next };
        Some(below(&wrapped))
    }
}
