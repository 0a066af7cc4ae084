//! Numbers and text for people.

use std::fmt::Write as _;

use bytesize::ByteSize;
use vkstash_host::text::is_printable;

/// Text from outside (names of programs, devices, files) without characters that could move a terminal's cursor, change
/// its colours, or turn the order of what is printed around.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { '\u{fffd}' }).collect()
}

/// A name of the JSON as people read it.
pub(crate) fn words(name: &str) -> String {
    plain(name).replace('_', " ")
}

/// A size: `512 B`, `14.2 MiB`.
pub(crate) fn size(bytes: u64) -> bytesize::Display {
    ByteSize::b(bytes).display().iec()
}

/// `1 run`, `2 runs`, `2 passes`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let mut text = format!("{count} {thing}");
    if count != 1 {
        let _ = text.write_str(if thing.ends_with('s') { "es" } else { "s" });
    }
    text
}

/// A name as a shell takes it.
pub(crate) fn quoted(name: &str) -> String {
    if name.contains(|c: char| !c.is_ascii_alphanumeric() && !"._-+".contains(c)) {
        format!("'{}'", name.replace('\'', "'\\''"))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_the_unit_that_people_would() {
        assert_eq!(size(1023).to_string(), "1023 B");
        assert_eq!(size(14_889_779).to_string(), "14.2 MiB");
        assert_eq!(size(u64::MAX).to_string(), "16.0 EiB");
    }

    #[test]
    fn an_escape_sequence_in_a_name_does_not_reach_the_terminal() {
        assert_eq!(plain("ga\u{1b}[2Jme\n"), "ga\u{fffd}[2Jme\u{fffd}");
        assert_eq!(plain("gnp.\u{202e}exe"), "gnp.\u{fffd}exe");
    }
}
