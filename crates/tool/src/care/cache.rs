//! `vkstash cache`: shows, disables, enables and clears kinds of caches.

use std::io;
use std::path::Path;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::app_name::AppName;
use vkstash_sessions::control;
use vkstash_sessions::description::Place;
use vkstash_store::maintenance::clear::clear;
use vkstash_store::settings::{self, CacheKinds, Settings};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::{CacheAction, CacheArgs};
use crate::config::edit::{self, Application, Change, EditError};
use crate::config::in_force::Source;
use crate::config::problems::say_ignored;
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root;
use crate::term::output::{self, Printer};
use crate::term::units::{counted, plain, size};

/// Why nothing could be shown or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error("{application}: {error}")]
    Sessions { application: String, error: vkstash_sessions::error::Error },
    #[error("the driver's own cache cannot be cleared from here: remove the driver's folder, or disable it")]
    DriverManaged,
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &CacheArgs) -> Result<(), CacheError> {
    let root = root::root(args.dir.as_deref()).ok_or(CacheError::NoRoot)?;
    let applications = list_applications(&root)?;
    let chosen = args.application.as_ref().map(|name| choose(&applications, name, &root)).transpose()?;
    let kinds = args.kinds.iter().fold(CacheKinds::NONE, |all, kind| all.with(*kind));
    let folder = chosen.map(|info| info.folder.as_str());
    match args.action {
        CacheAction::Show => {}
        CacheAction::Disable => change(args, &root, &applications, chosen, |disabled| disabled.with(kinds))?,
        CacheAction::Enable => {
            change(args, &root, &applications, chosen, |disabled| disabled.without(kinds))?
        }
        CacheAction::Clear => {
            let of = chosen.map_or(&applications[..], std::slice::from_ref);
            return clear_all(&root, folder, of, kinds);
        }
    }
    show(&root, &applications, chosen)
}

/// Stores other kinds as disabled. Those of all applications are the application's to begin with.
fn change(
    args: &CacheArgs,
    root: &Path,
    found: &[ApplicationInfo],
    chosen: Option<&ApplicationInfo>,
    to: impl Fn(CacheKinds) -> CacheKinds,
) -> Result<(), EditError> {
    let read = settings::read(root);
    let of_all = read.all().disabled_caches.unwrap_or_default();
    let section = chosen.map(|info| edit::section_of(found, info));
    let application = section.as_ref().map(|(name, folder)| Application { name, folder });
    edit::change(&edit::target(args.dir.as_deref())?, application.as_ref(), |config| {
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

fn show(
    root: &Path,
    applications: &[ApplicationInfo],
    chosen: Option<&ApplicationInfo>,
) -> Result<(), CacheError> {
    let read = settings::read(root);
    let all = read.all();
    let mut lines = Vec::new();
    let describe = |lines: &mut Vec<String>, name: String, (disabled, source): (CacheKinds, Source)| {
        lines.push(name);
        for (kind, bit) in CacheKinds::NAMES {
            let state = if disabled.has(bit) { "disabled" } else { "enabled" };
            lines.push(format!("  {kind:<16}{state:<10}{}", source.text()));
        }
    };
    if chosen.is_none() {
        let disabled = in_force(&all, &Settings::default());
        describe(&mut lines, plain(&root.to_string_lossy()), disabled);
    }
    // Of all applications only those with a setting of their own.
    for info in chosen.map_or(applications, std::slice::from_ref) {
        let own = read.of(&info.folder);
        if chosen.is_some() || own.disabled_caches.is_some() {
            let name = format!("{} ({})", plain(&info.display), plain(&info.folder));
            describe(&mut lines, name, in_force(&all, &own));
        }
    }
    say_ignored(&mut lines, &read);
    Ok(output::print(&(lines.join("\n") + "\n"))?)
}

fn clear_all(
    root: &Path,
    folder: Option<&str>,
    applications: &[ApplicationInfo],
    kinds: CacheKinds,
) -> Result<(), CacheError> {
    if kinds == CacheKinds::DRIVER_MANAGED {
        return Err(CacheError::DriverManaged);
    }
    let mut out = Printer::open()?;
    let of_what = if folder.is_some() { "of this application" } else { "in the stash" };
    let mut print = |line: String| io::Write::write_all(&mut out, line.as_bytes());
    if kinds.has(CacheKinds::COMPILATIONS.with(CacheKinds::CONVERSIONS)) {
        let done = clear(root, folder, kinds)?;
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
    for info in applications {
        let name = AppName { display: info.display.clone(), folder: info.folder.clone() };
        let place = Place::new(root, &name);
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
