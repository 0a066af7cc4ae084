//! `vkstash background`: shows and stores the mode of background work, and whether it is done after updates of drivers.

use std::io;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::background_mode::BackgroundMode;
use vkstash_store::settings::{self, Settings};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::BackgroundArgs;
use crate::config::edit::{self, Change, EditError};
use crate::config::in_force::{Source, update_limits};
use crate::config::problems::say_ignored;
use crate::setup::update_service::enabled;
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root;
use crate::term::output;
use crate::term::units::plain;

/// Why nothing could be shown or set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackgroundError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &BackgroundArgs) -> Result<(), BackgroundError> {
    let root = root::root(args.dir.as_deref()).ok_or(BackgroundError::NoRoot)?;
    let mut applications: Vec<_> = list_applications(&root)?;
    applications.retain(|info| !info.parts.is_empty() || info.runs.runs > 0);
    let chosen = args.application.as_ref().map(|name| choose(&applications, name, &root)).transpose()?;
    change(args, &applications, chosen)?;

    let read = settings::read(&root);
    let all = read.all();
    let mut lines = Vec::new();
    if chosen.is_none() {
        lines.push(plain(&root.to_string_lossy()));
        let (mode, source) = mode(&all, &Settings::default());
        lines.push(row(settings::BACKGROUND, mode.name(), source));
        lines.push(switch(settings::DEVELOPER_MODE, all.developer_mode == Some(true), all.developer_mode));
        lines.push(switch(settings::UPDATES, update_limits(&all).is_on, all.updates));
        // The service works on the user's own stash alone.
        if args.dir.is_none() {
            lines.extend(enabled::places().iter().map(|place| format!("    {place}")));
        }
    }
    // Of all applications only those with a mode of their own.
    for info in chosen.map_or(&applications[..], std::slice::from_ref) {
        let own = read.of(&info.folder);
        if chosen.is_none() && own.background.is_none() {
            continue;
        }
        lines.push(format!("{} ({})", plain(&info.display), plain(&info.folder)));
        let (mode, source) = mode(&all, &own);
        lines.push(row(settings::BACKGROUND, mode.name(), source));
    }
    say_ignored(&mut lines, &read);
    let mut text = lines.join("\n");
    text.push('\n');
    Ok(output::print(&text)?)
}

/// Writes what the arguments name, if anything.
fn change(
    args: &BackgroundArgs,
    found: &[ApplicationInfo],
    chosen: Option<&ApplicationInfo>,
) -> Result<(), EditError> {
    let given = [
        (settings::BACKGROUND, &args.mode),
        (settings::DEVELOPER_MODE, &args.developer_mode),
        (settings::UPDATES, &args.updates),
    ];
    let set = given.into_iter().filter_map(|(name, value)| Some(Change::Set(name, value.clone()?)));
    let unset = args.default.then_some(Change::Unset(settings::BACKGROUND));
    edit::change_of(args.dir.as_deref(), found, chosen, &unset.into_iter().chain(set).collect::<Vec<_>>())
}

/// The mode in force, and its source.
fn mode(of_root: &Settings, own: &Settings) -> (BackgroundMode, Source) {
    match (own.background, of_root.background) {
        (Some(mode), _) => (mode, Source::Application),
        (None, Some(mode)) => (mode, Source::Settings),
        (None, None) => (BackgroundMode::default(), Source::Default),
    }
}

fn switch(name: &str, is_on: bool, stored: Option<bool>) -> String {
    row(name, if is_on { "on" } else { "off" }, stored.map_or(Source::Default, |_| Source::Settings))
}

fn row(name: &str, value: &str, source: Source) -> String {
    format!("  {name:<18}{value:<12}{}", source.text())
}
