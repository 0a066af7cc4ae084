//! The user's settings: a text file `settings` in the root, and one in each application's folder. docs/format.md
//! describes the text, docs/bounds.md the meaning.
//!
//! The lines are read without a parser for TOML or the like: each is a name and a value, the layer reads them too, and
//! every program that loads the layer would load the parser.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::base::text::is_printable;
use crate::base::util::random;
use crate::bounds::{Limits, ModulePolicy};
use crate::disk::folder::{Folder, read_at};
use crate::disk::home::MOST_BASES;
use crate::disk::{locks, ops as disk};
use crate::format::refusal::OpenError;

/// The file's name.
pub const FILE: &str = "settings";
/// Larger files are not read.
pub const MAX_BYTES: u64 = 64 << 10;

/// The limit of all applications together; in an application's folder the limit of that one.
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

/// A stash that is looked into and never written. The one name that several lines may have.
pub const BASE: &str = "base";

/// The names that the root's file may set.
pub const ROOT_NAMES: [&str; 9] = [
    LIMIT,
    APPLICATION_LIMIT,
    FREE_SPACE,
    DEVICE_AGE,
    MODULES,
    BACKGROUND,
    DEVELOPER_MODE,
    DISABLED_CACHES,
    BASE,
];
/// The names that an application's file may set.
pub const APPLICATION_NAMES: [&str; 4] = [LIMIT, MODULES, BACKGROUND, DISABLED_CACHES];

/// How long a change waits for one that another process makes. That takes two or three calls to the disk.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts to lock.
const LOCK_AFTER: Duration = Duration::from_millis(5);

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
// Not the crate bytesize, which reads sizes as floating-point numbers and takes spellings that docs/format.md does not
// have.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

/// What the layer's background work may do. docs/background.md describes the modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackgroundMode {
    /// Background work that does not slow the program down.
    #[default]
    Allowed,
    /// Rich measurements matter more than a smooth run.
    Intrusive,
    /// No background work.
    Disabled,
    /// No background work, and no behaviour that adapts to measurements.
    Profiling,
}

impl BackgroundMode {
    /// All modes.
    pub const ALL: [BackgroundMode; 4] = [
        BackgroundMode::Allowed,
        BackgroundMode::Intrusive,
        BackgroundMode::Disabled,
        BackgroundMode::Profiling,
    ];

    /// The mode's name in files, in the environment and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BackgroundMode::Allowed => "allowed",
            BackgroundMode::Intrusive => "intrusive",
            BackgroundMode::Disabled => "disabled",
            BackgroundMode::Profiling => "profiling",
        }
    }

    /// The mode of this name.
    pub fn of_name(name: &str) -> Option<BackgroundMode> {
        BackgroundMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether background work may be queued.
    pub const fn allows_work(self) -> bool {
        matches!(self, BackgroundMode::Allowed | BackgroundMode::Intrusive)
    }
}

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

/// The values of a file. None: not set. Sizes are bytes, `u64::MAX` for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// [`LIMIT`].
    pub limit: Option<u64>,
    /// [`APPLICATION_LIMIT`], in the root's file.
    pub application_limit: Option<u64>,
    /// [`FREE_SPACE`], in the root's file.
    pub free_space: Option<u64>,
    /// [`DEVICE_AGE`] in milliseconds, `u64::MAX` for no age, in the root's file.
    pub device_age_ms: Option<u64>,
    /// [`MODULES`].
    pub modules: Option<ModulePolicy>,
    /// [`BACKGROUND`].
    pub background: Option<BackgroundMode>,
    /// [`DEVELOPER_MODE`], in the root's file.
    pub developer_mode: Option<bool>,
    /// [`DISABLED_CACHES`]. Those of an application replace those of the root.
    pub disabled_caches: Option<CacheKinds>,
    /// [`BASE`], in the root's file: at most [`MOST_BASES`] absolute paths, none twice.
    pub bases: Vec<PathBuf>,
    /// The bases after these. They are ignored, and written back in their order.
    pub bases_beyond: Vec<PathBuf>,
    /// Comments, unknown names and values that are not understood, line by line. They are written back.
    pub kept: Vec<String>,
}

/// What the settings say to a program, those of its application before those of the root.
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
    /// The value is neither `on` nor `off`.
    #[error("takes on or off")]
    Switch,
    /// No absolute path, or not written as one.
    #[error("takes an absolute path, in which %25 stands for %")]
    Base,
    /// There are as many as are looked into.
    #[error("is set {MOST_BASES} times already")]
    Bases,
}

/// Why settings could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file exists, but is not read.
    #[error("{path}: {reason}", path = .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason, in words.
        reason: String,
    },
    /// The file cannot be written.
    #[error("{path} cannot be written ({source})", path = .path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process holds the lock.
    #[error("another process changes the settings in {path}; try again later", path = .path.display())]
    Busy {
        /// The root.
        path: PathBuf,
    },
    /// The lock fails.
    #[error("the settings in {path} cannot be locked ({source})", path = .path.display())]
    NotLocked {
        /// The root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Settings {
    /// The settings in an open folder. Defaults, and perhaps one log line, if the file is missing or cannot be used.
    pub(crate) fn read_in(folder: &Folder) -> Settings {
        Settings::readable_in(folder).unwrap_or_default()
    }

    /// The settings in an open folder. `None`: the file exists, but cannot be used. Nothing must be evicted then,
    /// because the user may have lifted a limit.
    pub(crate) fn readable_in(folder: &Folder) -> Option<Settings> {
        let text = text_in(folder);
        let usable = text.is_ok();
        let (settings, complaints) =
            text.map(Text::parse).unwrap_or_else(|reason| (Settings::default(), vec![reason]));
        if !complaints.is_empty() {
            let line = format!("{}: {}; ignored", folder.path().join(FILE).display(), in_a_line(&complaints));
            if is_new(&line) {
                tracing::warn!("{line}");
            }
        }
        usable.then_some(settings)
    }

    /// Writes the settings, in place of the file. If there is nothing to write the file is removed.
    pub(crate) fn write_in(&self, folder: &Folder) -> io::Result<()> {
        let text = self.to_text();
        if text.is_empty() {
            return folder.remove_file(FILE);
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        folder.replace_file(FILE, random(), text.as_bytes())
    }

    /// Parses a file's text. Also returns a complaint for each line that is ignored. Of two lines with one name the
    /// last counts.
    pub fn parse(text: &str) -> (Settings, Vec<String>) {
        let mut settings = Settings::default();
        let mut complaints = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((name, value)) = assignment(line) else {
                if !line.starts_with('#') {
                    complaints.push(format!("{} is not of the form name = value", shown(line)));
                }
                settings.kept.push(line.to_owned());
                continue;
            };
            if let Err(error) = settings.set(name, value) {
                complaints.push(format!("{} {error}", shown(name)));
                match base_of(value).filter(|_| error == ValueError::Bases) {
                    Some(base) if settings.bases_beyond.contains(&base) => {}
                    Some(base) => settings.bases_beyond.push(base),
                    None => settings.kept.push(line.to_owned()),
                }
            }
        }
        (settings, complaints)
    }

    /// The text of a file with these settings. A time is rounded up to whole days.
    pub fn to_text(&self) -> String {
        let size = |bytes: u64| if bytes == u64::MAX { "none".to_owned() } else { size_text(bytes) };
        let values = [
            (LIMIT, self.limit.map(size)),
            (APPLICATION_LIMIT, self.application_limit.map(size)),
            (FREE_SPACE, self.free_space.map(size_text)),
            (DEVICE_AGE, self.device_age_ms.map(days_text)),
            (MODULES, self.modules.map(modules_text)),
            (BACKGROUND, self.background.map(|mode| mode.name().to_owned())),
            (DEVELOPER_MODE, self.developer_mode.map(|on| if on { "on" } else { "off" }.to_owned())),
            (DISABLED_CACHES, self.disabled_caches.map(CacheKinds::text)),
        ];
        let bases = self.bases.iter().chain(&self.bases_beyond).map(|base| (BASE, Some(base_text(base))));
        let is_set = |name: &str| values.iter().any(|(known, value)| *known == name && value.is_some());
        let mut text = String::new();
        for line in &self.kept {
            if !assignment(line).is_some_and(|(name, _)| is_set(name)) {
                text.push_str(line);
                text.push('\n');
            }
        }
        let values = values.into_iter().chain(bases);
        for (name, value) in values.filter_map(|(name, value)| Some((name, value?))) {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text
    }

    /// Sets a value as it is written in a file; of [`BASE`], adds one.
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
                self.developer_mode = Some(match value.to_ascii_lowercase().as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(ValueError::Switch),
                });
            }
            DISABLED_CACHES => {
                self.disabled_caches = Some(CacheKinds::of_text(value).ok_or(ValueError::Caches)?);
            }
            BASE => {
                let base = base_of(value).ok_or(ValueError::Base)?;
                if !self.bases.contains(&base) {
                    if self.bases.len() >= MOST_BASES {
                        return Err(ValueError::Bases);
                    }
                    self.bases.push(base);
                }
            }
            _ => return Err(ValueError::Name),
        }
        Ok(())
    }

    /// Removes a setting, and ignored lines with its name.
    pub fn unset(&mut self, name: &str) {
        match name {
            LIMIT => self.limit = None,
            APPLICATION_LIMIT => self.application_limit = None,
            FREE_SPACE => self.free_space = None,
            DEVICE_AGE => self.device_age_ms = None,
            MODULES => self.modules = None,
            BACKGROUND => self.background = None,
            DEVELOPER_MODE => self.developer_mode = None,
            DISABLED_CACHES => self.disabled_caches = None,
            BASE => {
                self.bases.clear();
                self.bases_beyond.clear();
            }
            _ => {}
        }
        self.kept.retain(|line| assignment(line).is_none_or(|(of, _)| of != name));
    }

    /// The limits that these settings of a root give. `filesystem_bytes` is the size of the root's file system, for the
    /// default of the free-space floor.
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

/// The caches that are disabled for an application: by its settings, or else by those of the root. Settings that cannot
/// be read disable nothing.
pub fn disabled_caches(root: &Path, application: &str) -> CacheKinds {
    disabled_caches_unless(root, application, &|| false)
}

/// [`disabled_caches`]; nothing is disabled if `interrupted` says so before one of the two files is read.
pub fn disabled_caches_unless(root: &Path, application: &str, interrupted: &dyn Fn() -> bool) -> CacheKinds {
    for of in [Some(application), None] {
        if interrupted() {
            break;
        }
        if let Some(stored) = read(root, of).ok().and_then(|(settings, _)| settings.disabled_caches) {
            return stored;
        }
    }
    CacheKinds::NONE
}

/// Whether the process has not printed this line yet: the settings are read for the background mode, the limits and the
/// free space. A forked child does not repeat its parent's lines.
fn is_new(line: &str) -> bool {
    static SAID: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

    let hash = foldhash::quality::FixedState::default().hash_one(line) | 1;
    let said_before = |said: &AtomicU64| match said.compare_exchange(0, hash, Relaxed, Relaxed) {
        Ok(_) => Some(false),
        Err(known) => (known == hash).then_some(true),
    };
    !SAID.iter().find_map(said_before).unwrap_or(false)
}

/// Complaints as a log line has them: the first few. A pipe that nobody reads takes 64 KiB, and then holds up the
/// process that writes to it.
fn in_a_line(complaints: &[String]) -> String {
    const SAID: usize = 3;
    let (said, more) = complaints.split_at(complaints.len().min(SAID));
    let said = said.join("; ");
    if more.is_empty() { said } else { format!("{said}; and {} more", more.len()) }
}

/// The settings of a root, or of the application in that folder of it, and the complaints about the file. Defaults if
/// there is no file or no root. Takes no lock: a file is replaced as a whole.
pub fn read(root: &Path, application: Option<&str>) -> Result<(Settings, Vec<String>), SettingsError> {
    match open(root, application) {
        Ok(folder) => parsed_in(&folder),
        Err(error) if error.is_missing() => Ok(Default::default()),
        Err(error) => Err(error.into()),
    }
}

/// Changes the settings of a root, or of the application in that folder of it: reads them, calls `apply`, and writes
/// what it made of them, while no other process does the same. `apply` also gets the complaints about the file, which
/// are returned. A file that cannot be read is not replaced: a person wrote it.
///
/// The root is created if it is missing, but not if `apply` refuses: then it is called twice, the first time with
/// defaults.
pub fn change<E: From<SettingsError>>(
    root: &Path,
    application: Option<&str>,
    apply: impl Fn(&mut Settings, &[String]) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    if application.is_none() && matches!(open(root, None), Err(error) if error.is_missing()) {
        apply(&mut Settings::default(), &[])?;
    }
    let locked = Locked::of(root, application, LOCK_PATIENCE)?;
    let (mut settings, complaints) = parsed_in(&locked.folder)?;
    apply(&mut settings, &complaints)?;
    locked.write(&settings)?;
    Ok(complaints)
}

/// Writes the settings of a root, or of the application in that folder of it, whatever the file says now; [`change`]
/// keeps what it does not change. The root is created if it is missing.
pub fn write(root: &Path, application: Option<&str>, settings: &Settings) -> Result<(), SettingsError> {
    Locked::of(root, application, LOCK_PATIENCE)?.write(settings)
}

/// A folder whose settings no other process changes meanwhile.
pub(crate) struct Locked {
    /// The lock of all settings in this root, until it is closed: those of an application may depend on the root's.
    _root: Folder,
    folder: Folder,
}

impl Locked {
    /// Creates the root if it is missing.
    pub(crate) fn of(
        root: &Path,
        application: Option<&str>,
        patience: Duration,
    ) -> Result<Locked, SettingsError> {
        let locked = Folder::root(root, true)?;
        let began = Instant::now();
        loop {
            match disk::try_lock(&locked) {
                Ok(()) => break,
                // A file system without locks, or without locks of folders.
                Err(error) if locks::are_missing(error) => break,
                Err(Errno::WOULDBLOCK) if began.elapsed() >= patience => {
                    return Err(SettingsError::Busy { path: root.to_owned() });
                }
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_AFTER),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(SettingsError::NotLocked { path: root.to_owned(), source: error.into() });
                }
            }
        }
        Ok(Locked { folder: open(root, application)?, _root: locked })
    }

    fn write(&self, settings: &Settings) -> Result<(), SettingsError> {
        let not_written = |source| SettingsError::NotWritten { path: self.folder.path().join(FILE), source };
        settings.write_in(&self.folder).map_err(not_written)
    }
}

fn parsed_in(folder: &Folder) -> Result<(Settings, Vec<String>), SettingsError> {
    let unusable = |reason| SettingsError::Unusable { path: folder.path().join(FILE), reason };
    text_in(folder).map(Text::parse).map_err(unusable)
}

/// Nothing is created: the folder of an application would stay empty.
fn open(root: &Path, application: Option<&str>) -> Result<Folder, OpenError> {
    let root = Folder::root(root, false)?;
    match application {
        None => Ok(root),
        Some(name) if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) => {
            Err(OpenError::Name { name: name.to_owned() })
        }
        Some(name) => root.sub(name, false),
    }
}

/// The text of a file.
struct Text {
    text: String,
    /// Other users may write to the file.
    others_may_write: bool,
}

impl Text {
    /// [`Settings::parse`]. A driver gets what a base has, so none is taken from a file that others may write to. Such
    /// lines become comments: the file that is written next is the user's alone.
    fn parse(self) -> (Settings, Vec<String>) {
        let (mut settings, mut complaints) = Settings::parse(&self.text);
        if self.others_may_write && !settings.bases.is_empty() {
            complaints.push(format!("{BASE} does not count, because others may write to this file"));
            let bases = settings.bases.drain(..).chain(settings.bases_beyond.drain(..));
            let lines = bases.map(|base| format!("# {BASE} = {}", base_text(&base)));
            settings.kept.extend(lines);
        }
        (settings, complaints)
    }
}

/// The text of a file; empty if there is none. An error says in words why it is not read.
fn text_in(folder: &Folder) -> Result<Text, String> {
    let (fd, length) = match folder.open_file(FILE) {
        Ok(opened) => opened,
        Err(_) if is_missing(folder) => return Ok(Text { text: String::new(), others_may_write: false }),
        Err(refusal) => return Err(refusal.to_string()),
    };
    if length > MAX_BYTES {
        return Err(format!("longer than {MAX_BYTES} bytes"));
    }
    let mut bytes = Vec::new();
    read_at(&fd, &mut bytes, length as usize, 0).map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
    let others_may_write = disk::fstat(&fd).map_or(true, |stat| stat.st_mode & 0o022 != 0);
    Ok(Text { text, others_may_write })
}

fn is_missing(folder: &Folder) -> bool {
    matches!(disk::statat(folder, FILE), Err(Errno::NOENT))
}

/// Name and value of a line. None: a comment, or another line.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    Some((name.trim(), value.trim()))
}

/// A text from a file, shortened for a line of the log.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
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
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
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

/// The path of a base as it is written in a file: `%` and two digits stand for a byte that no line can have or show.
pub fn base_text(base: &Path) -> String {
    let bytes = base.as_os_str().as_bytes();
    let mut text = String::with_capacity(bytes.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        });
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '%' || !is_printable(c) || c.is_whitespace() && c != ' ' {
                escape(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(c);
            }
        }
        escape(&mut text, chunk.invalid());
    }
    // Spaces at the end of a line are not part of its value.
    let end = text.trim_end_matches(' ').len();
    let spaces = text.len() - end;
    text.truncate(end);
    escape(&mut text, &b" ".repeat(spaces));
    text
}

/// From [`base_text`]. None: no absolute path, or a `%` without two digits.
fn base_of(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
            bytes.push((digit(0)? * 16 + digit(1)?) as u8);
            rest = &after[2..];
        } else {
            bytes.push(byte);
        }
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    // One folder has one spelling, without empty names and dots.
    let path: PathBuf = path.components().collect();
    (path.is_absolute() && !path.as_os_str().as_bytes().contains(&0)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_new_once() {
        let line = |number: usize| format!("a line that no other test prints, {number}");
        assert!((0..3).all(|number| is_new(&line(number))));
        assert!(!(0..3).any(|number| is_new(&line(number))));
        // More lines than are remembered are printed each time.
        assert!((3..20).filter(|number| is_new(&line(*number))).count() == 17 && is_new(&line(19)));
    }

    #[test]
    fn a_log_line_is_short_however_many_lines_are_wrong() {
        let (_, few) = Settings::parse("limit = much\nx\n");
        assert_eq!(in_a_line(&few), few.join("; "));
        let (_, many) = Settings::parse(&"x\n".repeat(2000));
        let line = in_a_line(&many);
        assert!(line.len() < 300 && line.ends_with("; and 1997 more"), "{line}");
    }
}
