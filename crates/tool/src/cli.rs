//! The command line, in one place: usage, help and parsing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use vkstash_store::settings;
use vkstash_store::settings::{CacheKinds, Settings};

/// Gives Vulkan programs a pipeline stash that outlives them.
#[derive(Parser)]
#[command(name = "vkstash", version, after_help = EXIT_STATUS, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUS: &str = "Exit status: 0 done, 1 failed, 2 wrong usage. `vkstash run` ends as its command ended \
(same status, same signal), with 127 if the command was not found and 126 if it could not be started.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a program with the stash
    ///
    /// Programs that it starts are served too, as long as the program itself runs: for a launcher that exits early,
    /// use `vkstash install`.
    Run(RunArgs),
    /// Measure a program with and without the stash
    ///
    /// Runs the command without the layer, with a new stash, and with one that earlier runs have filled, in turns. The
    /// user's stash is not touched. The drivers' own caches are those that the user has; the table says what was in
    /// them. The command's output is not shown; one that needs no user is measured best.
    Bench(BenchArgs),
    /// Make the layer known to the Vulkan loader, so that VKSTASH=1 is all a program needs
    Install(InstallArgs),
    /// Remove what `install` wrote
    Uninstall(UninstallArgs),
    /// Tell what the stash did for each application
    ///
    /// One line for each of the applications that were used last: how many of its pipelines were ready when its last
    /// run asked for them, and how much time that saved at most. With a NAME, a few lines for each device.
    Stats(StatsArgs),
    /// List the applications in the stash, the one that was used last first
    List(ListArgs),
    /// Show the pipelines of an application, or what one of them is made of
    ///
    /// A pipeline is named by digits that only its key begins with, or by `latest`.
    Show(ShowArgs),
    /// Write an HTML page about an application: its last runs, its slowest pipelines, and its stash over time
    ///
    /// The page is one file that needs no network. docs/report.md says what is on it.
    Report(ReportArgs),
    /// Watch what running programs do: which pipeline is compiling now, and for how long
    ///
    /// Arrow keys choose a program, q ends it.
    Watch(WatchArgs),
    /// Show what a segment file of a stash holds
    ///
    /// The file may be anywhere: a copy, one of a base, one that an archive held. Every record is read. It ends with 1
    /// if anything is damaged.
    Inspect(InspectArgs),
    /// Show how much is kept and why, or change it
    ///
    /// Sizes are bytes, or have a unit: 512MiB, 4GiB. What you set is written to your configuration file, as by
    /// `vkstash config`; docs/bounds.md says what is evicted first.
    Keep(KeepArgs),
    /// Show each setting and where it comes from, or change the configuration file
    ///
    /// The file is ~/.config/vkstash/config.toml; with --dir, config.toml in that stash. docs/configuration.md says
    /// what may stand in it. An unknown name is an error: the line and what was meant are printed.
    Config(ConfigArgs),
    /// Show or store what background work may do: what is made before programs ask for it
    ///
    /// `allowed` is the default. `intrusive` measures more, `disabled` does no background work, and `profiling` also
    /// adapts nothing, so that two runs can be compared. VKSTASH_BACKGROUND sets the mode for one process.
    Background(BackgroundArgs),
    /// Show, disable, enable or clear kinds of caches
    ///
    /// `compilations` is what drivers compile, `conversions` are shaders and their identifiers, `driver-managed` the
    /// drivers' own caches, `sessions` the caches that programs manage. Running programs follow after some seconds;
    /// docs/sessions.md says what each of them means.
    Cache(CacheArgs),
    /// Find out why programs run without the stash, or with little use of it
    ///
    /// Looks at the environment, the installed manifests, the Vulkan loader, the drivers and the folder of the stash.
    /// It ends with 1 if anything is wrong.
    Doctor(DoctorArgs),
    /// What `doctor` asks the loader and the drivers with
    #[command(hide = true, name = "doctor-probe")]
    DoctorProbe(DoctorProbeArgs),
    /// Bring the stash within its limits now, and merge its files
    ///
    /// Programs do that by themselves after a few quiet seconds. Programs may run while this command works.
    Gc(GcArgs),
    /// Remove applications that were not used for a while
    ///
    /// Of an application that was used since, the devices and driver versions go that it did not use, and its session
    /// caches. Shows first what goes, and asks. What a running program uses stays, and so do settings.
    Prune(PruneArgs),
    /// Remove everything that is stored for applications
    ///
    /// Shows first what goes, and asks. What a running program uses stays, and so do settings. `vkstash cache clear`
    /// empties single kinds of caches, those of running programs too.
    Clear(ClearArgs),
    /// Write what was recorded to a file, for another machine or as a backup
    ///
    /// The file is a tar archive, mostly compressed already. It holds shaders and the names of the programs. A file
    /// whose name ends in .foz becomes an archive of Fossilize, which has shaders and recipes, and no artifacts.
    Export(ExportArgs),
    /// Make stashes that programs only read, for images and machines that many share, and say which are used
    ///
    /// Programs look into them after their user's own stash: first those that `vkstash run --base` names, then those
    /// in VKSTASH_BASE, and then those that were added here (docs/bases.md).
    Base(BaseArgs),
    /// Take in what `export` wrote, or an archive of Fossilize (.foz), as Steam has them
    ///
    /// Records that the stash has already stay as they are. An archive of Fossilize has what pipelines are made of:
    /// `vkstash prewarm` makes them (docs/fossilize.md).
    Import(ImportArgs),
    /// Compile what programs will ask for before they do, for instance after a driver update or an import
    ///
    /// Recipes that programs used on a device are compiled for its present driver, the most recently used first, in
    /// processes that may crash or hang without harm. What is interrupted goes on where it was. docs/prewarm.md says
    /// more.
    Prewarm(PrewarmArgs),
    /// A worker of `prewarm`
    #[command(hide = true, name = "prewarm-worker")]
    PrewarmWorker(PrewarmWorkerArgs),
    /// List the artifacts that are no longer handed to a driver because programs died of them
    Quarantine(QuarantineArgs),
    /// Read everything that is stored, and say what is damaged
    ///
    /// Programs check each record when they read it, so damage only costs what it hit. Programs may run while this
    /// command works. It ends with 1 if anything is not whole.
    Verify(VerifyArgs),
    /// Print what a shell needs to complete commands and options
    ///
    /// For bash: `vkstash completions bash > ~/.local/share/bash-completion/completions/vkstash`
    Completions(CompletionsArgs),
    /// Write the man pages, for packages
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// The `--dir` of a command that reads or changes settings. None: another command.
    pub(crate) fn stash_with_settings(&self) -> Option<Option<&Path>> {
        let dir = match self {
            Command::Run(args) => &args.dir,
            Command::Stats(args) => &args.dir,
            Command::Gc(args) => &args.dir,
            Command::Config(args) => &args.dir,
            Command::Keep(args) => &args.dir,
            Command::Background(args) => &args.dir,
            Command::Cache(args) => &args.dir,
            Command::Doctor(args) => &args.dir,
            _ => return None,
        };
        Some(dir.as_deref())
    }
}

#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ConfigAction>,
    /// Only this application: its name, or the name of its folder in the stash
    #[arg(long, alias = "app", value_name = "NAME", global = true)]
    pub(crate) application: Option<String>,
    /// Print JSON with stable names (docs/configuration.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum ConfigAction {
    /// Set a value: `vkstash config set limit 4GiB`
    Set {
        /// The setting
        #[arg(value_name = "SETTING")]
        name: String,
        /// Its value; of `bases`, all paths
        #[arg(value_name = "VALUE", required = true)]
        values: Vec<String>,
    },
    /// Remove values, so that the defaults count
    Unset {
        /// The settings
        #[arg(value_name = "SETTING", required = true)]
        names: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct BackgroundArgs {
    /// The mode to store: allowed, intrusive, disabled or profiling
    #[arg(value_name = "MODE", value_parser = value_of(settings::BACKGROUND))]
    pub(crate) mode: Option<String>,
    /// Show or change only this application: its name, or the name of its folder in the stash
    #[arg(long, alias = "app", value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Remove the stored mode
    #[arg(long, conflicts_with = "mode")]
    pub(crate) default: bool,
    /// Whether programs may use the modes for developers: on or off
    #[arg(long, value_name = "on|off", value_parser = value_of(settings::DEVELOPER_MODE))]
    #[arg(conflicts_with = "application")]
    pub(crate) developer_mode: Option<String>,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// What is done with caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CacheAction {
    /// Say which are disabled
    Show,
    /// Neither use nor fill them
    Disable,
    /// Use and fill them again
    Enable,
    /// Empty them
    Clear,
}

#[derive(Args)]
pub(crate) struct CacheArgs {
    /// What to do
    #[arg(value_name = "ACTION", default_value = "show")]
    pub(crate) action: CacheAction,
    /// With which kinds: compilations, conversions, driver-managed, sessions
    #[arg(value_name = "KIND", value_parser = cache_kind)]
    #[arg(required_if_eq_any([("action", "disable"), ("action", "enable"), ("action", "clear")]))]
    pub(crate) kinds: Vec<CacheKinds>,
    /// Only of this application: its name, or the name of its folder in the stash
    #[arg(long, alias = "app", value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// One kind of caches.
fn cache_kind(name: &str) -> Result<CacheKinds, String> {
    let known = CacheKinds::NAMES.iter().find(|(known, _)| *known == name);
    known.map(|(_, kind)| *kind).ok_or_else(|| {
        let names: Vec<_> = CacheKinds::NAMES.iter().map(|(name, _)| *name).collect();
        format!("a kind is one of {}", names.join(", "))
    })
}

#[derive(Args)]
pub(crate) struct GcArgs {
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PruneArgs {
    /// Only these applications: their names, or the names of their folders in the stash
    #[arg(value_name = "NAME")]
    pub(crate) applications: Vec<String>,
    /// What counts as a while: 90d, 6months, 1y
    #[arg(long, value_name = "AGE", default_value = "90d")]
    pub(crate) older_than: humantime::Duration,
    #[command(flatten)]
    pub(crate) removal: RemovalArgs,
}

#[derive(Args)]
pub(crate) struct ClearArgs {
    /// These applications: their names, or the names of their folders in the stash
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) applications: Vec<String>,
    /// All applications
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) removal: RemovalArgs,
}

/// What commands that remove have in common.
#[derive(Args)]
pub(crate) struct RemovalArgs {
    /// Say what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file to create, which must not exist yet; `-` for standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Export only these applications: their names, or the names of their folders in the stash
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
    /// The archives that Steam keeps of a game, by its number; without one the games are listed that have some
    #[arg(long, value_name = "APPID", num_args = 0..=1, conflicts_with = "file")]
    pub(crate) steam: Option<Option<u32>>,
    /// Import into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PrewarmArgs {
    /// These applications: their names, or the names of their folders in the stash
    #[arg(value_name = "APPLICATION", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) applications: Vec<String>,
    /// All applications
    #[arg(long)]
    pub(crate) all: bool,
    /// Only where another version of the driver has compiled what the present one has not
    #[arg(long)]
    pub(crate) if_driver_changed: bool,
    /// On every device of this machine, and not only on those that programs used; for an import on a new machine with
    /// several GPUs
    #[arg(long)]
    pub(crate) every_device: bool,
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

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The application's name, or the name of its folder in the stash
    #[arg(value_name = "NAME")]
    pub(crate) application: String,
    /// The first digits of a pipeline's key, or `latest`; all pipelines are listed without it
    #[arg(value_name = "PIPELINE")]
    pub(crate) pipeline: Option<String>,
    /// Show how the last run got the pipeline, or all of its pipelines: what was tried, what that took, and why
    #[arg(long)]
    pub(crate) last_run: bool,
    /// Also write the pipeline's shaders to this folder, as SPIR-V
    #[arg(long, value_name = "DIR", requires = "pipeline")]
    pub(crate) spirv: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// The application's name, or the name of its folder in the stash; the one that was used last without it
    #[arg(value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// The file to create, which must not exist yet; `-` for standard output
    #[arg(long, short, value_name = "FILE", required_unless_present = "json")]
    pub(crate) output: Option<PathBuf>,
    /// Print what is on the page as JSON with stable names (docs/report.md)
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct InspectArgs {
    /// A file whose name ends in .vks
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Also show each record
    #[arg(long)]
    pub(crate) records: bool,
    /// Print JSON, with each record
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DoctorProbeArgs {
    /// The layer library to look for in the process
    pub(crate) layer: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Args)]
pub(crate) struct QuarantineArgs {
    /// Give all of them another chance
    #[arg(long)]
    pub(crate) release: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Only this application: its name, or the name of its folder in the stash
    #[arg(value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Decompress everything, too, and compare shaders and recipes with their keys
    #[arg(long)]
    pub(crate) contents: bool,
    /// Write damaged files again without what is damaged
    #[arg(long)]
    pub(crate) repair: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct KeepArgs {
    /// Show or change only this application: its name, or the name of its folder in the stash
    #[arg(long, value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Limit for all applications together; with --application, for that one. Or `none`
    #[arg(long, value_name = "SIZE", value_parser = value_of(settings::LIMIT))]
    limit: Option<String>,
    /// Which modules are kept: all, none, or those used in the last RUNS runs
    #[arg(long, value_name = "all|none|RUNS", value_parser = value_of(settings::MODULES))]
    modules: Option<String>,
    /// Limit for each application that has none of its own. Or `none`
    #[arg(long, value_name = "SIZE", value_parser = value_of(settings::APPLICATION_LIMIT))]
    #[arg(conflicts_with = "application")]
    application_limit: Option<String>,
    /// Space that stays free on the file system. Or `none`
    #[arg(long, value_name = "SIZE", value_parser = value_of(settings::FREE_SPACE))]
    #[arg(conflicts_with = "application")]
    free_space: Option<String>,
    /// Age from which on unused records of a device go first. Or `none`
    #[arg(long, value_name = "DAYS", value_parser = value_of(settings::DEVICE_AGE))]
    #[arg(conflicts_with = "application")]
    device_age: Option<String>,
    /// Put these back to their defaults
    #[arg(long, value_name = "SETTING", num_args = 1.., value_parser = settings::NAMES)]
    pub(crate) default: Vec<String>,
    /// Set also what makes the next maintenance remove something, without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

impl KeepArgs {
    /// The names and values to set, as in a settings file.
    pub(crate) fn values(&self) -> Vec<(&'static str, &str)> {
        let given = [
            (settings::LIMIT, &self.limit),
            (settings::MODULES, &self.modules),
            (settings::APPLICATION_LIMIT, &self.application_limit),
            (settings::FREE_SPACE, &self.free_space),
            (settings::DEVICE_AGE, &self.device_age),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

/// Accepts what a settings file accepts for this name.
fn value_of(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |value| match Settings::default().set(name, value) {
        Ok(()) => Ok(value.to_owned()),
        Err(error) => Err(format!("{name} {error}")),
    }
}

/// What `run` does with the size limits of the drivers' own caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DriverLimits {
    /// Raise those that the user did not set
    Raise,
    /// Leave them as they are
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
    /// After the command, publish there what was recorded
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
}

#[derive(Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
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

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Print what there is now, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON with stable names (docs/watch.md)
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Only this application: its name, or the name of its folder in the stash
    #[arg(value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// List all applications, and not only the ten that were used last
    #[arg(long)]
    pub(crate) all: bool,
    /// Show where pipelines came from, what went wrong, and when; twice: every counter of each device, and the files
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Count only the last run
    #[arg(long, conflicts_with = "since")]
    pub(crate) last_run: bool,
    /// Count only the runs that ended since then: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "AGE|DATE", value_parser = crate::term::since::unix_ms)]
    pub(crate) since: Option<u64>,
    /// With -vv, also show counters that are 0
    #[arg(long)]
    pub(crate) zero: bool,
    /// Print JSON with stable names (docs/stats.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
