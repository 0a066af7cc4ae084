//! What a client does.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
