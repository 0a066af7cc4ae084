//! `vkstash background`: shows and stores the mode of background work.

use std::io;
use std::path::Path;

use vkstash_store::format::refusal::OpenError;
use vkstash_store::settings::{self, BackgroundMode, Settings, SettingsError};
use vkstash_store::stash::inspect::list_applications;

use crate::choice::{ChoiceError, choose};
use crate::cli::BackgroundArgs;
use crate::in_force::{self, Source};
use crate::output;
use crate::root;
use crate::units::plain;

/// Why nothing could be shown or set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackgroundError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
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
    let was_ignored = change(args, &root, chosen.map(|info| info.folder.as_str()))?;

    let of_root = in_force::read(&root, None);
    let mut lines = Vec::new();
    if chosen.is_none() {
        lines.push(plain(&root.to_string_lossy()));
        let (mode, source) = mode(&of_root.settings, &Settings::default());
        lines.push(row(settings::BACKGROUND, mode.name(), source));
        let on = of_root.settings.developer_mode;
        let source = if on.is_some() { Source::Settings } else { Source::Default };
        lines.push(row(settings::DEVELOPER_MODE, if on == Some(true) { "on" } else { "off" }, source));
        in_force::say_ignored(&mut lines, &of_root.ignored);
    }
    // Of all applications only those with a mode of their own.
    for info in chosen.map_or(&applications[..], std::slice::from_ref) {
        let own = in_force::read(&root, Some(&info.folder));
        if chosen.is_none() && own.settings.background.is_none() {
            continue;
        }
        lines.push(format!("{} ({})", plain(&info.display), plain(&info.folder)));
        let (mode, source) = mode(&of_root.settings, &own.settings);
        lines.push(row(settings::BACKGROUND, mode.name(), source));
        in_force::say_ignored(&mut lines, &own.ignored);
    }
    in_force::say_ignored(&mut lines, &was_ignored);
    let mut text = lines.join("\n");
    text.push('\n');
    Ok(output::print(&text)?)
}

/// Writes what the arguments name, if anything. Returns the lines of the file that were ignored then.
fn change(
    args: &BackgroundArgs,
    root: &Path,
    application: Option<&str>,
) -> Result<Vec<String>, BackgroundError> {
    let given = [(settings::BACKGROUND, &args.mode), (settings::DEVELOPER_MODE, &args.developer_mode)];
    if !args.default && given.iter().all(|(_, value)| value.is_none()) {
        return Ok(Vec::new());
    }
    in_force::change(root, application, |settings| {
        if args.default {
            settings.unset(settings::BACKGROUND);
        }
        for (name, value) in given.iter().filter_map(|(name, value)| Some((name, value.as_deref()?))) {
            // Valid: checked when the command line was parsed.
            let _ = settings.set(name, value);
        }
    })
}

/// The mode in force, and its source.
fn mode(of_root: &Settings, own: &Settings) -> (BackgroundMode, Source) {
    match (own.background, of_root.background) {
        (Some(mode), _) => (mode, Source::Application),
        (None, Some(mode)) => (mode, Source::Settings),
        (None, None) => (BackgroundMode::default(), Source::Default),
    }
}

fn row(name: &str, value: &str, source: Source) -> String {
    format!("  {name:<18}{value:<12}{}", source.text())
}
