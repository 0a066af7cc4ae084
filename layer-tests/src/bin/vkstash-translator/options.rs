//! The client's command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vkstash_layer_tests::translators::{Habit, Optimised, Plan};

/// Makes pipelines as a shader translator does, headless, and prints what came of it as JSON.
#[derive(Parser)]
#[command(version, args_override_self = true)]
pub(crate) struct Options {
    /// Whose habits.
    #[arg(long, value_enum)]
    habit: HabitName,
    /// Folder of .spv compute shaders; without one they are tiny ones of the client's own.
    #[arg(long, alias = "corpus", value_name = "DIR")]
    modules: Option<PathBuf>,
    /// So many compute and so many graphics pipelines.
    #[arg(long, value_name = "N", default_value_t = 20)]
    count: u32,
    /// Another number of graphics pipelines.
    #[arg(long, value_name = "N")]
    graphics: Option<u32>,
    /// Folder of what the client keeps from one run to the next.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// vkd3d: graphics pipelines are a library and its link.
    #[arg(long)]
    libraries: bool,
    /// vkd3d: each pipeline's cache starts with the data that an earlier run kept.
    #[arg(long)]
    load_blobs: bool,
    /// vkd3d: nothing is asked for by identifier; code stands in the stages' chains.
    #[arg(long)]
    inline: bool,
    /// dxvk: optimised pipelines are linked of libraries that retain what that needs, not made in one piece.
    #[arg(long)]
    link_optimised: bool,
    /// Creation flags in the create info itself, and a device without VK_KHR_maintenance5.
    #[arg(long)]
    plain_flags: bool,
    /// Run once without the layer first, and print how much longer a fast link takes with it.
    #[arg(long)]
    pub(crate) compare: bool,
}

/// As it stands on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum HabitName {
    /// vkd3d-proton's.
    Vkd3d,
    /// DXVK's.
    Dxvk,
}

impl Options {
    /// What they say.
    pub(crate) fn plan(&self) -> Plan {
        let habit = match self.habit {
            HabitName::Vkd3d => Habit::Vkd3d,
            HabitName::Dxvk => Habit::Dxvk,
        };
        Plan {
            modules: self.modules.clone(),
            compute: self.count,
            graphics: self.graphics.unwrap_or(self.count),
            flags2: !self.plain_flags,
            libraries: self.libraries,
            load_blobs: self.load_blobs,
            inline: self.inline,
            optimised: if self.link_optimised { Optimised::Link } else { Optimised::Whole },
            ..Plan::new(habit, &self.store)
        }
    }
}
