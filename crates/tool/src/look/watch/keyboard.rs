//! Keys that are typed while programs are watched. crossterm (0.28.1) reads a terminal that is gone without end: it
//! takes neither end-of-file nor an error for that.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Rows of a page.
const PAGE: isize = 10;
/// More is not read at once.
const MOST: usize = 256;
const ESCAPE: &[u8] = b"\x1b";
/// The rest of a sequence comes sooner after its escape.
const PAUSE: Duration = Duration::from_millis(50);

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    End,
    Go(isize),
}

/// The terminal that keys come from: standard input, or else that of the process.
pub(super) struct Keyboard(Option<OwnedFd>);

impl Keyboard {
    pub(super) fn open() -> Keyboard {
        Keyboard(if io::stdin().is_terminal() {
            None
        } else {
            File::open("/dev/tty").ok().map(OwnedFd::from)
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Some(own) => own.as_fd(),
            // Without a terminal of the process there are no keys, but an end of the one that shows everything.
            None if !io::stdin().is_terminal() => rustix::stdio::stdout(),
            None => rustix::stdio::stdin(),
        }
    }

    /// What is typed within that time, or once something is. None: the terminal is gone.
    pub(super) fn actions(&self, within: Duration) -> io::Result<Option<Vec<Action>>> {
        let mut typed = Vec::new();
        if !self.read(within, &mut typed)? || typed.ends_with(ESCAPE) && !self.read(PAUSE, &mut typed)? {
            return Ok(None);
        }
        Ok(Some(actions(&typed)))
    }

    /// False: the terminal is gone.
    fn read(&self, within: Duration, typed: &mut Vec<u8>) -> io::Result<bool> {
        let mut polled = [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)];
        let within = Timespec::try_from(within).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&within)) {
            Ok(0) | Err(Errno::INTR) => return Ok(true),
            other => other?,
        };
        if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(false);
        }
        let mut block = [0; MOST];
        match rustix::io::read(self.descriptor(), &mut block) {
            Ok(0) | Err(Errno::IO) => return Ok(false),
            Ok(count) => typed.extend_from_slice(&block[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

/// The keys in what was read at once: a lone escape is the key of that name, and the begin of a sequence otherwise.
fn actions(typed: &[u8]) -> Vec<Action> {
    let (mut found, mut rest) = (Vec::new(), typed);
    while let Some((&first, after)) = rest.split_first() {
        let action;
        (action, rest) = match (first, after) {
            (0x1b, [b'[' | b'O', sequence @ ..]) => of_sequence(sequence),
            (0x1b, [_, ..]) => (None, after),
            (0x1b | 0x03 | b'q', _) => (Some(Action::End), after),
            (b'k', _) => (Some(Action::Go(-1)), after),
            (b'j', _) => (Some(Action::Go(1)), after),
            _ => (None, after),
        };
        found.extend(action);
    }
    found
}

/// The key of a sequence (ECMA-48: parameters, then a letter), and what follows it.
fn of_sequence(sequence: &[u8]) -> (Option<Action>, &[u8]) {
    let length = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
    let Some(length) = length else { return (None, &[]) };
    let action = match &sequence[..=length] {
        b"A" => Some(Action::Go(-1)),
        b"B" => Some(Action::Go(1)),
        b"5~" => Some(Action::Go(-PAGE)),
        b"6~" => Some(Action::Go(PAGE)),
        b"H" | b"1~" | b"7~" => Some(Action::Go(isize::MIN)),
        b"F" | b"4~" | b"8~" => Some(Action::Go(isize::MAX)),
        _ => None,
    };
    (action, &sequence[length + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_it_or_choose() {
        for end in [&b"q"[..], b"\x1b", b"\x03", b"xq", b"\x1b[Aq"] {
            assert_eq!(actions(end).last(), Some(&Action::End), "{end:?}");
        }
        let (up, down) = (Action::Go(-1), Action::Go(1));
        assert_eq!(actions(b"\x1b[A\x1bOBkj\x1b[6~"), [up, down, up, down, Action::Go(PAGE)]);
        assert_eq!(actions(b"\x1b[H\x1b[4~"), [Action::Go(isize::MIN), Action::Go(isize::MAX)]);
        // Alt and a letter, a function key, a mouse report, half a sequence.
        for nothing in [&b"\x1bx"[..], b"\x1b[15~", b"\x1b[<0;3;4M", b"\x1b[1;5", b"c\r", b""] {
            assert_eq!(actions(nothing), [], "{nothing:?}");
        }
    }
}
