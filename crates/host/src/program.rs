//! Program of a process: the file that it runs, which is not always the one that the kernel has started.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use libc::c_ulong;

use crate::once::OnceLock;

/// What the kernel appends to the path of a file that is gone.
const DELETED: &[u8] = b" (deleted)";
/// Executables of Wine. The program that runs in them is named on their command line.
const WINE: [&[u8]; 4] = [b"wine", b"wine64", b"wine-preloader", b"wine64-preloader"];
/// The folder of a prefix that is Windows' drive C.
const DRIVE_C: &[u8] = b"drive_c";

/// The program of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The path of its file; of Windows, the path as Windows or as Unix writes it. May be any bytes.
    path: Vec<u8>,
    is_of_windows: bool,
}

impl Program {
    /// The program of a process with this executable and command line: the executable or, where that is Wine's, the
    /// first argument that ends in `.exe`.
    pub fn of(executable: &[u8], command_line: &[Vec<u8>]) -> Program {
        let of_windows = match WINE.contains(&file_name(executable, b"/")) {
            true => command_line.iter().find(|argument| is_exe(argument)),
            false => None,
        };
        let path = of_windows.map_or(executable, |argument| argument);
        Program { path: path.into(), is_of_windows: of_windows.is_some() || is_exe(executable) }
    }

    /// The program of this process. It stays the same when the process goes to another directory.
    pub fn of_this_process() -> &'static Program {
        static KNOWN: OnceLock<Program> = OnceLock::new();
        KNOWN.get_or_init(Program::find)
    }

    fn find() -> Program {
        let command_line: Vec<_> = std::env::args_os().map(OsString::into_vec).collect();
        // Some sandboxes have no /proc.
        let executable = executable().or_else(|| command_line.first().cloned()).unwrap_or_default();
        Program::of(&executable, &command_line).found_here()
    }

    /// A program of Windows that was named by a path from the working directory, by its whole path. One that has left
    /// that directory since keeps the path that it was given.
    fn found_here(mut self) -> Program {
        let is_absolute = matches!(self.path.as_slice(), [b'/' | b'\\', ..] | [_, b':', ..]);
        if let (true, Ok(here)) = (self.is_of_windows && !is_absolute, std::env::current_dir()) {
            let path: Vec<_> =
                self.path.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
            let path = here.join(OsStr::from_bytes(&path));
            if path.is_file() {
                self.path = path.into_os_string().into_vec();
            }
        }
        self
    }

    /// The path, for people.
    pub fn path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }

    /// The name of its file.
    pub fn file(&self) -> &[u8] {
        file_name(&self.path, self.separators())
    }

    /// The folders that tell a program of Windows from others whose file has the same name: the last two, as far as
    /// they are on its drive, so that each way to write the path has the same. None of a program of Unix, which is
    /// started in other places after each update.
    pub fn folders(&self) -> [&[u8]; 2] {
        let mut last: [&[u8]; 2] = [b"", b""];
        if !self.is_of_windows {
            return last;
        }
        let separators = self.separators();
        let folder = &self.path[..self.path.len() - self.file().len()];
        for name in folder.split(|byte| separators.contains(byte)) {
            match name {
                b"" | b"." | b"?" => {}
                drive if drive.ends_with(b":") || drive == DRIVE_C => last = [b"", b""],
                name => last = [last[1], name],
            }
        }
        last
    }

    fn separators(&self) -> &'static [u8] {
        if self.is_of_windows { b"/\\" } else { b"/" }
    }
}

/// The path of this process's executable: where the dynamic linker was started with a program as its argument, as
/// AppImages do it, the path of that program. None: there is no /proc.
fn executable() -> Option<Vec<u8>> {
    if let Some(path) = started_by_linker() {
        return Some(path);
    }
    let mut executable = fs::read_link("/proc/self/exe").ok()?.into_os_string().into_vec();
    // An updater may have replaced the file of a running program.
    if executable.ends_with(DELETED) {
        executable.truncate(executable.len() - DELETED.len());
    }
    Some(executable)
}

/// The path of the program that the dynamic linker has loaded, if it was started itself. The kernel has loaded no
/// linker for it then, so it gives no address of one; and the linkers of glibc and of musl replace the address of the
/// entry point, which was their own, with the program's.
fn started_by_linker() -> Option<Vec<u8>> {
    // SAFETY: getauxval reads the process's auxiliary vector and has no preconditions.
    let (linker, entry) = unsafe { (libc::getauxval(libc::AT_BASE), libc::getauxval(libc::AT_ENTRY)) };
    if linker != 0 {
        return None;
    }
    let maps = fs::read("/proc/self/maps").ok()?;
    let path = maps.split(|byte| *byte == b'\n').find_map(|line| path_of_mapping(line, entry))?;
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    Path::new(OsStr::from_bytes(path)).is_absolute().then(|| path.into())
}

/// The path in a line of /proc/self/maps, if its range has this address:
/// `55d0c8a00000-55d0c8a01000 r-xp 00001000 fe:00 10248844    /path`.
fn path_of_mapping(line: &[u8], address: c_ulong) -> Option<&[u8]> {
    let hex = |digits: &[u8]| c_ulong::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (start, rest) = split_once(line, b'-')?;
    let (end, _) = split_once(rest, b' ')?;
    let has_address = (hex(start)?..hex(end)?).contains(&address);
    let path = line.iter().position(|byte| *byte == b'/').filter(|_| has_address)?;
    Some(&line[path..])
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

fn file_name<'a>(path: &'a [u8], separators: &[u8]) -> &'a [u8] {
    path.rsplit(|byte| separators.contains(byte)).next().unwrap_or(path)
}

fn is_exe(name: &[u8]) -> bool {
    name.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b".exe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_wine(path: &str) -> Program {
        let line = ["wine64-preloader", path, "other.exe"].map(|argument| argument.as_bytes().to_vec());
        Program::of(b"/usr/lib/wine/wine64-preloader", &line)
    }

    #[test]
    fn under_wine_the_windows_program_is_the_program() {
        let line = |arguments: &[&str]| -> Vec<Vec<u8>> {
            arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect()
        };
        let arguments = line(&["wine64-preloader", r"C:\Games\Some Game\GAME.EXE", "other.exe"]);
        for loader in ["/usr/bin/wine", "/usr/bin/wine64", "/x/wine-preloader", "/x/wine64-preloader"] {
            assert_eq!(Program::of(loader.as_bytes(), &arguments).file(), b"GAME.EXE");
        }
        assert_eq!(Program::of(b"/usr/bin/wine64", &line(&["wine64"])).file(), b"wine64");
        assert_eq!(Program::of(b"/usr/bin/game", &arguments).file(), b"game");
    }

    #[test]
    fn the_last_two_folders_are_the_same_however_the_path_is_written() {
        let same = [
            r"C:\Games\Some Game\Game.exe",
            r"\\?\C:\Games\Some Game\Game.exe",
            r"c:/Games/Some Game/Game.exe",
            r"Z:\home\u\.wine\drive_c\Games\Some Game\Game.exe",
            "/home/u/.wine/drive_c/Games/Some Game/Game.exe",
            "/home/u/.wine/dosdevices/c:/Games/./Some Game//Game.exe",
        ];
        for path in same {
            let program = in_wine(path);
            assert_eq!(
                (program.folders(), program.file()),
                ([&b"Games"[..], b"Some Game"], &b"Game.exe"[..])
            );
        }
        assert_eq!(in_wine(r"D:\a\b\c\Game.exe").folders(), [&b"b"[..], b"c"]);
        assert_eq!(in_wine(r"C:\One\Game.exe").folders(), [&b""[..], b"One"]);
        assert_eq!(in_wine("Game.exe").folders(), [&b""[..], b""]);
        assert_eq!(Program::of(b"/opt/a/game", &[]).folders(), [&b""[..], b""]);
        assert_eq!(Program::of(b"/opt/a/b/Game.exe", &[]).folders(), [&b"a"[..], b"b"]);
    }

    #[test]
    fn a_mapping_is_found_by_an_address_in_it() {
        let line = b"55d00000-55d01000 r-xp 00001000 fe:00 10248844                   /a/the game";
        assert_eq!(path_of_mapping(line, 0x55d0_0fff), Some(&b"/a/the game"[..]));
        assert_eq!(path_of_mapping(line, 0x55d0_1000), None);
        let nameless = b"7f239000-7f23a000 rw-p 00000000 00:00 0 ";
        assert_eq!(path_of_mapping(nameless, 0x7f23_9000), None);
        for broken in [&b""[..], b"-", b"- ", b"x-y /z", b"1-2"] {
            assert_eq!(path_of_mapping(broken, 1), None);
        }
    }

    #[test]
    fn the_program_of_this_process_is_its_executable() {
        let executable = std::env::current_exe().unwrap();
        assert_eq!(Program::of_this_process().path(), executable.to_str().unwrap());
    }
}
