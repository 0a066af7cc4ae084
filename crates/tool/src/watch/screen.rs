//! The terminal while programs are watched: keys, signals, and its state before, which it has again at any end.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::WatchError;
use super::draw::draw;
use super::find::Finder;
use super::view::View;
use crate::pending_signals::PendingSignals;
use crate::term::time;

/// Time between two pictures.
const REFRESH: Duration = Duration::from_millis(250);
/// Time between two looks for programs that have begun, which read all of /proc.
const LOOK: Duration = Duration::from_secs(1);
/// Rows of a page.
const PAGE: isize = 10;

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
        Ok(mut terminal) => watch(&mut terminal, &mut finder, &signals),
        Err(error) => Err(error),
    };
    // What it cannot be told any more it need not be told.
    let _ = ratatui::try_restore();
    // A signal ends the command here.
    drop(signals);
    shown.map_err(WatchError::Terminal)
}

fn watch(terminal: &mut DefaultTerminal, finder: &mut Finder, signals: &PendingSignals) -> io::Result<()> {
    let (mut view, mut looked) = (View::default(), Instant::now());
    loop {
        let now = Instant::now();
        if now.saturating_duration_since(looked) >= LOOK {
            finder.look()?;
            looked = now;
        }
        view.update(finder.programs(time::monotonic()), now);
        terminal.draw(|frame| draw(frame, &view))?;
        loop {
            if signals.have_come() {
                return Ok(());
            }
            let left = REFRESH.saturating_sub(now.elapsed());
            if left.is_zero() || !event::poll(left)? {
                break;
            }
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match action(key) {
                    Action::End => return Ok(()),
                    Action::Go(by) => view.go(by),
                    Action::Nothing => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            terminal.draw(|frame| draw(frame, &view))?;
        }
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    End,
    Go(isize),
    Nothing,
}

fn action(key: KeyEvent) -> Action {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Action::End,
        KeyCode::Char('q') | KeyCode::Esc => Action::End,
        KeyCode::Up | KeyCode::Char('k') => Action::Go(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Go(1),
        KeyCode::PageUp => Action::Go(-PAGE),
        KeyCode::PageDown => Action::Go(PAGE),
        KeyCode::Home => Action::Go(isize::MIN),
        KeyCode::End => Action::Go(isize::MAX),
        _ => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_it_or_choose() {
        let plain = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        let ctrl = |letter| action(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
        assert_eq!([plain(KeyCode::Char('q')), plain(KeyCode::Esc), ctrl('c')], [Action::End; 3]);
        assert_eq!((plain(KeyCode::Up), plain(KeyCode::Down)), (Action::Go(-1), Action::Go(1)));
        assert_eq!((plain(KeyCode::Char('c')), plain(KeyCode::Enter)), (Action::Nothing, Action::Nothing));
    }
}
