//! Tables that fit the terminal: where it is narrow, columns of less worth are left out, and the rest is wrapped.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle};

use super::style::Style;
use crate::term::units::plain;

/// Characters between two columns.
const GAP: u16 = 2;
/// No line is longer, whatever the terminal.
const WIDEST: u16 = 1_000;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    alignment: CellAlignment,
    /// A narrow terminal shows the columns of the highest worth.
    worth: u8,
}

impl Column {
    /// A column of words.
    pub(crate) const fn words(title: &'static str, worth: u8) -> Column {
        Column { title, alignment: CellAlignment::Left, worth }
    }

    /// A column of numbers, which stand below each other.
    pub(crate) const fn numbers(title: &'static str, worth: u8) -> Column {
        Column { title, alignment: CellAlignment::Right, worth }
    }

    pub(crate) const fn title(&self) -> &'static str {
        self.title
    }
}

/// A table.
pub(crate) struct Table<'a> {
    columns: &'a [Column],
    drawn: comfy_table::Table,
}

impl<'a> Table<'a> {
    pub(crate) fn new(columns: &'a [Column]) -> Table<'a> {
        let mut drawn = comfy_table::Table::new();
        // The line between the titles and the rows is empty: it tells where the titles end, and is not printed.
        drawn.load_style(TableStyle::new().header_separator(LineStyle::none().fill(' ')));
        drawn.set_header(columns.iter().map(|column| column.title));
        for (number, column) in columns.iter().enumerate() {
            let Some(shown) = drawn.column_mut(number) else { continue };
            shown.set_cell_alignment(column.alignment);
            let gap = if number + 1 < columns.len() { GAP } else { 0 };
            shown.set_padding((0, gap));
        }
        Table { columns, drawn }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().map(|text| plain(&text)).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.drawn.add_row(cells);
    }

    /// The lines of the table, each with its line end. `width`: the columns of the terminal, None for a pipe.
    pub(crate) fn lines(mut self, width: Option<u16>) -> String {
        if let Some(width) = width {
            self.fit(width);
        }
        let mut is_title = true;
        let mut lines = String::new();
        for line in self.drawn.lines() {
            let line = line.trim_end();
            if is_title && line.is_empty() {
                is_title = false;
                continue;
            }
            let style = if is_title { Style::Strong } else { Style::Plain };
            lines += &style.paint(line);
            lines.push('\n');
        }
        lines
    }

    /// Leaves out columns until the rest fits, or one is left, which is wrapped.
    fn fit(&mut self, width: u16) {
        let widths = self.drawn.column_max_content_widths();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let total = |shown: &[usize]| {
            let content: u32 = shown.iter().map(|&number| u32::from(widths[number])).sum();
            content + u32::from(GAP) * (shown.len() as u32).saturating_sub(1)
        };
        while shown.len() > 1 && total(&shown) > u32::from(width) {
            let least = (0..shown.len()).min_by_key(|&place| self.columns[shown[place]].worth);
            shown.remove(least.unwrap_or_default());
        }
        for number in (0..self.columns.len()).filter(|number| !shown.contains(number)) {
            if let Some(column) = self.drawn.column_mut(number) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        if let Some(last) = shown.last().and_then(|&number| self.drawn.column_mut(number)) {
            last.set_padding((0, 0));
        }
        self.drawn.set_content_arrangement(ContentArrangement::Dynamic);
        self.drawn.set_width(width.min(WIDEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::words("application", 3), Column::numbers("pipelines", 2), Column::words("last use", 1)];

    fn table(name: &str) -> Table<'static> {
        let mut table = Table::new(&COLUMNS);
        table.row([name.to_owned(), "412".to_owned(), "2 h ago".to_owned()]);
        table.row(["b".to_owned(), "7".to_owned(), "3 days ago".to_owned()]);
        table
    }

    fn drawn(name: &str, width: Option<u16>) -> String {
        table(name).lines(width).replace("\x1b[1m", "").replace("\x1b[0m", "")
    }

    #[test]
    fn a_wide_terminal_and_a_pipe_show_every_column() {
        let whole = "\
application  pipelines  last use
Elden Ring         412  2 h ago
b                    7  3 days ago
";
        assert_eq!(drawn("Elden Ring", None), whole);
        assert_eq!(drawn("Elden Ring", Some(200)), whole);
        assert_eq!(drawn("Elden Ring", Some(34)), whole);
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters_most() {
        assert_eq!(
            drawn("Elden Ring", Some(24)),
            "application  pipelines\nElden Ring         412\nb                    7\n"
        );
        assert_eq!(drawn("Elden Ring", Some(20)), "application\nElden Ring\nb\n");
        assert_eq!(drawn("Elden Ring", Some(6)), "applic\nation\nElden\nRing\nb\n");
        assert!(!drawn("Elden Ring", Some(1)).is_empty());
    }

    #[test]
    fn titles_stand_out_and_cells_have_no_sequence_of_their_own() {
        let lines = table("x\x1b[2J\n").lines(None);
        assert!(lines.starts_with("\x1b[1mapplication") && !lines.contains("\x1b[2J"), "{lines:?}");
        assert_eq!(lines.lines().count(), 3);
    }
}
