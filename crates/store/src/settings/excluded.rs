//! Programs that the layer leaves alone, by patterns of their names.
//!
//! A stash tells what its programs drew, and it can be shared. So browsers and desktop shells are left alone where
//! the variable that enables the layer is set for a whole desktop (docs/configuration.md).

/// The patterns where no file sets any, in lines. One text: a list of texts would make the library larger.
pub const USUAL: &str = "chrome\nchromium*\ngoogle-chrome*\nmsedge*\nmicrosoft-edge*\nbrave*\nvivaldi*\nopera\nfirefox*\n\
     librewolf*\nwaterfox*\nfloorp*\nzen-bin\ntor-browser*\nmullvad-browser*\nthunderbird*\nseamonkey\n\
     palemoon\nepiphany*\nfalkon\nkonqueror\nqutebrowser\nelectron*\nQtWebEngineProcess\nWebKit*Process\n\
     steamwebhelper\ngnome-shell\nmutter\nkwin_*\nplasmashell\nkscreenlocker*\ncosmic-*\nsway\n\
     swaylock*\nHyprland\nhyprlock\nweston\nwayfire\nlabwc\nniri\ngamescope*\nXorg\nXwayland\n\
     xdg-desktop-portal*";

/// Longer names are compared no further.
const LONGEST: usize = 256;

/// Whether one of the patterns, which stand in lines, matches the name of a program. `*` stands for any characters, and
/// letters match in either case. A name may end in `.exe`.
pub fn is_excluded(patterns: &str, name: &[u8]) -> bool {
    let name = name.get(..LONGEST).unwrap_or(name);
    let end = name.len().saturating_sub(4);
    let name = if name[end..].eq_ignore_ascii_case(b".exe") { &name[..end] } else { name };
    !name.is_empty() && patterns.split('\n').any(|pattern| matches(pattern.as_bytes(), name))
}

/// Takes time in proportion to the two lengths multiplied, whatever the pattern.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // After the last `*`, and how much of the name is behind what that stands for.
    let mut retry = None;
    while let Some(byte) = name.get(in_name) {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, in_name));
            }
            Some(wanted) if wanted.eq_ignore_ascii_case(byte) => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((after, taken)) = retry else { return false };
                (at, in_name) = (after, taken + 1);
                retry = Some((at, in_name));
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_and_shells_are_excluded_and_games_are_not() {
        let usual = |name: &str| is_excluded(USUAL, name.as_bytes());
        for name in [
            "chrome",
            "Chromium",
            "firefox",
            "Firefox.exe",
            "firefox-bin",
            "WebKitGPUProcess",
            "kwin_wayland",
            "gnome-shell",
            "Hyprland",
            "Xwayland",
        ] {
            assert!(usual(name), "{name}");
        }
        for name in ["", ".exe", "chrome-dino", "Operation", "eldenring.exe", "swayed", "vkcube", "WebKit"] {
            assert!(!usual(name), "{name}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("*b*", "abc", true),
            ("**a**", "a", true),
            ("a", "ab", false),
            ("ab", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        let stars = "*a".repeat(30_000);
        assert!(!is_excluded(&stars, &vec![b'a'; 1 << 20]));
    }
}
