//! The environment's variables: their names, what each of them means, and what more than the layer reads of them.
//! docs/configuration.md and the man page of `vkstash` show the list [`ALL`].

use std::ffi::OsString;
use std::path::PathBuf;

use crate::background_mode::BackgroundMode;

/// The name of a configuration file, in the user's configuration directory and in a root.
pub const CONFIG_FILE: &str = "config.toml";

/// Has the Vulkan loader use the installed layer.
pub const ENABLE: &str = "VKSTASH";
/// Switches the layer off, however it was loaded.
pub const DISABLE: &str = "VKSTASH_DISABLE";
/// Folder of all stashes; the user's cache directory by default.
pub const DIR: &str = "VKSTASH_DIR";
/// The user's configuration file, in place of the one in the user's configuration directory (docs/configuration.md).
pub const CONFIG: &str = "VKSTASH_CONFIG";
/// Stashes that are looked into after that one and never written, separated by colons. Those of the settings come after
/// these (docs/remote.md).
pub const BASE: &str = "VKSTASH_BASE";
/// Patterns of programs that the layer leaves alone, separated by colons, in place of those of the settings. An empty
/// value: it leaves none alone.
pub const EXCLUDED_PROGRAMS: &str = "VKSTASH_EXCLUDED_PROGRAMS";
/// `off`, `error`, `warn` (the default), `info`, `debug` or `trace`.
pub const LOG: &str = "VKSTASH_LOG";
/// A file that log lines are appended to instead of standard error.
pub const LOG_FILE: &str = "VKSTASH_LOG_FILE";
/// `auto` (the default), `emulate` (identifiers of the layer's even where the driver has some) or `off`.
pub const IDENTIFIERS: &str = "VKSTASH_IDENTIFIERS";
/// How many milliseconds a program waits in all, at most, until its stash is open.
pub const OPEN_MS: &str = "VKSTASH_OPEN_MS";
/// How many milliseconds a program waits at its end, at most, for what is not written yet.
pub const END_MS: &str = "VKSTASH_END_MS";
/// Whether the stash or the driver is asked first for a pipeline that is not parked: `stash`, `driver`, or `auto` (the
/// default): what the table of drivers says (src/state/process/policy.rs). For measurements.
pub const ASK_FIRST: &str = "VKSTASH_ASK_FIRST";
/// How many threads at a time enter the driver with served calls, 0 for any number: for measurements of a driver.
pub const SERVED_WIDTH: &str = "VKSTASH_SERVED_WIDTH";
/// Folder that every process writes the report of its run to, beside the one in its stash.
pub const REPORT: &str = "VKSTASH_REPORT";
/// The mode of background work: `allowed`, `intrusive`, `disabled` or `profiling` (docs/process.md). With the last
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

/// The layer library that the tool uses.
pub const LIBRARY: &str = "VKSTASH_LIBRARY";
/// Whether `vkstash run` raises the limits of the drivers' own caches if no option says so.
pub const DRIVER_LIMITS: &str = "VKSTASH_DRIVER_LIMITS";
/// Where `vkstash run` has the translators' caches if no option says so.
pub const TRANSLATOR_CACHES: &str = "VKSTASH_TRANSLATOR_CACHES";
/// The password of the key that `vkstash-remote` signs with.
pub const REMOTE_PASSWORD: &str = "VKSTASH_REMOTE_PASSWORD";
/// The shell whose line the tool completes.
pub const COMPLETE: &str = "VKSTASH_COMPLETE";

/// For whom a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Users.
    User,
    /// Whoever measures a driver.
    Measurement,
    /// The project's own programs.
    Internal,
}

/// A variable, for people.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub values: &'static str,
    /// What it sets, in a phrase.
    pub meaning: &'static str,
    /// The page in docs/ that says more, with its section; empty: none.
    pub page: &'static str,
    /// For whom it is.
    pub audience: Audience,
}

const fn of_user(
    name: &'static str,
    values: &'static str,
    meaning: &'static str,
    page: &'static str,
) -> Variable {
    Variable { name, values, meaning, page, audience: Audience::User }
}

const fn of(audience: Audience, name: &'static str, values: &'static str, meaning: &'static str) -> Variable {
    Variable { name, values, meaning, page: "", audience }
}

/// All variables with the project's prefix, but those of its tests.
pub const ALL: &[Variable] = &[
    of_user(ENABLE, "`1`", "use the installed layer; `vkstash run` sets this", ""),
    of_user(DISABLE, "anything, also empty", "do not use the layer, whatever else is set", ""),
    of_user(
        DIR,
        "folder",
        "the folder of all stashes, in place of `$XDG_CACHE_HOME/vkstash` (`~/.cache/vkstash`)",
        "",
    ),
    of_user(CONFIG, "file", "the user's configuration file, in place of `~/.config/vkstash/config.toml`", ""),
    of_user(BASE, "absolute paths with `:` between them", "bases, before those of the setting `bases`", ""),
    of_user(
        EXCLUDED_PROGRAMS,
        "patterns with `:` between them",
        "in place of the setting `excluded-programs`; empty: none",
        "",
    ),
    of_user(BACKGROUND, "a mode", "in place of the setting `background`", ""),
    of_user(
        BACKGROUND_WORKERS,
        "a number; 2 by default, 1 on one or two processors",
        "most threads for background work; where it is not set, a program with few pipelines may get none",
        "",
    ),
    of_user(DEVELOPER_MODE, "`1`", "as the setting `developer-mode`", ""),
    of_user(
        IDENTIFIERS,
        "`auto` (default), `emulate`, `off`",
        "emulate shader module identifiers on drivers without the extension, on all, or on none",
        "",
    ),
    of_user(
        OPEN_MS,
        "milliseconds; 15 by default",
        "longest wait of a program until its stash is open; if set, also until what other processes have recorded \
         since is read (at least 5, the default of that)",
        "",
    ),
    of_user(
        END_MS,
        "milliseconds; 50 by default",
        "longest wait of a program at its end for unwritten records",
        "",
    ),
    of_user(
        UPDATE,
        "`0`, `1`",
        "after an update of a driver, compile again, while the program runs, what it used; by default unless on \
         battery or on one processor",
        "prewarm.md#while-a-program-runs-and-after-it",
    ),
    of_user(
        FINISH,
        "`0`, `1`",
        "after the end of a program, record what it has left; by default unless on battery",
        "",
    ),
    of_user(TOOL, "file", "the tool that is started for both, if none is near the library", ""),
    of_user(LIBRARY, "file", "the layer library that the tool uses", ""),
    of_user(
        DRIVER_LIMITS,
        "`raise` (default), `keep`",
        "`vkstash run` lets the disk caches of Mesa's and NVIDIA's drivers grow to 10 GiB, at most a quarter of the \
         free space, unless a variable of the driver sets a size",
        "",
    ),
    of_user(
        TRANSLATOR_CACHES,
        "`stash` (default), `keep`",
        "`vkstash run` has the caches of DXVK and vkd3d-proton in the stash, unless `DXVK_SHADER_CACHE_PATH` or \
         `VKD3D_SHADER_CACHE_PATH` is set",
        "translators.md",
    ),
    of_user(
        LOG,
        "`off`, `error`, `warn` (default), `info`, `debug`, `trace`",
        "what is logged on standard error",
        "",
    ),
    of_user(LOG_FILE, "file", "log to this file instead: a regular file of yours", ""),
    of_user(REPORT, "folder", "write the report of each process to this folder, too", ""),
    of_user(
        TRACE,
        "file",
        "append background tasks, slow creation calls and pipelines to it, for Perfetto and chrome://tracing",
        "",
    ),
    of_user(REMOTE_PASSWORD, "text", "the password of the key that `vkstash-remote` signs with", ""),
    of(
        Audience::Measurement,
        ASK_FIRST,
        "`auto` (default), `stash`, `driver`",
        "who is asked first for a pipeline that is not parked; `auto`: what the table of drivers says",
    ),
    of(
        Audience::Measurement,
        SERVED_WIDTH,
        "a number; 0: any",
        "how many threads at a time enter the driver with served calls",
    ),
    of(
        Audience::Internal,
        COMPLETE,
        "a shell's name",
        "scripts of `vkstash completions` ask what completes a line",
    ),
    of(
        Audience::Internal,
        APPLICATION,
        "a folder's name",
        "`vkstash prewarm` tells its workers whose stash they work on",
    ),
];

/// The number that Steam has given to the game that it has started; 0 for what is not of its store.
const STEAM_APP_ID: &str = "SteamAppId";

/// What an environment has under a name: that of this process, or one of a test.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The environment of this process.
pub fn of_process(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The text under this name; empty if there is none, or if it is no text.
pub fn text(name: &str, lookup: Lookup<'_>) -> String {
    lookup(name).and_then(|value| value.into_string().ok()).unwrap_or_default()
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
        Background::from_lookup(&of_process)
    }

    /// Reads what `lookup` knows. A mode that is not understood counts as unset.
    pub fn from_lookup(lookup: Lookup<'_>) -> Background {
        Background {
            mode: BackgroundMode::of_name(&text(BACKGROUND, lookup)),
            workers: text(BACKGROUND_WORKERS, lookup).parse().ok(),
            developer_mode: text(DEVELOPER_MODE, lookup) == "1",
        }
    }
}

/// The game's number in Steam; None where Steam has not started the program.
pub fn steam_app_id(lookup: Lookup<'_>) -> Option<u64> {
    text(STEAM_APP_ID, lookup).parse().ok().filter(|number| *number != 0)
}

/// The folder of all stashes: what [`DIR`] names, or else the default. None where there is no home.
pub fn root() -> Option<PathBuf> {
    path(DIR, &of_process).or_else(default_root)
}

/// The folder of all stashes where VKSTASH_DIR names none.
pub fn default_root() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "vkstash").map(|dirs| dirs.cache_dir().to_path_buf())
}

/// The folder of what `vkstash-remote` fetches, with a folder for each store. None where there is no home.
pub fn pulled() -> Option<PathBuf> {
    directories::BaseDirs::new().map(|dirs| dirs.data_dir().join("vkstash").join("remote"))
}

/// The configuration file that the user writes: what [`CONFIG`] names, or else the default. None where there is no
/// home.
pub fn user_config() -> Option<PathBuf> {
    let default =
        || directories::ProjectDirs::from("", "", "vkstash").map(|dirs| dirs.config_dir().join(CONFIG_FILE));
    path(CONFIG, &of_process).or_else(default)
}

/// The configuration files of the system, what counts first in front: those below XDG_CONFIG_DIRS.
pub fn system_configs() -> Vec<PathBuf> {
    let dirs = std::env::var_os("XDG_CONFIG_DIRS").filter(|dirs| !dirs.is_empty());
    let dirs = dirs.unwrap_or_else(|| "/etc/xdg".into());
    let absolute = std::env::split_paths(&dirs).filter(|dir| dir.is_absolute());
    absolute.map(|dir| dir.join("vkstash").join(CONFIG_FILE)).collect()
}

/// The configuration files that count before that of a root, what counts first in front.
pub fn configs() -> Vec<PathBuf> {
    user_config().into_iter().chain(system_configs()).collect()
}

/// What [`EXCLUDED_PROGRAMS`] names, in lines. None: it is not set.
pub fn excluded_programs(lookup: Lookup<'_>) -> Option<String> {
    Some(lookup(EXCLUDED_PROGRAMS)?.into_string().ok()?.replace(':', "\n"))
}

/// A path that `lookup` knows under this name; an empty one counts as unset.
pub fn path(name: &str, lookup: Lookup<'_>) -> Option<PathBuf> {
    lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_work_takes_a_mode_a_number_and_a_plain_yes() {
        let with = |name: &'static str, value: &'static str| {
            Background::from_lookup(&|asked| (asked == name).then(|| OsString::from(value)))
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
}
