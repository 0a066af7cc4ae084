//! Facts about this machine and a command before the command runs: the GPUs, and the program that it starts.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use vkstash_model::app_name::AppName;
use vkstash_model::command;

use crate::home::names_in;
use crate::pull::Gpu;

/// Display controllers, by the first digits of their PCI class.
const DISPLAY: &str = "0x03";
/// AMD, NVIDIA, Intel: what Vulkan calls their GPUs is what PCI calls them.
const KNOWN: [u32; 3] = [0x1002, 0x10de, 0x8086];
/// ASPEED, Matrox: consoles of servers, which no Vulkan driver has.
const CONSOLES: [u32; 2] = [0x1a03, 0x102b];

/// The GPUs of this machine. None: there may be others (virtual ones, those of systems on a chip).
pub(crate) fn gpus(devices: &Path) -> Option<Vec<Gpu>> {
    let read = |device: &str, name: &str| fs::read_to_string(devices.join(device).join(name)).ok();
    let number = |text: String| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
    let mut found = Vec::new();
    for device in names_in(devices) {
        if read(&device, "class").is_some_and(|class| class.starts_with(DISPLAY)) {
            let [vendor, device] = ["vendor", "device"].map(|name| read(&device, name).and_then(number));
            found.push((vendor?, device?));
        }
    }
    found.retain(|(vendor, _)| !CONSOLES.contains(vendor));
    let all_known = found.iter().all(|(vendor, _)| KNOWN.contains(vendor));
    (all_known && !found.is_empty()).then_some(found)
}

/// The program that a command starts, as far as it is known before it runs.
pub(crate) struct Program {
    /// What the name of its folder begins with.
    display: String,
}

impl Program {
    /// The program that a command starts. None: there is none.
    pub(crate) fn of(command: &[OsString], path: Option<&OsStr>) -> Option<Program> {
        let words: Vec<_> = command.iter().map(|word| word.as_bytes()).collect();
        let word = command::program(&words);
        if command::is_exe(word) {
            return Some(Program { display: AppName::new(None, word).display });
        }
        let name = Path::new(OsStr::from_bytes(word));
        let is_program = |file: &PathBuf| {
            file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let found = match name.components().count() {
            0 => return None,
            1 if !word.contains(&b'/') => {
                std::env::split_paths(path?).map(|folder| folder.join(name)).find(is_program)?
            }
            _ => name.to_owned(),
        };
        let executable = found.canonicalize().ok()?;
        Some(Program { display: AppName::new(None, executable.as_os_str().as_bytes()).display })
    }

    /// Whether that may be the folder of its application, wherever that is installed, and whatever it calls itself.
    pub(crate) fn may_be(&self, folder: &str) -> bool {
        crate::names::application(folder).is_some_and(|name| name.display == self.display)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

    use super::*;

    #[test]
    fn programs_are_known_by_their_file_whatever_they_call_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("game.x86_64");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&file, folder.path().join("link")).unwrap();
        let program = |command: &[&str]| {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            Program::of(&command, Some(folder.path().as_os_str()))
        };
        let of =
            |name: Option<&str>, file: &str| AppName::new(name.map(str::as_bytes), file.as_bytes()).folder;
        for command in ["link", "game.x86_64", file.to_str().unwrap()] {
            let program = program(&[command]).unwrap();
            for name in [None, Some("engine"), Some("My Game")] {
                assert!(program.may_be(&of(name, "/elsewhere/game.x86_64")), "{command}, {name:?}");
                assert!(!program.may_be(&of(name, "/elsewhere/other")), "{command}, {name:?}");
            }
        }
        assert!(program(&["no-such-program"]).is_none() && program(&[]).is_none());
        let wrapped = program(&["nice", "-n", "5", "link"]).unwrap();
        assert!(wrapped.may_be(&of(None, "/elsewhere/game.x86_64")));
        let in_wine = program(&["wine", r"C:\a\Game.exe"]).unwrap();
        assert!(in_wine.may_be(&of(None, "/elsewhere/Game.exe")));
    }

    #[test]
    fn gpus_are_known_where_all_of_them_are() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str, class: &str, vendor: &str, device: &str| {
            fs::create_dir(folder.path().join(name)).unwrap();
            for (file, text) in [("class", class), ("vendor", vendor), ("device", device)] {
                fs::write(folder.path().join(name).join(file), format!("{text}\n")).unwrap();
            }
        };
        add("0", "0x020000", "0x8086", "0x1234");
        assert_eq!(gpus(folder.path()), None);
        add("1", "0x030200", "0x10de", "0x2335");
        add("2", "0x030000", "0x1a03", "0x2000");
        assert_eq!(gpus(folder.path()), Some(vec![(0x10de, 0x2335)]));
        add("3", "0x030000", "0x1af4", "0x1050");
        assert_eq!(gpus(folder.path()), None);
    }
}
