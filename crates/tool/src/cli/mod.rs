//! The command line: usage, help and parsing. Each group of commands has its arguments in a file of its own.
//!
//! - [`completion`] words that shells complete
//! - [`help`] the help of the tool itself
//! - [`manual`] man pages
//! - `page` docs/commands.md
//! - `pages/` what `--help`, the man pages and docs/commands.md say after the options of a command
//! - `programs`, `look`, `care`, `setup`, `exchange` the arguments of the commands in the room of that name

mod care;
pub(crate) mod completion;
mod exchange;
pub(crate) mod help;
mod look;
pub(crate) mod manual;
#[cfg(test)]
mod page;
mod programs;
mod setup;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::meanings;

pub(crate) use care::*;
pub(crate) use exchange::*;
pub(crate) use look::*;
pub(crate) use programs::*;
pub(crate) use setup::*;

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
    /// Runs the command in turns without the layer, with a new stash, and with a filled one. The user's stash stays as
    /// it is; the drivers' own caches are the user's, and the table says what was in them. The command's output is not
    /// shown; it should need no user.
    Bench(BenchArgs),
    /// Make the layer known to the Vulkan loader, so that VKSTASH=1 is all a program needs
    ///
    /// Also installs the service for updates of drivers (`vkstash prewarm --help`).
    Install(InstallArgs),
    /// Remove what `install` wrote
    Uninstall(UninstallArgs),
    /// Tell what the stash did for each application
    ///
    /// A line for each application: how often its last session stuttered because of compiling, and how many of its
    /// pipelines were ready. With a NAME, a row for each session.
    #[command(after_long_help = include_str!("pages/stats.txt"))]
    Stats(StatsArgs),
    /// List the applications in the stash, the one that was used last first
    List(ListArgs),
    /// Show the pipelines of an application, or what one of them is made of
    ///
    #[command(after_long_help = include_str!("pages/show.txt"))]
    Show(ShowArgs),
    /// Write an HTML page about an application: its last runs, its slowest pipelines, and its stash over time
    #[command(after_long_help = include_str!("pages/report.txt"))]
    Report(ReportArgs),
    /// Watch what running programs do: which pipeline is compiling now, and for how long
    #[command(after_long_help = include_str!("pages/watch.txt"))]
    Watch(WatchArgs),
    /// Show what a segment file of a stash holds
    ///
    /// Every record is read. Exit status 1: something is damaged.
    Inspect(InspectArgs),
    /// Show how much is kept and why, or change it
    ///
    /// A size has a unit: 512MiB, 4GiB. What you set is written to your configuration file, as by `vkstash config`;
    /// docs/process.md says what is evicted first.
    Keep(KeepArgs),
    /// Show each setting and where it comes from, or change the configuration file
    ///
    /// The file is ~/.config/vkstash/config.toml; with --dir, config.toml in that stash (docs/configuration.md).
    #[command(after_long_help = meanings::settings())]
    Config(ConfigArgs),
    /// Show or store what background work may do: what is made before programs ask for it
    ///
    /// `allowed` is the default. `intrusive` measures more, `disabled` does no background work, and `profiling` also
    /// adapts nothing, so that two runs can be compared. VKSTASH_BACKGROUND sets the mode of one process.
    Background(BackgroundArgs),
    /// Show, disable, enable or clear kinds of caches
    ///
    /// `compilations` is what drivers compile, `conversions` are shaders and their identifiers, `driver-managed` the
    /// drivers' own caches, `sessions` those that programs manage (docs/sessions.md). Running programs follow after
    /// some seconds.
    Cache(CacheArgs),
    /// Find out why programs run without the stash, or with little use of it
    ///
    /// Exit status 1: something is wrong.
    #[command(after_long_help = include_str!("pages/doctor.txt"))]
    Doctor(DoctorArgs),
    /// What `doctor` asks the loader and the drivers with
    #[command(hide = true, name = "doctor-probe")]
    DoctorProbe(DoctorProbeArgs),
    /// Bring the stash within its limits now, and merge its files
    ///
    /// Programs do that by themselves after a few quiet seconds, and may run meanwhile.
    Gc(GcArgs),
    /// Remove applications that were not used for a while
    ///
    /// Of other applications, the devices and driver versions go that they did not use for so long, and such session
    /// caches. Shows first what goes, and asks. What a running program uses stays, and so do settings.
    Prune(PruneArgs),
    /// Remove everything that is stored for applications
    ///
    /// Shows first what goes, and asks. What a running program uses stays, and so do settings. `vkstash cache clear`
    /// empties kinds of caches, those of running programs too.
    Clear(ClearArgs),
    /// Write what was recorded to a file, for another machine or as a backup
    ///
    /// The file is a tar archive, mostly compressed already, or, if its name ends in .foz, an archive of Fossilize
    /// without artifacts. It holds shaders and the programs' names.
    Export(ExportArgs),
    /// Make stashes that programs only read, for images and machines that many share, and say which are used
    ///
    /// docs/remote.md says how programs use them.
    Base(BaseArgs),
    /// Take in what `export` wrote, or an archive of Fossilize (.foz), as Steam has them
    ///
    /// Records that the stash has already stay as they are. `vkstash prewarm` makes the pipelines of an archive of
    /// Fossilize (docs/fossilize.md).
    Import(ImportArgs),
    /// Compile what programs will ask for before they do, for instance after a driver update or an import
    ///
    /// What programs used on a device is compiled for its present driver, the most recently used first, in processes
    /// that may crash or hang without harm. The next call goes on where one was interrupted.
    #[command(after_long_help = include_str!("pages/prewarm.txt"))]
    Prewarm(PrewarmArgs),
    /// A worker of `prewarm`
    #[command(hide = true, name = "prewarm-worker")]
    PrewarmWorker(PrewarmWorkerArgs),
    /// List the artifacts that are no longer handed to a driver because programs died of them
    Quarantine(QuarantineArgs),
    /// Read everything that is stored, and say what is damaged
    ///
    /// Programs may run meanwhile. Exit status 1: something is left that is not whole.
    #[command(after_long_help = include_str!("pages/verify.txt"))]
    Verify(VerifyArgs),
    /// Print what a shell needs to complete commands and options
    Completions(CompletionsArgs),
    /// Write the man pages, for packages
    #[command(hide = true)]
    Man(ManArgs),
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
