//! Arguments of the commands that show things.

use std::path::PathBuf;

use clap::Args;

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
    /// The application's name, or its folder in the stash
    #[arg(value_name = "NAME")]
    pub(crate) application: String,
    /// Digits that only this pipeline's key begins with, or `latest`
    #[arg(value_name = "PIPELINE")]
    pub(crate) pipeline: Option<String>,
    /// Show how the last run got the pipeline, or all: what was tried, how long that took, and why
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
    /// The application's name, or its folder in the stash; the one that was used last without it
    #[arg(value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// The file to create, which must not exist yet; `-` for standard output
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["json", "open"])]
    pub(crate) output: Option<PathBuf>,
    /// Open the page with xdg-open; without --output, a temporary file that replaces the last one
    #[arg(long, conflicts_with = "json")]
    pub(crate) open: bool,
    /// Print what is on the page as JSON
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
pub(crate) struct WatchArgs {
    /// Print what there is now, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Only this application: its name, or its folder in the stash
    #[arg(value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// List all applications, not only the ten that were used last
    #[arg(long)]
    pub(crate) all: bool,
    /// Show where pipelines came from, what went wrong, and when; twice: every counter of each device, and the files
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Count only the last run
    #[arg(long, conflicts_with = "since")]
    pub(crate) last_run: bool,
    /// Count only runs that ended since then: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "AGE|DATE", value_parser = crate::term::since::unix_ms)]
    pub(crate) since: Option<u64>,
    /// With -vv, also show counters that are 0
    #[arg(long)]
    pub(crate) zero: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
