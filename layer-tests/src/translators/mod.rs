//! Clients with the habits of programs that translate shaders at run time: VK_EXT_shader_module_identifier was made
//! for them, and their expectations are the hardest to meet.
//!
//! vkd3d-proton (commit d01924b) enables identifiers where extension and feature are there, without looking for cache
//! control. It asks vkGetShaderModuleIdentifierEXT alone, and keeps identifiers with the algorithm UUID in its own
//! files, which it discards if that UUID changes. It stores no SPIR-V then: a miss costs a translation. Its calls have
//! one create info, no allocator, no module, FAIL_ON_COMPILE_REQUIRED in the new flags, also for libraries and links,
//! and mostly an empty cache each. On COMPILE_REQUIRED it uses modules; another positive code gives it an invalid
//! handle.
//!
//! DXVK (commit c935e69) needs pipelineCreationCacheControl and the identifier feature, asks
//! vkGetShaderModuleCreateInfoIdentifierEXT alone, keeps identifiers in memory, and uses no cache and code in the
//! stage's chain. It names identifiers only for a library or a compute pipeline that it has destroyed, and expects that
//! to be instant. It does not repeat a failed link.
//!
//! - [`vkd3d`] the habits of vkd3d-proton: a cache for each pipeline, identifiers kept on disk
//! - [`dxvk`] the habits of DXVK: pipeline libraries, links that must be instant, identifiers in memory
//! - [`jobs`] the shaders to translate
//! - [`book`] identifiers and cache data on disk
//! - [`gpu`] the device and its layouts
//! - [`stages`], [`create`] create infos and the calls that take them
//! - [`report`] the results
//! - [`Plan`] what a client does

pub mod book;
pub mod create;
pub mod dxvk;
pub mod gpu;
pub mod jobs;
mod plan;
pub mod report;
pub mod stages;
pub mod vkd3d;

use ash::vk;

pub use self::plan::{Habit, Optimised, Plan};

use self::gpu::Gpu;
use self::report::Report;
use crate::vulkan::{Instance, InstanceOptions};

/// Runs a plan on an instance and a device of its own.
///
/// # Errors
/// What the client cannot start without: a folder of modules, an instance, a device with the required
/// features.
pub fn run(plan: &Plan) -> Result<Report, crate::corpus::Failure> {
    let jobs = jobs::read(plan)?;
    let application = match plan.habit {
        Habit::Vkd3d => "translator-vkd3d",
        Habit::Dxvk => "translator-dxvk",
    };
    let options = InstanceOptions {
        api_version: vk::API_VERSION_1_3,
        application: application.to_owned(),
        messages: plan.messages,
        ..InstanceOptions::default()
    };
    let instance = Instance::new(&options)?;
    let gpu = Gpu::new(&instance, plan.flags2)?;
    let mut report = Report::of(&gpu);
    match plan.habit {
        Habit::Vkd3d => vkd3d::run(&gpu, plan, &jobs, &mut report)?,
        Habit::Dxvk => dxvk::run(&gpu, plan, &jobs, &mut report),
    }
    drop(gpu);
    report.messages = instance.messages();
    Ok(report)
}
