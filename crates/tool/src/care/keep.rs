//! `vkstash keep`: shows how much is kept of what, and why, and changes it.

use std::io;
use std::path::Path;

use vkstash_host::disk::errors::OpenError;
use vkstash_store::bounds::{Limits, ModulePolicy};
use vkstash_store::settings;
use vkstash_store::settings::Settings;
use vkstash_store::settings::places::Configuration;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::KeepArgs;
use crate::config::edit::{self, Change, EditError};
use crate::config::in_force::{self, Source};
use crate::config::problems::say_ignored;
use crate::config::slips::{self, Slip};
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root;
use crate::term::output;
use crate::term::units::{counted, plain, size};

/// Why nothing could be shown or set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Slip(#[from] Slip),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &KeepArgs) -> Result<(), KeepError> {
    let root = root::root(args.dir.as_deref()).ok_or(KeepError::NoRoot)?;
    let mut applications: Vec<_> = list_applications(&root)?;
    applications.retain(|info| !info.parts.is_empty() || info.runs.runs > 0);
    let chosen = args.application.as_ref().map(|name| choose(&applications, name, &root)).transpose()?;
    change(args, &root, chosen, &applications)?;

    let read = settings::read(&root);
    let mut lines = Vec::new();
    if chosen.is_none() {
        describe_root(&mut lines, &root, &read.all(), &applications);
    }
    for info in chosen.map_or(&applications[..], std::slice::from_ref) {
        describe_application(&mut lines, &read, info);
    }
    say_ignored(&mut lines, &read);
    let mut text = lines.join("\n");
    text.push('\n');
    Ok(output::print(&text)?)
}

/// Writes the settings that the arguments name, if any.
fn change(
    args: &KeepArgs,
    root: &Path,
    chosen: Option<&ApplicationInfo>,
    all: &[ApplicationInfo],
) -> Result<(), KeepError> {
    let values = args.values();
    // Known: checked when the command line was parsed.
    let unset = settings::NAMES.into_iter().filter(|name| args.default.iter().any(|unset| unset == name));
    let set = values.iter().map(|&(name, value)| Change::Set(name, value.to_owned()));
    let changes: Vec<_> = unset.map(Change::Unset).chain(set).collect();
    let mut wanted = Settings::default();
    for &(name, value) in &values {
        // Valid: checked when the command line was parsed.
        let _ = wanted.set(name, value);
    }
    if !args.force {
        slips::ask(&wanted, root, chosen.map_or(all, std::slice::from_ref))?;
    }
    Ok(edit::change_of(args.dir.as_deref(), all, chosen, &changes)?)
}

fn describe_root(lines: &mut Vec<String>, root: &Path, settings: &Settings, found: &[ApplicationInfo]) {
    let limits = in_force::limits(root, settings);
    let bytes = in_force::sum(found.iter().map(in_force::bytes));
    lines.push(format!(
        "{}: {}",
        plain(&root.to_string_lossy()),
        in_force::used(bytes, Some(limits.total_bytes))
    ));
    let set = |set: bool| if set { Source::Settings } else { Source::Default };
    let free = in_force::file_system(root).map(|(_, free)| format!("; {} free now", size(free)));
    let mut row = |name: &str, value: String, is_set: bool, note: &str| {
        lines.push(format!("  {name:<18}{value:<12}{}{note}", set(is_set).text()));
    };
    row(settings::LIMIT, limit(Some(limits.total_bytes)), settings.limit.is_some(), "");
    row(settings::APPLICATION_LIMIT, limit(limits.per_app), settings.application_limit.is_some(), "");
    let floor = size(limits.free_space_floor).to_string();
    row(settings::FREE_SPACE, floor, settings.free_space.is_some(), &free.unwrap_or_default());
    row(settings::DEVICE_AGE, age(&limits), settings.device_age_ms.is_some(), "");
    row(settings::MODULES, policy(limits.module_policy), settings.modules.is_some(), "");
    lines.push(modules_now(in_force::sum(found.iter().map(in_force::module_bytes)), bytes));
}

fn describe_application(lines: &mut Vec<String>, read: &Configuration, info: &ApplicationInfo) {
    let (all, own) = (read.all(), read.of(&info.folder));
    let limit = in_force::application_limit(&all, &own);
    let modules = in_force::module_policy(&all, &own);
    if !lines.is_empty() {
        lines.push(String::new());
    }
    let bytes = in_force::bytes(info);
    lines.push(format!(
        "{} ({}): {}",
        plain(&info.display),
        plain(&info.folder),
        in_force::used(bytes, limit.value)
    ));
    let mut row = |name: &str, value: String, source: Source| {
        lines.push(format!("  {name:<18}{value:<12}{}", source.text()));
    };
    row(settings::LIMIT, self::limit(limit.value), limit.source);
    row(settings::MODULES, policy(modules.value), modules.source);
    lines.push(modules_now(in_force::module_bytes(info), bytes));
}

fn limit(limit: Option<u64>) -> String {
    limit.filter(|&limit| limit != u64::MAX).map_or("none".to_owned(), |bytes| size(bytes).to_string())
}

fn age(limits: &Limits) -> String {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    match limits.device_age {
        u64::MAX => "none".to_owned(),
        ms => counted(ms / DAY_MS, "day"),
    }
}

fn policy(policy: ModulePolicy) -> String {
    match policy {
        ModulePolicy::UsedInLast(runs) => format!("last {}", counted(runs.into(), "run")),
        other => settings::modules_text(other),
    }
}

fn modules_now(modules: u64, bytes: u64) -> String {
    let share =
        in_force::percent(modules, bytes).map_or(String::new(), |percent| format!(", {percent:.1} % of it"));
    format!("  modules take {}{share}", size(modules))
}
