//! The configuration files: where they are, and which one counts.

use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::file::{Complaint, Config, Wrong};
use super::names::{BASES, EXCLUDED_PROGRAMS};
use super::values::{CacheKinds, Settings};
use crate::bounds::Limits;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{Folder, read_at};
use vkstash_host::disk::ops as disk;
use vkstash_host::once::OnceLock;
use vkstash_host::timer::never;
use vkstash_model::variables::CONFIG_FILE;

/// Larger files are not read.
pub const MAX_BYTES: u64 = 64 << 10;

/// The files of this process: the user's, and those of the system.
static OF_PROCESS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Names the files that count before that of a root, the first one before the others. Called once, before a stash is
/// opened: the environment that says where they are is read when the process starts.
pub fn use_files(files: Vec<PathBuf>) {
    let _ = OF_PROCESS.set(files);
}

/// The configuration files that count for a root, as they are on the disk now.
#[derive(Debug, Default)]
pub struct Configuration {
    /// What stands in an earlier one counts before what stands in a later one.
    files: Vec<ConfigFile>,
}

/// One of them. Files that are missing are none.
#[derive(Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says; nothing if it cannot be read.
    pub config: Config,
    /// Why it cannot be read.
    pub refused: Option<String>,
}

impl Configuration {
    /// The files, what counts first in front.
    pub fn files(&self) -> &[ConfigFile] {
        &self.files
    }

    /// What is set for all applications together.
    pub fn all(&self) -> Settings {
        self.files.iter().fold(Settings::default(), |settings, file| settings.or(&file.config.all))
    }

    /// What is set for the application with this folder alone.
    pub fn of(&self, folder: &str) -> Settings {
        self.files.iter().fold(Settings::default(), |settings, file| settings.or(&file.config.of(folder)))
    }

    /// The limits, for whoever evicts something because of one. None: nothing must be evicted, because a file cannot be
    /// read or is no TOML, and the user may have lifted a limit in it. `filesystem_bytes` as in [`Settings::limits`].
    pub fn limits_to_enforce(&self, filesystem_bytes: u64) -> Option<Limits> {
        self.is_sound().then(|| self.all().limits(filesystem_bytes))
    }

    /// Whether every file was read and understood as TOML.
    fn is_sound(&self) -> bool {
        self.files.iter().all(|file| file.refused.is_none() && file.config.is_toml)
    }

    /// What is ignored, with the file's path before it.
    pub fn complaints(&self) -> Vec<String> {
        let of = |file: &ConfigFile| {
            let refused = file.refused.iter().cloned();
            let wrong = file.config.complaints.iter().map(Complaint::to_string);
            refused.chain(wrong).map(|what| format!("{}: {what}", file.path.display())).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of).collect()
    }
}

/// The files for a root that may be missing.
pub fn read(root: &Path) -> Configuration {
    match Folder::root(root, false) {
        Ok(root) => read_in(&root),
        Err(_) => of_files(None, &never).unwrap_or_default(),
    }
}

/// The files for an open root. Perhaps a log line, if there is something wrong with one.
pub fn read_in(root: &Folder) -> Configuration {
    read_unless(root, &never).unwrap_or_default()
}

/// The same. None: `interrupted` has said so before a file was read.
pub(crate) fn read_unless(root: &Folder, interrupted: &dyn Fn() -> bool) -> Option<Configuration> {
    let read = of_files(Some(root), interrupted)?;
    let complaints = read.complaints();
    if !complaints.is_empty() {
        let line = format!("{}; ignored", in_a_line(&complaints));
        if is_new(&line) {
            tracing::warn!("{line}");
        }
    }
    Some(read)
}

fn of_files(root: Option<&Folder>, interrupted: &dyn Fn() -> bool) -> Option<Configuration> {
    let mut read = Configuration::default();
    for path in OF_PROCESS.get().into_iter().flatten() {
        if interrupted() {
            return None;
        }
        read.files.extend(of_path(path));
    }
    if let Some(root) = root {
        if interrupted() {
            return None;
        }
        read.files.extend(of_root(root));
    }
    Some(read)
}

/// The file at a path. None: it is missing.
pub fn of_path(path: &Path) -> Option<ConfigFile> {
    // A pipe is opened without waiting for its other end, and is then refused.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    if matches!(opened, Err(Errno::NOENT | Errno::NOTDIR)) {
        return None;
    }
    let text = opened.and_then(Descriptor::new).map_err(in_words).and_then(|fd| Text::of(&fd));
    Some(ConfigFile::of(path.to_owned(), text, false))
}

fn of_root(root: &Folder) -> Option<ConfigFile> {
    let text = match root.open_file(CONFIG_FILE) {
        Ok((fd, _)) => Text::of(&fd),
        Err(_) if matches!(disk::statat(root, CONFIG_FILE), Err(Errno::NOENT)) => return None,
        Err(refusal) => Err(refusal.to_string()),
    };
    Some(ConfigFile::of(root.path().join(CONFIG_FILE), text, true))
}

impl ConfigFile {
    fn of(path: PathBuf, text: Result<Text, String>, is_of_root: bool) -> ConfigFile {
        match text {
            Ok(text) => ConfigFile { path, config: text.parse(is_of_root), refused: None },
            Err(reason) => ConfigFile { path, config: Config::default(), refused: Some(reason) },
        }
    }
}

/// The text of a file.
struct Text {
    text: String,
    /// Other users may write to the file.
    others_may_write: bool,
}

fn in_words(error: Errno) -> String {
    format!("cannot be read: {}", std::io::Error::from(error))
}

impl Text {
    fn of(fd: &Descriptor) -> Result<Text, String> {
        let stat = disk::fstat(fd).map_err(in_words)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err("is no regular file".to_owned());
        }
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        if length > MAX_BYTES {
            return Err(format!("is longer than {MAX_BYTES} bytes"));
        }
        let mut bytes = Vec::new();
        read_at(fd, &mut bytes, length as usize, 0).map_err(|error| format!("cannot be read: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
        Ok(Text { text, others_may_write: stat.st_mode & 0o022 != 0 })
    }

    /// A driver gets what a base has, so none is taken from a file that others may write to. Which programs are left
    /// alone is not asked of a root ([`excluded_programs`]).
    fn parse(self, is_of_root: bool) -> Config {
        let mut config = Config::parse(&self.text);
        if self.others_may_write && !config.all.bases.is_empty() {
            config.all.bases.clear();
            config.complain(&self.text, BASES, Wrong::OthersMayWrite);
        }
        if is_of_root && config.all.excluded_programs.take().is_some() {
            config.complain(&self.text, EXCLUDED_PROGRAMS, Wrong::OfRoot);
        }
        config
    }
}

/// The caches that are disabled for an application. Files that cannot be read disable nothing.
pub fn disabled_caches(root: &Path, application: &str) -> CacheKinds {
    disabled_caches_unless(root, application, &never)
}

/// [`disabled_caches`]; nothing is disabled if `interrupted` says so before all files are read.
pub fn disabled_caches_unless(root: &Path, application: &str, interrupted: &dyn Fn() -> bool) -> CacheKinds {
    let root = Folder::root(root, false).ok();
    let read = of_files(root.as_ref(), interrupted);
    let disabled = read.and_then(|read| read.of(application).disabled_caches.or(read.all().disabled_caches));
    disabled.unwrap_or_default()
}

/// The patterns of programs that are left alone, of the user's files and the system's. None: not set.
///
/// A program asks while it creates an instance, when no stash is open. A stash may lie on a disk that does not answer,
/// so its file is not read; these files lie in folders in which the Vulkan loader has read its own in the same call.
pub fn excluded_programs() -> Option<String> {
    of_files(None, &never)?.all().excluded_programs
}

/// Whether the process has not printed this line yet: the files are read for the background mode, the limits and the
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
    let said: Vec<String> = said.iter().map(|complaint| complaint.chars().take(300).collect()).collect();
    let said = said.join("; ");
    if more.is_empty() { said } else { format!("{said}; and {} more", more.len()) }
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
        let many: Vec<String> = (0..2000).map(|number| format!("line {number}: wrong")).collect();
        assert_eq!(in_a_line(&many[..2]), "line 0: wrong; line 1: wrong");
        assert_eq!(in_a_line(&many), "line 0: wrong; line 1: wrong; line 2: wrong; and 1997 more");
        assert!(in_a_line(&["x".repeat(100_000)]).len() <= 300);
    }
}
