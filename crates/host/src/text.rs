//! Characters that are not printed as they are.

/// Whether a character may be printed as it is in a line: no control character, which could move a terminal's cursor,
/// no line break, and none of those without a shape of their own, which could hide a name or turn its order around (all
/// of the bidirectional ones, zero-width spaces, tags). Zero-width joiners are parts of words, so they may.
pub const fn is_printable(c: char) -> bool {
    !matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_turns_the_order_around_is_not_printed() {
        for c in [
            '\0', '\n', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{2028}', '\u{202e}', '\u{2066}',
            '\u{200f}',
        ] {
            assert!(!is_printable(c), "{c:?}");
        }
        for c in
            [' ', 'a', '~', '\u{a0}', '\u{e9}', '\u{301}', '\u{200d}', '\u{5d0}', '\u{1f600}', '\u{fffd}']
        {
            assert!(is_printable(c), "{c:?}");
        }
        assert!((0..=0x10_ffff).filter_map(char::from_u32).all(|c| !c.is_control() || !is_printable(c)));
    }
}
