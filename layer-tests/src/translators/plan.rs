//! Plan of a client: its habit, its pipelines, and the options of both.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The translator whose habits the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Habit {
    /// vkd3d-proton's.
    Vkd3d,
    /// DXVK's.
    Dxvk,
}

/// How the DXVK client creates the pipeline that replaces a fast link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimised {
    /// One pipeline from the code, as DXVK creates it.
    #[default]
    Whole,
    /// A link of the same libraries with LINK_TIME_OPTIMIZATION; the libraries retain the information for it.
    Link,
}

/// What a client does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The translator.
    pub habit: Habit,
    /// Folder of the compute shaders; without one, tiny built-in ones.
    pub modules: Option<PathBuf>,
    /// Compute pipelines.
    pub compute: u32,
    /// Graphics pipelines.
    pub graphics: u32,
    /// Folder that the client keeps from one run to the next. The DXVK client keeps nothing.
    pub store: PathBuf,
    /// vkd3d-proton: a graphics pipeline is a library, and a link of it with the fragment output.
    pub libraries: bool,
    /// vkd3d-proton: each pipeline's cache is loaded with the data of an earlier run.
    pub load_blobs: bool,
    /// vkd3d-proton: identifiers are not used; the code is in the stages' chains.
    pub inline: bool,
    /// DXVK: the pipeline that replaces a fast link.
    pub optimised: Optimised,
    /// Creation flags are in VkPipelineCreateFlags2CreateInfo; otherwise in the create info itself, as in releases of
    /// the translators from before VK_KHR_maintenance5, which the device then does not enable.
    pub flags2: bool,
    /// Collect validation messages.
    pub messages: bool,
}

impl Plan {
    /// The simplest form of a habit.
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
