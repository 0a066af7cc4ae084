//! The few styles of text. What is printed passes [`crate::term::output`], which drops them where there are no colours.

use std::fmt::Display;

use crate::term::units::plain;

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// A title, or what the line is about.
    Strong,
    /// Beside the point.
    Faint,
    /// Well done.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
}

/// Ends every style.
const RESET: &str = "\x1b[0m";

impl Style {
    const ALL: [Style; 6] =
        [Style::Plain, Style::Strong, Style::Faint, Style::Good, Style::Warning, Style::Bad];

    /// The control sequence that begins it.
    fn sequence(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Strong => "\x1b[1m",
            Style::Faint => "\x1b[2m",
            Style::Good => "\x1b[32m",
            Style::Warning => "\x1b[33m",
            Style::Bad => "\x1b[31m",
        }
    }

    /// The text in this style.
    pub(crate) fn paint(self, text: impl Display) -> String {
        let text = plain(&text.to_string());
        if self == Style::Plain { text } else { format!("{}{text}{RESET}", self.sequence()) }
    }
}

/// The length of the control sequence of a style that `text` begins with. None: it begins with none.
pub(crate) fn sequence_at(text: &str) -> Option<usize> {
    let mut sequences = Style::ALL.iter().map(|style| style.sequence()).chain([RESET]);
    sequences.find(|sequence| !sequence.is_empty() && text.starts_with(sequence)).map(str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sequences_of_these_styles_are_known() {
        for style in Style::ALL {
            let painted = style.paint("x\u{1b}");
            assert!(painted.contains("x\u{fffd}"), "what is painted brings no sequence of its own");
            assert_eq!(sequence_at(&painted).is_some(), style != Style::Plain);
        }
        assert_eq!(sequence_at(RESET), Some(4));
        for other in ["", "x", "\x1b", "\x1b[8m", "\x1b[2J", "\x1b]0;title\x07"] {
            assert_eq!(sequence_at(other), None, "{other:?}");
        }
    }
}
