//! The terminal that standard output is, if it is one.

use std::env;
use std::io;

use rustix::termios::tcgetwinsize;

/// Whether what goes to standard output may have colours: never in a pipe or a file unless CLICOLOR_FORCE is set, and
/// never where NO_COLOR is set or the terminal is a dumb one.
pub(crate) fn has_colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// The columns of a line: COLUMNS where it is set, as users and tests do, or the terminal's. None: standard output is
/// no terminal, and lines may be as long as they are.
pub(crate) fn width() -> Option<u16> {
    let chosen = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    chosen.or_else(of_terminal).filter(|&columns| columns > 0)
}
