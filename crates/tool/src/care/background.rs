//! `vkstash background`: shows and stores the mode of background work, and whether it is done after updates of drivers.

use vkstash_model::background_mode::BackgroundMode;
use vkstash_store::settings::{self, Settings};

use super::scope::{self, Scope, SettingError, has_anything, row, title};
use crate::cli::BackgroundArgs;
use crate::config::edit::{Change, EditError};
use crate::config::in_force::{Source, update_limits};
use crate::setup::update_service::enabled;
use crate::term::units::plain;

pub(crate) fn main(args: &BackgroundArgs) -> Result<(), SettingError> {
    let scope = Scope::read(args.dir.as_deref(), args.application.as_deref(), has_anything)?;
    change(args, &scope)?;

    let read = settings::read(&scope.root);
    let all = read.all();
    let mut lines = Vec::new();
    if scope.chosen().is_none() {
        lines.push(plain(&scope.root.to_string_lossy()));
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
    for info in scope.each() {
        let own = read.of(&info.folder);
        if scope.chosen().is_none() && own.background.is_none() {
            continue;
        }
        lines.push(title(info));
        let (mode, source) = mode(&all, &own);
        lines.push(row(settings::BACKGROUND, mode.name(), source));
    }
    Ok(scope::print(lines, &read)?)
}

/// Writes what the arguments name, if anything.
fn change(args: &BackgroundArgs, scope: &Scope<'_>) -> Result<(), EditError> {
    let given = [
        (settings::BACKGROUND, &args.mode),
        (settings::DEVELOPER_MODE, &args.developer_mode),
        (settings::UPDATES, &args.updates),
    ];
    let set = given.into_iter().filter_map(|(name, value)| Some(Change::Set(name, value.clone()?)));
    let unset = args.default.then_some(Change::Unset(settings::BACKGROUND));
    scope.change(&unset.into_iter().chain(set).collect::<Vec<_>>())
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
