//! Lines of text that fit the terminal.

use textwrap::{Options, WordSeparator, WordSplitter};

/// Wraps a line by words. It keeps the spaces that it begins with, and what follows its first line stands `hanging`
/// columns further to the right. `width`: the columns of the terminal, None for a pipe, where lines stay as they are.
pub(crate) fn wrapped(line: &str, hanging: usize, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from) else { return line.to_owned() };
    let text = line.trim_start_matches(' ');
    // In a narrow terminal text needs the columns more than its indent does.
    let first = (line.len() - text.len()).min(width / 3);
    let (first, rest) = (" ".repeat(first), " ".repeat((first + hanging).min(width / 3)));
    let options = Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(&rest)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).join("\n")
}

/// [`wrapped`] for each line, with a line end after each.
pub(crate) fn all(lines: &[String], hanging: usize, width: Option<u16>) -> String {
    lines.iter().map(|line| wrapped(line, hanging, width) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::style::Style;

    #[test]
    fn what_fits_and_what_goes_into_a_pipe_stays_as_it_is() {
        let line = "    served          97  97.0 %,  twice";
        assert_eq!(wrapped(line, 2, None), line);
        assert_eq!(wrapped(line, 2, Some(200)), line);
        assert_eq!(wrapped("", 2, Some(20)), "");
    }

    #[test]
    fn words_are_wrapped_with_a_hanging_indent() {
        let line = "  one two three four five";
        assert_eq!(wrapped(line, 2, Some(13)), "  one two\n    three\n    four five");
        assert_eq!(wrapped("/a/very/long/path", 2, Some(10)), "/a/very/\n  long/pat\n  h");
        assert!(!wrapped(line, 40, Some(1)).is_empty());
    }

    #[test]
    fn styles_take_no_columns() {
        let line = format!("{} 12 34 56", Style::Strong.paint("game"));
        assert_eq!(wrapped(&line, 2, Some(13)), line);
        assert!(wrapped(&line, 2, Some(12)).ends_with("12 34\n  56"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let line =
            "    driver had       4711  in the program's or the driver's own caches, and 日本語 日本語";
        for width in [3, 7, 20, 60, 80] {
            let shown = wrapped(line, 30, Some(width));
            let widest = shown.lines().map(textwrap::core::display_width).max();
            assert!(widest <= Some(width.into()), "{width}: {shown}");
        }
    }
}
