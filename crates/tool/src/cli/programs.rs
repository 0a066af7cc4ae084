//! Arguments of the commands that start programs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// What `run` does with the size limits of the drivers' own caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DriverLimits {
    /// Raise those that the user did not set
    Raise,
    /// Leave them as they are
    Keep,
}

/// What `run` does with the folders of the translators' caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TranslatorCaches {
    /// Give those that the user did not name a folder in the stash
    Stash,
    /// Leave them where they are
    Keep,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Keep the stash in this folder instead of the user's cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Also read this base (`vkstash base`), before those in VKSTASH_BASE; may be given several times
    #[arg(long, value_name = "BASE")]
    pub(crate) base: Vec<PathBuf>,
    /// First fetch what this store has (s3://, gs://, az://, https://, file://) with `vkstash-remote`, as a base after
    /// these. Whatever goes wrong, the command runs
    #[arg(long, value_name = "URL")]
    pub(crate) remote: Option<String>,
    /// After the command, publish there what it has recorded, and nothing else
    #[arg(long, requires = "remote")]
    pub(crate) push: bool,
    /// Sign that with the key in this file; without a key it goes into the store's inbox
    #[arg(long, value_name = "FILE", requires = "push")]
    pub(crate) remote_key: Option<PathBuf>,
    /// The longest wait before the command, and after it
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "remote")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) remote_seconds: u64,
    /// Print no summary at the end
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Whether Mesa's and NVIDIA's own disk caches may grow; default: VKSTASH_DRIVER_LIMITS, or `raise`
    #[arg(long, value_name = "raise|keep", value_enum, hide_possible_values = true)]
    pub(crate) driver_limits: Option<DriverLimits>,
    /// Whether DXVK and vkd3d-proton keep their own caches in the stash; default: VKSTASH_TRANSLATOR_CACHES, or `stash`
    #[arg(long, value_name = "stash|keep", value_enum, hide_possible_values = true)]
    pub(crate) translator_caches: Option<TranslatorCaches>,
    /// Use this layer library in place of the tool's own, as VKSTASH_LIBRARY does
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Runs of each kind
    #[arg(long, short = 'r', value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: u16,
    /// Give each run an empty cache of the driver (Mesa's and NVIDIA's)
    #[arg(long)]
    pub(crate) empty_driver_cache: bool,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Use this layer library in place of the tool's own, as VKSTASH_LIBRARY does
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct PrewarmArgs {
    /// These applications: their names, or their folders in the stash
    #[arg(value_name = "APPLICATION", required_unless_present_any = ["all", "after_update"])]
    #[arg(conflicts_with_all = ["all", "after_update"])]
    pub(crate) applications: Vec<String>,
    /// All applications
    #[arg(long)]
    pub(crate) all: bool,
    /// Only where another version of the driver has compiled what the present one has not
    #[arg(long)]
    pub(crate) if_driver_changed: bool,
    /// What the service does (below)
    #[arg(long, conflicts_with_all = ["all", "finish", "mesa_foz", "driver", "dry_run", "every_device", "json"])]
    pub(crate) after_update: bool,
    /// Do not wait until a driver was unchanged for some seconds
    #[arg(long, requires = "after_update", hide = true)]
    pub(crate) at_once: bool,
    /// For tests, which run beside each other on busy machines: programs with other stashes are no reason to wait, and
    /// the priority stays as it is
    #[arg(long, requires = "after_update", hide = true)]
    pub(crate) under_test: bool,
    /// End when standard input ends
    #[arg(long, requires = "after_update", hide = true)]
    pub(crate) until_input_ends: bool,
    /// On every device of this machine, not only on those that programs used
    #[arg(long)]
    pub(crate) every_device: bool,
    /// For the driver of this ICD manifest alone, which need not be the active one
    #[arg(long, value_name = "MANIFEST", conflicts_with = "finish")]
    pub(crate) driver: Option<PathBuf>,
    /// Say what would be made, and make nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Compile everything into a database of Mesa's disk cache in this new or empty folder, not into the stash (below)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "if_driver_changed", "finish"])]
    pub(crate) mesa_foz: Option<PathBuf>,
    /// Worker processes at a time; default: half the cores
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// The longest time for one pipeline
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// The most resident memory of one worker; default: its share of half the machine's, from 512 MiB to 4 GiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<bytesize::ByteSize>,
    /// Work at the lowest priority, for processors and disks
    #[arg(long)]
    pub(crate) background: bool,
    /// End with this process, which is being updated for
    #[arg(long = "while", value_name = "PID", hide = true)]
    pub(crate) while_running: Option<u32>,
    /// Wait for the end of this process, and work for one minute at most
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) after: Option<u32>,
    /// Only what the driver of this device header had when it was asked for, and what is not recorded yet
    #[arg(long, value_name = "HEADER", hide = true)]
    pub(crate) finish: Option<String>,
    /// Workers run from a file of this name: that of the program, for NVIDIA's driver, which has a disk cache for each
    #[arg(long = "as", value_name = "NAME", hide = true)]
    pub(crate) named: Option<OsString>,
    /// Do nothing while the machine runs on battery
    #[arg(long)]
    pub(crate) unless_on_battery: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what drivers and the layer print in the workers
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Use this layer library in place of the tool's own, as VKSTASH_LIBRARY does
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PrewarmWorkerArgs {
    /// The layer library
    pub(crate) library: OsString,
}
