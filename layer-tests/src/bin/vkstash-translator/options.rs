//! The client's command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vkstash_layer_tests::translators::{Habit, Optimised, Plan};

/// Creates pipelines as a shader translator does, headless, and prints the results as JSON.
#[derive(Parser)]
#[command(version, args_override_self = true)]
pub(crate) struct Options {
    /// The translator.
    #[arg(long, value_enum)]
    habit: HabitName,
    /// Folder of .spv compute shaders; default: tiny built-in ones.
    #[arg(long, alias = "corpus", value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Number of compute and of graphics pipelines.
    #[arg(long, value_name = "N", default_value_t = 20)]
    count: u32,
    /// Number of graphics pipelines, if it differs.
    #[arg(long, value_name = "N")]
    graphics: Option<u32>,
    /// Folder that the client keeps from one run to the next.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// vkd3d: a graphics pipeline is a library and its link.
    #[arg(long)]
    libraries: bool,
    /// vkd3d: load each pipeline's cache with the data of an earlier run.
    #[arg(long)]
    load_blobs: bool,
    /// vkd3d: use no identifiers; the code is in the stages' chains.
    #[arg(long)]
    inline: bool,
    /// dxvk: link optimised pipelines from libraries that retain the information for it.
    #[arg(long)]
    link_optimised: bool,
    /// Run once without the layer first, and print how much longer a fast link takes with it.
    #[arg(long)]
    pub(crate) compare: bool,
}

/// The values on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum HabitName {
    /// vkd3d-proton's.
    Vkd3d,
    /// DXVK's.
    Dxvk,
}

impl Options {
    /// The plan that the options describe.
    pub(crate) fn plan(&self) -> Plan {
        let habit = match self.habit {
            HabitName::Vkd3d => Habit::Vkd3d,
            HabitName::Dxvk => Habit::Dxvk,
        };
        Plan {
            modules: self.modules.clone(),
            compute: self.count,
            graphics: self.graphics.unwrap_or(self.count),
            libraries: self.libraries,
            load_blobs: self.load_blobs,
            inline: self.inline,
            optimised: if self.link_optimised { Optimised::Link } else { Optimised::Whole },
            ..Plan::new(habit, &self.store)
        }
    }
}
