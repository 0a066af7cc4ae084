//! Printing. All output passes one filter: names from programs, drivers, archives and folders may hold characters
//! that move a terminal's cursor, change its colours, or turn the order of what is printed around.

use std::io::{self, LineWriter, Write};
use std::os::fd::BorrowedFd;

use crate::start;
use crate::units::plain;

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
pub(crate) struct Printer(LineWriter<StandardOutput>);

impl Printer {
    pub(crate) fn open() -> io::Result<Printer> {
        Ok(Printer(LineWriter::new(StandardOutput::open()?)))
    }
}

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write_all(printable(&String::from_utf8_lossy(bytes)).as_bytes()) {
            // The reader of the pipe, `head` for instance, has closed it: no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            Err(error) => Err(error),
            Ok(()) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// [`plain`] for text of several lines.
fn printable(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
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

/// Prints one line on standard error. A failure is ignored: there is no other place to report it.
pub(crate) fn eprint_line(message: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "vkstash: {}", plain(&message.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_control_characters_only_line_ends_are_printed() {
        assert_eq!(printable("a\u{7}\u{9b}2J\u{7f}\nb\n"), "a\u{fffd}\u{fffd}2J\u{fffd}\nb\n");
        assert_eq!(printable("\u{202e}a\n\n"), "\u{fffd}a\n\n");
    }
}
