//! The settings in force for a stash and its applications: limits, which modules are kept, the mode of background work;
//! and where each comes from.

use std::path::Path;

use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::record::Kind;
use vkstash_model::variables::Background;
use vkstash_store::bounds::{Limits, ModulePolicy};
use vkstash_store::settings::Settings;
use vkstash_store::settings::places::Configuration;
use vkstash_store::stash::inspect::ApplicationInfo;

use crate::reports::tally::grow;
use crate::system::machine;
use crate::term::units::size;

/// A value in force, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InForce<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// No file sets it.
    Default,
    /// A file sets it for all applications.
    Settings,
    /// A file sets it for this application.
    Application,
}

impl Source {
    /// The source as text for the user.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Settings => "set for all",
            Source::Application => "set for this application",
        }
    }
}

/// The limits of a root. A file system of unknown size gets the largest free-space floor.
pub(crate) fn limits(root: &Path, of_root: &Settings) -> Limits {
    of_root.limits(file_system(root).map_or(u64::MAX, |(size, _)| size))
}

/// [`Configuration::limits_to_enforce`] of a root.
pub(crate) fn limits_to_enforce(root: &Path, read: &Configuration) -> Option<Limits> {
    read.limits_to_enforce(file_system(root).map_or(u64::MAX, |(size, _)| size))
}

/// What compiling again by itself may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateLimits {
    pub(crate) is_on: bool,
    pub(crate) processors: usize,
    /// Bytes; `u64::MAX` for no limit.
    pub(crate) memory: u64,
    /// `u64::MAX` for no limit.
    pub(crate) minutes: u64,
}

/// How long it may work at a time where no file says.
const UPDATE_MINUTES: u64 = 60;

/// Those of these settings.
pub(crate) fn update_limits(of_root: &Settings) -> UpdateLimits {
    let processors = of_root.update_processors.and_then(|processors| usize::try_from(processors).ok());
    // In whole GiB, as people write it.
    let memory = || ((machine::memory() / 4) >> 30).max(1) << 30;
    UpdateLimits {
        is_on: of_root.updates.unwrap_or(true),
        processors: processors.unwrap_or((machine::processors() / 2).max(1)),
        memory: of_root.update_memory.unwrap_or_else(memory),
        minutes: of_root.update_minutes.unwrap_or(UPDATE_MINUTES),
    }
}

/// Size and free bytes of the file system on which a root is or will be.
pub(crate) fn file_system(root: &Path) -> Option<(u64, u64)> {
    let stat = root.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some((bytes(stat.f_blocks), bytes(stat.f_bavail)))
}

/// The limit of one application. None: it has no limit of its own.
pub(crate) fn application_limit(of_root: &Settings, own: &Settings) -> InForce<Option<u64>> {
    let (value, source) = match (own.limit, of_root.application_limit) {
        (Some(limit), _) => (limit, Source::Application),
        (None, Some(limit)) => (limit, Source::Settings),
        (None, None) => (u64::MAX, Source::Default),
    };
    InForce { value: Some(value).filter(|&limit| limit != u64::MAX), source }
}

/// Which modules of an application are kept.
pub(crate) fn module_policy(of_root: &Settings, own: &Settings) -> InForce<ModulePolicy> {
    match (own.modules, of_root.modules) {
        (Some(value), _) => InForce { value, source: Source::Application },
        (None, Some(value)) => InForce { value, source: Source::Settings },
        (None, None) => InForce { value: ModulePolicy::default(), source: Source::Default },
    }
}

/// The mode of background work in programs that start with this environment: what it says counts before the settings.
pub(crate) fn background_mode(of_root: &Settings, own: &Settings) -> BackgroundMode {
    let stored = own.background.or(of_root.background).unwrap_or_default();
    Background::from_environment().mode.unwrap_or(stored)
}

/// Size of an application's files.
pub(crate) fn bytes(info: &ApplicationInfo) -> u64 {
    sum(info.parts.iter().map(|part| part.bytes))
}

/// Size of its modules, superseded records included.
pub(crate) fn module_bytes(info: &ApplicationInfo) -> u64 {
    sum(info.parts.iter().filter_map(|part| part.payload_bytes.get(Kind::Module.name()).copied()))
}

/// A sum that saturates.
pub(crate) fn sum(values: impl Iterator<Item = u64>) -> u64 {
    let mut sum = 0;
    values.for_each(|value| grow(&mut sum, value));
    sum
}

/// Percent with one decimal, rounded down; None where `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    let tenths = (u128::from(part) * 1000).checked_div(whole.into())?;
    Some(tenths as f64 / 10.0)
}

/// Use of a limit: `1.2 MiB, 30.0 % of 4.0 MiB`. Without a limit only the size.
pub(crate) fn used(bytes: u64, limit: Option<u64>) -> String {
    let now = size(bytes);
    let Some(limit) = limit.filter(|&limit| limit != u64::MAX) else { return now.to_string() };
    let percent = percent(bytes, limit).map_or(String::new(), |percent| format!("{percent:.1} % "));
    format!("{now}, {percent}of {}", size(limit))
}

#[cfg(test)]
mod tests {
    use vkstash_store::settings::file::Config;

    use super::*;

    #[test]
    fn an_applications_settings_come_before_the_roots_and_those_before_the_defaults() {
        let (of_root, own, unset) = (
            Config::parse("application-limit = 9\nmodules = 'none'").all,
            Config::parse("limit = 7\nmodules = 3").all,
            Settings::default(),
        );
        let limit = |root, own| (application_limit(root, own).value, application_limit(root, own).source);
        assert_eq!(limit(&of_root, &own), (Some(7), Source::Application));
        assert_eq!(limit(&of_root, &unset), (Some(9), Source::Settings));
        assert_eq!(limit(&unset, &unset), (None, Source::Default));
        let unlimited = Config::parse("limit = 'none'").all;
        assert_eq!(limit(&of_root, &unlimited), (None, Source::Application));
        let policy = |root, own| (module_policy(root, own).value, module_policy(root, own).source);
        assert_eq!(policy(&of_root, &own), (ModulePolicy::UsedInLast(3), Source::Application));
        assert_eq!(policy(&of_root, &unset), (ModulePolicy::None, Source::Settings));
        assert_eq!(policy(&unset, &unset), (ModulePolicy::All, Source::Default));
    }

    #[test]
    fn a_limit_of_zero_and_no_limit_have_no_percentage() {
        assert_eq!(used(1024, Some(4096)), "1.0 KiB, 25.0 % of 4.0 KiB");
        assert_eq!(used(1024, Some(0)), "1.0 KiB, of 0 B");
        assert_eq!(used(1024, Some(u64::MAX)), "1.0 KiB");
        assert_eq!(used(1024, None), "1.0 KiB");
        assert_eq!(percent(u64::MAX, u64::MAX), Some(100.0));
    }
}
