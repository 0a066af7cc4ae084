//! `vkstash watch` on a terminal, whose state is afterwards what it was. Programs are watched in
//! `layer-tests/tests/watch.rs`.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::process::ExitStatus;

use super::*;

/// What `vkstash watch` shows once there is a picture: the cursor is hidden after each.
pub(super) const PICTURE: &str = "\x1b[?25l";

/// A terminal, and what is typed and seen there.
pub(super) struct Terminal {
    pub(super) typed: File,
    shown: File,
}

/// What the terminal is set to.
fn state(terminal: &File) -> (Vec<libc::tcflag_t>, Vec<u8>) {
    // SAFETY: all zeros is a valid termios; tcgetattr fills it in for an open terminal.
    let settings = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut settings), 0);
        settings
    };
    let flags = [settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag];
    (flags.into(), settings.c_cc.into())
}

impl Terminal {
    /// None, with a line that says why, where there are no terminals.
    pub(super) fn open(columns: u16, rows: u16) -> Option<Terminal> {
        let (mut master, mut terminal) = (-1, -1);
        let size = libc::winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: openpty writes the two numbers, reads the size, and NULL stands for what is not wanted.
        let opened = unsafe {
            let none = std::ptr::null_mut();
            libc::openpty(&mut master, &mut terminal, none, std::ptr::null(), &raw const size)
        };
        if opened != 0 {
            let why = std::io::Error::last_os_error();
            skip::not_here(&skip::this_test(), &format!("no terminals: {why}"));
            return None;
        }
        // A command with the other end would keep its own terminal open.
        for end in [master, terminal] {
            // SAFETY: it is open, and the flag is a constant.
            assert_eq!(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
        }
        // SAFETY: openpty opened both, and nothing else owns them.
        let (typed, shown) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(terminal)) };
        Some(Terminal { typed, shown })
    }

    /// The command here, as the leader of a session with this terminal, or in the test's own.
    pub(super) fn start(&self, mut command: Command, leads: bool) -> Child {
        command.env("TERM", "xterm");
        let [input, output, errors] = [(); 3].map(|()| self.shown.try_clone().unwrap());
        command.stdin(input).stdout(output).stderr(errors);
        // SAFETY: setsid and ioctl are async-signal-safe; standard input is the terminal by now.
        unsafe {
            command.pre_exec(move || {
                if !leads {
                    return Ok(());
                }
                libc::setsid();
                let taken = libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0;
                if taken { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        command.spawn().unwrap()
    }

    /// Reads what is shown until this is.
    pub(super) fn read_until(&mut self, seen: &mut Vec<u8>, what: &str) {
        let mut block = [0; 4096];
        while !String::from_utf8_lossy(seen).contains(what) {
            let count = self.typed.read(&mut block).unwrap();
            seen.extend_from_slice(&block[..count]);
        }
    }

    /// Watches, does `then` once something is shown, and says how that ended and all that was shown.
    fn watch(&mut self, sandbox: &Sandbox, then: impl FnOnce(&mut File, &Child)) -> (ExitStatus, String) {
        let before = state(&self.shown);
        let mut command = sandbox.tool();
        command.arg("watch");
        let mut child = self.start(command, true);
        let mut seen = Vec::new();
        self.read_until(&mut seen, PICTURE);
        then(&mut self.typed, &child);
        // The screen before.
        self.read_until(&mut seen, "\x1b[?1049l");
        let status = child.wait().unwrap();
        assert_eq!(state(&self.shown), before, "{status}");
        (status, String::from_utf8_lossy(&seen).into_owned())
    }
}

#[test]
fn keys_and_signals_end_it_and_the_terminal_is_as_it_was() {
    let sandbox = Sandbox::new();
    for key in ["q", "\x1b", "\x03"] {
        let Some(mut terminal) = Terminal::open(80, 24) else { return };
        let (status, _) = terminal.watch(&sandbox, |typed, _| typed.write_all(key.as_bytes()).unwrap());
        assert_eq!(status.code(), Some(0), "{key:?}");
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let Some(mut terminal) = Terminal::open(80, 24) else { return };
        let kill = |_: &mut File, child: &Child| {
            // SAFETY: kill takes plain numbers; the child was not waited for yet.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        };
        let (status, _) = terminal.watch(&sandbox, kill);
        assert_eq!(status.signal(), Some(signal));
    }
}

#[test]
fn small_terminals_and_other_sizes_do_not_break_it() {
    let sandbox = Sandbox::new();
    for (columns, rows) in [(20, 10), (1, 1), (0, 0), (300, 2)] {
        let Some(mut terminal) = Terminal::open(columns, rows) else { return };
        let resize = |typed: &mut File, _: &Child| {
            let size = libc::winsize { ws_col: 20, ws_row: 3, ws_xpixel: 0, ws_ypixel: 0 };
            // SAFETY: the terminal reads the size during the call, and tells the command that it has changed.
            unsafe { libc::ioctl(typed.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
            typed.write_all(b"\x1b[A\x1b[Bq").unwrap();
        };
        let (status, shown) = terminal.watch(&sandbox, resize);
        assert_eq!(status.code(), Some(0), "{columns} x {rows}: {shown}");
    }
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let output = Sandbox::new().tool().arg("watch").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("watch --once"), "{output:?}");
    let alone = Sandbox::new().tool().args(["watch", "--json"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
}
