//! The values of the settings, and how a value is written.

use std::path::{Path, PathBuf};

use super::names::*;
use crate::bounds::{Limits, ModulePolicy};
use crate::home::MOST_BASES;
use vkstash_model::background_mode::BackgroundMode;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
// Not the crate bytesize, which reads sizes as floating-point numbers and takes spellings that docs/configuration.md
// does not have.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Kinds of caches, as bits. docs/sessions.md says what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheKinds(pub u32);

impl CacheKinds {
    /// No kind.
    pub const NONE: CacheKinds = CacheKinds(0);
    /// What drivers compile.
    pub const COMPILATIONS: CacheKinds = CacheKinds(0x1);
    /// Conversions between kinds of shaders.
    pub const CONVERSIONS: CacheKinds = CacheKinds(0x2);
    /// The drivers' own caches.
    pub const DRIVER_MANAGED: CacheKinds = CacheKinds(0x4);
    /// The caches of sessions.
    pub const SESSIONS: CacheKinds = CacheKinds(0x8);
    /// All kinds.
    pub const ALL: CacheKinds = CacheKinds(0xf);

    /// Kinds with their names in files and on the command line.
    pub const NAMES: [(&str, CacheKinds); 4] = [
        ("compilations", CacheKinds::COMPILATIONS),
        ("conversions", CacheKinds::CONVERSIONS),
        ("driver-managed", CacheKinds::DRIVER_MANAGED),
        ("sessions", CacheKinds::SESSIONS),
    ];

    /// Whether one of these kinds is among them.
    pub const fn has(self, kinds: CacheKinds) -> bool {
        self.0 & kinds.0 != 0
    }

    /// These kinds and others.
    pub const fn with(self, kinds: CacheKinds) -> CacheKinds {
        CacheKinds(self.0 | kinds.0)
    }

    /// These kinds without others.
    pub const fn without(self, kinds: CacheKinds) -> CacheKinds {
        CacheKinds(self.0 & !kinds.0)
    }

    /// The names with spaces between them, or `none`.
    pub fn text(self) -> String {
        let names: Vec<_> =
            CacheKinds::NAMES.iter().filter(|(_, kind)| self.has(*kind)).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    }

    /// From [`CacheKinds::text`].
    pub fn of_text(text: &str) -> Option<CacheKinds> {
        if text.eq_ignore_ascii_case("none") {
            return Some(CacheKinds::NONE);
        }
        let mut kinds = CacheKinds::NONE;
        for word in text.split_whitespace() {
            let known = CacheKinds::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            kinds = kinds.with(known?.1);
        }
        (kinds != CacheKinds::NONE).then_some(kinds)
    }
}

/// The values of a file, or of several. None: not set. Sizes are bytes, `u64::MAX` for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// [`LIMIT`].
    pub limit: Option<u64>,
    /// [`APPLICATION_LIMIT`].
    pub application_limit: Option<u64>,
    /// [`FREE_SPACE`].
    pub free_space: Option<u64>,
    /// [`DEVICE_AGE`] in milliseconds, `u64::MAX` for no age.
    pub device_age_ms: Option<u64>,
    /// [`MODULES`].
    pub modules: Option<ModulePolicy>,
    /// [`BACKGROUND`].
    pub background: Option<BackgroundMode>,
    /// [`DEVELOPER_MODE`].
    pub developer_mode: Option<bool>,
    /// [`DISABLED_CACHES`]. Those of an application replace those of all.
    pub disabled_caches: Option<CacheKinds>,
    /// [`BASES`]: at most [`MOST_BASES`] absolute paths, none twice.
    pub bases: Vec<PathBuf>,
    /// [`EXCLUDED_PROGRAMS`], a pattern in each line ([`super::excluded`]).
    pub excluded_programs: Option<String>,
    /// [`UPDATES`].
    pub updates: Option<bool>,
    /// [`UPDATE_PROCESSORS`].
    pub update_processors: Option<u64>,
    /// [`UPDATE_MEMORY`] in bytes, `u64::MAX` for no limit.
    pub update_memory: Option<u64>,
    /// [`UPDATE_MINUTES`], `u64::MAX` for no limit.
    pub update_minutes: Option<u64>,
}

/// What the settings say to a program, those of its application before those of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForProgram {
    /// [`BACKGROUND`]. None: not set.
    pub background: Option<BackgroundMode>,
    /// [`DISABLED_CACHES`].
    pub disabled_caches: CacheKinds,
}

/// Why a value is not set. Continues a sentence that begins with the setting's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// There is no such name.
    #[error("is no setting of this version")]
    Name,
    /// The value is neither a number of bytes, nor a number with a unit, nor `none`.
    #[error("takes a size such as 512MiB, 4GiB or 1000000, or none")]
    Size,
    /// The value is neither a number of days nor `none`.
    #[error("takes a number of days, or none")]
    Days,
    /// The value is neither `all` nor `none` nor a number.
    #[error("takes all, none, or a number of runs")]
    Modules,
    /// No mode of background work.
    #[error("takes allowed, intrusive, disabled or profiling")]
    Background,
    /// The value is neither a list of kinds of caches nor `none`.
    #[error("takes compilations, conversions, driver-managed, sessions, several of these, or none")]
    Caches,
    /// The value is no number, or 0.
    #[error("takes a number from 1 on")]
    Processors,
    /// The value is neither a number of minutes nor `none`.
    #[error("takes a number of minutes, or none")]
    Minutes,
    /// The value is neither `on` nor `off`.
    #[error("takes on or off")]
    Switch,
    /// No absolute path.
    #[error("takes absolute paths")]
    Base,
    /// There are as many as are looked into.
    #[error("takes at most {MOST_BASES} paths")]
    Bases,
    /// Several values where one is taken.
    #[error("takes one value, and no list")]
    List,
}

impl Settings {
    /// Sets a value that is a list in a file.
    pub fn set_list(&mut self, name: &str, values: &[String]) -> Result<(), ValueError> {
        match name {
            BASES => {
                self.bases.clear();
                values.iter().try_for_each(|base| self.set(BASES, base))
            }
            EXCLUDED_PROGRAMS => {
                self.excluded_programs = Some(values.join("\n"));
                Ok(())
            }
            DISABLED_CACHES if values.is_empty() => self.set(name, "none"),
            DISABLED_CACHES => self.set(name, &values.join(" ")),
            name if NAMES.contains(&name) => Err(ValueError::List),
            _ => Err(ValueError::Name),
        }
    }

    /// Sets a value as it is written in a file or on the command line; of [`BASES`], adds one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ValueError> {
        let none = value.eq_ignore_ascii_case("none");
        let size_or = |of_none| if none { Some(of_none) } else { size(value) }.ok_or(ValueError::Size);
        match name {
            LIMIT => self.limit = Some(size_or(u64::MAX)?),
            APPLICATION_LIMIT => self.application_limit = Some(size_or(u64::MAX)?),
            FREE_SPACE => self.free_space = Some(size_or(0)?),
            DEVICE_AGE => {
                let days = || value.parse::<u64>().ok()?.checked_mul(DAY_MS);
                let age = if none { Some(u64::MAX) } else { days() };
                self.device_age_ms = Some(age.ok_or(ValueError::Days)?);
            }
            MODULES => self.modules = Some(modules(value).ok_or(ValueError::Modules)?),
            BACKGROUND => {
                let mode = BackgroundMode::of_name(&value.to_ascii_lowercase());
                self.background = Some(mode.ok_or(ValueError::Background)?);
            }
            DEVELOPER_MODE => {
                self.developer_mode = Some(switch(value).ok_or(ValueError::Switch)?);
            }
            UPDATES => self.updates = Some(switch(value).ok_or(ValueError::Switch)?),
            UPDATE_PROCESSORS => {
                let processors = value.parse().ok().filter(|&processors: &u64| processors > 0);
                self.update_processors = Some(processors.ok_or(ValueError::Processors)?);
            }
            UPDATE_MEMORY => self.update_memory = Some(size_or(u64::MAX)?),
            UPDATE_MINUTES => {
                let minutes = if none { Some(u64::MAX) } else { value.parse().ok() };
                self.update_minutes = Some(minutes.ok_or(ValueError::Minutes)?);
            }
            DISABLED_CACHES => {
                self.disabled_caches = Some(CacheKinds::of_text(value).ok_or(ValueError::Caches)?);
            }
            BASES => {
                let base = base_of(value).ok_or(ValueError::Base)?;
                if !self.bases.contains(&base) {
                    if self.bases.len() >= MOST_BASES {
                        return Err(ValueError::Bases);
                    }
                    self.bases.push(base);
                }
            }
            EXCLUDED_PROGRAMS if none => self.excluded_programs = Some(String::new()),
            EXCLUDED_PROGRAMS => self.excluded_programs = Some(value.to_owned()),
            _ => return Err(ValueError::Name),
        }
        Ok(())
    }

    /// Takes what is not set here from settings that come after these. Bases of both count.
    pub fn or(mut self, after: &Settings) -> Settings {
        self.limit = self.limit.or(after.limit);
        self.application_limit = self.application_limit.or(after.application_limit);
        self.free_space = self.free_space.or(after.free_space);
        self.device_age_ms = self.device_age_ms.or(after.device_age_ms);
        self.modules = self.modules.or(after.modules);
        self.background = self.background.or(after.background);
        self.developer_mode = self.developer_mode.or(after.developer_mode);
        self.disabled_caches = self.disabled_caches.or(after.disabled_caches);
        self.excluded_programs = self.excluded_programs.or_else(|| after.excluded_programs.clone());
        self.updates = self.updates.or(after.updates);
        self.update_processors = self.update_processors.or(after.update_processors);
        self.update_memory = self.update_memory.or(after.update_memory);
        self.update_minutes = self.update_minutes.or(after.update_minutes);
        for base in &after.bases {
            if self.bases.len() < MOST_BASES && !self.bases.contains(base) {
                self.bases.push(base.clone());
            }
        }
        self
    }

    /// A value as it is written on the command line, or None if it is not set. A time is rounded up to whole days.
    pub fn text(&self, name: &str) -> Option<String> {
        let size = |bytes: u64| if bytes == u64::MAX { "none".to_owned() } else { size_text(bytes) };
        match name {
            LIMIT => self.limit.map(size),
            APPLICATION_LIMIT => self.application_limit.map(size),
            FREE_SPACE => self.free_space.map(size_text),
            DEVICE_AGE => self.device_age_ms.map(days_text),
            MODULES => self.modules.map(modules_text),
            BACKGROUND => self.background.map(|mode| mode.name().to_owned()),
            DEVELOPER_MODE => self.developer_mode.map(switch_text),
            UPDATES => self.updates.map(switch_text),
            UPDATE_PROCESSORS => self.update_processors.map(|processors| processors.to_string()),
            UPDATE_MEMORY => self.update_memory.map(size),
            UPDATE_MINUTES => self.update_minutes.map(minutes_text),
            DISABLED_CACHES => self.disabled_caches.map(CacheKinds::text),
            BASES if !self.bases.is_empty() => {
                let shown = self.bases.iter().map(|base| base.display().to_string());
                Some(shown.collect::<Vec<_>>().join(":"))
            }
            EXCLUDED_PROGRAMS => match self.excluded_programs.as_deref()? {
                "" => Some("none".to_owned()),
                patterns => Some(patterns.replace('\n', " ")),
            },
            _ => None,
        }
    }

    /// The limits that these settings give. `filesystem_bytes` is the size of the root's file system, for the default
    /// of the free-space floor.
    pub fn limits(&self, filesystem_bytes: u64) -> Limits {
        let default = Limits::default();
        Limits {
            total_bytes: self.limit.unwrap_or(default.total_bytes),
            per_app: self.application_limit.or(default.per_app),
            free_space_floor: self.free_space.unwrap_or_else(|| Limits::floor_for(filesystem_bytes)),
            device_age: self.device_age_ms.unwrap_or(default.device_age),
            module_policy: self.modules.unwrap_or(default.module_policy),
        }
    }
}

/// Bytes, or a number and a unit in any case, with or without a space. Whole numbers only.
fn size(text: &str) -> Option<u64> {
    let ends = |unit: &str| text.len().checked_sub(unit.len()).filter(|&at| text.is_char_boundary(at));
    let with_unit = UNITS.iter().find_map(|&(unit, bytes)| {
        let (number, end) = text.split_at(ends(unit)?);
        end.eq_ignore_ascii_case(unit).then_some((number.trim_end(), bytes))
    });
    let (number, unit) = with_unit.unwrap_or((text, 1));
    // The standard library's parser would take a sign.
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| digits)?.checked_mul(unit)
}

/// A size as it is written in a file: exact, in the largest unit that divides it.
pub fn size_text(bytes: u64) -> String {
    let unit = UNITS[..4].iter().find(|(_, unit)| bytes >= *unit && bytes % unit == 0);
    unit.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

fn switch_text(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

fn minutes_text(minutes: u64) -> String {
    if minutes == u64::MAX { "none".to_owned() } else { minutes.to_string() }
}

fn days_text(ms: u64) -> String {
    if ms == u64::MAX { "none".to_owned() } else { ms.div_ceil(DAY_MS).to_string() }
}

fn modules(text: &str) -> Option<ModulePolicy> {
    match text.to_ascii_lowercase().as_str() {
        "all" => Some(ModulePolicy::All),
        "none" => Some(ModulePolicy::None),
        runs => runs.parse().ok().map(ModulePolicy::UsedInLast),
    }
}

/// A module policy as it is written in a file.
pub fn modules_text(policy: ModulePolicy) -> String {
    match policy {
        ModulePolicy::All => "all".to_owned(),
        ModulePolicy::None => "none".to_owned(),
        ModulePolicy::UsedInLast(runs) => runs.to_string(),
    }
}

/// The path of a base, in its one spelling without empty names and dots. None: no absolute path.
fn base_of(text: &str) -> Option<PathBuf> {
    let path: PathBuf = Path::new(text).components().collect();
    (path.is_absolute() && !text.contains('\0')).then_some(path)
}
