//! Timelines of runs: the files, and what is left of damaged ones.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};

use crate::reports::timeline::{self, Creation, MOST};
use crate::tests::*;
use vkstash_host::disk::folder::Folder;

/// A folder of timelines.
pub(crate) fn timelines() -> (tempfile::TempDir, Folder) {
    let root = root();
    let folder = Folder::shared(root.path(), true).unwrap();
    (root, folder)
}

fn numbered(number: u64) -> Creation {
    Creation { unix_us: number, ..Creation::default() }
}

fn all(range: std::ops::Range<u64>) -> Vec<Creation> {
    range.map(numbered).collect()
}

#[test]
fn what_a_run_creates_is_appended_and_read_until_the_file_is_full() {
    let root = root();
    let runs = root.path().join(app().folder).join("runs");
    let last = || timeline::last(root.path(), &app().folder);
    assert_eq!(last(), []);
    drop(open(root.path()));
    fs::create_dir_all(&runs).unwrap();
    let folder = Folder::shared(&runs, true).unwrap();
    for at in 0..4 {
        timeline::append(&folder, "run-2.vkl", &all(10 * at..10 * at + 10)).unwrap();
    }
    assert_eq!(last(), all(0..40));
    // The latest that has any.
    timeline::append(&folder, "run-3.vkl", &all(0..0)).unwrap();
    fs::write(runs.join("run-4.vkl"), b"something else").unwrap();
    assert_eq!(last(), all(0..40));
    let most = MOST as u64;
    timeline::append(&folder, "run-2.vkl", &all(40..most + 7)).unwrap();
    timeline::append(&folder, "run-2.vkl", &all(0..3)).unwrap();
    assert_eq!(last(), all(0..most));
}

#[test]
fn the_latest_files_stay() {
    let (root, folder) = timelines();
    for run in 10..30 {
        timeline::append(&folder, &format!("run-{run}.vkl"), &all(0..1)).unwrap();
    }
    let mut names = folder.names(".vkl").unwrap();
    names.sort();
    assert_eq!(names, (22..30).map(|run| format!("run-{run}.vkl")).collect::<Vec<_>>());
    drop(root);
}

#[test]
fn damaged_entries_are_left_out_and_a_torn_one_is_overwritten() {
    let root = root();
    let runs = root.path().join(app().folder).join("runs");
    drop(open(root.path()));
    fs::create_dir_all(&runs).unwrap();
    let folder = Folder::shared(&runs, true).unwrap();
    let last = || timeline::last(root.path(), &app().folder);
    timeline::append(&folder, "run-1.vkl", &all(0..3)).unwrap();
    let file = |at: u64, bytes: &[u8]| {
        let mut file = OpenOptions::new().write(true).open(runs.join("run-1.vkl")).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
        file
    };
    file(16 + 64 + 16, &[9]);
    assert_eq!(last(), [numbered(0), numbered(2)]);
    file(16 + 2 * 64, &[]).set_len(16 + 2 * 64 + 30).unwrap();
    assert_eq!(last(), [numbered(0)]);
    timeline::append(&folder, "run-1.vkl", &all(5..7)).unwrap();
    assert_eq!(last(), [numbered(0), numbered(5), numbered(6)]);
    // Every byte of the head and of an entry matters.
    let sound = fs::read(runs.join("run-1.vkl")).unwrap();
    for at in (0..16).chain(16..80) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x55;
        fs::write(runs.join("run-1.vkl"), bytes).unwrap();
        assert!(last().len() < 3, "{at}");
    }
    let damaged = timeline::all(root.path(), &app().folder);
    assert!(damaged.iter().all(|run| run.is_unreadable || run.damaged > 0), "{damaged:?}");
    file(0, &[]).set_len(7).unwrap();
    assert_eq!(last(), []);
    timeline::append(&folder, "run-1.vkl", &all(8..9)).unwrap();
    assert_eq!(last(), [numbered(8)]);
}
