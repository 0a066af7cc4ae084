//! Running and measuring programs, and installing the layer.

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
    /// Look into this stash after the user's own, and write nothing to it; may be given several times, and comes before
    /// those in VKSTASH_BASE
    #[arg(long, value_name = "BASE")]
    pub(crate) base: Vec<PathBuf>,
    /// Before the command, fetch what this store has (s3://, gs://, az://, https://, file://) with `vkstash-remote`,
    /// and look into it after the bases above. Whatever goes wrong, the command runs
    #[arg(long, value_name = "URL")]
    pub(crate) remote: Option<String>,
    /// After the command, publish there what it has recorded; nothing of other applications
    #[arg(long, requires = "remote")]
    pub(crate) push: bool,
    /// Sign what is published with the key in this file; without it, it goes into the store's inbox
    #[arg(long, value_name = "FILE", requires = "push")]
    pub(crate) remote_key: Option<PathBuf>,
    /// Wait so long at most before the command, and so long after it
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "remote")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) remote_seconds: u64,
    /// Print no summary at the end
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// `raise` lets Mesa's and NVIDIA's own disk caches grow to 10 GiB, at most to a quarter of the free space, unless
    /// a variable of the driver sets a size; `keep` leaves them alone. Default: VKSTASH_DRIVER_LIMITS, or `raise`
    #[arg(long, value_name = "raise|keep", value_enum, hide_possible_values = true)]
    pub(crate) driver_limits: Option<DriverLimits>,
    /// `stash` lets DXVK and vkd3d-proton keep their translated shaders in a folder of this command in the stash,
    /// unless DXVK_SHADER_CACHE_PATH or VKD3D_SHADER_CACHE_PATH is set; `keep` leaves them where they are. Default:
    /// VKSTASH_TRANSLATOR_CACHES, or `stash`
    #[arg(long, value_name = "stash|keep", value_enum, hide_possible_values = true)]
    pub(crate) translator_caches: Option<TranslatorCaches>,
    /// Use this layer library instead of the one that came with this tool
    /// (VKSTASH_LIBRARY in the environment does the same)
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
    /// Give each run an empty cache of the driver, as after a driver update (Mesa's and NVIDIA's drivers)
    #[arg(long)]
    pub(crate) empty_driver_cache: bool,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Use this layer library instead of the one that came with this tool
    /// (VKSTASH_LIBRARY in the environment does the same)
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The layer library to refer to; may be given once for each architecture
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Vec<PathBuf>,
    /// Without the service that compiles pipelines again after an update of a driver
    #[arg(long)]
    pub(crate) no_service: bool,
}

#[derive(Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Also delete what was recorded, your settings, and what vkstash-remote has fetched; asks first
    #[arg(long, conflicts_with_all = ["system", "prefix", "destdir"])]
    pub(crate) purge: bool,
    /// Do not ask
    #[arg(long, short, requires = "purge")]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// For all users, below /usr/local, instead of for this user
    #[arg(long)]
    pub(crate) system: bool,
    /// For all users, below this folder instead of /usr/local
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: Option<PathBuf>,
    /// Write below this folder as if it were the root of the file system (for packagers)
    #[arg(long, value_name = "DIR")]
    pub(crate) destdir: Option<PathBuf>,
}
