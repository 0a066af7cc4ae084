//! Places where the service is enabled, as systemd and desktops would find it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::{ENTRY, SERVICE, WANTS};
use crate::system::regular;
use crate::term::units::plain;

/// No entry is larger.
const MOST_BYTES: u64 = 1 << 16;

/// Where it is looked for.
struct Search {
    /// Folders of units, the first of which counts.
    units: Vec<PathBuf>,
    /// Folders of entries for autostart, the first of which counts.
    autostart: Vec<PathBuf>,
    systemd_runs: bool,
}

/// The state of something by its name in the first folder that has it.
enum State {
    There(PathBuf),
    /// A link to /dev/null, or an empty file, forbids it.
    Masked(PathBuf),
    Nowhere,
}

/// Lines for the user: where the service is enabled, or why it is not.
pub(crate) fn places() -> Vec<String> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let dirs = directories::BaseDirs::new();
    let config = dirs.as_ref().map(|dirs| dirs.config_dir().to_owned());
    let data = dirs.as_ref().map(|dirs| dirs.data_dir().to_owned());
    let below = |folder: &Option<PathBuf>| folder.as_ref().map(|folder| folder.join("systemd/user"));
    let system = ["/usr/local/lib/systemd/user", "/usr/lib/systemd/user"].map(PathBuf::from);
    let units =
        below(&config).into_iter().chain(["/etc/systemd/user".into()]).chain(below(&data)).chain(system);
    let all = set("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    let configs = config.clone().into_iter().chain(env::split_paths(&all));
    Search {
        units: units.collect(),
        autostart: configs.map(|folder| folder.join("autostart")).collect(),
        // As sd_booted(3) has it.
        systemd_runs: Path::new("/run/systemd/system").is_dir(),
    }
    .places()
}

impl Search {
    fn places(&self) -> Vec<String> {
        let shown = |path: &Path| plain(&path.to_string_lossy());
        let mut lines = Vec::new();
        match self.by_systemd() {
            State::There(path) if self.systemd_runs => return vec![format!("by systemd: {}", shown(&path))],
            State::There(path) => {
                lines.push(format!("by systemd, which does not run here: {}", shown(&path)))
            }
            State::Masked(path) => lines.push(format!("masked: {}", shown(&path))),
            State::Nowhere => {}
        }
        if let State::There(path) = first(&self.autostart, Path::new(ENTRY)) {
            // Other desktops leave the entry to systemd.
            let when = if self.systemd_runs { "at login, by a desktop without systemd" } else { "at login" };
            lines.push(format!("{}: {}", if is_hidden(&path) { "hidden" } else { when }, shown(&path)));
        }
        if lines.is_empty() {
            lines.push("not installed: `vkstash install` or a package puts it in place".to_owned());
        }
        lines
    }

    /// The link by which systemd finds the first unit of [`WANTS`] that is neither masked nor missing.
    fn by_systemd(&self) -> State {
        let mut masked = match first(&self.units, Path::new(SERVICE)) {
            State::There(_) => None,
            other => return other,
        };
        for (wants, name) in WANTS {
            match (first(&self.units, &Path::new(wants).join(name)), first(&self.units, Path::new(name))) {
                (State::There(link), State::There(_)) => return State::There(link),
                (State::Masked(path), State::There(_)) | (State::There(_), State::Masked(path)) => {
                    masked.get_or_insert(path);
                }
                _ => {}
            }
        }
        masked.map_or(State::Nowhere, State::Masked)
    }
}

fn first(folders: &[PathBuf], name: &Path) -> State {
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.symlink_metadata().is_ok());
    match found {
        None => State::Nowhere,
        Some(path) => {
            let is_empty = fs::metadata(&path).is_ok_and(|file| !file.is_dir() && file.len() == 0);
            if is_empty { State::Masked(path) } else { State::There(path) }
        }
    }
}

/// Whether the entry counts as deleted: settings of a desktop write that.
fn is_hidden(path: &Path) -> bool {
    let bytes = regular::read(path, MOST_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().any(|line| {
        let line: String = line.split_whitespace().collect();
        ["Hidden=true", "X-GNOME-Autostart-enabled=false"].contains(&line.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::super::{PATH, TIMER};

    /// Folders as of a user and of the system, and what is found in them, without the folder of the test.
    struct Places(TempDir);

    impl Places {
        fn new() -> Places {
            Places(tempfile::tempdir().unwrap())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn link(&self, path: &str, target: &str) {
            self.write(path, "");
            let path = self.0.path().join(path);
            fs::remove_file(&path).unwrap();
            symlink(target, path).unwrap();
        }

        fn remove(&self, path: &str) {
            fs::remove_file(self.0.path().join(path)).unwrap();
        }

        fn install(&self, folder: &str, of_links: &str) {
            for name in [SERVICE, TIMER, PATH] {
                self.write(&format!("{folder}/{name}"), "[Unit]\n");
            }
            for (wants, name) in WANTS {
                self.link(&format!("{of_links}/{wants}/{name}"), name);
            }
        }

        fn shown(&self, systemd_runs: bool) -> Vec<String> {
            let folders = |names: &[&str]| names.iter().map(|name| self.0.path().join(name)).collect();
            let units = folders(&["config", "etc", "data", "lib"]);
            let lines = Search { units, autostart: folders(&["autostart", "xdg"]), systemd_runs }.places();
            let folder = format!("{}/", self.0.path().display());
            lines.iter().map(|line| line.replace(&folder, "")).collect()
        }
    }

    #[test]
    fn the_first_folder_with_a_link_is_shown() {
        let places = Places::new();
        let nothing = ["not installed: `vkstash install` or a package puts it in place"];
        assert_eq!(places.shown(true), nothing);
        places.link("config/timers.target.wants/vkstash-prewarm.timer", "/gone");
        assert_eq!(places.shown(true), nothing, "a link alone starts nothing");
        places.install("lib", "lib");
        places.remove("config/timers.target.wants/vkstash-prewarm.timer");
        assert_eq!(places.shown(true), ["by systemd: lib/timers.target.wants/vkstash-prewarm.timer"]);
        places.install("data", "config");
        assert_eq!(places.shown(true), ["by systemd: config/timers.target.wants/vkstash-prewarm.timer"]);
        let expected =
            "by systemd, which does not run here: config/timers.target.wants/vkstash-prewarm.timer";
        assert_eq!(places.shown(false), [expected]);
        places.write("xdg/vkstash-prewarm.desktop", "[Desktop Entry]\n");
        assert_eq!(places.shown(true).len(), 1);
        assert_eq!(places.shown(false), [expected, "at login: xdg/vkstash-prewarm.desktop"]);
    }

    #[test]
    fn what_is_masked_does_not_count_as_enabled() {
        let places = Places::new();
        places.install("lib", "lib");
        places.link("config/vkstash-prewarm.timer", "/dev/null");
        let of_path = ["by systemd: lib/default.target.wants/vkstash-prewarm.path"];
        assert_eq!(places.shown(true), of_path, "the other unit still starts it");
        places.write("etc/default.target.wants/vkstash-prewarm.path", "");
        assert_eq!(places.shown(true), ["masked: config/vkstash-prewarm.timer"]);
        places.remove("config/vkstash-prewarm.timer");
        places.link("etc/vkstash-prewarm.service", "/dev/null");
        assert_eq!(places.shown(true), ["masked: etc/vkstash-prewarm.service"]);
        places.write("xdg/vkstash-prewarm.desktop", "[Desktop Entry]\n");
        assert_eq!(
            places.shown(true)[1..],
            ["at login, by a desktop without systemd: xdg/vkstash-prewarm.desktop"]
        );
        places.write("autostart/vkstash-prewarm.desktop", "[Desktop Entry]\nHidden = true\n");
        assert_eq!(places.shown(true)[1..], ["hidden: autostart/vkstash-prewarm.desktop"]);
    }
}
