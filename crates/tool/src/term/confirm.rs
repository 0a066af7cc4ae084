//! Asking before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// What somebody has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmed {
    Yes,
    No,
    /// There is no terminal.
    NobodyToAsk,
}

/// Asks on the terminal; no answer is no.
pub(crate) fn confirm(question: &str) -> io::Result<Confirmed> {
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(Confirmed::NobodyToAsk);
    }
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    Ok(if is_yes { Confirmed::Yes } else { Confirmed::No })
}
