//! Arguments of the commands that install the layer, and that find out why programs run without it.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The layer library to refer to; may be given once for each architecture
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Vec<PathBuf>,
    /// Without the service for updates of drivers
    #[arg(long)]
    pub(crate) no_service: bool,
}

#[derive(Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Also delete the stash, your settings, and what vkstash-remote has fetched; asks first
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
    /// For all users, below this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: Option<PathBuf>,
    /// Take this folder for the root of the file system
    #[arg(long, value_name = "DIR")]
    pub(crate) destdir: Option<PathBuf>,
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
