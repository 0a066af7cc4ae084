//! The client's command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use vkstash_layer_tests::corpus::Selection;

/// Creates compute pipelines from a folder of SPIR-V modules, headless, and reports the cost of each call.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compile every module in a process of its own and list those that take a driver too long.
    FindSlow(FindSlow),
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The pipelineCache: none, fresh (a new empty one for each pipeline), fresh-read (also read before it is
    /// destroyed, as translators do), shared (one empty one), file:PATH (loaded from PATH if that exists, written
    /// back at the end).
    #[arg(long, value_name = "HABIT", default_value = "none")]
    pub(crate) cache: Habit,
    /// Don't write the cache of file:PATH back.
    #[arg(long)]
    pub(crate) keep_cache_file: bool,
    /// Enable all features of Vulkan 1.0 to 1.3 that the driver offers, as engines do that pass what they asked for
    /// back: after an update of the driver theirs is another device.
    #[arg(long)]
    pub(crate) all_features: bool,
    /// Create only an instance and a device.
    #[arg(long)]
    pub(crate) no_pipelines: bool,
    /// Create shader modules, no pipelines.
    #[arg(long, conflicts_with = "no_pipelines")]
    pub(crate) modules_only: bool,
    /// Create shader objects, no pipelines: of SPIR-V (code), or of binaries that this program keeps (file:PATH; made
    /// of SPIR-V and written there if there is no file).
    #[arg(long, value_name = "code|file:PATH", conflicts_with_all = ["no_pipelines", "modules_only", "hit"])]
    pub(crate) shader_objects: Option<Objects>,
    /// Create everything this many times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) rounds: usize,
    /// Threads that create pipelines.
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Have a second thread that sleeps, as nearly every real program does: the C library's allocator is slower from
    /// the second thread on.
    #[arg(long)]
    pub(crate) idle_thread: bool,
    /// Sleep this many milliseconds between the creation of the device and the first pipeline, as a program does that
    /// loads its files.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub(crate) pause_ms: u64,
    /// After the creation of the device one thread computes for this many milliseconds, and reports how far it came.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub(crate) spin_ms: u64,
    /// Sleep this many microseconds before each pipeline.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    pub(crate) gap_us: u64,
    /// Compile once into a VkPipelineCache, load its data into a new one and time the first use of each
    /// entry there.
    #[arg(long, conflicts_with_all = ["no_pipelines", "modules_only", "cache"])]
    pub(crate) hit: bool,
    /// VkApplicationInfo::pApplicationName.
    #[arg(long, value_name = "NAME", default_value = "vkstash-corpus")]
    pub(crate) application: String,
    /// Print the full report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct FindSlow {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The list to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// The pipelineCache that a program passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    None,
    Fresh,
    FreshRead,
    Shared,
    File(PathBuf),
}

impl FromStr for Habit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "none" => Habit::None,
            "fresh" => Habit::Fresh,
            "fresh-read" => Habit::FreshRead,
            "shared" => Habit::Shared,
            _ => match text.strip_prefix("file:") {
                Some(path) if !path.is_empty() => Habit::File(path.into()),
                _ => return Err("one of none, fresh, fresh-read, shared, file:PATH".to_owned()),
            },
        })
    }
}

/// What shader objects are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    Code,
    File(PathBuf),
}

impl FromStr for Objects {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("file:") {
            Some(path) if !path.is_empty() => Ok(Objects::File(path.into())),
            None if text == "code" => Ok(Objects::Code),
            _ => Err("one of code, file:PATH".to_owned()),
        }
    }
}
