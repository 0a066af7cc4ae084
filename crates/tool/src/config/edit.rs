//! Changing a configuration file: what a person wrote in it, comments and order, stays.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use toml_edit::{Array, DocumentMut, Item, Table, TomlError, Value};
use vkstash_host::owner;
use vkstash_model::variables;
use vkstash_model::variables::CONFIG_FILE;
use vkstash_store::settings::file::{APPLICATION, Config, is_of};
use vkstash_store::settings::places::{MAX_BYTES, of_path};
use vkstash_store::settings::{
    APPLICATION_NAMES, BASES, DEVELOPER_MODE, DISABLED_CACHES, EXCLUDED_PROGRAMS, Settings, UPDATES,
    ValueError,
};

use super::problems::suggestion;
use crate::term::units::plain;

/// How long a change waits for one that another process makes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts to lock.
const ATTEMPT_AFTER: Duration = Duration::from_millis(5);

/// Why a file is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error(
        "cannot tell where your configuration is: neither HOME nor XDG_CONFIG_HOME is set; name it with VKSTASH_CONFIG"
    )]
    NoHome,
    #[error("`{name}` is no setting{suggestion}: `vkstash config` lists them")]
    Name { name: String, suggestion: String },
    #[error("`{name}` {error}")]
    Value { name: String, error: ValueError },
    #[error("`{0}` is set for all applications together, not for one")]
    NotOfApplications(String),
    #[error("{}: {reason}; nothing was changed", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("{} is no TOML, and was not changed: {}", path.display(), first_line(source))]
    Toml { path: PathBuf, source: Box<TomlError> },
    #[error("{} would be root's in a folder of user {owner}; run this as that user", path.display())]
    OfAnother { path: PathBuf, owner: u32 },
    #[error("{} cannot be written ({source})", path.display())]
    NotWritten { path: PathBuf, source: io::Error },
    #[error("another process changes {}; try again later", .0.display())]
    Busy(PathBuf),
}

/// The error's place and reason; its picture of the line takes several lines.
fn first_line(error: &TomlError) -> String {
    let text = error.to_string();
    let place = text.lines().next().unwrap_or_default().trim_start_matches("TOML parse error at ");
    format!("{place}: {}", error.message().lines().next().unwrap_or_default())
}

/// A change.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Sets a value, as it is written on the command line.
    Set(&'static str, String),
    /// Sets a list.
    SetList(&'static str, Vec<String>),
    /// Removes a value.
    Unset(&'static str),
}

impl Change {
    /// The setting.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Change::Set(name, _) | Change::SetList(name, _) | Change::Unset(name) => name,
        }
    }
}

/// The file that is changed: that of a stash which was named, or the user's.
pub(crate) fn target(dir: Option<&Path>) -> Result<PathBuf, EditError> {
    let own = || variables::user_config().ok_or(EditError::NoHome);
    dir.map_or_else(own, |dir| Ok(dir.join(CONFIG_FILE)))
}

/// Changes the settings of all applications, or of the one with this name and folder. The folder of the file and the
/// file are created if they are missing. `plan` gets what the file says, which no other process changes meanwhile.
pub(crate) fn change<E: From<EditError>>(
    path: &Path,
    application: Option<&Application<'_>>,
    plan: impl FnOnce(&Config) -> Result<Vec<Change>, E>,
) -> Result<(), E> {
    // Through a link, as users have who keep such files elsewhere.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _locked = locked(&path)?;
    let text = text_of(&path)?;
    let changes = plan(&Config::parse(&text))?;
    if changes.is_empty() {
        return Ok(());
    }
    check(&changes, application.is_some())?;
    // toml_edit would put the byte-order mark before the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let failed = |source| EditError::Toml { path: path.clone(), source: Box::new(source) };
    let mut document = text.parse::<DocumentMut>().map_err(failed)?;
    let table = match application {
        None => Some(document.as_table_mut()),
        Some(application) => section(document.as_table_mut(), application),
    };
    let not_a_table =
        || EditError::Unusable { path: path.clone(), reason: format!("`{APPLICATION}` is no table") };
    let table = table.ok_or_else(not_a_table)?;
    for change in &changes {
        match change {
            Change::Set(name, text) => put(table, name, written(name, text)),
            Change::SetList(name, all) => put(table, name, all.iter().collect::<Array>().into()),
            Change::Unset(name) => _ = table.remove(name),
        }
    }
    drop_empty_sections(document.as_table_mut());
    let failed = |source| EditError::NotWritten { path: path.clone(), source };
    Ok(write(&path, &document.to_string()).map_err(failed)?)
}

/// An application whose section is changed.
pub(crate) struct Application<'a> {
    /// The section gets this name, unless there is one for the application.
    pub(crate) name: &'a str,
    pub(crate) folder: &'a str,
}

fn check(changes: &[Change], is_application: bool) -> Result<(), EditError> {
    let mut settings = Settings::default();
    for change in changes {
        if is_application && !APPLICATION_NAMES.contains(&change.name()) {
            return Err(EditError::NotOfApplications(change.name().to_owned()));
        }
        let (name, set) = match change {
            Change::Set(name, text) => (name, settings.set(name, text)),
            Change::SetList(name, all) => (name, settings.set_list(name, all)),
            Change::Unset(_) => continue,
        };
        set.map_err(|error| match error {
            ValueError::Name => EditError::Name { name: plain(name), suggestion: suggestion(name) },
            error => EditError::Value { name: (*name).to_owned(), error },
        })?;
    }
    Ok(())
}

/// Sets a value; what stands around the one before stays.
fn put(table: &mut Table, name: &str, mut new: Value) {
    let Some(item) = table.get_mut(name) else {
        table.insert(name, Item::Value(new));
        return;
    };
    if let Some(old) = item.as_value() {
        *new.decor_mut() = old.decor().clone();
    }
    // The key stays: the comment above it is the key's.
    *item = Item::Value(new);
}

/// A value as a file has it: `true`, `30`, a list, or text.
fn written(name: &str, text: &str) -> Value {
    match (name, text) {
        (DEVELOPER_MODE | UPDATES, _) => ["on", "true"].iter().any(|on| text.eq_ignore_ascii_case(on)).into(),
        (DISABLED_CACHES | EXCLUDED_PROGRAMS, text) if text.eq_ignore_ascii_case("none") => {
            Array::new().into()
        }
        (BASES | EXCLUDED_PROGRAMS, _) => Array::from_iter([text]).into(),
        (DISABLED_CACHES, text) => text.split_whitespace().collect::<Array>().into(),
        (_, text) => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

/// The application's section. None: `application` is no table.
fn section<'a>(document: &'a mut Table, application: &Application<'_>) -> Option<&'a mut Table> {
    let applications = document.entry(APPLICATION).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let applications = applications.as_table_mut()?;
    let known = applications.iter().map(|(name, _)| name).find(|name| is_of(name, application.folder));
    let name = known.unwrap_or(application.name).to_owned();
    applications.entry(&name).or_insert_with(toml_edit::table).as_table_mut()
}

fn drop_empty_sections(document: &mut Table) {
    let Some(applications) = document.get_mut(APPLICATION).and_then(Item::as_table_mut) else { return };
    applications.retain(|_, section| section.as_table().is_none_or(|section| !section.is_empty()));
    if applications.is_empty() {
        document.remove(APPLICATION);
    }
}

fn text_of(path: &Path) -> Result<String, EditError> {
    // The same look as the layer's, which refuses pipes, folders, and what is too long.
    match of_path(path).and_then(|file| file.refused) {
        Some(reason) => Err(EditError::Unusable { path: path.to_owned(), reason }),
        None if !path.exists() => Ok(String::new()),
        None => fs::read_to_string(path)
            .map_err(|error| EditError::Unusable { path: path.to_owned(), reason: error.to_string() }),
    }
}

/// The lock on the folder of the file, until it is closed. The folder is created if it is missing.
fn locked(path: &Path) -> Result<rustix::fd::OwnedFd, EditError> {
    let failed = |error: Errno| EditError::NotWritten { path: path.to_owned(), source: error.into() };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if let Some(owner) = owner::whose(folder) {
        return Err(EditError::OfAnother { path: path.to_owned(), owner });
    }
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|source| EditError::NotWritten { path: path.to_owned(), source })?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(failed)?;
    let began = Instant::now();
    loop {
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() >= PATIENCE => {
                return Err(EditError::Busy(path.to_owned()));
            }
            Err(Errno::WOULDBLOCK) => std::thread::sleep(ATTEMPT_AFTER),
            Err(Errno::INTR) => {}
            // A file system without locks, or without locks of folders.
            Ok(()) | Err(_) => return Ok(opened),
        }
    }
}

/// Puts the text in the file's place, with the rights that the file has. A file without text goes.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it would be longer than {MAX_BYTES} bytes")));
    }
    if text.trim().is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".config-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    let mode = fs::metadata(path).map_or(0o644, |file| file.mode() & 0o777);
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAME: Application<'static> =
        Application { name: "Elden Ring", folder: "Elden_Ring-01234567-89abcdef" };

    fn changed(text: &str, application: Option<&Application<'_>>, changes: &[Change]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CONFIG_FILE);
        if !text.is_empty() {
            fs::write(&path, text).unwrap();
        }
        change(&path, application, |_| Ok::<_, EditError>(changes.to_vec())).unwrap();
        fs::read_to_string(path).unwrap_or_default()
    }

    fn set(name: &'static str, value: &str) -> Change {
        Change::Set(name, value.to_owned())
    }

    #[test]
    fn what_a_person_wrote_stays() {
        let text =
            "# mine\r\nlimit = '1GiB' # enough\n\ncolour = 'red'\n\n[application.elden_ring]\nmodules = 3\n";
        let expected =
            "# mine\nlimit = \"4GiB\" # enough\n\ncolour = 'red'\n\n[application.elden_ring]\nmodules = 3\n";
        assert_eq!(changed(text, None, &[set("limit", "4GiB")]), expected);
        let once =
            changed("", None, &[set("limit", "4GiB"), set("device-age", "30"), set("developer-mode", "on")]);
        assert_eq!(once, "limit = \"4GiB\"\ndevice-age = 30\ndeveloper-mode = true\n");
        assert_eq!(changed("", None, &[set("updates", "True")]), "updates = true\n");
        assert_eq!(changed("", None, &[set("updates", "false")]), "updates = false\n");
        let bases = Change::SetList("bases", vec!["/a b".to_owned(), "/c\"d".to_owned()]);
        assert_eq!(changed("", None, &[bases]), "bases = [\"/a b\", '/c\"d']\n");
        assert_eq!(changed("", None, &[set("disabled-caches", "none")]), "disabled-caches = []\n");
        assert_eq!(changed("limit = 1\n", None, &[Change::Unset("limit")]), "", "a file without text goes");
    }

    #[test]
    fn an_application_has_one_section() {
        let once = changed("", Some(&GAME), &[set("limit", "none")]);
        assert_eq!(once, "[application.\"Elden Ring\"]\nlimit = \"none\"\n");
        let of_folder = "[application.Elden_Ring-01234567-89abcdef]\nmodules = 3\n";
        let expected = "[application.Elden_Ring-01234567-89abcdef]\nmodules = 3\nlimit = \"none\"\n";
        assert_eq!(changed(of_folder, Some(&GAME), &[set("limit", "none")]), expected);
        let gone = changed(&once, Some(&GAME), &[Change::Unset("limit")]);
        assert_eq!(gone, "");
    }

    #[test]
    fn what_cannot_be_changed_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CONFIG_FILE);
        let refused = |text: &[u8], change_to: Change| {
            fs::write(&path, text).unwrap();
            let error = change(&path, None, |_| Ok::<_, EditError>(vec![change_to])).unwrap_err().to_string();
            assert_eq!(fs::read(&path).unwrap(), text);
            error.replace(&path.display().to_string(), "FILE")
        };
        let limit = || set("limit", "1GiB");
        assert_eq!(
            refused(b"a = 1\nlimit =\n", limit()),
            "FILE is no TOML, and was not changed: line 2, column 8: string values must be quoted, expected literal string"
        );
        assert_eq!(refused(b"\xff", limit()), "FILE: is not UTF-8 text; nothing was changed");
        assert_eq!(
            refused(b"", set("limt", "1")),
            "`limt` is no setting, but `limit` is: `vkstash config` lists them"
        );
        assert!(refused(b"", set("limit", "much")).starts_with("`limit` takes a size"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = change(&path, None, |_| Ok::<_, EditError>(vec![limit()])).unwrap_err().to_string();
        assert!(error.ends_with("is no regular file; nothing was changed"), "{error}");
    }

    #[test]
    fn a_link_stays_a_link_and_changes_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, real) =
            (folder.path().join("vkstash").join(CONFIG_FILE), folder.path().join("dotfiles.toml"));
        fs::create_dir(folder.path().join("vkstash")).unwrap();
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        std::thread::scope(|scope| {
            for number in 0..16 {
                let (path, name) = (&path, format!("game{number}"));
                scope.spawn(move || {
                    let application = Application { name: &name, folder: &name };
                    let plan = |_: &Config| Ok::<_, EditError>(vec![set("limit", "1GiB")]);
                    change(path, Some(&application), plan).unwrap();
                });
            }
        });
        assert!(path.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap().matches("[application.game").count(), 16);
    }
}
