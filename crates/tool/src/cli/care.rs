//! Arguments of the commands that change what is in the stash, and the settings.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vkstash_store::settings;
use vkstash_store::settings::{CacheKinds, Settings};

use crate::config::slips;

#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ConfigAction>,
    /// Only this application: its name, or its folder in the stash
    #[arg(long, alias = "app", value_name = "NAME", global = true)]
    pub(crate) application: Option<String>,
    /// Print JSON
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
        /// Also set, without asking, a value by which the next maintenance removes something
        #[arg(long)]
        force: bool,
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
    /// The mode to store
    #[arg(value_name = "MODE", value_parser = value_of(settings::BACKGROUND))]
    pub(crate) mode: Option<String>,
    /// Show or change only this application: its name, or its folder in the stash
    #[arg(long, alias = "app", value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Remove the stored mode
    #[arg(long, conflicts_with = "mode")]
    pub(crate) default: bool,
    /// Whether programs may use the modes for developers
    #[arg(long, value_name = "on|off", value_parser = value_of(settings::DEVELOPER_MODE))]
    #[arg(conflicts_with = "application")]
    pub(crate) developer_mode: Option<String>,
    /// Whether the service compiles again after an update of a driver
    #[arg(long, value_name = "on|off", value_parser = value_of(settings::UPDATES))]
    #[arg(conflicts_with = "application")]
    pub(crate) updates: Option<String>,
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
    /// Only of this application: its name, or its folder in the stash
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
    /// Only these applications: their names, or their folders in the stash
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
    /// These applications: their names, or their folders in the stash
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
pub(crate) struct QuarantineArgs {
    /// Give all of them another chance, or only those that the keys name
    #[arg(long)]
    pub(crate) release: bool,
    /// Only what has this key, named by its first digits
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Look into this folder instead of the user's stash
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Only this application: its name, or its folder in the stash
    #[arg(value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Also decompress everything, and compare shaders and recipes with their keys
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
    /// Show or change only this application: its name, or its folder in the stash
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
    /// Put these settings, named as `vkstash config` does, back to their defaults
    #[arg(long, value_name = "SETTING", num_args = 1.., value_parser = settings::NAMES, hide_possible_values = true)]
    pub(crate) default: Vec<String>,
    /// Also set, without asking, a value by which the next maintenance removes something
    #[arg(long, alias = "yes")]
    pub(crate) force: bool,
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

/// Accepts what a settings file accepts for this name, but no size without a unit.
fn value_of(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |value| match Settings::default().set(name, value) {
        Ok(()) => slips::lack(name, value).map_or(Ok(value.to_owned()), Err),
        Err(error) => Err(format!("{name} {error}")),
    }
}
