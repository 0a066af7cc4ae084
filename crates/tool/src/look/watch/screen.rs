//! The terminal while programs are watched: signals, and its state before, which it has again at any end.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;

use super::WatchError;
use super::draw::draw;
use super::keyboard::{Action, Keyboard};
use super::program::Program;
use super::view::View;
use crate::reports::live_pages::Finder;
use crate::system::pending_signals::PendingSignals;
use crate::term::time;

/// Time between two pictures.
const REFRESH: Duration = Duration::from_millis(250);
/// Time between two looks for programs that have begun, which read all of /proc.
const LOOK: Duration = Duration::from_secs(1);

/// Shows programs until the user has seen enough.
pub(super) fn run() -> Result<(), WatchError> {
    if !io::stdout().is_terminal() {
        return Err(WatchError::NoTerminal);
    }
    let mut finder = Finder::default();
    finder.look().map_err(WatchError::Processes)?;
    // Fetched between two pictures, so that nothing runs in a signal handler.
    let signals = PendingSignals::block();
    // This also has a panic restore the terminal.
    let shown = match ratatui::try_init() {
        Ok(mut terminal) => {
            let shown = watch(&mut terminal, &mut finder, &signals);
            if terminal.show_cursor().is_err() {
                // Its destructor would say so on standard error, and panic where that is gone, too.
                std::mem::forget(terminal);
            }
            shown
        }
        Err(error) => Err(error),
    };
    // What it cannot be told any more it need not be told.
    let _ = ratatui::try_restore();
    // A signal ends the command here.
    drop(signals);
    shown.map_err(WatchError::Terminal)
}

fn watch(terminal: &mut DefaultTerminal, finder: &mut Finder, signals: &PendingSignals) -> io::Result<()> {
    let keyboard = Keyboard::open();
    let (mut view, mut looked) = (View::default(), Instant::now());
    loop {
        let now = Instant::now();
        if now.saturating_duration_since(looked) >= LOOK {
            finder.look()?;
            looked = now;
        }
        view.update(Program::all(finder, time::monotonic()), now);
        terminal.draw(|frame| draw(frame, &view))?;
        loop {
            if signals.have_come() {
                return Ok(());
            }
            let left = REFRESH.saturating_sub(now.elapsed());
            match keyboard.actions(left)? {
                // The terminal is gone.
                None => return Ok(()),
                Some(actions) if actions.is_empty() => break,
                Some(actions) => {
                    for action in actions {
                        match action {
                            Action::End => return Ok(()),
                            Action::Go(by) => view.go(by),
                        }
                    }
                    // It takes on a new size of the terminal, too.
                    terminal.draw(|frame| draw(frame, &view))?;
                }
            }
        }
    }
}
