//! What the environment asks of the layer, and whether it may run at all.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use vkstash_store::disk::home::MOST_BASES;
use vkstash_store::forks::PerProcess;
use vkstash_store::format::app_name::AppName;
use vkstash_store::settings::BackgroundMode;

/// Switches the layer off, however it was loaded.
pub const DISABLE: &str = "VKSTASH_DISABLE";
/// Folder of all stashes; the user's cache directory by default.
pub const DIR: &str = "VKSTASH_DIR";
/// Stashes that are looked into after that one and never written, separated by colons. Those of the settings come after
/// these (docs/bases.md).
pub const BASE: &str = "VKSTASH_BASE";
/// `off`, `error`, `warn` (the default), `info`, `debug` or `trace`.
pub const LOG: &str = "VKSTASH_LOG";
/// A file that log lines are appended to instead of standard error.
pub const LOG_FILE: &str = "VKSTASH_LOG_FILE";
/// `auto` (the default), `emulate` (identifiers of the layer's even where the driver has some) or `off`.
pub const IDENTIFIERS: &str = "VKSTASH_IDENTIFIERS";
/// `1`: VK_KHR_pipeline_binary is switched on for programs that did not ask for it, and artifacts are made of
/// binaries. Off by default: it changes the device that the driver builds, and may orphan the driver's caches.
pub const BINARIES: &str = "VKSTASH_BINARIES";
/// `1`: a request by an emulated identifier that has no artifact is compiled from the stored SPIR-V, instead of being
/// answered COMPILE_REQUIRED. The call promises not to compile, so this is off by default.
pub const COMPILE_STORED: &str = "VKSTASH_COMPILE_STORED";
/// The earlier name of [`COMPILE_STORED`]: it counts where the new one is not set.
pub const COMPILE_STORED_BEFORE: &str = "VKSTASH_REHYDRATE";
/// How many milliseconds a program waits in all, at most, until its stash is open.
pub const OPEN_MS: &str = "VKSTASH_OPEN_MS";
/// How many milliseconds a program waits at its end, at most, for what is not written yet.
pub const END_MS: &str = "VKSTASH_END_MS";
/// Who is asked first for what is not parked: `stash`, `driver`, or `auto` (the default): what the table of drivers
/// says (src/state/policy.rs). For measurements.
pub const ASK_FIRST: &str = "VKSTASH_ASK_FIRST";
/// How many threads at a time enter the driver with served calls, 0 for any number: for measurements of a driver.
pub const SERVED_WIDTH: &str = "VKSTASH_SERVED_WIDTH";
/// Folder that every process writes the report of its run to, beside the one in its stash.
pub const REPORT: &str = "VKSTASH_REPORT";
/// The mode of background work: `allowed`, `intrusive`, `disabled` or `profiling` (docs/background.md). With the last
/// two what only background work needs is not recorded.
pub const BACKGROUND: &str = "VKSTASH_BACKGROUND";
/// How many threads do background work at most, beside those of a commit at high priority; 0 means none.
pub const BACKGROUND_WORKERS: &str = "VKSTASH_BACKGROUND_WORKERS";
/// `1`: programs may use the modes for developers.
pub const DEVELOPER_MODE: &str = "VKSTASH_DEVELOPER_MODE";
/// A file that a trace of background tasks and slow creation calls is appended to.
pub const TRACE: &str = "VKSTASH_TRACE";

/// Folder of the application whose stash this process works on, for the workers of `vkstash prewarm` alone: another
/// program's name makes another folder. Such a process writes no report and notes no uses.
pub const APPLICATION: &str = "VKSTASH_APPLICATION";

/// Whether, after a driver update, the tool compiles again in the background what programs used before. `0`: never;
/// `1`: also on battery and on few processors.
pub const UPDATE: &str = "VKSTASH_UPDATE";
/// Whether the tool records after the end of a program what was not recorded before. `0`: never, `1`: also on battery.
pub const FINISH: &str = "VKSTASH_FINISH";
/// The tool for both, where it is not found near the library.
pub const TOOL: &str = "VKSTASH_TOOL";

/// Where VK_EXT_shader_module_identifier comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identifiers {
    /// The driver's where it has them, emulated elsewhere.
    #[default]
    Auto,
    /// Emulated everywhere.
    Emulate,
    /// Never emulated.
    Off,
}

/// Who is asked first for a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskFirst {
    /// Whom the table of drivers names.
    #[default]
    Auto,
    /// The stash.
    Stash,
    /// The driver.
    Driver,
}

/// The environment, read once for each instance.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Folder of all stashes; None where there is no home.
    pub root: Option<PathBuf>,
    /// Stashes that are looked into after that one, and never written; the settings may name more.
    pub bases: Vec<PathBuf>,
    /// Identifiers.
    pub identifiers: Identifiers,
    /// [`BINARIES`].
    pub binaries: bool,
    /// [`COMPILE_STORED`].
    pub compile_stored: bool,
    /// Pipelines may be made before the program asks for them, so recipes are worth recording also where a driver gives
    /// no artifacts ([`BACKGROUND`]).
    pub parks: bool,
    /// The mode of background work in the settings counts.
    pub asks_settings: bool,
    /// [`OPEN_MS`]; None: the usual.
    pub opening: Option<Duration>,
    /// [`END_MS`]; None: the usual.
    pub end: Option<Duration>,
    /// [`ASK_FIRST`].
    pub ask_first: AskFirst,
    /// [`SERVED_WIDTH`]; None: what the table of drivers says.
    pub served_width: Option<u32>,
    /// Folder for reports.
    pub report: Option<PathBuf>,
    /// [`APPLICATION`]; None in every process but a worker's.
    pub application: Option<AppName>,
    /// [`UPDATE`].
    pub update: Option<bool>,
    /// [`FINISH`].
    pub finish: Option<bool>,
    /// [`TOOL`].
    pub tool: Option<PathBuf>,
}

/// What the environment says of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// [`BACKGROUND`]; None: the settings decide.
    pub mode: Option<BackgroundMode>,
    /// [`BACKGROUND_WORKERS`]; None: the usual.
    pub workers: Option<usize>,
    /// [`DEVELOPER_MODE`].
    pub developer_mode: bool,
}

impl Background {
    /// Reads this process's environment.
    pub fn from_environment() -> Background {
        Background::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads what `lookup` knows. A mode that is not understood counts as unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Background {
        let text = |name| lookup(name).and_then(|value| value.into_string().ok());
        Background {
            mode: text(BACKGROUND).and_then(|name| BackgroundMode::of_name(&name)),
            workers: text(BACKGROUND_WORKERS).and_then(|number| number.parse().ok()),
            developer_mode: text(DEVELOPER_MODE).is_some_and(|value| value == "1"),
        }
    }
}

/// What the environment says for the whole process. It is read once, by the thread of the program that creates the
/// first instance: a program may change its environment while it believes to have no other threads, and what reads it
/// meanwhile may crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfProcess {
    /// Background work.
    pub background: Background,
    /// [`LOG`].
    pub log: Option<String>,
    /// [`LOG_FILE`].
    pub log_file: Option<PathBuf>,
    /// [`TRACE`].
    pub trace: Option<PathBuf>,
}

/// A forked child has an environment of its own.
static OF_PROCESS: PerProcess<OfProcess> = PerProcess::empty();

impl OfProcess {
    /// What was read, or is read now.
    pub fn get() -> &'static OfProcess {
        OF_PROCESS.get_or_make(|_| {
            let path = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
            OfProcess {
                background: Background::from_environment(),
                log: std::env::var(LOG).ok(),
                log_file: path(LOG_FILE),
                trace: path(TRACE),
            }
        })
    }
}

impl Config {
    /// Reads this process's environment.
    pub fn from_environment() -> Config {
        Config::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads what `lookup` knows.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Config {
        let path = |name| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let identifiers = match lookup(IDENTIFIERS).as_deref().and_then(|value| value.to_str()) {
            Some("emulate") => Identifiers::Emulate,
            Some("off") => Identifiers::Off,
            _ => Identifiers::Auto,
        };
        let ms =
            |name| lookup(name).and_then(|value| value.to_str()?.parse().ok()).map(Duration::from_millis);
        let switch = |name| match lookup(name).as_deref().and_then(|value| value.to_str()) {
            Some("0") => Some(false),
            Some("1") => Some(true),
            _ => None,
        };
        let mode = Background::from_lookup(&lookup).mode;
        let ask_first = match lookup(ASK_FIRST).as_deref().and_then(|value| value.to_str()) {
            // Workers of `vkstash prewarm` ask for what programs will ask for, and not as programs do.
            _ if lookup(APPLICATION).is_some() => AskFirst::Stash,
            Some("driver") => AskFirst::Driver,
            Some("stash") => AskFirst::Stash,
            _ if mode == Some(BackgroundMode::Profiling) => AskFirst::Stash,
            _ => AskFirst::Auto,
        };
        Config {
            root: path(DIR).or_else(default_root),
            bases: lookup(BASE).map(|value| bases(&value)).unwrap_or_default(),
            identifiers,
            binaries: lookup(BINARIES).is_some_and(|value| value == "1"),
            compile_stored: lookup(COMPILE_STORED)
                .or_else(|| lookup(COMPILE_STORED_BEFORE))
                .is_some_and(|value| value == "1"),
            parks: mode.is_none_or(BackgroundMode::allows_work),
            asks_settings: mode.is_none(),
            opening: ms(OPEN_MS),
            end: ms(END_MS),
            ask_first,
            served_width: lookup(SERVED_WIDTH).and_then(|value| value.to_str()?.parse().ok()),
            report: path(REPORT),
            application: lookup(APPLICATION).and_then(|name| AppName::of_folder(name.to_str()?)),
            update: switch(UPDATE),
            finish: switch(FINISH),
            tool: path(TOOL),
        }
    }
}

/// What [`BASE`] names. A path that is not absolute depends on the program's working directory, and is no base.
fn bases(value: &OsStr) -> Vec<PathBuf> {
    let mut bases = Vec::new();
    for path in std::env::split_paths(value).filter(|path| path.is_absolute()) {
        if bases.len() < MOST_BASES && !bases.contains(&path) {
            bases.push(path);
        }
    }
    bases
}

/// The folder of all stashes where VKSTASH_DIR names none.
pub fn default_root() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "vkstash").map(|dirs| dirs.cache_dir().to_path_buf())
}

/// Whether the layer must not do anything in this process.
///
/// VKSTASH_DISABLE counts even when it is empty, as the loader's own check does, because an explicitly loaded
/// layer is not checked by the loader (contract 1.1, 1.3). An elevated process must not trust its
/// environment, so it gets no disk store and nothing else either (contract 1.4).
pub fn inert() -> bool {
    std::env::var_os(DISABLE).is_some() || elevated()
}

fn elevated() -> bool {
    // SAFETY: getauxval reads the process's auxiliary vector and has no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_count_as_unset() {
        let config = Config::from_lookup(|name| (name == REPORT || name == DIR).then(OsString::new));
        assert_eq!((config.report, config.root), (None, default_root()));
    }

    #[test]
    fn identifiers_follow_their_variable_and_nonsense_means_auto() {
        let with = |value: &'static str| {
            Config::from_lookup(|name| (name == IDENTIFIERS).then(|| OsString::from(value))).identifiers
        };
        assert_eq!(with("emulate"), Identifiers::Emulate);
        assert_eq!(with("off"), Identifiers::Off);
        assert_eq!(with("maybe"), Identifiers::Auto);
    }

    #[test]
    fn background_work_takes_a_mode_a_number_and_a_plain_yes() {
        let with = |name: &'static str, value: &'static str| {
            Background::from_lookup(|asked| (asked == name).then(|| OsString::from(value)))
        };
        for mode in BackgroundMode::ALL {
            assert_eq!(with(BACKGROUND, mode.name()).mode, Some(mode));
        }
        assert_eq!(with(BACKGROUND, "maybe"), Background::default());
        assert_eq!(with(BACKGROUND_WORKERS, "0").workers, Some(0));
        assert_eq!(with(BACKGROUND_WORKERS, "two"), Background::default());
        assert!(with(DEVELOPER_MODE, "1").developer_mode);
        assert!(!["", "0", "yes"].into_iter().any(|value| with(DEVELOPER_MODE, value).developer_mode));
    }

    #[test]
    fn compiling_behind_a_promise_not_to_takes_a_plain_yes() {
        for variable in [COMPILE_STORED, COMPILE_STORED_BEFORE] {
            let with = |value: &'static str| {
                Config::from_lookup(|name| (name == variable).then(|| OsString::from(value))).compile_stored
            };
            assert!(with("1"), "{variable}");
            assert!(!["", "0", "2", "off", "yes"].into_iter().any(with), "{variable}");
        }
        assert!(!Config::from_lookup(|_| None).compile_stored);
        let both = |name: &str| match name {
            COMPILE_STORED => Some(OsString::from("0")),
            COMPILE_STORED_BEFORE => Some(OsString::from("1")),
            _ => None,
        };
        assert!(!Config::from_lookup(both).compile_stored, "the new name is asked first");
    }

    /// The kernel says so to a program that gets rights which whoever started it may not have: here a copy of this
    /// test's own binary, which gets a group by being started.
    #[test]
    fn an_elevated_process_gets_nothing() {
        const ELEVATED: &str = "VKSTASH_TEST_ELEVATED";
        use std::os::unix::fs::{PermissionsExt, chown};
        if let Some(expected) = std::env::var_os(ELEVATED) {
            assert_eq!(inert(), expected == "1");
            return;
        }
        if !rustix::process::geteuid().is_root() {
            crate::skip::not_here(
                &crate::skip::this_test(),
                "only root can make a program that gives a group",
            );
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let copy = folder.path().join("elevated");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        for (group, mode) in [(0, 0o755), (65534, 0o755), (65534, 0o2755)] {
            chown(&copy, Some(0), Some(group)).unwrap();
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(mode)).unwrap();
            let expected = if mode & 0o2000 == 0 { "0" } else { "1" };
            let mut child = std::process::Command::new(&copy);
            child.args(["config::tests::an_elevated_process_gets_nothing", "--exact"]);
            let output = child.env_remove(DISABLE).env(ELEVATED, expected).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "mode {mode:o}: {said}");
        }
    }
}
