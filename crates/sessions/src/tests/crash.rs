//! Processes that are killed while they store, and what is left if one dies between two steps.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};

use crate::tests::*;

/// How many are killed.
const KILLS: &str = "VKSTASH_TEST_KILLS";

#[test]
fn a_kill_loses_no_value_that_was_stored() {
    let test = "a_kill_loses_no_value_that_was_stored";
    if let Some(root) = folder_of_child(test) {
        let first: u64 = std::env::var("FIRST").unwrap().parse().unwrap();
        let session = create(&root, &Description { maximum_value_file_bytes: u32::MAX, ..disk() }).unwrap();
        // The harness does not use standard error.
        for number in first.. {
            session.store(&key(number), &long_value(number)).unwrap();
            // In one write, so that no line is half.
            std::io::stderr().write_all(format!("stored {number}\n").as_bytes()).unwrap();
        }
    }
    let kills: u64 = std::env::var(KILLS).map_or(25, |kills| kills.parse().unwrap());
    let root = root();
    let mut stored = Vec::new();
    let mut in_flight = 0;
    for kill in 0..kills {
        let first = kill << 32;
        let mut child =
            child(test, root.path()).env("FIRST", first.to_string()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = |line: String| line.strip_prefix("stored ").map(|number| number.parse::<u64>().unwrap());
        let mut last = said(lines.next().unwrap()).unwrap();
        let wait = std::time::Duration::from_micros(crate::format::hash(&kill.to_le_bytes()) % 20_000);
        std::thread::sleep(wait);
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.filter_map(said).last().unwrap_or(last);
        stored.push((first, last));
        // While others go on, too: each new one finds the files as the kill has left them.
        let session = open(root.path());
        in_flight += u64::from(session.find(&key(last + 1), None).is_ok());
    }
    let session = open(root.path());
    let mut count = 0;
    for (first, last) in stored {
        for number in first..=last {
            assert_eq!(get(&session, &key(number)).unwrap(), long_value(number), "{number:#x}");
            count += 1;
        }
        assert!(matches!(session.find(&key(last + 2), None), Err(Error::NotFound)));
    }
    println!("{kills} kills, {count} entries, {in_flight} of those in flight were complete");
}

/// Some are so long that a kill hits their writing.
fn long_value(number: u64) -> Vec<u8> {
    let mut value = value(number);
    if number % 4 == 0 {
        value.resize(200_000, number as u8);
    }
    value
}

#[test]
fn a_death_between_two_steps_of_replacing_files_is_made_good() {
    // Between the end of the old index and the new one.
    let root = root();
    let session = open(root.path());
    session.store(b"key", b"value").unwrap();
    let other = files(root.path()).unwrap();
    let cut_off =
        || fs::File::options().write(true).open(path(root.path(), "idx")).unwrap().set_len(0).unwrap();
    cut_off();
    assert!(matches!(session.find(b"other", None), Err(Error::NotFound)), "written again by a find");
    cut_off();
    session.store(b"other", b"value").unwrap();
    for key in [&b"key"[..], b"other"] {
        assert_eq!(get(&session, key).unwrap(), b"value");
        assert_eq!(get_from(&other, key).unwrap(), b"value");
    }
    drop((session, other));

    // Between the new value file and its index, while others have the cache open.
    let session = create(root.path(), &Description { maximum_in_memory_bytes: 1, ..disk() }).unwrap();
    assert_eq!(get(&session, b"key").unwrap(), b"value");
    let kept = root.path().join("kept");
    fs::rename(path(root.path(), "idx"), &kept).unwrap();
    fs::copy(&kept, path(root.path(), "idx")).unwrap();
    files(root.path()).unwrap().clear().unwrap();
    fs::File::options().write(true).open(&kept).unwrap().set_len(0).unwrap();
    fs::rename(&kept, path(root.path(), "idx")).unwrap();
    assert!(matches!(session.find(b"missing", None), Err(Error::NotFound)));
    assert!(matches!(session.find(b"other", None), Err(Error::NotFound)), "the cache was cleared");
    session.store(b"key", b"value").unwrap();
    drop(session);
    assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value");

    // Between the new value file and its index.
    let old = fs::read(path(root.path(), "idx")).unwrap();
    files(root.path()).unwrap().clear().unwrap();
    fs::write(path(root.path(), "idx"), old).unwrap();
    let session = open(root.path());
    assert!(matches!(session.find(b"key", None), Err(Error::NotFound)));
    session.store(b"key", b"new").unwrap();
    drop(session);

    // Files that were never renamed.
    for end in ["idx", "val"] {
        fs::write(folder(root.path()).join(format!(".tmp-{}.{end}", GUID.text())), b"\x89VK").unwrap();
    }
    assert_eq!(get(&open(root.path()), b"key").unwrap(), b"new");
    let again = create(root.path(), &Description { version: 3, ..disk() }).unwrap();
    again.store(b"key", b"third").unwrap();
    drop(again);
    assert_eq!(fs::read_dir(folder(root.path())).unwrap().count(), 3);
}
