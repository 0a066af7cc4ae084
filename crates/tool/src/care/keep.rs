//! `vkstash keep`: shows how much is kept of what, and why, and changes it.

use std::path::Path;

use vkstash_store::bounds::{Limits, ModulePolicy};
use vkstash_store::settings;
use vkstash_store::settings::Settings;
use vkstash_store::settings::places::Configuration;
use vkstash_store::stash::inspect::ApplicationInfo;

use super::scope::{self, Scope, SettingError, has_anything, row, title};
use crate::cli::KeepArgs;
use crate::config::edit::Change;
use crate::config::in_force::{self, Source};
use crate::config::slips;
use crate::term::units::{counted, plain, size};

pub(crate) fn main(args: &KeepArgs) -> Result<(), SettingError> {
    let scope = Scope::read(args.dir.as_deref(), args.application.as_deref(), has_anything)?;
    change(args, &scope)?;

    let read = settings::read(&scope.root);
    let mut lines = Vec::new();
    if scope.chosen().is_none() {
        describe_root(&mut lines, &scope.root, &read.all(), &scope.applications);
    }
    for info in scope.each() {
        describe_application(&mut lines, &read, info);
    }
    Ok(scope::print(lines, &read)?)
}

/// Writes the settings that the arguments name, if any.
fn change(args: &KeepArgs, scope: &Scope<'_>) -> Result<(), SettingError> {
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
        slips::ask(&wanted, &scope.root, scope.each())?;
    }
    Ok(scope.change(&changes)?)
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
        lines.push(row(name, &value, set(is_set)) + note);
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
    lines.push(format!("{}: {}", title(info), in_force::used(bytes, limit.value)));
    lines.push(row(settings::LIMIT, &self::limit(limit.value), limit.source));
    lines.push(row(settings::MODULES, &policy(modules.value), modules.source));
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
