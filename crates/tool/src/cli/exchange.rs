//! Arguments of the commands that take recordings to other machines and from them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file to create, which must not exist yet; `-` for standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only these applications: their names, or their folders in the stash. Into an archive of Fossilize, a name and
    /// the first digits of a key: only that pipeline, with all that it needs
    #[arg(value_name = "APPLICATION")]
    pub(crate) applications: Vec<String>,
    /// Only what fits every driver: shaders and recipes, no artifacts
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
    /// Programs of other users use it only if root owns it.
    Build(BaseBuildArgs),
    /// Show the bases that programs look into, and why one of them is not used
    ///
    List(BaseListArgs),
    /// Have programs look into this base too, after those that were added before
    ///
    /// One that programs would refuse is refused.
    Add(BaseChangeArgs),
    /// Have programs look into this base no longer; it stays as it is
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
    /// Only these applications: their names, or their folders in the stash
    #[arg(value_name = "APPLICATION")]
    pub(crate) applications: Vec<String>,
    /// Only what fits every driver: shaders and recipes, no artifacts
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
    /// The file; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "steam")]
    pub(crate) file: Option<PathBuf>,
    /// Also take artifacts, which your driver cannot check: only from somebody whose programs you would run
    #[arg(long, conflicts_with = "steam")]
    pub(crate) artifacts: bool,
    /// The application that an archive of Fossilize belongs to: its name, or its folder in the stash; default: the one
    /// of the archive's name
    #[arg(long, alias = "app", value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// The same for one that has not run with the stash yet: the file of its program, under Wine its .exe
    #[arg(long, value_name = "FILE", conflicts_with = "application")]
    pub(crate) program: Option<PathBuf>,
    /// The archives that Steam keeps of the game with this number; without a number, list the games that have some.
    /// With FILE and --program: the number of a game that Steam will start
    #[arg(long, value_name = "APPID", num_args = 0..=1)]
    pub(crate) steam: Option<Option<u32>>,
    /// Import into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
