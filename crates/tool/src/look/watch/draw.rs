//! Drawing the view, in any terminal: where it is narrow, columns of less worth are left out.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

use super::program::Program;
use super::text;
use super::view::View;
use crate::term::time::span;
use crate::term::units::{plain, size};

/// A column: its title, its width (None: the rest), and the width of a terminal from which on it is shown.
struct Column {
    title: &'static str,
    width: Option<u16>,
    from: u16,
}

const COLUMNS: [Column; 6] = [
    Column { title: "program", width: None, from: 0 },
    Column { title: "process", width: Some(8), from: 60 },
    Column { title: "running for", width: Some(14), from: 75 },
    Column { title: "pipelines", width: Some(9), from: 50 },
    Column { title: "ready", width: Some(8), from: 36 },
    Column { title: "compiling", width: Some(9), from: 24 },
];

const KEYS: &str = "up, down: choose   q: end";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let area = frame.area();
    let rows = u16::try_from(view.programs.len()).unwrap_or(u16::MAX).saturating_add(1);
    let list = rows.min((area.height / 2).max(1));
    let parts = [Constraint::Length(list), Constraint::Min(0), Constraint::Length(1)];
    let [above, below, last] = Layout::vertical(parts).areas(area);
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(|&at| area.width >= COLUMNS[at].from).collect();
    let widths = shown.iter().map(|&at| COLUMNS[at].width.map_or(Constraint::Min(1), Constraint::Length));
    let title = shown.iter().map(|&at| COLUMNS[at].title);
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let rows = view.programs.iter().map(|program| row(program, &shown));
    let table = Table::new(rows, widths).header(Row::new(title).style(strong)).row_highlight_style(chosen);
    let mut state = TableState::new().with_selected(view.place());
    frame.render_stateful_widget(table, above, &mut state);
    frame.render_widget(Paragraph::new(details(view)).wrap(Wrap { trim: false }), below);
    frame.render_widget(Line::from(KEYS).style(Style::new().add_modifier(Modifier::DIM)), last);
}

fn row<'a>(program: &Program, shown: &[usize]) -> Row<'a> {
    let cells = match &program.state {
        Some(state) => [
            state.application.clone(),
            program.pid.to_string(),
            span(state.running_ns),
            state.pipelines.to_string(),
            text::ready(state),
            state.compiling().to_string(),
        ],
        None => {
            let dash = || "-".to_owned();
            [format!("process {}", program.pid), program.pid.to_string(), dash(), dash(), dash(), dash()]
        }
    };
    Row::new(shown.iter().map(|&at| Cell::from(plain(&cells[at]))).collect::<Vec<_>>())
}

/// What is said of the chosen program.
fn details(view: &View) -> Vec<Line<'static>> {
    let Some(program) = view.chosen() else {
        return vec![Line::from("no program runs with the stash now")];
    };
    let Some(state) = &program.state else {
        return text::lines(program).into_iter().map(Line::from).collect();
    };
    let growth = view.growth().map_or_else(
        || "the stash's growth is not known yet".to_owned(),
        |bytes| format!("the stash grows by {} per minute", size(bytes)),
    );
    let mut lines = vec![String::new()];
    match state.calls.is_empty() {
        true => lines.push("no pipeline is being made".to_owned()),
        false => lines.extend(state.calls.iter().map(text::call)),
    }
    lines.extend([String::new(), text::sources(state), text::workers(state), growth, plain(&state.folder)]);
    lines.into_iter().map(Line::from).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use vkstash_model::live::LiveError;

    use super::super::program::tests::program;
    use super::*;

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(usize::from(width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    fn view() -> View {
        let mut view = View::default();
        let unreadable = Program::of(3, &Err(LiveError::Version(9)), 0);
        view.update(vec![program(1, "ga\x1b[2Jme"), program(2, "b"), unreadable], Instant::now());
        view
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        let drawn = drawn(&view(), 100, 20);
        let said = [
            "running for",
            "3f2a91c4 vertex + fragment: compiling for 12 s",
            "75.0 %",
            "2 workers",
            "q: end",
        ];
        for said in said {
            assert!(drawn.contains(said), "{said}: {drawn}");
        }
        assert!(drawn.contains("ga\u{fffd}[2Jme"), "{drawn}");
    }

    #[test]
    fn no_terminal_is_too_small() {
        let (view, empty) = (view(), View::default());
        for width in [1, 2, 7, 20, 24, 35, 80, 300] {
            for height in [1, 2, 3, 5, 24, 100] {
                assert!(!drawn(&view, width, height).is_empty());
                assert!(!drawn(&empty, width, height).is_empty());
            }
        }
        let narrow = drawn(&view, 20, 24);
        assert!(narrow.contains("3f2a91c4") && narrow.contains("program"), "{narrow}");
    }
}
