//! The name of an application's folder, made of what the program calls itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use sha2::{Digest, Sha256};

use crate::base::text::hex;

/// The longest display name, in bytes.
const MAX_DISPLAY: usize = 48;

/// What the kernel appends to the path of a file that is gone.
const DELETED: &[u8] = b" (deleted)";

/// Executables of Wine. The program that runs in them is named on their command line.
const WINE: [&[u8]; 4] = [b"wine", b"wine64", b"wine-preloader", b"wine64-preloader"];

/// The name of an application's stash: a readable part and a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppName {
    /// The readable part: the application's name with unusual characters replaced.
    pub display: String,
    /// The folder's name: the readable part, a hyphen and 16 hexadecimal digits.
    pub folder: String,
}

impl AppName {
    /// From VkApplicationInfo::pApplicationName and the command line of the process. All of them may be any bytes.
    ///
    /// Programs share a stash if both the application's name and the file name of the executable are equal. Under Wine
    /// the executable is the first argument that ends in `.exe`.
    pub fn new(application: Option<&[u8]>, executable: &[u8], command_line: &[Vec<u8>]) -> AppName {
        let (path, separators) = program(executable, command_line);
        let file = file_name(path, separators);
        let application = application.unwrap_or_default();
        let display = [application, stem(file)]
            .into_iter()
            .map(sanitised)
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| "unnamed".to_owned());
        let mut hash = Sha256::new();
        hash.update(b"vkstash application 1");
        for input in [application, file] {
            hash.update((input.len() as u64).to_le_bytes());
            hash.update(input);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let folder = format!("{display}-{}", hex(&digest[..8]));
        AppName { display, folder }
    }

    /// The name of this process.
    pub fn of_process(application: Option<&[u8]>) -> AppName {
        let (executable, command_line) = this_process();
        AppName::new(application, &executable, &command_line)
    }

    /// The name with this folder. `None` if the folder's name has another form.
    pub fn of_folder(folder: &str) -> Option<AppName> {
        let (display, digest) = folder.rsplit_once('-')?;
        let is_digest =
            digest.len() == 16 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_ours = is_digest && !display.is_empty() && sanitised(display.as_bytes()) == display;
        is_ours.then(|| AppName { display: display.to_owned(), folder: folder.to_owned() })
    }

    /// The readable part of a folder's name; all of it if it has another form.
    pub(crate) fn display_of(folder: &str) -> &str {
        match folder.rsplit_once('-') {
            Some((display, digest)) if digest.len() == 16 && !display.is_empty() => display,
            _ => folder,
        }
    }
}

/// The path of the file whose name [`AppName::new`] takes, for people: two applications of one name are told apart by
/// it.
pub fn program_of_process() -> String {
    let (executable, command_line) = this_process();
    String::from_utf8_lossy(program(&executable, &command_line).0).into_owned()
}

/// The path of the executable, and the command line.
fn this_process() -> (Vec<u8>, Vec<Vec<u8>>) {
    let command_line: Vec<_> = std::env::args_os().map(OsString::into_vec).collect();
    let mut executable = match std::fs::read_link("/proc/self/exe") {
        Ok(path) => path.into_os_string().into_vec(),
        // Some sandboxes have no /proc.
        Err(_) => command_line.first().cloned().unwrap_or_default(),
    };
    // The kernel appends this when an updater has replaced the file of a running program.
    if executable.ends_with(DELETED) {
        executable.truncate(executable.len() - DELETED.len());
    }
    (executable, command_line)
}

/// The path of the file that a process runs, and what stands between its names: its executable or, under Wine, the
/// first argument that ends in `.exe`.
fn program<'a>(executable: &'a [u8], command_line: &'a [Vec<u8>]) -> (&'a [u8], &'static [u8]) {
    let of_windows = match WINE.contains(&file_name(executable, b"/")) {
        true => command_line.iter().find(|argument| is_exe(argument)),
        false => None,
    };
    of_windows.map_or((executable, b"/"), |argument| (argument, b"/\\"))
}

fn file_name<'a>(path: &'a [u8], separators: &[u8]) -> &'a [u8] {
    path.rsplit(|byte| separators.contains(byte)).next().unwrap_or(path)
}

fn is_exe(name: &[u8]) -> bool {
    name.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b".exe"))
}

/// A file name without its extension. A leading dot does not start an extension.
fn stem(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

/// Letters, digits, `.`, `_` and `-`. A run of other characters becomes one `_`. May be empty.
pub(crate) fn sanitised(name: &[u8]) -> String {
    let mut text = String::new();
    for &byte in name {
        let good = byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let last = text.chars().next_back();
        match (good, last) {
            (true, None) if byte == b'.' => {}
            (true, _) => text.push(char::from(byte)),
            (false, None | Some('_')) => {}
            (false, Some(_)) => text.push('_'),
        }
        if text.len() == MAX_DISPLAY {
            break;
        }
    }
    let end = text.trim_end_matches(['_', '.']).len();
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(application: &[u8], executable: &[u8]) -> AppName {
        AppName::new(Some(application), executable, &[])
    }

    #[test]
    fn whatever_a_program_calls_itself_is_a_harmless_folder() {
        let long = vec![b'x'; 4096];
        let all: Vec<u8> = (0..=255).collect();
        let inputs: [&[u8]; 9] =
            [b"", b".", b"..", b"../../etc/passwd", b"/", b"\xff\xfe\x80", &long, &all, b"\n -rf *"];
        for application in inputs {
            for executable in inputs {
                let name = name(application, executable);
                assert!(name.display.len() <= MAX_DISPLAY && !name.display.is_empty(), "{name:?}");
                assert!(!name.folder.starts_with('.'), "{name:?}");
                let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                assert!(name.folder.chars().all(good), "{name:?}");
                assert_eq!(AppName::display_of(&name.folder), name.display);
                assert_eq!(AppName::of_folder(&name.folder), Some(name));
            }
        }
        assert_eq!(name(b"", b"").display, "unnamed");
        assert_eq!(name(b"../", b"").display, "unnamed");
    }

    #[test]
    fn the_application_names_itself_before_its_executable_does() {
        assert_eq!(name(b"Half Life: 3", b"/usr/bin/hl3.x86_64").display, "Half_Life_3");
        assert_eq!(name(b"", b"/usr/bin/hl3.x86_64").display, "hl3");
        assert_eq!(AppName::new(None, b"/opt/.hidden", &[]).display, "hidden");
    }

    #[test]
    fn different_programs_never_share_a_folder() {
        let one = name(b"engine", b"/opt/a/game1");
        assert_ne!(one.folder, name(b"engine", b"/opt/a/game2").folder);
        assert_ne!(one.folder, name(b"engine2", b"/opt/a/game1").folder);
        assert_ne!(name(b"a?", b"x").folder, name(b"a!", b"x").folder);
        assert_ne!(name(b"ab", b"c").folder, name(b"a", b"bc").folder);
        assert_eq!(one.folder, name(b"engine", b"/moved/game1").folder);
    }

    #[test]
    fn under_wine_the_windows_program_is_the_application() {
        let line = |arguments: &[&str]| -> Vec<Vec<u8>> {
            arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect()
        };
        let arguments = line(&["wine64-preloader", r"C:\Games\Some Game\GAME.EXE", "other.exe"]);
        for loader in ["/usr/bin/wine", "/usr/bin/wine64", "/x/wine-preloader", "/x/wine64-preloader"] {
            assert_eq!(AppName::new(None, loader.as_bytes(), &arguments).display, "GAME");
        }
        assert_eq!(AppName::new(None, b"/usr/bin/wine64", &line(&["wine64"])).display, "wine64");
        assert_eq!(AppName::new(None, b"/usr/bin/game", &arguments).display, "game");
    }
}
