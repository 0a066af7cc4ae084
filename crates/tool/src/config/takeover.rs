//! Settings files of the first versions: `settings` in the root and in the folders of applications, lines of the form
//! `name = value`. They become part of the configuration file, once, and are kept as `settings.old`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use vkstash_store::format::app_name::AppName;
use vkstash_store::settings::places::OLD_FILE;
use vkstash_store::settings::{APPLICATION_NAMES, BASES, NAMES, Settings};

use super::edit::{self, Application, Change, EditError};
use crate::output::eprint_line;
use crate::units::plain;

/// The name that a file has afterwards.
const KEPT_AS: &str = "settings.old";
/// Larger files were not read.
const MAX_BYTES: u64 = 64 << 10;

/// Takes over the files of a root, and says so. What fails is said, and stays.
pub(crate) fn take_over(root: &Path, dir: Option<&Path>) {
    for (folder, application) in folders(root) {
        let file = folder.join(OLD_FILE);
        let is_file = file.symlink_metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
        let Some(text) = is_file.then(|| fs::read_to_string(&file).ok()).flatten() else { continue };
        let (changes, left) = changes(&text, application.is_some());
        match take(dir, application.as_ref(), changes) {
            Ok(path) => {
                let kept = folder.join(KEPT_AS);
                let moved = fs::rename(&file, &kept);
                let (file, path, kept) = (file.display(), path.display(), kept.display());
                match moved {
                    Ok(()) => eprint_line(&format!("{file} is now part of {path}, and kept as {kept}")),
                    Err(error) => eprint_line(&format!("{file} is now part of {path}, but stays: {error}")),
                }
                for line in left {
                    eprint_line(&format!("not taken over: {}", plain(&line)));
                }
            }
            Err(error) => eprint_line(&format!("{} is not taken over: {error}", file.display())),
        }
    }
}

/// The root, and the folders of applications, that have such a file.
fn folders(root: &Path) -> Vec<(PathBuf, Option<AppName>)> {
    let has_one = |folder: &Path| folder.join(OLD_FILE).symlink_metadata().is_ok();
    let mut folders = Vec::new();
    if has_one(root) {
        folders.push((root.to_owned(), None));
    }
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().ok().and_then(|name| AppName::of_folder(&name));
        if let Some(name) = name.filter(|_| has_one(&entry.path())) {
            folders.push((entry.path(), Some(name)));
        }
    }
    folders
}

/// What a file sets, and the lines that are not understood.
fn changes(text: &str, is_application: bool) -> (Vec<Change>, Vec<String>) {
    let (mut changes, mut bases, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, value) =
            line.split_once('=').map_or((line, ""), |(name, value)| (name.trim(), value.trim()));
        let known = if is_application { &APPLICATION_NAMES[..] } else { &NAMES[..] };
        let known = known.iter().find(|known| **known == name).copied();
        match (name, known) {
            ("base", _) if !is_application => match path_of(value) {
                Some(base) if Settings::default().set(BASES, &base).is_ok() => bases.push(base),
                _ => left.push(line.to_owned()),
            },
            (_, Some(known)) if known != BASES && Settings::default().set(known, value).is_ok() => {
                changes.push(Change::Set(known, value.to_owned()));
            }
            _ => left.push(line.to_owned()),
        }
    }
    if !bases.is_empty() {
        changes.push(Change::SetList(BASES, bases));
    }
    (changes, left)
}

/// The path of a base: `%` and two digits stood for a byte. None: TOML has no such text.
fn path_of(text: &str) -> Option<String> {
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
    OsString::from_vec(bytes).into_string().ok()
}

/// Writes what the configuration file does not set yet.
fn take(
    dir: Option<&Path>,
    application: Option<&AppName>,
    changes: Vec<Change>,
) -> Result<PathBuf, EditError> {
    let path = edit::target(dir)?;
    let of = application.map(|name| Application { name: &name.folder, folder: &name.folder });
    edit::change(&path, of.as_ref(), |config| {
        let set = application.map_or_else(|| config.all.clone(), |name| config.of(&name.folder));
        Ok(changes.into_iter().filter(|change| set.text(change.name()).is_none()).collect())
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt as _;

    use vkstash_store::settings::places::FILE;

    use super::*;

    #[test]
    fn each_file_is_taken_over_once_and_kept() {
        let root = tempfile::tempdir().unwrap();
        let game = root.path().join("game-0123456789abcdef");
        DirBuilder::new().mode(0o700).create(&game).unwrap();
        let old = "# mine\nlimit = 4GiB\nbase = /srv/a%20b\nbase = /srv/%FF\nbackground=intrusive\nshaders = 3\nnonsense\n";
        fs::write(root.path().join(OLD_FILE), old).unwrap();
        fs::write(game.join(OLD_FILE), "modules = 20\nfree-space = 1\n").unwrap();
        fs::write(root.path().join(FILE), "background = 'allowed'\n").unwrap();
        for _ in 0..2 {
            take_over(root.path(), Some(root.path()));
        }
        let expected = "background = 'allowed'\nlimit = \"4GiB\"\nbases = [\"/srv/a b\"]\n\n\
                        [application.game-0123456789abcdef]\nmodules = 20\n";
        assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), expected);
        assert_eq!(fs::read_to_string(root.path().join(KEPT_AS)).unwrap(), old);
        assert!(game.join(KEPT_AS).exists() && folders(root.path()).is_empty());
        assert_eq!(changes(old, false).1, ["base = /srv/%FF", "shaders = 3", "nonsense"]);
        assert_eq!(changes("free-space = 1", true).1, ["free-space = 1"]);
    }

    #[test]
    fn what_cannot_be_taken_over_stays() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(OLD_FILE), "limit = 4GiB\n").unwrap();
        fs::write(root.path().join(FILE), "limit =\n").unwrap();
        take_over(root.path(), Some(root.path()));
        assert!(root.path().join(OLD_FILE).exists());
        assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), "limit =\n");
    }
}
