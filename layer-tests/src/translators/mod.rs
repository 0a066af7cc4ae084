//! Clients with the habits of programs that translate shaders while they run: what VK_EXT_shader_module_identifier
//! was made for, and whose expectations are the hardest to meet (contract 8).
//!
//! - [`vkd3d`] the habits of vkd3d-proton: a cache for each pipeline, identifiers kept on disk
//! - [`dxvk`] the habits of DXVK: pipeline libraries, links that must be instant, identifiers in memory
//! - [`jobs`] what there is to translate
//! - [`book`] identifiers and cache data on disk
//! - [`gpu`] the device and its layouts
//! - [`stages`], [`create`] create infos and the calls that take them
//! - [`report`] what came of it

pub mod book;
pub mod create;
pub mod dxvk;
pub mod gpu;
pub mod jobs;
pub mod report;
pub mod stages;
pub mod vkd3d;

use std::path::PathBuf;

use ash::vk;
use serde::{Deserialize, Serialize};

use self::gpu::Gpu;
use self::report::Report;
use crate::vulkan::{Instance, InstanceOptions};

/// Whose habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Habit {
    /// vkd3d-proton's.
    Vkd3d,
    /// DXVK's.
    Dxvk,
}

/// How DXVK's client makes the pipeline that replaces a fast link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimised {
    /// As one pipeline, from the code: DXVK's own way.
    #[default]
    Whole,
    /// By linking the same libraries again with LINK_TIME_OPTIMIZATION; they retain what that needs.
    Link,
}

/// What a client does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Whose habits.
    pub habit: Habit,
    /// Folder of the compute shaders; without one they are tiny ones of our own.
    pub modules: Option<PathBuf>,
    /// Compute pipelines.
    pub compute: u32,
    /// Graphics pipelines.
    pub graphics: u32,
    /// Folder of what the client keeps from one run to the next. DXVK's keeps nothing.
    pub store: PathBuf,
    /// vkd3d-proton: graphics pipelines are a library and a link of it with the fragment output.
    pub libraries: bool,
    /// vkd3d-proton: each pipeline's cache starts with the data that an earlier run kept.
    pub load_blobs: bool,
    /// vkd3d-proton: nothing is asked for by identifier; code stands in the stages' chains.
    pub inline: bool,
    /// DXVK: the pipeline behind a fast link.
    pub optimised: Optimised,
    /// Creation flags stand in VkPipelineCreateFlags2CreateInfo; otherwise in the create info itself, as in the
    /// translators' releases from before VK_KHR_maintenance5, which the device then goes without.
    pub flags2: bool,
    /// Collect validation messages.
    pub messages: bool,
}

impl Plan {
    /// The habit in its simplest form.
    pub fn new(habit: Habit, store: impl Into<PathBuf>) -> Plan {
        Plan {
            habit,
            modules: None,
            compute: 3,
            graphics: 3,
            store: store.into(),
            libraries: false,
            load_blobs: false,
            inline: false,
            optimised: Optimised::Whole,
            flags2: true,
            messages: false,
        }
    }
}

/// Does everything that the plan says, on an instance and a device of its own.
///
/// # Errors
/// What the client cannot start without: a folder of modules, an instance, a device with what it needs.
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
