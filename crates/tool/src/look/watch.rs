//! `vkstash watch`: what running programs do now.
//!
//! | file | what it knows |
//! |---|---|
//! | `program` | what is shown of one of them, and its JSON |
//! | `text` | the same as lines |
//! | `growth` | how the stash grows |
//! | `view` | what is on the screen: the programs, and the chosen one |
//! | `draw` | drawing it |
//! | `keyboard` | what is typed |
//! | `screen` | the terminal: signals, and its state before |

mod draw;
mod growth;
mod keyboard;
mod program;
mod screen;
mod text;
mod view;

use std::io;

use crate::cli::WatchArgs;
use crate::reports::live_pages::Finder;
use crate::term::output;
use crate::term::time;

use program::Program;
#[cfg(test)]
pub(crate) use program::Program as Output;

/// Why nothing could be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("cannot read /proc: {0}")]
    Processes(io::Error),
    #[error("standard output is no terminal; `vkstash watch --once` prints what there is")]
    NoTerminal,
    #[error("cannot use the terminal: {0}")]
    Terminal(io::Error),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &WatchArgs) -> Result<(), WatchError> {
    if !args.once {
        return screen::run();
    }
    let mut finder = Finder::default();
    finder.look().map_err(WatchError::Processes)?;
    let programs = Program::all(&mut finder, time::monotonic());
    if args.json {
        let json = serde_json::to_string_pretty(&programs)?;
        return Ok(output::print(&format!("{}\n", output::escaped(&json)))?);
    }
    if programs.is_empty() {
        return Ok(output::print("no program runs with the stash now\n")?);
    }
    let mut text = String::new();
    for program in &programs {
        for line in text::lines(program) {
            text += &line;
            text.push('\n');
        }
    }
    Ok(output::print(&text)?)
}
