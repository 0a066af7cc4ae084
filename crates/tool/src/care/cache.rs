//! `vkstash cache`: shows, disables, enables and clears kinds of caches.

use std::io::Write as _;

use vkstash_model::app_name::AppName;
use vkstash_sessions::control;
use vkstash_sessions::description::Place;
use vkstash_store::maintenance::clear::clear;
use vkstash_store::settings::{self, CacheKinds, Settings};

use super::scope::{self, Scope, SettingError, title};
use crate::cli::{CacheAction, CacheArgs};
use crate::config::edit::{self, Application, Change};
use crate::config::in_force::Source;
use crate::term::output::Printer;
use crate::term::units::{counted, plain, size};

/// Why nothing could be shown or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("{application}: {error}")]
    Sessions { application: String, error: vkstash_sessions::error::Error },
    #[error("the driver's own cache cannot be cleared from here: remove the driver's folder, or disable it")]
    DriverManaged,
}

pub(crate) fn main(args: &CacheArgs) -> Result<(), CacheError> {
    // An application may have caches of sessions and nothing else.
    let scope = Scope::read(args.dir.as_deref(), args.application.as_deref(), |_| true)?;
    let kinds = args.kinds.iter().fold(CacheKinds::NONE, |all, kind| all.with(*kind));
    match args.action {
        CacheAction::Show => {}
        CacheAction::Disable => change(&scope, |disabled| disabled.with(kinds))?,
        CacheAction::Enable => change(&scope, |disabled| disabled.without(kinds))?,
        CacheAction::Clear => return clear_all(&scope, kinds),
    }
    Ok(show(&scope)?)
}

/// Stores other kinds as disabled. Those of all applications are the application's to begin with.
fn change(scope: &Scope<'_>, to: impl Fn(CacheKinds) -> CacheKinds) -> Result<(), SettingError> {
    let read = settings::read(&scope.root);
    let of_all = read.all().disabled_caches.unwrap_or_default();
    let section = scope.section();
    let application = section.as_ref().map(|(name, folder)| Application { name, folder });
    edit::change(&edit::target(scope.dir)?, application.as_ref(), |config| {
        let (inherited, own) = match &application {
            Some(application) => (of_all, config.of(application.folder).disabled_caches),
            None => (CacheKinds::NONE, config.all.disabled_caches),
        };
        let wanted = to(own.unwrap_or(inherited));
        Ok(vec![match wanted == inherited {
            true => Change::Unset(settings::DISABLED_CACHES),
            false => Change::Set(settings::DISABLED_CACHES, wanted.text()),
        }])
    })
}

/// The kinds that are disabled, and the source of that.
fn in_force(of_root: &Settings, own: &Settings) -> (CacheKinds, Source) {
    match (own.disabled_caches, of_root.disabled_caches) {
        (Some(kinds), _) => (kinds, Source::Application),
        (None, Some(kinds)) => (kinds, Source::Settings),
        (None, None) => (CacheKinds::NONE, Source::Default),
    }
}

fn show(scope: &Scope<'_>) -> Result<(), SettingError> {
    let read = settings::read(&scope.root);
    let all = read.all();
    let mut lines = Vec::new();
    let describe = |lines: &mut Vec<String>, name: String, (disabled, source): (CacheKinds, Source)| {
        lines.push(name);
        for (kind, bit) in CacheKinds::NAMES {
            let state = if disabled.has(bit) { "disabled" } else { "enabled" };
            lines.push(format!("  {kind:<16}{state:<10}{}", source.text()));
        }
    };
    if scope.chosen().is_none() {
        let disabled = in_force(&all, &Settings::default());
        describe(&mut lines, plain(&scope.root.to_string_lossy()), disabled);
    }
    // Of all applications only those with a setting of their own.
    for info in scope.each() {
        let own = read.of(&info.folder);
        if scope.chosen().is_some() || own.disabled_caches.is_some() {
            describe(&mut lines, title(info), in_force(&all, &own));
        }
    }
    Ok(scope::print(lines, &read)?)
}

fn clear_all(scope: &Scope<'_>, kinds: CacheKinds) -> Result<(), CacheError> {
    if kinds == CacheKinds::DRIVER_MANAGED {
        return Err(CacheError::DriverManaged);
    }
    let of_what = if scope.chosen().is_some() { "of this application" } else { "in the stash" };
    let mut out = Printer::open().map_err(SettingError::Print)?;
    let mut print = |line: String| out.write_all(line.as_bytes()).map_err(SettingError::Print);
    if kinds.has(CacheKinds::COMPILATIONS.with(CacheKinds::CONVERSIONS)) {
        let folder = scope.chosen().map(|info| info.folder.as_str());
        let done = clear(&scope.root, folder, kinds).map_err(SettingError::Open)?;
        match done.records {
            0 if done.kept > 0 => {}
            0 => print(format!("cleared: 0 records, because there are none {of_what}\n"))?,
            records => print(format!("cleared: {}, {}\n", counted(records, "record"), size(done.bytes)))?,
        }
        if done.kept > 0 {
            print(format!(
                "running programs write to the files of {}, which stay\n",
                counted(done.kept, "record")
            ))?;
        }
    }
    if !kinds.has(CacheKinds::SESSIONS) {
        return Ok(());
    }
    let mut all = 0;
    for info in scope.each() {
        let name = AppName { display: info.display.clone(), folder: info.folder.clone() };
        let place = Place::new(&scope.root, &name);
        let caches = control::count(&place).and_then(|count| {
            if count > 0 {
                control::clear(Some(&place))?;
            }
            Ok(count)
        });
        let count =
            caches.map_err(|error| CacheError::Sessions { application: plain(&info.display), error })?;
        if count > 0 {
            print(format!("cleared: {} of {}\n", counted(count, "session cache"), plain(&info.display)))?;
        }
        all += count;
    }
    if all == 0 {
        print(format!("cleared: 0 session caches, because there are none {of_what}\n"))?;
    }
    Ok(())
}
