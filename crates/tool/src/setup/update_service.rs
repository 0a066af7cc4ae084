//! The service that compiles pipelines again after an update of a driver: the files that `vkstash install` writes for
//! it.
//!
//! - `enabled` where it is enabled
//! - `manager` what the user's systemd is told of it

pub(crate) mod enabled;
pub(crate) mod manager;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::layer::manifest::{self, ManifestError, Occupant};

const SERVICE: &str = "vkstash-prewarm.service";
const TIMER: &str = "vkstash-prewarm.timer";
const PATH: &str = "vkstash-prewarm.path";
/// Starts the service at login where systemd does not run the session.
const ENTRY: &str = "vkstash-prewarm.desktop";

const UNITS: [(&str, &str); 3] = [
    (SERVICE, include_str!("../../../../contrib/systemd/vkstash-prewarm.service")),
    (TIMER, include_str!("../../../../contrib/systemd/vkstash-prewarm.timer")),
    (PATH, include_str!("../../../../contrib/systemd/vkstash-prewarm.path")),
];
const ENTRY_TEXT: &str = include_str!("../../../../contrib/autostart/vkstash-prewarm.desktop");

/// A link to the unit in this folder, beside or above the unit's own, enables it.
const WANTS: [(&str, &str); 2] = [("timers.target.wants", TIMER), ("default.target.wants", PATH)];

/// How all of these files begin, in every version.
const BEGINNING: &[u8] = b"# vkstash: compiles pipelines again";
/// The tool in the templates.
const TOOL: &str = "/usr/bin/vkstash";

/// Why the service is not installed. Everything else is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeftOut {
    #[error("cannot tell where this tool is: {0}")]
    Unknown(io::Error),
    #[error("there is no {}, which it would start", .0.display())]
    NoTool(PathBuf),
    #[error("the path {0:?} of the tool has characters with a meaning in units of systemd")]
    Odd(PathBuf),
}

/// A file or a link that `vkstash install` writes.
pub(crate) struct Planned {
    pub(crate) folder: PathBuf,
    name: &'static str,
    content: Content,
}

enum Content {
    Text(String),
    /// A symbolic link to that.
    Link(PathBuf),
}

impl Planned {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// What is at the path. `systemctl enable` makes the same links, perhaps to a unit in another folder.
    pub(crate) fn occupant(&self) -> Result<Occupant, ManifestError> {
        let path = self.path();
        match (&self.content, fs::read_link(&path)) {
            (Content::Link(_), Ok(target)) if target.file_name() == Some(OsStr::new(self.name)) => {
                Ok(Occupant::Ours)
            }
            (Content::Link(_), _) => manifest::occupant_by(&path, |_| false),
            (Content::Text(_), _) => manifest::occupant_by(&path, |bytes| bytes.starts_with(BEGINNING)),
        }
    }

    /// Writes it in place of what was there.
    pub(crate) fn write(&self) -> Result<PathBuf, ManifestError> {
        let (folder, path) = (&self.folder, self.path());
        let target = match &self.content {
            Content::Text(text) => return manifest::install(folder, self.name, text),
            Content::Link(target) => target,
        };
        let linked = fs::create_dir_all(folder).and_then(|()| {
            let builder =
                || tempfile::Builder::new().prefix(".vkstash-").make_in(folder, |at| symlink(target, at));
            Ok(builder()?.persist(&path)?)
        });
        match linked {
            Ok(_) => Ok(path),
            Err(error) => Err(ManifestError::Write { path, error }),
        }
    }
}

/// The folders of the service's files.
pub(crate) struct Folders {
    units: PathBuf,
    /// Of the folders of [`WANTS`].
    wants: PathBuf,
    /// Of the units, as the links name it.
    named: PathBuf,
    /// None: desktops do not search below this prefix.
    autostart: Option<PathBuf>,
    /// What the service starts.
    tool: Result<PathBuf, LeftOut>,
}

impl Folders {
    /// Of one user, with these folders for data and configuration. `staged` puts a packager's folder in front.
    pub(crate) fn of_user(data: &Path, config: &Path, staged: &dyn Fn(PathBuf) -> PathBuf) -> Folders {
        let units = data.join("systemd/user");
        let tool = env::current_exe().and_then(fs::canonicalize).map_err(LeftOut::Unknown);
        Folders {
            units: staged(units.clone()),
            wants: staged(config.join("systemd/user")),
            named: units,
            autostart: Some(staged(config.join("autostart"))),
            tool: tool.and_then(without_odd_characters),
        }
    }

    /// Of all users, with the tool below this prefix. Not staged, it must be there.
    pub(crate) fn of_all(prefix: &Path, is_staged: bool, staged: &dyn Fn(PathBuf) -> PathBuf) -> Folders {
        let units = staged(prefix.join("lib/systemd/user"));
        let is_searched = [Path::new("/usr"), Path::new("/usr/local")].contains(&prefix);
        let tool = without_odd_characters(prefix.join("bin/vkstash"));
        Folders {
            wants: units.clone(),
            units,
            // So that the folder may be moved as a whole.
            named: PathBuf::from(".."),
            autostart: is_searched.then(|| staged("/etc/xdg/autostart".into())),
            tool: tool.and_then(|tool| {
                if is_staged || tool.exists() { Ok(tool) } else { Err(LeftOut::NoTool(tool)) }
            }),
        }
    }

    /// The files to write.
    pub(crate) fn plan(&self) -> Result<Vec<Planned>, &LeftOut> {
        let tool = self.tool.as_ref()?;
        Ok(self.files(&tool.to_string_lossy()))
    }

    /// The files that may have been written, whatever the tool.
    pub(crate) fn written(&self) -> Vec<Planned> {
        self.files(TOOL)
    }

    fn files(&self, tool: &str) -> Vec<Planned> {
        let text = |template: &str| Content::Text(template.replace(TOOL, tool));
        let units = UNITS.iter().map(|&(name, template)| Planned {
            folder: self.units.clone(),
            name,
            content: text(template),
        });
        let links = WANTS.iter().map(|&(wants, name)| Planned {
            folder: self.wants.join(wants),
            name,
            content: Content::Link(self.named.join(name)),
        });
        let entry = self.autostart.iter().map(|folder| Planned {
            folder: folder.clone(),
            name: ENTRY,
            content: text(ENTRY_TEXT),
        });
        units.chain(links).chain(entry).collect()
    }
}

/// The path, if systemd and desktops read it as it stands, without quotes.
fn without_odd_characters(path: PathBuf) -> Result<PathBuf, LeftOut> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "\"'`\\%$&|<>~;*?#()".contains(c);
    match path.to_str() {
        Some(text) if !text.contains(is_odd) => Ok(path),
        _ => Err(LeftOut::Odd(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_begins_as_files_of_the_tool_do_and_names_the_tool() {
        for (_, text) in UNITS.into_iter().chain([(ENTRY, ENTRY_TEXT)]) {
            assert!(text.as_bytes().starts_with(BEGINNING), "{text}");
        }
        assert!(UNITS[0].1.contains(TOOL) && ENTRY_TEXT.matches(TOOL).count() == 2);
    }

    #[test]
    fn odd_characters_are_those_that_systemd_or_a_desktop_would_read_otherwise() {
        let is_odd = |path: &str| without_odd_characters(path.into()).is_err();
        assert!(!is_odd("/home/jörg/.local/bin/vkstash-0.1_a+b") && !is_odd("/a@b:c,d=e"));
        for c in " \t\n\u{a0}\"'%\\$&|;`~".chars() {
            assert!(is_odd(&format!("/a{c}b/vkstash")), "{c:?}");
        }
    }

    #[test]
    fn desktops_search_entries_of_the_system_alone() {
        let staged = |path: PathBuf| Path::new("/stage").join(path.strip_prefix("/").unwrap());
        let entry = |prefix: &str| Folders::of_all(Path::new(prefix), true, &staged).autostart;
        let expected = Some(PathBuf::from("/stage/etc/xdg/autostart"));
        assert_eq!((entry("/usr"), entry("/usr/local/")), (expected.clone(), expected));
        assert_eq!(entry("/opt/vkstash"), None);
    }
}
