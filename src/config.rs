//! Configuration from the environment, and whether the layer may run at all.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use vkstash_host::forks::PerProcess;
use vkstash_model::app_name::AppName;
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::record::Key;
use vkstash_store::home::MOST_BASES;
use vkstash_store::settings::places;

use vkstash_model::driver_options;
use vkstash_model::variables::{
    APPLICATION, ASK_FIRST, BASE, Background, DIR, DISABLE, END_MS, FINISH, IDENTIFIERS, LOG, LOG_FILE,
    Lookup, OPEN_MS, REPORT, SERVED_WIDTH, TOOL, TRACE, UPDATE, configs, default_root, excluded_programs,
    of_process, path, steam_app_id, text,
};

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

/// Which source is asked first for a pipeline that is not parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskFirst {
    /// The source that the table of drivers names.
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
    /// The program's number in Steam.
    pub steam: Option<u64>,
    /// [`EXCLUDED_PROGRAMS`](vkstash_model::variables::EXCLUDED_PROGRAMS).
    pub excluded_programs: Option<String>,
    /// [`UPDATE`].
    pub update: Option<bool>,
    /// [`FINISH`].
    pub finish: Option<bool>,
    /// [`TOOL`].
    pub tool: Option<PathBuf>,
    /// Digest of what drivers read beside the program's calls. Zeros: of no process.
    pub driver_options: Key,
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
            let path = |name| path(name, &of_process);
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
    /// Reads this process's environment. Whoever opens a stash has asked this for its root, so here the store gets to
    /// know the configuration files as well.
    pub fn from_environment() -> Config {
        places::use_files(configs());
        Config { driver_options: driver_options::of_process(), ..Config::from_lookup(&of_process) }
    }

    /// Reads what `lookup` knows.
    pub fn from_lookup(lookup: Lookup<'_>) -> Config {
        let path = |name| path(name, lookup);
        let text = |name| text(name, lookup);
        let identifiers = match text(IDENTIFIERS).as_str() {
            "emulate" => Identifiers::Emulate,
            "off" => Identifiers::Off,
            _ => Identifiers::Auto,
        };
        let ms = |name| text(name).parse().ok().map(Duration::from_millis);
        let switch = |name| match text(name).as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        let mode = Background::from_lookup(lookup).mode;
        let ask_first = match text(ASK_FIRST).as_str() {
            // Workers of `vkstash prewarm` ask for what programs will ask for, and not as programs do.
            _ if lookup(APPLICATION).is_some() => AskFirst::Stash,
            "driver" => AskFirst::Driver,
            "stash" => AskFirst::Stash,
            _ if mode == Some(BackgroundMode::Profiling) => AskFirst::Stash,
            _ => AskFirst::Auto,
        };
        Config {
            root: path(DIR).or_else(default_root),
            bases: lookup(BASE).map(|value| bases(&value)).unwrap_or_default(),
            identifiers,
            parks: mode.is_none_or(BackgroundMode::allows_work),
            asks_settings: mode.is_none(),
            opening: ms(OPEN_MS),
            end: ms(END_MS),
            ask_first,
            served_width: text(SERVED_WIDTH).parse().ok(),
            report: path(REPORT),
            application: AppName::of_folder(&text(APPLICATION)),
            steam: steam_app_id(lookup),
            excluded_programs: excluded_programs(lookup),
            update: switch(UPDATE),
            finish: switch(FINISH),
            tool: path(TOOL),
            driver_options: Key::default(),
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

/// Whether the layer must not do anything in this process.
///
/// VKSTASH_DISABLE counts even when it is empty, as the loader's own check does, because an explicitly loaded
/// layer is not checked by the loader (contract 1.1, contract 1.3). An elevated process must not trust its
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
    use std::ffi::OsString;

    #[test]
    fn empty_values_count_as_unset() {
        let config = Config::from_lookup(&|name| (name == REPORT || name == DIR).then(OsString::new));
        assert_eq!((config.report, config.root), (None, default_root()));
    }

    #[test]
    fn identifiers_follow_their_variable_and_nonsense_means_auto() {
        let with = |value: &'static str| {
            Config::from_lookup(&|name| (name == IDENTIFIERS).then(|| OsString::from(value))).identifiers
        };
        assert_eq!(with("emulate"), Identifiers::Emulate);
        assert_eq!(with("off"), Identifiers::Off);
        assert_eq!(with("maybe"), Identifiers::Auto);
    }

    /// The kernel sets AT_SECURE for a program that gets rights that its parent may lack: here for a copy of this
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
