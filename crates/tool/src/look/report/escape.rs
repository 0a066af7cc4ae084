//! Text from outside inside the page: it can neither end the element that it stands in nor begin another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use vkstash_host::text::is_printable;

use crate::term::units::plain;

/// Text between tags, or in a quoted attribute. Characters that are not printable are replaced, line ends too.
pub(super) fn text(from_outside: &str) -> String {
    let mut escaped = String::with_capacity(from_outside.len());
    for c in plain(from_outside).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON inside a script element: outside of strings it has none of these characters.
pub(super) fn json(of_serde: &str) -> String {
    let mut escaped = String::with_capacity(of_serde.len());
    for c in of_serde.chars() {
        if !matches!(c, '<' | '>' | '&') && is_printable(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

/// The source of a Content-Security-Policy that allows exactly this inline script or style.
pub(super) fn policy_source(inline: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inline)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_an_element() {
        let name = "</script><img src=x onerror='a(\"b\")'>\n\u{202e}&";
        assert_eq!(
            text(name),
            "&lt;/script&gt;&lt;img src=x onerror=&#39;a(&quot;b&quot;)&#39;&gt;\u{fffd}\u{fffd}&amp;"
        );
        let embedded = json(&serde_json::to_string(&format!("{name}\u{2028}\u{e0001}")).unwrap());
        assert!(!embedded.contains(['<', '>', '&', '\n', '\u{202e}', '\u{2028}']), "{embedded}");
        let back: String = serde_json::from_str(&embedded).unwrap();
        assert_eq!(back, format!("{name}\u{2028}\u{e0001}"));
    }

    #[test]
    fn a_policy_names_the_digest() {
        assert_eq!(policy_source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }
}
