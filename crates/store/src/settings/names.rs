//! The names of the settings, and what each of them means: docs/configuration.md, `vkstash config --help` and man pages
//! show this list.

/// The limit of all applications together; in an application's section the limit of that one.
pub const LIMIT: &str = "limit";
/// The limit of each application without a limit of its own.
pub const APPLICATION_LIMIT: &str = "application-limit";
/// The space that stays free.
pub const FREE_SPACE: &str = "free-space";
/// The number of days after which something unused ranks below everything else.
pub const DEVICE_AGE: &str = "device-age";
/// The module policy.
pub const MODULES: &str = "modules";
/// The mode of background work.
pub const BACKGROUND: &str = "background";
/// Whether programs may use the modes for developers.
pub const DEVELOPER_MODE: &str = "developer-mode";
/// The caches that are disabled.
pub const DISABLED_CACHES: &str = "disabled-caches";

/// Stashes that are looked into and never written.
pub const BASES: &str = "bases";

/// Patterns of the programs that the layer leaves alone.
pub const EXCLUDED_PROGRAMS: &str = "excluded-programs";

/// Whether pipelines are compiled again by themselves after an update of a driver.
pub const UPDATES: &str = "updates";
/// Processors that this may take, with no program of the stash beside it.
pub const UPDATE_PROCESSORS: &str = "update-processors";
/// Memory that this may take.
pub const UPDATE_MEMORY: &str = "update-memory";
/// Minutes that this may take at a time.
pub const UPDATE_MINUTES: &str = "update-minutes";

/// A setting, for people.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The section of an application may set it.
    pub is_of_applications: bool,
    /// What it takes in a file.
    pub value: &'static str,
    /// What counts where no file sets it: a value, or what the value depends on.
    pub default: &'static str,
    /// What it sets, in a phrase.
    pub meaning: &'static str,
    /// The page in docs/ that says more, with its section; empty: none.
    pub page: &'static str,
}

const fn setting(name: &'static str, value: &'static str, default: &'static str) -> Setting {
    Setting { name, is_of_applications: false, value, default, meaning: "", page: "" }
}

impl Setting {
    const fn of_applications(self) -> Setting {
        Setting { is_of_applications: true, ..self }
    }

    const fn means(self, meaning: &'static str, page: &'static str) -> Setting {
        Setting { meaning, page, ..self }
    }
}

const SIZE: &str = "size, or `\"none\"`";
const SWITCH: &str = "`true` or `false`";

/// All settings.
pub const SETTINGS: [Setting; 14] = [
    setting(LIMIT, SIZE, "4GiB").of_applications().means(
        "size of all applications together; in a section, of this one",
        "process.md#what-a-stash-keeps",
    ),
    setting(APPLICATION_LIMIT, SIZE, "none")
        .means("size of each application without a `limit` of its own", ""),
    setting(FREE_SPACE, SIZE, "3 % of the disk, at most 1GiB")
        .means("space that stays free; `\"none\"` is 0", ""),
    setting(DEVICE_AGE, "days, or `\"none\"`", "180")
        .means("what was made for a replaced device or driver goes so long after its last use", ""),
    setting(MODULES, "`\"all\"`, `\"none\"`, or a number", "all")
        .of_applications()
        .means("shader code that is kept; a number: what one of so many last runs has used", ""),
    setting(BACKGROUND, "`\"allowed\"`, `\"intrusive\"`, `\"disabled\"` or `\"profiling\"`", "allowed")
        .of_applications()
        .means("what background work may do", "process.md#work-ahead"),
    setting(DEVELOPER_MODE, SWITCH, "false")
        .means("programs may use the modes for developers, and control caches", "sessions.md#control"),
    setting(
        DISABLED_CACHES,
        "list of `\"compilations\"`, `\"conversions\"`, `\"driver-managed\"`, `\"sessions\"`",
        "none",
    )
    .of_applications()
    .means("caches that are neither used nor filled; the list of a section replaces that of all", ""),
    setting(BASES, "list of at most 16 absolute paths", "none")
        .means("stashes that programs read and never write", "remote.md#bases"),
    setting(EXCLUDED_PROGRAMS, "list of patterns", "the usual list")
        .means("programs that the layer leaves alone", ""),
    setting(UPDATES, SWITCH, "true")
        .means("the service compiles pipelines again after an update of a driver", "commands.md#the-service"),
    setting(UPDATE_PROCESSORS, "a number from 1 on", "half of them")
        .means("processors that this may take", ""),
    setting(UPDATE_MEMORY, SIZE, "a quarter of the machine's")
        .means("memory that its workers may take together", ""),
    setting(UPDATE_MINUTES, "a number, or `\"none\"`", "60").means("how long it may work at a time", ""),
];

/// All names.
pub const NAMES: [&str; SETTINGS.len()] = {
    let mut names = [""; SETTINGS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = SETTINGS[at].name;
        at += 1;
    }
    names
};

/// The names that an application's section may set.
pub const APPLICATION_NAMES: [&str; 4] = {
    let mut names = [""; 4];
    let (mut at, mut found) = (0, 0);
    while at < SETTINGS.len() {
        if SETTINGS[at].is_of_applications {
            names[found] = SETTINGS[at].name;
            found += 1;
        }
        at += 1;
    }
    assert!(found == names.len(), "the array is as long as the list");
    names
};
