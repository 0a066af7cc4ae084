//! What goes to other machines, and what is made ahead.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file to create, which must not exist yet; `-` for standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Export only these applications: their names, or the names of their folders in the stash. Into an archive of
    /// Fossilize, one name and the first digits of a key, as `vkstash show` lists them: only that pipeline, with all
    /// that it needs
    #[arg(value_name = "APPLICATION")]
    pub(crate) applications: Vec<String>,
    /// Export only what fits every driver: shaders and recipes, no artifacts
    #[arg(long)]
    pub(crate) portable: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BaseArgs {
    #[command(subcommand)]
    pub(crate) action: BaseAction,
}

#[derive(Subcommand)]
pub(crate) enum BaseAction {
    /// Copy what was recorded into a new base, which everybody may read and only you may write
    ///
    /// Programs of other users take it only if root owns it. Drivers are given what is in it.
    Build(BaseBuildArgs),
    /// Show the bases that programs look into, and why one of them is not used
    ///
    List(BaseListArgs),
    /// Have programs look into this base too, after those that were added before
    ///
    /// One that programs would refuse is refused.
    Add(BaseChangeArgs),
    /// Have programs look into this base no longer. It stays as it is
    Remove(BaseChangeArgs),
}

#[derive(Args)]
pub(crate) struct BaseListArgs {
    /// Show the setting of this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BaseChangeArgs {
    /// The folder of the base
    #[arg(value_name = "BASE")]
    pub(crate) base: PathBuf,
    /// Change the setting of this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BaseBuildArgs {
    /// The folder to create, which must not exist yet
    #[arg(value_name = "BASE")]
    pub(crate) base: PathBuf,
    /// Copy only these applications: their names, or the names of their folders in the stash
    #[arg(value_name = "APPLICATION")]
    pub(crate) applications: Vec<String>,
    /// Copy only what fits every driver: shaders and recipes, no artifacts
    #[arg(long)]
    pub(crate) portable: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Take what `export` wrote into this file instead of a stash; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["applications", "portable", "dir"])]
    pub(crate) archive: Option<PathBuf>,
    /// Also take the archive's artifacts: only from somebody whose programs you would run
    #[arg(long, requires = "archive")]
    pub(crate) artifacts: bool,
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The file that `export` wrote, or an archive of Fossilize; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "steam")]
    pub(crate) file: Option<PathBuf>,
    /// Also take artifacts, which are what drivers made. Your driver cannot check them: take them only from somebody
    /// whose programs you would run
    #[arg(long, conflicts_with = "steam")]
    pub(crate) artifacts: bool,
    /// Of an archive of Fossilize: the application that it belongs to, by its name, or the name of its folder in the
    /// stash. Without it that of the archive's name, where the stash has one such
    #[arg(long, alias = "app", value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Of an archive of Fossilize: the file of a program that has not run with the stash yet; under Wine its .exe
    #[arg(long, value_name = "FILE", conflicts_with = "application")]
    pub(crate) program: Option<PathBuf>,
    /// The archives that Steam keeps of a game, by its number; without one the games are listed that have some. With
    /// FILE and --program: the number of a game that Steam will start
    #[arg(long, value_name = "APPID", num_args = 0..=1)]
    pub(crate) steam: Option<Option<u32>>,
    /// Import into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PrewarmArgs {
    /// These applications: their names, or the names of their folders in the stash
    #[arg(value_name = "APPLICATION", required_unless_present_any = ["all", "after_update"])]
    #[arg(conflicts_with_all = ["all", "after_update"])]
    pub(crate) applications: Vec<String>,
    /// All applications
    #[arg(long)]
    pub(crate) all: bool,
    /// Only where another version of the driver has compiled what the present one has not
    #[arg(long)]
    pub(crate) if_driver_changed: bool,
    /// What the service does after an update of a driver: compiles what programs lack, those that were played most
    /// first, at the lowest priority, while no program with the layer runs, and within the `update` settings
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
    /// On every device of this machine, and not only on those that programs used; for an import on a new machine with
    /// several GPUs
    #[arg(long)]
    pub(crate) every_device: bool,
    /// Make it for the driver of this ICD manifest, which is on the disk and need not be the active one (a staged
    /// package, another Mesa, an image being built); workers load that driver alone (docs/prewarm.md)
    #[arg(long, value_name = "MANIFEST", conflicts_with = "finish")]
    pub(crate) driver: Option<PathBuf>,
    /// Say what would be made, and make nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Compile everything into a read-only database of Mesa's disk cache in this new or empty folder, for programs
    /// without the layer (docs/prewarm.md); the stash stays as it is
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "if_driver_changed", "finish"])]
    pub(crate) mesa_foz: Option<PathBuf>,
    /// Worker processes at a time; default: half the cores
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// The longest time for one pipeline; a worker that takes longer is killed, and the pipeline quarantined
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// The most resident memory of one worker; default: its share of half the memory of this machine, at most 4 GiB
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
    /// Print JSON with stable names (docs/prewarm.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what drivers and the layer print in the workers
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Use this layer library instead of the one that came with this tool
    /// (VKSTASH_LIBRARY in the environment does the same)
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PrewarmWorkerArgs {
    /// The layer library
    pub(crate) library: OsString,
}
