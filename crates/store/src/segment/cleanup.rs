//! What a process that was killed has left half made. Whoever writes to the same folder next takes it away.

use crate::base::descriptor::Descriptor;
use crate::base::util::unix_ms;
use crate::disk::folder::{ASIDE, Folder};
use crate::disk::ops as disk;

/// A file that is being made has its lock from its first moment on, all but one call. So young a file is not looked at:
/// it would only be in the way of whoever is between the two.
/// In seconds.
const YOUNG: i64 = 60;

/// Takes away segments and guard files to which nothing was written, and files that were not renamed to what they were
/// to be; neither where somebody holds the lock, and only what has a name of ours and belongs to the user. What fails is
/// left for the next.
pub(crate) fn sweep(folder: &Folder) {
    let empty = |file: &Descriptor| disk::fstat(file).is_ok_and(|stat| stat.st_size == 0);
    // The clock may have been set back since.
    let now = i64::try_from(unix_ms() / 1000).unwrap_or(0);
    let old =
        |file: &Descriptor| disk::fstat(file).is_ok_and(|stat| now.saturating_sub(stat.st_mtime) >= YOUNG);
    for name in folder.names("").unwrap_or_default() {
        if is_segment(&name) || is_guard(&name) {
            remove(folder, &name, empty);
        }
    }
    for name in folder.names_aside().unwrap_or_default() {
        if is_aside(&name) {
            remove(folder, &name, old);
        }
    }
}

/// Whoever makes a file is without its lock for one call only, and stands back from a file whose lock it then cannot
/// have. A file whose lock is free has no live writer.
fn remove(folder: &Folder, name: &str, is_left: impl Fn(&Descriptor) -> bool) {
    let Ok((file, _)) = folder.open_file(name) else { return };
    // Asked before, for the lock, and again under it.
    if is_left(&file) && disk::try_lock(&file).is_ok() && is_left(&file) {
        let _ = folder.remove_file(name);
    }
}

/// Whether the text is made of so many hexadecimal digits each, with hyphens between.
fn is_hex(text: &str, lengths: &[std::ops::RangeInclusive<usize>]) -> bool {
    let pieces: Vec<&str> = text.split('-').collect();
    let digits = |piece: &str| piece.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    pieces.len() == lengths.len()
        && pieces.iter().zip(lengths).all(|(piece, length)| length.contains(&piece.len()) && digits(piece))
}

fn is_segment(name: &str) -> bool {
    name.strip_suffix(".vks").is_some_and(|name| is_hex(name, &[16..=16, 8..=8, 16..=16]))
}

fn is_guard(name: &str) -> bool {
    name.strip_suffix(".vkg").is_some_and(|name| is_hex(name, &[8..=8, 16..=16]))
}

fn is_aside(name: &str) -> bool {
    let name = name.strip_prefix(ASIDE);
    name.is_some_and(|name| is_segment(name) || is_guard(name) || is_hex(name, &[1..=8, 16..=16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_are_recognised() {
        let segment = "0123456789abcdef-01234567-0123456789abcdef.vks";
        assert!(is_segment(segment) && is_aside(&format!(".tmp-{segment}")));
        assert!(is_guard("01234567-0123456789abcdef.vkg") && is_aside(".tmp-1f-0123456789abcdef"));
        assert!(is_aside(".tmp-01234567-0123456789abcdef.vkg"));
        for name in
            ["", ".vks", "a.vks", &segment.to_uppercase(), &segment[1..], &format!("{segment}.vks"), "-.vkg"]
        {
            assert!(!is_segment(name) && !is_guard(name) && !is_aside(name), "{name}");
            assert!(!is_aside(&format!(".tmp-{name}")), "{name}");
        }
        for name in
            [".tmp-", ".tmp-1-2", ".tmp-012345678-0123456789abcdef", ".tmp-1f-0123456789abcdeg", ".lock"]
        {
            assert!(!is_aside(name), "{name}");
        }
    }
}
