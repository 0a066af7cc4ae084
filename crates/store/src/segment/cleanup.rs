//! Clean-up: removing files that killed processes have left unfinished.

use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{Folder, TEMPORARY};
use vkstash_host::disk::{locks, ops as disk};

/// The creator of a file holds its lock from its second call on. A younger file, in seconds, may be between the two
/// calls.
const YOUNG: i64 = 60;

/// Removes empty segments and guard files, and old temporary files. Files that are locked, have another name than ours,
/// or belong to another user stay. The next process tries again what fails.
pub(crate) fn clean_up(folder: &Folder) {
    let empty = |file: &Descriptor| disk::fstat(file).is_ok_and(|stat| stat.st_size == 0);
    let old = |file: &Descriptor| locks::is_older(file, YOUNG);
    for name in folder.names("").unwrap_or_default() {
        if is_segment(&name) || is_guard(&name) {
            remove(folder, &name, empty);
        }
    }
    for name in folder.temporary_names().unwrap_or_default() {
        if is_temporary(&name) {
            remove(folder, &name, old);
        }
    }
}

/// Removes a file that `is_left`. A file whose lock is free has no live writer: a creator lacks the lock for one call
/// only, and gives up a file whose lock it cannot get.
fn remove(folder: &Folder, name: &str, is_left: impl Fn(&Descriptor) -> bool) {
    let Ok((file, _)) = folder.open_file(name) else { return };
    // Checked before locking, which others could notice, and again under the lock.
    if is_left(&file) && locks::take(&file) && is_left(&file) {
        let _ = folder.remove_file(name);
    }
}

/// Whether the text consists of hexadecimal numbers of these lengths with hyphens between them.
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

fn is_temporary(name: &str) -> bool {
    let name = name.strip_prefix(TEMPORARY);
    name.is_some_and(|name| is_segment(name) || is_guard(name) || is_hex(name, &[1..=8, 16..=16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_are_recognised() {
        let segment = "0123456789abcdef-01234567-0123456789abcdef.vks";
        assert!(is_segment(segment) && is_temporary(&format!(".tmp-{segment}")));
        assert!(is_guard("01234567-0123456789abcdef.vkg") && is_temporary(".tmp-1f-0123456789abcdef"));
        assert!(is_temporary(".tmp-01234567-0123456789abcdef.vkg"));
        for name in
            ["", ".vks", "a.vks", &segment.to_uppercase(), &segment[1..], &format!("{segment}.vks"), "-.vkg"]
        {
            assert!(!is_segment(name) && !is_guard(name) && !is_temporary(name), "{name}");
            assert!(!is_temporary(&format!(".tmp-{name}")), "{name}");
        }
        for name in
            [".tmp-", ".tmp-1-2", ".tmp-012345678-0123456789abcdef", ".tmp-1f-0123456789abcdeg", ".lock"]
        {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
