//! The name of an application's folder, made of its program's file, of what that calls itself, and of its place.

use sha2::{Digest, Sha256};

use vkstash_host::program::Program;
use vkstash_host::text::hex;

/// The longest display name, in bytes.
const MAX_DISPLAY: usize = 48;
/// Hexadecimal digits of each of the two digests.
const DIGITS: usize = 8;

/// The name of an application's stash: a readable part and two digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppName {
    /// The readable part: the file's name without its extension, with unusual characters replaced.
    pub display: String,
    /// The folder's name: the readable part and the two digests, with hyphens between them.
    pub folder: String,
}

/// The properties by which applications are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// VkApplicationInfo::pApplicationName; may be any bytes, and empty.
    pub application: &'a [u8],
    /// The program.
    pub program: &'a Program,
    /// The number that Steam has given to the game. Other programs that the game starts (launchers, handlers of
    /// crashes) have the same number and another file.
    pub steam: Option<u64>,
}

impl AppName {
    /// The name of the application with this identity.
    ///
    /// The first digest is of what the application is: its file's name, and what it calls itself. It is the same on all
    /// machines ([`AppName::are_kin`]). The second one is of where it is installed: its number in Steam, and the last
    /// two folders of a program of Windows, because many games are called `Game.exe`.
    pub fn of(identity: &Identity<'_>) -> AppName {
        let file = identity.program.file();
        let display = [stem(file), identity.application]
            .into_iter()
            .map(sanitised)
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| "unnamed".to_owned());
        let steam = identity.steam.map(|number| number.to_string()).unwrap_or_default();
        let [outer, inner] = identity.program.folders();
        let what = digits(b"vkstash application 2", &[identity.application, file]);
        let place = digits(b"vkstash installation 2", &[steam.as_bytes(), outer, inner]);
        let folder = format!("{display}-{what}-{place}");
        AppName { display, folder }
    }

    /// The name of an application that Steam has not started. `application`: what it calls itself; `path`: that of its
    /// file.
    pub fn new(application: Option<&[u8]>, path: &[u8]) -> AppName {
        let program = Program::of(path, &[]);
        AppName::of(&Identity {
            application: application.unwrap_or_default(),
            program: &program,
            steam: None,
        })
    }

    /// Whether folders of these names are of one application, whose installations may differ.
    pub fn are_kin(one: &str, other: &str) -> bool {
        let what = |folder: &str| folder.len().checked_sub(DIGITS + 1);
        // Of the many folders of a base nearly all differ here.
        let is_same =
            what(one).is_some_and(|end| one.get(..end).is_some_and(|what| other.get(..end) == Some(what)));
        is_same && split(one).is_some() && split(other).is_some()
    }

    /// The name with this folder. `None` if the folder's name has another form.
    pub fn of_folder(folder: &str) -> Option<AppName> {
        let display = split(folder).filter(|display| sanitised(display.as_bytes()) == *display)?;
        Some(AppName { display: display.to_owned(), folder: folder.to_owned() })
    }

    /// Whether folders of applications were called so before this program was released: one digest stood where two
    /// stand now. Nothing reads them.
    pub fn is_old_folder(folder: &str) -> bool {
        let digest = folder.rsplit_once('-').filter(|(display, _)| !display.is_empty());
        digest.is_some_and(|(_, digest)| are_digits(digest, 2 * DIGITS))
    }

    /// Whether a folder of this name is one of an application, and may be deleted as such.
    pub fn is_folder(name: &str) -> bool {
        split(name).is_some() || AppName::is_old_folder(name)
    }

    /// The readable part of a folder's name; all of it if it has another form.
    pub fn display_of(folder: &str) -> &str {
        split(folder).unwrap_or(folder)
    }
}

/// The readable part of a folder's name.
fn split(folder: &str) -> Option<&str> {
    let (rest, place) = folder.rsplit_once('-')?;
    let (display, what) = rest.rsplit_once('-')?;
    let is_ours = !display.is_empty() && are_digits(what, DIGITS) && are_digits(place, DIGITS);
    is_ours.then_some(display)
}

fn are_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Digits of a digest of these inputs, whatever bytes they have.
fn digits(domain: &[u8], inputs: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    hash.update(domain);
    for input in inputs {
        hash.update((input.len() as u64).to_le_bytes());
        hash.update(input);
    }
    let digest: [u8; 32] = hash.finalize().into();
    hex(&digest[..DIGITS / 2])
}

/// A file name without its extension. A leading dot does not start an extension.
fn stem(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

/// Letters, digits, `.`, `_` and `-`. A run of other characters becomes one `_`. May be empty.
pub fn sanitised(name: &[u8]) -> String {
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
        AppName::new(Some(application), executable)
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
    fn an_application_is_called_by_its_file_and_else_what_it_calls_itself() {
        assert_eq!(name(b"wgpu", b"/usr/bin/Half Life: 3.x86_64").display, "Half_Life_3");
        assert_eq!(name(b"Half Life: 3", b"/usr/bin/..").display, "Half_Life_3");
        assert_eq!(AppName::new(None, b"/opt/.hidden").display, "hidden");
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
    fn games_of_one_name_are_told_apart_by_their_installation_and_are_kin() {
        let wine = |path: &str, steam: Option<u64>| {
            let program = Program::of(b"/usr/bin/wine64", &[b"wine64".into(), path.into()]);
            AppName::of(&Identity { application: b"Game.exe", program: &program, steam }).folder
        };
        let one = wine(r"C:\Games\One\Game.exe", None);
        let others = [
            wine(r"C:\Games\Two\Game.exe", None),
            wine(r"C:\Spiele\One\Game.exe", None),
            wine(r"C:\Games\One\Game.exe", Some(620)),
            wine(r"C:\Games\One\Game.exe", Some(400)),
        ];
        for (place, other) in others.iter().enumerate() {
            assert!(*other != one && AppName::are_kin(other, &one), "{other}");
            assert!(others[..place].iter().all(|before| before != other), "{other}");
        }
        assert_eq!(wine("/home/u/.wine/drive_c/Games/One/Game.exe", None), one);
        let handler = wine(r"C:\Games\One\UnityCrashHandler64.exe", Some(620));
        assert!(!AppName::are_kin(&handler, &others[2]), "{handler}");
        assert!(!AppName::are_kin(&name(b"engine", b"/a/game").folder, &name(b"engine2", b"/a/game").folder));
        assert!(!AppName::are_kin("game", "game"));
        assert!(AppName::is_old_folder("game-0123456789abcdef") && !AppName::is_old_folder(&one));
        assert_eq!(AppName::of_folder("game-0123456789abcdef"), None);
    }
}
