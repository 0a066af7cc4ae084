//! Printing. All output passes one filter: names from programs, drivers, archives and folders may hold characters
//! that move a terminal's cursor, change its colours, or turn the order of what is printed around. The styles of
//! [`style`] alone pass it, where the terminal has colours.

use std::io::{self, LineWriter, Write};
use std::os::fd::BorrowedFd;

use crate::system::start;
use crate::term::units::plain;
use crate::term::{screen, style};

/// Standard output by its descriptor: Rust's handle reports no error for a closed one.
pub(crate) struct StandardOutput(BorrowedFd<'static>);

impl StandardOutput {
    /// Fails where standard output was closed when the process started.
    pub(crate) fn open() -> io::Result<StandardOutput> {
        if start::output_was_closed() {
            return Err(io::Error::other("standard output is closed"));
        }
        // SAFETY: descriptor 1 was open when the process started, and nothing closes it.
        Ok(StandardOutput(unsafe { BorrowedFd::borrow_raw(libc::STDOUT_FILENO) }))
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints text as [`printable`] makes it.
pub(crate) struct Printer {
    out: LineWriter<StandardOutput>,
    has_colours: bool,
}

impl Printer {
    pub(crate) fn open() -> io::Result<Printer> {
        let out = LineWriter::new(StandardOutput::open()?);
        Ok(Printer { out, has_colours: screen::has_colours() })
    }
}

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = printable(&String::from_utf8_lossy(bytes), self.has_colours);
        match self.out.write_all(text.as_bytes()) {
            // The reader of the pipe, `head` for instance, has closed it: no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            Err(error) => Err(error),
            Ok(()) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.out.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// [`plain`] for text of several lines, whose styles are dropped where there are no colours.
fn printable(text: &str, has_colours: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['\n', '\x1b']) {
        shown += &plain(&rest[..place]);
        rest = &rest[place..];
        let sequence = style::sequence_at(rest);
        let (special, after) = rest.split_at(sequence.unwrap_or(1));
        match sequence {
            None if special == "\n" => shown.push('\n'),
            None => shown += &plain(special),
            Some(_) if has_colours => shown += special,
            Some(_) => {}
        }
        rest = after;
    }
    shown + &plain(rest)
}

/// Prints text on standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = Printer::open()?;
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Escapes control characters that JSON allows unescaped, so that the output filter changes nothing.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text
}

/// Prints a message on standard error; a failure is ignored: there is no other place to report it. What follows its
/// first line is indented, so that no name with a line end in it looks like a message of its own.
pub(crate) fn eprint_line(message: &dyn std::fmt::Display) {
    let lines: Vec<_> = message.to_string().split('\n').map(plain).collect();
    let _ = writeln!(io::stderr(), "vkstash: {}", lines.join("\n  "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::style::Style;

    #[test]
    fn of_control_characters_only_line_ends_are_printed() {
        for has_colours in [false, true] {
            let printable = |text| printable(text, has_colours);
            assert_eq!(printable("a\u{7}\u{9b}2J\u{7f}\nb\n"), "a\u{fffd}\u{fffd}2J\u{fffd}\nb\n");
            assert_eq!(printable("\u{202e}a\n\n"), "\u{fffd}a\n\n");
            assert_eq!(printable("a\x1b[8mb\x1b"), "a\u{fffd}[8mb\u{fffd}");
        }
    }

    #[test]
    fn styles_reach_terminals_with_colours_alone() {
        let styled = format!("{}\n{}", Style::Strong.paint("a"), Style::Bad.paint("b\x1b[2J"));
        assert_eq!(printable(&styled, false), "a\nb\u{fffd}[2J");
        assert_eq!(printable(&styled, true), styled);
    }
}
